//! `opctl generate`.

mod bundle;
mod helm;
mod kustomize;

use anyhow::Result;
use clap::Subcommand;

use crate::cli::change::Flags;
use crate::project::{Feature, Project, Settings};
use crate::sync::Workspace;
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

/// Adds a part to the project, as `opctl edit --enable` does. Returns the project that has it.
fn enable(feature: Feature, flags: &Flags, ui: Ui) -> Result<(Workspace, Project)> {
    let workspace = Workspace::open(&super::directory()?)?;
    let old = super::model(&workspace)?;
    let mut features = workspace.features(old)?;
    features.insert(feature);
    let new = old.with_settings(Settings { features: Some(features), ..Settings::default() })?;
    flags.apply(&workspace, |options| workspace.plan(Some(old), &new, options), ui)?;
    Ok((workspace, new))
}
