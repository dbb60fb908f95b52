//! `opctl generate helm`.

use anyhow::Result;
use clap::Args;

use crate::cli::change::Flags;
use crate::project::Feature;
use crate::sync::{FileState, FileStatus};
use crate::ui::Ui;

/// The directories of config/ that config/default does not deploy.
const UNRELATED: [&str; 3] = ["manifests/", "samples/", "scorecard/"];

/// Scaffold a Helm chart of the operator, in the directory chart
///
/// The chart installs what config/default deploys. It is yours to edit: from then on each command that changes the
/// project merges with your edits, the same as after `opctl edit --enable helm`. What the chart has from config/ (the
/// CRDs, the roles, the alerts and the dashboard) is copied to chart/files by `make manifests`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  opctl generate helm")]
pub(in crate::cli) struct HelmArgs {
    #[command(flatten)]
    flags: Flags,
}

impl HelmArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        let (workspace, project) = super::enable(Feature::Helm, &self.flags, ui)?;
        let others = without_copies(&workspace.status(&project)?);
        if !others.is_empty() {
            ui.warning(format!(
                "the chart does not have your changes in {}: repeat them in chart/templates or chart/values.yaml",
                others.join(", ")
            ));
        }
        Ok(())
    }
}

/// The files of config/ with edits that the chart has no copies of.
fn without_copies(files: &[FileStatus]) -> Vec<String> {
    let has_copy = |path: &str| {
        let copy = format!("chart/files/{path}");
        files.iter().any(|file| file.path == copy)
    };
    let others = files.iter().filter_map(|file| {
        let path = file.path.strip_prefix("config/")?;
        let is_changed = matches!(file.state, FileState::Edited | FileState::Extra);
        let is_deployed = !UNRELATED.iter().any(|directory| path.starts_with(directory));
        (is_changed && is_deployed && !has_copy(path)).then(|| file.path.clone())
    });
    others.collect()
}
