//! `opctl generate`.

mod bundle;
mod helm;
mod kustomize;

use anyhow::Result;
use clap::Subcommand;

use crate::ui::Ui;
use bundle::BundleArgs;
use helm::HelmArgs;
use kustomize::KustomizeCommand;

/// Generate what packages the operator
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  opctl generate kustomize manifests\n  opctl generate helm")]
pub(super) enum GenerateCommand {
    Helm(HelmArgs),
    #[command(subcommand)]
    Kustomize(KustomizeCommand),
    Bundle(BundleArgs),
}

impl GenerateCommand {
    pub fn run(self, ui: Ui) -> Result<()> {
        match self {
            Self::Helm(args) => args.run(ui),
            Self::Kustomize(command) => command.run(ui),
            Self::Bundle(args) => args.run(ui),
        }
    }
}
