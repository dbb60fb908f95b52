//! `opctl generate`.

mod bundle;
mod kustomize;

use anyhow::Result;
use clap::Subcommand;

use crate::ui::Ui;
use bundle::BundleArgs;
use kustomize::KustomizeCommand;

/// Generate what packages the operator
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  opctl generate kustomize manifests")]
pub(super) enum GenerateCommand {
    #[command(subcommand)]
    Kustomize(KustomizeCommand),
    Bundle(BundleArgs),
}

impl GenerateCommand {
    pub fn run(self, ui: Ui) -> Result<()> {
        match self {
            Self::Kustomize(command) => command.run(ui),
            Self::Bundle(args) => args.run(ui),
        }
    }
}
