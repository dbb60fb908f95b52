//! The common part of the commands that change a project: show the plan, then apply it.

use anyhow::Result;

use crate::error::UserError;
use crate::render::RUNTIME;
use crate::sync::{Action, Conflicts, Plan, PlanOptions, Reason, Step, Workspace};
use crate::ui::Ui;

/// The flags of all commands that change a project.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Flags {
    /// Print the changes without making them
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Overwrite existing files and conflicting edits
    #[arg(short, long)]
    pub force: bool,
}

impl Flags {
    /// The options of the plan.
    pub fn options(self, conflicts: Conflicts) -> PlanOptions {
        PlanOptions { force: self.force, conflicts }
    }

    /// Prints a plan and, unless it is a dry run, applies it. Returns whether the plan was applied.
    ///
    /// # Errors
    /// If the plan has conflicts, or if a file cannot be written.
    pub fn apply(self, workspace: &Workspace, plan: &Plan, ui: Ui) -> Result<bool> {
        let conflicts = plan.conflicts().count();
        if self.dry_run {
            for Line { action, file } in lines(&plan.steps) {
                ui.data(format!("{:>12} {file}", action.verb()));
            }
        } else if conflicts > 0 {
            for Line { action, file } in lines(plan.conflicts()) {
                ui.attention(action.verb(), file);
            }
        }
        if conflicts > 0 {
            return Err(conflict_error(plan, conflicts).into());
        }
        if self.dry_run {
            return Ok(false);
        }
        workspace.apply(plan)?;
        for Line { action, file } in lines(&plan.steps) {
            if action.reason().is_none() && action != Action::Overwrite {
                ui.status(action.verb(), file);
            } else {
                ui.attention(action.verb(), file);
            }
        }
        Ok(true)
    }
}

/// What is printed for a step, or for several that do the same with files of the runtime: nobody
/// reads the names of them all.
struct Line {
    action: Action,
    file: String,
}

fn lines<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Vec<Line> {
    let steps: Vec<_> = steps.into_iter().filter(|step| step.action != Action::Identical).collect();
    let is_runtime = |step: &Step| step.path.starts_with(RUNTIME) && step.action.reason().is_none();
    let same = |a: &&Step, b: &&Step| is_runtime(a) && is_runtime(b) && a.action == b.action;
    let groups = steps.chunk_by(same);
    groups
        .map(|group| {
            let Step { action, path, .. } = group[0];
            let file = match (group.len(), action.reason()) {
                (1, Some(reason)) => format!("{path} ({reason})"),
                (1, None) => path.clone(),
                (files, _) => format!("{RUNTIME} ({files} files)"),
            };
            Line { action: *action, file }
        })
        .collect()
}

fn conflict_error(plan: &Plan, conflicts: usize) -> UserError {
    let (noun, file, object) =
        if conflicts == 1 { ("conflict", "file", "it") } else { ("conflicts", "files", "them") };
    let message = format!("{conflicts} {noun}: nothing was written");
    // A user can resolve a conflict of edits; a file that opctl did not write can only be replaced.
    let exists = |step: &Step| step.action == Action::Conflict(Reason::Exists);
    let error = if plan.conflicts().all(exists) {
        UserError::failure(message)
    } else {
        UserError::conflict(message)
    };
    if plan.conflicts().all(|step| step.action.can_be_marked()) {
        error.with_hint(
            "write both versions between conflict markers with `--conflicts inline`, or overwrite your edits with `--force`",
        )
    } else {
        error.with_hint(format!("move the {file} away, or overwrite {object} with `--force`"))
    }
}
