//! `opctl olm`.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::run::ConnectionArgs;
use crate::error::UserError;
use crate::package::olm::Object;
use crate::package::olm::cluster::{Manager, ObjectState, manifests};
use crate::text::visible;
use crate::ui::Ui;

/// Install the Operator Lifecycle Manager (OLM v0) in a cluster
///
/// Its manifests are those of a release of OLM: `crds.yaml` and `olm.yaml`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum OlmCommand {
    /// Install OLM, and wait until it runs
    #[command(after_help = EXAMPLES)]
    Install(OlmArgs),
    /// Print the objects of OLM, and whether they are installed
    #[command(
        after_help = "Example:\n  opctl olm status --manifests crds.yaml --manifests olm.yaml"
    )]
    Status(OlmArgs),
    Uninstall(UninstallArgs),
}

const EXAMPLES: &str = "Examples:\n  \
    opctl olm install --manifests crds.yaml --manifests olm.yaml\n  \
    R=https://github.com/operator-framework/operator-lifecycle-manager/releases/download/v0.46.0\n  \
    opctl olm install --manifests $R/crds.yaml --manifests $R/olm.yaml";

/// The manifests of OLM.
#[derive(Debug, Args)]
pub(super) struct OlmArgs {
    /// File or URL with manifests of OLM
    #[arg(long, value_name = "FILE|URL", required = true, num_args = 1..)]
    manifests: Vec<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Uninstall OLM
///
/// Operators and catalogs that were installed with OLM would be lost with it. If there are any, the command lists them
/// and stops before it deletes anything. Namespaces of OLM that have other objects stay, and so do the CRDs of
/// operators and their objects.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  opctl olm uninstall --manifests crds.yaml --manifests olm.yaml"
)]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    olm: OlmArgs,
    /// Delete the operators and catalogs of users with OLM
    #[arg(long)]
    delete_user_objects: bool,
}

impl OlmCommand {
    pub fn run(self, ui: Ui) -> Result<()> {
        match self {
            Self::Install(args) => args.run(ui, |olm, manifests| olm.install(manifests)),
            Self::Status(args) => args.run(ui, |olm, manifests| status(olm, manifests, ui)),
            Self::Uninstall(args) => {
                let all = args.delete_user_objects;
                args.olm.run(ui, |olm, manifests| olm.uninstall(manifests, all))
            }
        }
    }
}

impl OlmArgs {
    fn run(self, ui: Ui, command: impl Fn(&Manager<'_>, &[Object]) -> Result<()>) -> Result<()> {
        let objects = manifests(&self.manifests)?;
        let (kubectl, deadline) = self.connection.connect(None, ui)?;
        command(&Manager { kubectl: &kubectl, deadline, ui }, &objects)
    }
}

/// Prints each object. The exit code is 1 if one is missing.
fn status(olm: &Manager<'_>, manifests: &[Object], ui: Ui) -> Result<()> {
    let objects = olm.status(manifests)?;
    for managed in &objects {
        let state = match managed.state {
            ObjectState::Installed => "installed",
            ObjectState::Missing => "missing",
        };
        let object = &managed.object;
        let line =
            format!("{state:<11}{:<26}{:<11}{}", object.kind(), object.namespace(), object.name());
        ui.data(visible(&line))?;
    }
    let missing = objects.iter().filter(|it| it.state == ObjectState::Missing).count();
    match (missing, objects.len()) {
        (0, _) => Ok(()),
        (missing, all) if missing == all => Err(UserError::failure("OLM is not installed")
            .with_hint("install it with `opctl olm install`")
            .into()),
        (missing, all) => {
            Err(UserError::failure(format!("{missing} of {all} objects are missing"))
                .with_hint(
                    "uninstall what is left with `opctl olm uninstall`, and install OLM again",
                )
                .into())
        }
    }
}
