//! What all commands that change a project share: show the plan, then carry it out.

use anyhow::Result;

use crate::error::UserError;
use crate::sync::{Action, Conflicts, Plan, PlanOptions, Reason, Step, Workspace};
use crate::ui::Ui;

/// The flags of every command that changes a project.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Flags {
    /// Print what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Overwrite files that are in the way or have edits that conflict
    #[arg(short, long)]
    pub force: bool,
}

impl Flags {
    /// How the plan is to be made.
    pub fn options(self, conflicts: Conflicts) -> PlanOptions {
        PlanOptions { force: self.force, conflicts }
    }

    /// Shows a plan and carries it out. Returns whether it did.
    ///
    /// # Errors
    /// If there are conflicts, and if a file cannot be written.
    pub fn carry_out(self, workspace: &Workspace, plan: &Plan, ui: Ui) -> Result<bool> {
        let conflicts = plan.conflicts().count();
        if self.dry_run {
            for step in &plan.steps {
                show(step, |verb, what| ui.data(format!("{verb:>12} {what}")));
            }
        } else if conflicts > 0 {
            for step in plan.conflicts() {
                show(step, |verb, what| ui.attention(verb, what));
            }
        }
        if conflicts > 0 {
            return Err(refuse(plan, conflicts).into());
        }
        if self.dry_run {
            return Ok(false);
        }
        workspace.carry_out(plan)?;
        for step in &plan.steps {
            let calm = step.action.reason().is_none() && step.action != Action::Overwrite;
            show(
                step,
                |verb, what| if calm { ui.status(verb, what) } else { ui.attention(verb, what) },
            );
        }
        Ok(true)
    }
}

fn show(step: &Step, print: impl Fn(&str, String)) {
    let what = match step.action.reason() {
        _ if step.action == Action::Identical => return,
        Some(why) => format!("{} ({why})", step.path),
        None => step.path.clone(),
    };
    print(step.action.verb(), what);
}

fn refuse(plan: &Plan, conflicts: usize) -> UserError {
    let (conflicts, them) = if conflicts == 1 {
        ("a conflict".to_owned(), "it")
    } else {
        (format!("{conflicts} conflicts"), "them")
    };
    let what = format!("{conflicts}, nothing was written");
    // Only edits that meet a change are for the user to resolve; other files are merely in the way.
    let in_the_way = |step: &Step| step.action == Action::Conflict(Reason::Exists);
    let error = if plan.conflicts().all(in_the_way) {
        UserError::failure(what)
    } else {
        UserError::conflict(what)
    };
    if plan.conflicts().all(|step| step.action.can_be_marked()) {
        error.with_hint(format!(
            "resolve {them} by hand between markers with `--conflicts inline`, or overwrite your edits with `--force`"
        ))
    } else {
        error.with_hint("move what is in the way to another place, or overwrite it with `--force`")
    }
}
