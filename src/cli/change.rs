//! What all commands that change a project share: show the plan, then carry it out.

use anyhow::Result;

use crate::error::Refusal;
use crate::sync::{Action, Conflicts, Options, Plan, Step, Workspace};
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
    pub fn options(self, conflicts: Conflicts) -> Options {
        Options { force: self.force, conflicts }
    }

    /// Shows a plan and carries it out. Returns whether it did.
    pub fn carry_out(self, workspace: &Workspace, plan: &Plan, ui: Ui) -> Result<bool> {
        let steps = plan.steps.iter().filter(|step| step.action != Action::Identical);
        if plan.conflicts().next().is_some() {
            for step in plan.conflicts() {
                ui.attention(step.action.verb(), describe(step));
            }
            return Err(Refusal::conflict("nothing was written: files are in the way")
                .hint("move them away, or run the command with `--force` to overwrite them")
                .into());
        }
        for step in steps {
            if self.dry_run {
                ui.data(format!("{:>12} {}", step.action.verb(), describe(step)));
            } else if step.action.reason().is_some() || step.action == Action::Overwrite {
                ui.attention(step.action.verb(), describe(step));
            } else {
                ui.status(step.action.verb(), describe(step));
            }
        }
        if !self.dry_run {
            workspace.carry_out(plan)?;
        }
        Ok(!self.dry_run)
    }
}

fn describe(step: &Step) -> String {
    match step.action.reason() {
        Some(why) => format!("{} ({why})", step.path),
        None => step.path.clone(),
    }
}
