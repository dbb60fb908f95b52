//! `opctl init`.

use std::env;
use std::path::Path;

use anyhow::{Context, Result};

use super::change::Flags;
use crate::error::UserError;
use crate::project::names::{self, InvalidValue};
use crate::project::{License, Project, Settings, refuse_flag};
use crate::sync::{Conflicts, Workspace};
use crate::ui::Ui;

/// Create a project in the current folder
///
/// With --force, in a folder that holds a project: write its files again, over the edits in them.
/// What is not said by a flag stays as it is, and so do the project's APIs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opctl init --domain example.com")]
pub struct InitArgs {
    /// What the API groups of the project end with [default: my.domain]
    #[arg(long)]
    domain: Option<String>,
    /// The name of the project [default: the folder's name]
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,
    /// The license of the project [default: apache2]
    #[arg(long, value_enum)]
    license: Option<License>,
    /// Who holds the copyright [default: The <NAME> Authors]
    #[arg(long)]
    owner: Option<String>,
    /// Let the operator watch its own namespace only
    #[arg(long)]
    namespaced: bool,
    #[command(flatten)]
    flags: Flags,
}

impl InitArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        self.check()?;
        let directory = env::current_dir().context("cannot tell the current folder")?;
        let workspace = Workspace::at(&directory)?;
        let start = match (workspace.project(), &self.project_name) {
            (Some(project), _) if self.flags.force => project.clone(),
            (Some(_), _) => {
                return Err(UserError::failure("this folder holds a project already")
                    .with_hint("add to it with `opctl create api`, or write its files again with `--force`")
                    .into());
            }
            (None, Some(name)) => Project::new(name.clone()),
            (None, None) => Project::new(name_of(&directory)?),
        };
        let project = start.with(Settings {
            name: self.project_name,
            domain: self.domain,
            license: self.license,
            owner: self.owner,
            namespaced: self.namespaced,
        })?;
        let plan = workspace.plan(None, &project, self.flags.options(Conflicts::Stop))?;
        if self.flags.carry_out(&workspace, &plan, ui)? {
            ui.note("Next: opctl create api --group cache --version v1alpha1 --kind Memcached");
        }
        Ok(())
    }

    fn check(&self) -> Result<(), UserError> {
        let check =
            |flag: &str, value: &Option<String>, check: fn(&str) -> Result<(), InvalidValue>| {
                match value {
                    Some(value) => refuse_flag(flag, value, check(value)),
                    None => Ok(()),
                }
            };
        check("--domain", &self.domain, names::domain)?;
        check("--project-name", &self.project_name, names::project_name)?;
        check("--owner", &self.owner, names::owner)
    }
}

/// The project name that a folder gives.
fn name_of(directory: &Path) -> Result<String, UserError> {
    let text = directory.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let name = names::project_name_of(&text);
    match names::project_name(&name) {
        Ok(()) => Ok(name),
        Err(invalid) => Err(UserError::usage(format!(
            "the folder's name `{text}` gives no project name: {}",
            invalid.reason
        ))
        .with_hint("name the project with `--project-name`")),
    }
}
