//! `opctl update`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::change::Flags;
use crate::error::UserError;
use crate::project::{Settings, VERSION};
use crate::render::TemplateSet;
use crate::sync::{Action, Plan, PlanOptions, Trial, Workspace, read_templates};
use crate::ui::Ui;

/// Update the project to the templates of this opctl
///
/// Files without edits get their new text. Files with edits stay if opctl has nothing new for them; else
/// the change is merged or, if what opctl once wrote is not known any more, a conflict. Before anything is
/// written, cargo checks a copy of the project with the changes. Also brings files in line with a PROJECT
/// that was changed by hand.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opctl update --dry-run\n  opctl update --conflicts inline")]
pub(super) struct UpdateArgs {
    /// The templates that the project was made with, if this opctl does not have them: the directory
    /// `templates` in the sources of another opctl
    #[arg(long, value_name = "DIRECTORY")]
    templates: Option<PathBuf>,
    /// Write the changes without checking that the result compiles
    #[arg(long)]
    no_check: bool,
    #[command(flatten)]
    flags: Flags,
}

impl UpdateArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        let directory = super::directory()?;
        let workspace = Workspace::open_any_version(&directory)?;
        let old = super::model(&workspace)?;
        let new = old.with_settings(Settings::default())?;
        let set = match &self.templates {
            Some(directory) => read_templates(directory)?,
            None => TemplateSet::of(&old.cli_version)?.unwrap_or_else(TemplateSet::current),
        };
        let plan = |options: &PlanOptions| workspace.plan_update(old, set, &new, options);
        let is_current = plan(&Default::default())?.steps.iter().all(|step| !step.is_change());
        if is_current {
            ui.note(format!("The project is up to date with opctl {VERSION}"));
            return Ok(());
        }
        let check = |plan: &Plan| {
            let is_marked = plan.steps.iter().any(|step| step.action == Action::Mark);
            if self.no_check || is_marked || self.flags.is_dry_run() {
                return Ok(());
            }
            ui.status("check", "a copy of the project with the changes");
            verdict(workspace.try_plan(plan)?)
        };
        if self.flags.apply_after(&workspace, plan, check, ui)? {
            ui.note("Next: `make manifests` and `make test`");
        }
        Ok(())
    }
}

fn verdict(trial: Trial) -> Result<()> {
    let (problem, hint) = match trial {
        Trial::Compiles => return Ok(()),
        Trial::Fails => (
            "the project compiles, but with the changes it would not: nothing was written",
            "write the changes with `--no-check`, and resolve what cargo reports",
        ),
        Trial::FailsAnyway => (
            "the project does not compile, with or without the changes: nothing was written",
            "resolve what `cargo check --all-targets` reports, or use `--no-check`",
        ),
    };
    Err(UserError::failure(problem).with_hint(hint).into())
}
