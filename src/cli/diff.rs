//! `opctl diff`.

use anyhow::Result;
use clap::Args;

use crate::sync::{DiffOptions, FileDiff, Workspace};
use crate::ui::Ui;

/// Show your edits
///
/// Prints a patch from the files that opctl renders to yours. Files that opctl does not render are not
/// in it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opctl diff\n  opctl diff --base config src/main.rs")]
pub(super) struct DiffArgs {
    /// Files and directories to compare [default: all]
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// Compare with what opctl wrote, not with what it writes today
    #[arg(long)]
    base: bool,
}

impl DiffArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        let directory = super::directory()?;
        let workspace = Workspace::open_any_version(&directory)?;
        let project = super::model(&workspace)?;
        let options = DiffOptions { paths: self.paths, with_base: self.base };
        let mut patches = String::new();
        for FileDiff { path, patch } in workspace.diff(project, &options)? {
            match patch {
                Some(patch) => patches.push_str(&patch),
                None => ui.warning(format!("{path}: what opctl wrote cannot be rendered again")),
            }
        }
        ui.patch(&patches)
    }
}
