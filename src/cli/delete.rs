//! `opctl delete api` and `opctl delete controller`.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::change::Flags;
use super::trial::TrialFlags;
use crate::project::{Gvk, Project};
use crate::sync::{Action, Plan, Step, Workspace};
use crate::ui::Ui;

/// Delete a part of a project
///
/// What opctl wrote is deleted. Files with edits of yours stay, and are listed.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Example:\n  opctl delete controller --group cache --kind Memcached --dry-run"
)]
pub(super) enum DeleteCommand {
    Api(DeleteApiArgs),
    Controller(DeleteControllerArgs),
}

/// Delete a version of a kind, and with the last one its controller
///
/// What opctl wrote is deleted. Files with edits of yours stay, and are listed. Before anything is written,
/// cargo checks a copy of the project without it, and reports what still needs it. Clusters keep the CRD and
/// its objects.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  opctl delete api --group cache --version v1alpha1 --kind Memcached"
)]
pub(super) struct DeleteApiArgs {
    /// API group, without the project's domain
    #[arg(long)]
    group: String,
    /// API version
    #[arg(long)]
    version: String,
    /// Kind of the resource
    #[arg(long)]
    kind: String,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    flags: Flags,
}

/// Delete the controller of a kind
///
/// What opctl wrote is deleted. Files with edits of yours stay, and are listed. Before anything is written,
/// cargo checks a copy of the project without it, and reports what still needs it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  opctl delete controller --group cache --kind Memcached")]
pub(super) struct DeleteControllerArgs {
    /// API group, without the project's domain
    #[arg(long)]
    group: String,
    /// Kind of the resource
    #[arg(long)]
    kind: String,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    flags: Flags,
}

impl DeleteCommand {
    pub fn run(self, ui: Ui) -> Result<()> {
        let directory = super::directory()?;
        let workspace = Workspace::open(&directory)?;
        let old = super::model(&workspace)?;
        match self {
            Self::Api(args) => args.run(&workspace, old, ui),
            Self::Controller(args) => args.run(&workspace, old, ui),
        }
    }
}

impl DeleteApiArgs {
    fn run(self, workspace: &Workspace, old: &Project, ui: Ui) -> Result<()> {
        let Self { group, version, kind, trial, flags } = self;
        let gvk = Gvk { group, version, kind };
        let resource = old.resource_named(&gvk)?;
        let new = old.delete_api(&gvk)?;
        let is_last = !new.resources.iter().any(|other| other.is_same_kind(resource));
        let words = if is_last {
            ["", "Spec", "Status"].map(|suffix| format!("{}{suffix}", gvk.kind)).to_vec()
        } else {
            vec![format!("{}::{}", gvk.version, gvk.kind)]
        };
        let before = |plan: &Plan| {
            print_references(workspace, &new, plan, &words, ui)?;
            trial.refuse_breakage(workspace, plan, &flags, ui)
        };
        let plan = |options: &_| workspace.plan(Some(old), &new, options);
        if flags.apply_after(workspace, plan, before, ui)? && resource.api.is_some() {
            let crd = format!("{}.{}", resource.plural(), resource.api_group());
            ui.warning(if is_last {
                format!("clusters keep the CRD {crd} with its objects: `kubectl delete crd {crd}` deletes both")
            } else {
                let version = &resource.version;
                format!("the API server refuses the CRD {crd} as long as its `status.storedVersions` has {version}")
            });
        }
        Ok(())
    }
}

impl DeleteControllerArgs {
    fn run(self, workspace: &Workspace, old: &Project, ui: Ui) -> Result<()> {
        let Self { group, kind, trial, flags } = self;
        let new = old.delete_controller(&group, &kind)?;
        let before = |plan: &Plan| {
            print_references(workspace, &new, plan, &[], ui)?;
            trial.refuse_breakage(workspace, plan, &flags, ui)
        };
        let plan = |options: &_| workspace.plan(Some(old), &new, options);
        flags.apply_after(workspace, plan, before, ui)?;
        Ok(())
    }
}

/// Warns of code of the user that needs what is deleted: tests that stay, and other files with these words.
fn print_references(
    workspace: &Workspace,
    new: &Project,
    plan: &Plan,
    words: &[String],
    ui: Ui,
) -> Result<()> {
    let is_kept_test = |step: &&Step| {
        step.action == Action::Keep(Step::NO_LONGER_GENERATED)
            && step.path.starts_with("tests/")
            && step.path.ends_with(".rs")
    };
    for test in plan.steps.iter().filter(is_kept_test) {
        ui.warning(format!(
            "{} stays with your edits, and cargo compiles it: delete or adapt it",
            test.path
        ));
    }
    let references = workspace.references(new, plan, words)?;
    for reference in references.iter().filter(|reference| reference.path.ends_with(".rs")) {
        let line = reference.text.trim();
        ui.warning(format!("{reference} mentions what is deleted: {line}"));
    }
    Ok(())
}
