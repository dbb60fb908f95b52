//! The common part of the commands that change a project: show the plan, then apply it.

use anyhow::Result;

use crate::error::UserError;
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
            for step in &plan.steps {
                show(step, |verb, file| ui.data(format!("{verb:>12} {file}")));
            }
        } else if conflicts > 0 {
            for step in plan.conflicts() {
                show(step, |verb, file| ui.attention(verb, file));
            }
        }
        if conflicts > 0 {
            return Err(conflict_error(plan, conflicts).into());
        }
        if self.dry_run {
            return Ok(false);
        }
        workspace.apply(plan)?;
        for step in &plan.steps {
            let is_routine = step.action.reason().is_none() && step.action != Action::Overwrite;
            show(
                step,
                |verb, file| {
                    if is_routine { ui.status(verb, file) } else { ui.attention(verb, file) }
                },
            );
        }
        Ok(true)
    }
}

fn show(step: &Step, print: impl Fn(&str, String)) {
    if step.action == Action::Identical {
        return;
    }
    let file = match step.action.reason() {
        Some(reason) => format!("{} ({reason})", step.path),
        None => step.path.clone(),
    };
    print(step.action.verb(), file);
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
