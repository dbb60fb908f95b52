//! `opctl update`.

use anyhow::Result;
use clap::Args;

use super::change::Flags;
use crate::project::{Settings, VERSION};
use crate::sync::Workspace;
use crate::ui::Ui;

/// Update the project to the templates of this opctl
///
/// Files without edits get their new text. Files with edits stay if opctl has nothing new for them; else
/// the change is merged or, if what opctl once wrote is not known any more, a conflict. Also brings files in
/// line with a PROJECT that was changed by hand.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opctl update --dry-run\n  opctl update --conflicts inline")]
pub(super) struct UpdateArgs {
    #[command(flatten)]
    flags: Flags,
}

impl UpdateArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        let directory = super::directory()?;
        let workspace = Workspace::open_any_version(&directory)?;
        let old = super::model(&workspace)?;
        let new = old.with_settings(Settings::default())?;
        let plan = |options: &_| workspace.plan_update(old, &new, options);
        let is_current = plan(&Default::default())?.steps.iter().all(|step| !step.is_change());
        if is_current {
            ui.note(format!("The project is up to date with opctl {VERSION}"));
            return Ok(());
        }
        if self.flags.apply(&workspace, plan, ui)? {
            ui.note("Next: `make manifests` and `make test`");
        }
        Ok(())
    }
}
