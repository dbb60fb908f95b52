//! `opctl generate`.

mod kustomize;

use anyhow::Result;
use clap::Subcommand;

use crate::ui::Ui;
use kustomize::KustomizeCommand;

/// Generate what packages the operator
#[derive(Debug, Subcommand)]
pub(super) enum GenerateCommand {
    #[command(subcommand)]
    Kustomize(KustomizeCommand),
}

impl GenerateCommand {
    pub fn run(self, ui: Ui) -> Result<()> {
        match self {
            Self::Kustomize(command) => command.run(ui),
        }
    }
}
