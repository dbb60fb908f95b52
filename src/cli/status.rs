//! `opctl status`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Format;
use super::audit::defect_error;
use super::change::warn_of_uncompiled;
use crate::error::UserError;
use crate::project::{Project, VERSION};
use crate::sync::{FileState, FileStatus, Workspace};
use crate::ui::Ui;

/// Compare the project with what opctl wrote
#[derive(Debug, Args)]
#[command(
    long_about = "Compare the project with what opctl wrote.\n\n\
        A file is `pristine` if it is as opctl wrote it, `edited`, `missing`, `conflicting` if it has \
        the markers of a conflict, `stale` if it is a copy that differs from its original, or `extra` if \
        opctl did not write it. An `outdated` file is not what \
        PROJECT says: PROJECT was changed by hand, or other templates wrote the file.\n\n\
        Rust files in src that no `mod` leads to are reported: nobody compiles them. So are known defects of \
        what opctl wrote, which `opctl audit --defects` lists.\n\n\
        Edits are yours to make. The exit code is 4 if a file is conflicting, stale or outdated, or if a list \
        of modules or manifests is missing.",
    after_help = "Examples:\n  opctl status\n  opctl status --output json"
)]
pub(super) struct StatusArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// What is printed as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    project: &'a str,
    domain: &'a str,
    apis: Vec<String>,
    /// The version of opctl that wrote the files.
    written_by: &'a str,
    /// The version of this opctl.
    opctl: &'a str,
    files: &'a [FileStatus],
}

impl StatusArgs {
    pub fn run(self, ui: Ui) -> Result<ExitCode> {
        let directory = super::directory()?;
        let workspace = Workspace::open_any_version(&directory)?;
        let project = super::model(&workspace)?;
        let files = workspace.status(project)?;
        match self.output {
            Format::Json => {
                ui.data(format!("{:#}", serde_json::to_value(report(project, &files))?))?
            }
            Format::Text => print(project, &files, ui)?,
        }
        warn_of_uncompiled(&workspace, |_| true, ui)?;
        if let Some(error) = defect_error(project) {
            ui.warning(format!("{error}: `opctl audit --defects` lists them"));
        }
        match drift(project, &files) {
            None => Ok(ExitCode::SUCCESS),
            Some(error) => Err(error.into()),
        }
    }
}

fn report<'a>(project: &'a Project, files: &'a [FileStatus]) -> Report<'a> {
    Report {
        project: &project.project_name,
        domain: &project.domain,
        apis: project.resources.iter().map(|resource| resource.gvk().to_string()).collect(),
        written_by: &project.cli_version,
        opctl: VERSION,
        files,
    }
}

fn print(project: &Project, files: &[FileStatus], ui: Ui) -> Result<()> {
    let Report { project: name, domain, apis, written_by, .. } = report(project, files);
    ui.data(format!("{:>12} {name} ({domain}), written by opctl {written_by}", "project"))?;
    for api in apis {
        ui.data(format!("{:>12} {api}", "api"))?;
    }
    let is_printed = |file: &&FileStatus| file.state != FileState::Pristine || file.outdated;
    let mut printed: Vec<&FileStatus> = files.iter().filter(is_printed).collect();
    printed.sort_by_key(|file| file.state);
    for file in &printed {
        let outdated = if file.outdated { " (outdated)" } else { "" };
        ui.data(format!("{:>12} {}{outdated}", file.state.name(), file.path))?;
    }
    let is_pristine = |file: &&FileStatus| file.state == FileState::Pristine;
    let pristine = files.iter().filter(is_pristine).count();
    ui.data(format!("{:>12} {pristine} files", "pristine"))
}

/// The error of a project that is not what its model says.
fn drift(project: &Project, files: &[FileStatus]) -> Option<UserError> {
    let drifted: Vec<&FileStatus> = files.iter().filter(|file| file.is_drift()).collect();
    let has = |state| drifted.iter().any(|file| file.state == state);
    let message = match drifted.len() {
        0 if project.cli_version == VERSION => return None,
        0 => format!("opctl {} wrote the project, and this is {VERSION}", project.cli_version),
        1 if has(FileState::Stale) => "1 copy is not what its original says".to_owned(),
        1 => "1 file is not what PROJECT says".to_owned(),
        files => format!("{files} files are not what PROJECT says"),
    };
    Some(UserError::drift(message).with_hint(if has(FileState::Conflicting) {
        "resolve the conflicts between the markers"
    } else if has(FileState::Stale) {
        "copy the files of config/ into the chart with `make manifests`"
    } else if project.cli_version != VERSION || drifted.iter().any(|file| file.outdated) {
        "bring the files up to date with `opctl update`"
    } else {
        "restore the files, for example with `git checkout PATH`"
    }))
}
