//! `opctl init`.

use std::env;
use std::path::Path;

use anyhow::{Context, Result};

use super::change::Flags;
use crate::error::Refusal;
use crate::project::{License, Project, names, refuse_flag};
use crate::sync::{Conflicts, Workspace};
use crate::ui::Ui;

/// Create a project in the current folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opctl init --domain example.com")]
pub struct Args {
    /// What the API groups of the project end with
    #[arg(long, default_value = "my.domain")]
    domain: String,
    /// The name of the project [default: the folder's name]
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,
    /// The license of the project
    #[arg(long, value_enum, default_value_t)]
    license: License,
    /// Who holds the copyright [default: The <NAME> Authors]
    #[arg(long)]
    owner: Option<String>,
    /// Let the operator watch its own namespace only
    #[arg(long)]
    namespaced: bool,
    #[command(flatten)]
    flags: Flags,
}

impl Args {
    pub fn run(self, ui: Ui) -> Result<()> {
        let folder = env::current_dir().context("cannot tell the current folder")?;
        refuse_flag("--domain", &self.domain, names::domain(&self.domain))?;
        let name = match self.project_name {
            Some(name) => name,
            None => name_of(&folder)?,
        };
        refuse_flag("--project-name", &name, names::project_name(&name))?;
        if let Some(owner) = &self.owner {
            refuse_flag("--owner", owner, names::owner(owner))?;
        }
        let project = Project::new(name, self.domain, self.license, self.owner, self.namespaced);

        let workspace = Workspace::at(&folder)?;
        if workspace.project().is_some() && !self.flags.force {
            return Err(Refusal::failure("this folder holds a project already")
                .hint("add to it with `opctl create api`, or start it anew with `--force`")
                .into());
        }
        let plan = workspace.plan(None, &project, self.flags.options(Conflicts::Stop))?;
        if self.flags.carry_out(&workspace, &plan, ui)? {
            ui.note("Next: opctl create api --group cache --version v1alpha1 --kind Memcached");
        }
        Ok(())
    }
}

fn name_of(folder: &Path) -> Result<String, Refusal> {
    let text = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let name = names::project_name_of(&text);
    match names::project_name(&name) {
        Ok(()) => Ok(name),
        Err(invalid) => Err(Refusal::usage(format!(
            "the folder's name `{text}` gives no project name: {}",
            invalid.why
        ))
        .hint("name the project with `--project-name`")),
    }
}
