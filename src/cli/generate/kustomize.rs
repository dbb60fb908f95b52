//! `opctl generate kustomize`.

use anyhow::Result;
use clap::{ArgAction, Args, Subcommand};

use crate::cli::change::Flags;
use crate::error::UserError;
use crate::project::Feature;
use crate::ui::Ui;

/// Generate the kustomize files of a package
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  opctl generate kustomize manifests")]
pub(in crate::cli) enum KustomizeCommand {
    Manifests(ManifestsArgs),
}

/// Scaffold what the Operator Lifecycle Manager shows of the operator: config/manifests and config/scorecard
///
/// The ClusterServiceVersion in config/manifests/bases is yours: complete the description, the icon and the
/// links, and `opctl generate bundle` adds what follows from the other manifests. The same as
/// `opctl edit --enable olm`: new APIs are merged with your edits from then on.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  opctl generate kustomize manifests")]
pub(in crate::cli) struct ManifestsArgs {
    /// For scripts that say `--interactive=false` to operator-sdk, which asks for what opctl has defaults for.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    interactive: bool,
    #[command(flatten)]
    flags: Flags,
}

impl KustomizeCommand {
    pub fn run(self, ui: Ui) -> Result<()> {
        match self {
            Self::Manifests(args) => args.run(ui),
        }
    }
}

impl ManifestsArgs {
    fn run(self, ui: Ui) -> Result<()> {
        if self.interactive {
            return Err(UserError::usage(
                "`--interactive` is not supported: opctl asks no questions",
            )
            .with_hint("edit the ClusterServiceVersion in config/manifests/bases")
            .into());
        }
        super::enable(Feature::Olm, &self.flags, ui)?;
        Ok(())
    }
}
