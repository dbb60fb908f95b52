//! `opctl init` where `PROJECT` was lost.

use anyhow::Result;

use super::change::Flags;
use crate::project::Settings;
use crate::sync::{PlanOptions, Workspace};
use crate::ui::Ui;

/// Makes a lost `PROJECT` again, and says what of the project was recognized. No other file changes, except for
/// `PROJECT.lock` if it was lost, too.
///
/// # Errors
/// If the model cannot be recognized, or if a file cannot be read or written.
pub(super) fn run(
    workspace: &Workspace,
    settings: &Settings,
    default_name: &str,
    flags: &Flags,
    ui: Ui,
) -> Result<()> {
    let adopted = workspace.adopt(settings, default_name)?;
    let project = &adopted.project;
    ui.note("PROJECT was lost; the files of the project say:");
    ui.status("project", format!("{} ({})", project.project_name, project.domain));
    for resource in &project.resources {
        let controller = if resource.controller { ", with a controller" } else { "" };
        let recipe = project.recipe(resource);
        let origin = match (resource.core, resource.external) {
            (true, _) => "core type".to_owned(),
            (_, true) => "external type".to_owned(),
            _ => format!("recipe {recipe}"),
        };
        ui.status("api", format!("{} ({origin}{controller})", resource.gvk()));
    }
    for feature in project.features() {
        ui.status("part", format!("{feature:?}").to_lowercase());
    }
    for unknown in &adopted.unknown {
        ui.warning(unknown);
    }
    if flags.apply(workspace, |_: &PlanOptions| workspace.plan_adoption(project), ui)? {
        ui.note("Next: compare the project with PROJECT by `opctl status`");
    }
    Ok(())
}
