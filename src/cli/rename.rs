//! `opctl rename`.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::change::Flags;
use super::trial::TrialFlags;
use crate::error::UserError;
use crate::project::{Project, Settings, check_value, names};
use crate::sync::{Plan, PlanOptions, Rename, Rewrite, Workspace};
use crate::ui::Ui;

/// Rename a part of a project
///
/// Files move with your edits, and Rust paths to what is renamed change in your files too. The lines that
/// still have the old name are listed. Before anything is written, cargo checks a copy of the project with
/// the new name.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  opctl rename kind Memcached Cache --dry-run")]
pub(super) enum RenameCommand {
    Kind(RenameKindArgs),
    Group(RenameGroupArgs),
    Project(RenameProjectArgs),
    Domain(RenameDomainArgs),
}

/// Rename a kind, in all of its versions
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  opctl rename kind Memcached Cache --plural caches")]
pub(super) struct RenameKindArgs {
    #[command(flatten)]
    names: Names,
    /// API group of the kind, if several groups have one of this name
    #[arg(long)]
    group: Option<String>,
    /// Plural name of the resource [default: English plural of the kind; a plural of your own stays]
    #[arg(long)]
    plural: Option<String>,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    flags: Flags,
}

/// Rename an API group that the project defines
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  opctl rename group cache store")]
pub(super) struct RenameGroupArgs {
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    flags: Flags,
}

/// Rename the project: its package, its namespace, and the prefix of its objects
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  opctl rename project my-operator cache-operator")]
pub(super) struct RenameProjectArgs {
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    flags: Flags,
}

/// Rename the domain of the API groups
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  opctl rename domain my.domain example.com")]
pub(super) struct RenameDomainArgs {
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Args)]
struct Names {
    /// The name that it has
    old: String,
    /// The name that it gets
    new: String,
}

/// A renaming that is ready to be applied.
struct Change {
    new: Project,
    rename: Option<Rename>,
    /// The old names, to list the lines that still have them.
    words: Vec<String>,
    /// What the renaming means for objects in clusters.
    warning: String,
}

impl RenameCommand {
    pub fn run(self, ui: Ui) -> Result<()> {
        let directory = super::directory()?;
        let workspace = Workspace::open(&directory)?;
        let old = super::model(&workspace)?;
        let (change, trial, flags) = match self {
            Self::Kind(args) => (args.change(old)?, args.trial, args.flags),
            Self::Group(args) => (args.change(old)?, args.trial, args.flags),
            Self::Project(args) => (args.change(old)?, args.trial, args.flags),
            Self::Domain(args) => (args.change(old)?, args.trial, args.flags),
        };
        let Change { new, rename, words, warning } = change;
        let plan = |options: &PlanOptions| {
            let rewrite = rename.clone().map(Rewrite::Rename);
            let options = PlanOptions { rewrite, ..options.clone() };
            workspace.plan(Some(old), &new, &options)
        };
        let before = |plan: &Plan| {
            for reference in workspace.references(&new, plan, &words)? {
                let line = reference.text.trim();
                ui.warning(format!("{reference} still has the old name: {line}"));
            }
            trial.refuse_breakage(&workspace, plan, &flags, ui)
        };
        if flags.apply_after(&workspace, plan, before, ui)? {
            ui.warning(warning);
        }
        Ok(())
    }
}

impl RenameKindArgs {
    fn change(&self, project: &Project) -> Result<Change, UserError> {
        let Names { old, new } = &self.names;
        let group = project.group_of_kind(old, self.group.as_deref())?;
        let renamed = project.with_kind_renamed(&group, old, new, self.plural.as_deref())?;
        let rename = Rename::kind(project, &group, old, new);
        let crd = project.storage(&group, old).map(|r| format!("{}.{}", r.plural(), r.api_group()));
        Ok(Change {
            new: renamed,
            words: rename.words().to_vec(),
            rename: Some(rename),
            warning: format!(
                "clusters keep the CRD {} with its objects: migrate them, then delete it",
                crd.unwrap_or_default()
            ),
        })
    }
}

impl RenameGroupArgs {
    fn change(&self, project: &Project) -> Result<Change, UserError> {
        let Names { old, new } = &self.names;
        let renamed = project.with_group_renamed(old, new)?;
        let rename = Rename::group(project, &renamed, old, new);
        let domain = &project.domain;
        Ok(Change {
            new: renamed,
            words: rename.words().to_vec(),
            rename: Some(rename),
            warning: format!(
                "clusters keep the CRDs of {old}.{domain} with their objects: migrate them, then delete the CRDs"
            ),
        })
    }
}

impl RenameProjectArgs {
    fn change(&self, project: &Project) -> Result<Change, UserError> {
        let Names { old, new } = &self.names;
        check_old("<OLD>", old, &project.project_name)?;
        check_value("<NEW>", new, names::project_name)?;
        let settings = Settings { name: Some(new.clone()), ..Settings::default() };
        Ok(Change {
            new: project.with_settings(settings)?,
            rename: None,
            words: vec![old.clone()],
            warning: format!(
                "clusters keep the operator in the namespace {old}-system: undeploy it before you deploy the new one"
            ),
        })
    }
}

impl RenameDomainArgs {
    fn change(&self, project: &Project) -> Result<Change, UserError> {
        let Names { old, new } = &self.names;
        check_old("<OLD>", old, &project.domain)?;
        check_value("<NEW>", new, names::domain)?;
        let settings = Settings { domain: Some(new.clone()), ..Settings::default() };
        Ok(Change {
            new: project.with_settings(settings)?,
            rename: None,
            words: vec![old.clone()],
            warning: format!(
                "clusters keep the CRDs of {old} with their objects: migrate them, then delete the CRDs"
            ),
        })
    }
}

/// Refuses to rename what has another name.
fn check_old(argument: &str, old: &str, current: &str) -> Result<(), UserError> {
    if old == current {
        return Ok(());
    }
    Err(UserError::invalid_value(argument, old, format!("the current name is `{current}`")))
}
