//! `opctl init`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::change::Flags;
use crate::error::UserError;
use crate::migrate::Source;
use crate::project::{License, Project, Settings, check_value, names};
use crate::sync::Workspace;
use crate::ui::Ui;

/// Scaffold a project in the current directory
///
/// In a directory that contains a project, the flags change its settings. The project keeps its APIs, your
/// edits, and every setting that no flag changes. Where PROJECT was lost, it is made again from the other files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opctl init --domain example.com")]
pub struct InitArgs {
    /// Domain of the API groups [default: my.domain]
    #[arg(long)]
    domain: Option<String>,
    /// Name of the project [default: name of the directory]
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,
    /// License of the project [default: apache2]
    #[arg(long, value_enum)]
    license: Option<License>,
    /// Copyright holder [default: The <NAME> Authors]
    #[arg(long)]
    owner: Option<String>,
    /// Restrict the operator to its own namespace
    #[arg(long)]
    namespaced: bool,
    /// Make the project of a Go project of kubebuilder or operator-sdk, which is only read
    ///
    /// Its settings, kinds, types, samples and RBAC markers are carried over. MIGRATION.md lists what has become of
    /// each file, and what is left to do. The other flags win over its settings. For example:
    /// `opctl init --from ../memcached-operator`
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

impl InitArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        self.check()?;
        let directory = super::directory()?;
        let workspace = Workspace::at(&directory)?;
        if !self.flags.force() && self.from.is_none() && workspace.has_lost_project()? {
            let name = default_name(&directory).unwrap_or_else(|_| "operator".to_owned());
            return super::adopt::run(&workspace, &self.settings(), &name, &self.flags, ui);
        }
        let old = workspace.project();
        if let Some(from) = &self.from {
            return self.migrate(from, &directory, &workspace, ui);
        }
        let base = match (old, &self.project_name) {
            (Some(project), _) if self.flags.force() || self.has_settings() => project.clone(),
            (Some(_), _) => {
                return Err(UserError::failure("the directory already contains a project")
                    .with_hint("add an API with `opctl create api`, or change a setting, such as `--owner`")
                    .into());
            }
            (None, Some(name)) => Project::new(name.clone()),
            (None, None) => Project::new(default_name(&directory)?),
        };
        let project = base.with_settings(self.settings())?;
        if old.is_none() {
            warn_of_parent(&workspace, ui);
        }
        let plan = |options: &_| workspace.plan(old, &project, options);
        if self.flags.apply(&workspace, plan, ui)? && old.is_none() {
            ui.note("Next: opctl create api --group cache --version v1alpha1 --kind Memcached");
        }
        Ok(())
    }

    /// Makes the project of a Go project.
    fn migrate(&self, from: &Path, directory: &Path, workspace: &Workspace, ui: Ui) -> Result<()> {
        if workspace.project().is_some() || workspace.has_lost_project()? {
            return Err(UserError::failure("the directory already contains a project")
                .with_hint("run the command in a new directory")
                .into());
        }
        let source = Source::open(from, directory)?;
        let name = self.project_name.clone().unwrap_or_else(|| source.name());
        check_value("--project-name <NAME>", &name, names::project_name)?;
        let base = Project::new(name).with_settings(source.settings(self.settings()))?;
        let migration = source.migrate(&base)?;
        warn_of_parent(workspace, ui);
        let plan = |options: &_| {
            workspace.plan_with(None, &migration.project, migration.files.clone(), options)
        };
        if self.flags.apply(workspace, plan, ui)? {
            match migration.to_do.len() {
                0 => {}
                1 => ui.warning(format!("not carried over: {}", migration.to_do[0])),
                count => {
                    ui.warning(format!("{count} things are not carried over: see MIGRATION.md"))
                }
            }
            ui.note("Next: read MIGRATION.md, then `make manifests` and `make test`");
        }
        Ok(())
    }

    fn settings(&self) -> Settings {
        Settings {
            name: self.project_name.clone(),
            domain: self.domain.clone(),
            license: self.license,
            owner: self.owner.clone(),
            namespaced: self.namespaced.then_some(true),
            ..Settings::default()
        }
    }

    fn has_settings(&self) -> bool {
        self.domain.is_some()
            || self.project_name.is_some()
            || self.license.is_some()
            || self.owner.is_some()
            || self.namespaced
    }

    fn check(&self) -> Result<(), UserError> {
        if let Some(domain) = &self.domain {
            check_value("--domain <DOMAIN>", domain, names::domain)?;
        }
        if let Some(name) = &self.project_name {
            check_value("--project-name <NAME>", name, names::project_name)?;
        }
        if let Some(owner) = &self.owner {
            check_value("--owner <OWNER>", owner, names::owner)?;
        }
        Ok(())
    }
}

fn warn_of_parent(workspace: &Workspace, ui: Ui) {
    if let Some(parent) = workspace.parent_project() {
        ui.warning(format!("the directory is in another project: {}", parent.display()));
    }
}

/// The default project name: the valid one that is nearest to the directory's name.
fn default_name(directory: &Path) -> Result<String, UserError> {
    let text = directory.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let name = names::project_name_of(&text);
    match names::project_name(&name) {
        Ok(()) => Ok(name),
        Err(invalid) => Err(UserError::usage(format!(
            "cannot derive a project name from the directory name '{text}': a project name {}",
            invalid.reason
        ))
        .with_hint("set the name with `--project-name`")),
    }
}
