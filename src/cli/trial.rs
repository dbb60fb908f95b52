//! The check that a project compiles with a change, before the change is written.

use anyhow::Result;

use super::change::Flags;
use crate::error::UserError;
use crate::sync::{Action, Plan, Trial, Workspace};
use crate::ui::Ui;

/// The flag of the commands that may break the user's code.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct TrialFlags {
    /// Write the changes without checking that the result compiles
    #[arg(long)]
    no_check: bool,
}

impl TrialFlags {
    /// Requires that the project compiles with the changes.
    ///
    /// # Errors
    /// If it does not, if it did not compile before, or if there is no cargo.
    pub fn require(self, workspace: &Workspace, plan: &Plan, flags: &Flags, ui: Ui) -> Result<()> {
        let (problem, hint) = match self.run(workspace, plan, flags, ui)? {
            None | Some(Trial::Compiles) => return Ok(()),
            Some(Trial::Fails) => return Err(breaks().into()),
            Some(Trial::FailsAnyway) => (
                "the project does not compile, with or without the changes: nothing was written"
                    .to_owned(),
                "resolve what `cargo check --all-targets` reports, or use `--no-check`",
            ),
            Some(Trial::NoCargo(error)) => (
                format!("cannot check that the result compiles: cargo: {error}"),
                "install Rust (https://rustup.rs), or use `--no-check`",
            ),
        };
        Err(UserError::failure(problem).with_hint(hint).into())
    }

    /// Requires that the changes do not break the project, as far as that is known: a part of a project that
    /// does not compile, or on a machine without cargo, can be deleted or renamed, too.
    ///
    /// # Errors
    /// If the project compiles, but not with the changes. cargo has said where.
    pub fn refuse_breakage(
        self,
        workspace: &Workspace,
        plan: &Plan,
        flags: &Flags,
        ui: Ui,
    ) -> Result<()> {
        match self.run(workspace, plan, flags, ui)? {
            None | Some(Trial::Compiles) => {}
            Some(Trial::Fails) => return Err(breaks().into()),
            Some(Trial::FailsAnyway) => {
                ui.warning("the project does not compile, with or without the changes");
            }
            Some(Trial::NoCargo(error)) => {
                ui.warning(format!("not checked whether the result compiles: cargo: {error}"));
            }
        }
        Ok(())
    }

    /// Tries a plan, unless it is not to be written or leaves what no compiler accepts.
    fn run(
        self,
        workspace: &Workspace,
        plan: &Plan,
        flags: &Flags,
        ui: Ui,
    ) -> Result<Option<Trial>> {
        let is_marked = plan.steps.iter().any(|step| step.action == Action::Mark);
        if self.no_check || is_marked || flags.is_dry_run() || plan.is_empty() {
            return Ok(None);
        }
        ui.status("check", "a copy of the project with the changes");
        Ok(Some(workspace.try_plan(plan)?))
    }
}

fn breaks() -> UserError {
    UserError::failure(
        "the project compiles, but with the changes it would not: nothing was written",
    )
    .with_hint("adapt what cargo reports, or write the changes with `--no-check`")
}
