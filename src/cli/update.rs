//! `opctl update`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::change::Flags;
use super::trial::TrialFlags;
use crate::error::UserError;
use crate::project::{Settings, VERSION};
use crate::render::TemplateSet;
use crate::sync::{Codemods, Plan, PlanOptions, Rewrite, Workspace, read_templates};
use crate::ui::Ui;

/// Update the project to the templates of this opctl
///
/// Files without edits get their new text. Files with edits stay if opctl has nothing new for them; else
/// the change is merged or, if what opctl once wrote is not known any more, a conflict. Your code follows the
/// names and signatures that have changed in the runtime, where that is certain. Before anything is
/// written, cargo checks a copy of the project with the changes. Also brings files in line with a PROJECT
/// that was changed by hand. Other commands need the templates of this opctl: after an update to earlier ones,
/// use the opctl of that version.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opctl update --dry-run\n  opctl update --conflicts inline")]
pub(super) struct UpdateArgs {
    /// The templates that the project was made with, if this opctl does not have them: the directory
    /// `templates` in the sources of another opctl
    #[arg(long, value_name = "DIRECTORY")]
    templates: Option<PathBuf>,
    /// Version of the templates to update to [default: that of this opctl]
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    flags: Flags,
}

impl UpdateArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        let directory = super::directory()?;
        let workspace = Workspace::open_any_version(&directory)?;
        let old = super::model(&workspace)?;
        let version = self.to.as_deref().unwrap_or(VERSION);
        let target = known(version)?;
        // What was chosen by hand belongs to the model from now on.
        let features = Some(workspace.features(old)?);
        let settings = Settings { features, ..Settings::default() };
        let new = old.with_settings(settings)?.with_version(version)?;
        let set = match &self.templates {
            Some(directory) => read_templates(directory)?,
            None => TemplateSet::of(&old.cli_version)?.unwrap_or_else(TemplateSet::current),
        };
        let plan = self.flags.plan(
            |options: &PlanOptions| {
                let rewrite = Some(Rewrite::Codemods(Codemods::between(&old.cli_version, version)));
                let options = PlanOptions { rewrite, ..options.clone() };
                workspace.plan_update(old, set, &new, target, &options)
            },
            ui,
        )?;
        if plan.steps.iter().all(|step| !step.is_change()) {
            ui.note(format!("The project is up to date with opctl {version}"));
            return Ok(());
        }
        let check = |plan: &Plan| self.trial.require(&workspace, plan, &self.flags, ui);
        if self.flags.apply_plan(&workspace, &plan, check, ui)? {
            ui.note("Next: `make manifests` and `make test`");
        }
        Ok(())
    }
}

/// The templates of a version.
fn known(version: &str) -> Result<&'static TemplateSet> {
    if let Some(set) = TemplateSet::of(version)? {
        return Ok(set);
    }
    let versions = TemplateSet::versions()?.into_iter().collect::<Vec<_>>().join(", ");
    let reason = "this opctl does not have the templates of this version";
    Err(UserError::invalid_value("--to <VERSION>", version, reason)
        .with_hint(format!("it has those of {versions}"))
        .into())
}
