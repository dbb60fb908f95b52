//! `opctl create api`.

use std::env;

use anyhow::{Context, Result};
use clap::{ArgAction, Subcommand};

use super::change::Flags;
use crate::project::names::Module;
use crate::project::options::{RecipeOptions, flag};
use crate::project::{Answers, ApiRequest, NewApi, Project, refuse_flag};
use crate::render::Set;
use crate::sync::{Conflicts, Workspace};
use crate::ui::Ui;

/// Add to a project
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Example:\n  opctl create api --group cache --version v1alpha1 --kind Memcached"
)]
pub enum Create {
    Api(Api),
}

/// Add a kind, or a version of one, with its controller
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "opctl create api --group <GROUP> --version <VERSION> --kind <KIND> [OPTIONS]"
)]
#[command(
    after_help = "Examples:\n  opctl create api --group cache --version v1alpha1 --kind Memcached\n  opctl create api --group web --version v1 --kind Shop --image registry.example.com/shop:1.0"
)]
pub struct Api {
    /// The API group, without the project's domain
    #[arg(long, required_unless_present = "list_recipes")]
    group: Option<String>,
    /// The version, such as v1alpha1
    #[arg(long, required_unless_present = "list_recipes")]
    version: Option<String>,
    /// The kind, such as Memcached
    #[arg(long, required_unless_present = "list_recipes")]
    kind: Option<String>,
    /// The plural of the kind [default: by the rules of English]
    #[arg(long)]
    plural: Option<String>,
    /// Whether objects live in namespaces [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    namespaced: Option<bool>,
    /// Create the API [default: ask on a terminal, else true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    resource: Option<bool>,
    /// Create the controller [default: ask on a terminal, else true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    controller: Option<bool>,
    /// What to make of the kind [default: the recipe that knows the kind, else none]
    #[arg(long, value_name = "NAME")]
    recipe: Option<String>,
    /// The image that the kind runs [picks the recipe that is for one]
    #[arg(long)]
    image: Option<String>,
    /// What to run in it: the program and its arguments, with commas between them [default: the image's own]
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    image_container_command: Option<String>,
    /// The port that it listens on
    #[arg(long, value_name = "PORT")]
    image_container_port: Option<String>,
    /// The id of the user that it runs as [default: the image's own]
    #[arg(long, value_name = "ID")]
    run_as_user: Option<String>,
    /// Print the recipes
    #[arg(long)]
    list_recipes: bool,
    /// What to do where your edits and the change conflict
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    conflicts: Conflicts,
    #[command(flatten)]
    flags: Flags,
}

impl Api {
    pub fn run(self, ui: Ui) -> Result<()> {
        if self.list_recipes {
            return list_recipes(ui);
        }
        let folder = env::current_dir().context("cannot tell the current folder")?;
        let workspace = Workspace::open(&folder)?;
        let project = workspace.project().context("there is no PROJECT")?;
        let request = self.request();
        let new = project.check_api(&request)?;
        let answers = self.answers(&new, project, ui)?;
        let with = project.with_api(&new, &request, &answers)?;

        // With --force the files are written as if the API were new, so the base is a project without it.
        let base = if new.exists() && request.force {
            project.without_api(&request)
        } else {
            project.clone()
        };
        let plan = workspace.plan(Some(&base), &with, self.flags.options(self.conflicts))?;
        if self.flags.carry_out(&workspace, &plan, ui)? {
            say_what_is_next(&with, &request, ui);
        }
        Ok(())
    }

    fn request(&self) -> ApiRequest {
        ApiRequest {
            group: self.group.clone().unwrap_or_default(),
            version: self.version.clone().unwrap_or_default(),
            kind: self.kind.clone().unwrap_or_default(),
            plural: self.plural.clone(),
            namespaced: self.namespaced,
            force: self.flags.force,
        }
    }

    /// Asks what the flags leave open.
    fn answers(&self, new: &NewApi, project: &Project, ui: Ui) -> Result<Answers> {
        let (recipe, options) = self.recipe(new, project)?;
        let resource = self.resource.unwrap_or_else(|| ui.confirm("Create the API?", true));
        let controller = match self.controller {
            _ if new.has_controller() => false,
            Some(answer) => answer,
            None => ui.confirm("Create the controller?", true),
        };
        Ok(Answers { resource, controller, recipe, options })
    }

    /// The recipe and what is told to it. A resource keeps those that it has unless others are asked for.
    fn recipe(&self, new: &NewApi, project: &Project) -> Result<(String, RecipeOptions)> {
        let options = RecipeOptions {
            container_command: self.image_container_command.clone(),
            container_port: self.image_container_port.clone(),
            image: self.image.clone(),
            run_as_user: self.run_as_user.clone(),
            ..RecipeOptions::default()
        };
        let is_asked_for = self.recipe.is_some() || options.given().next().is_some();
        if let Some(options) = project.options(new.resource()).filter(|_| !is_asked_for) {
            return Ok((project.recipe(new.resource()).to_owned(), options.clone()));
        }
        for given in options.given() {
            refuse_flag(flag(given.name), given.value, given.check())?;
        }
        let set = Set::of(&project.cli_version);
        let kind = self.kind.as_deref().unwrap_or_default();
        let recipe = set.choose_recipe(self.recipe.as_deref(), kind, &options)?;
        recipe.check_scope(self.namespaced.unwrap_or(true))?;
        Ok((recipe.name, options))
    }
}

fn list_recipes(ui: Ui) -> Result<()> {
    for recipe in Set::current().recipes()? {
        ui.data(format!("{:<16} {}", recipe.name, recipe.summary));
    }
    Ok(())
}

fn say_what_is_next(project: &Project, request: &ApiRequest, ui: Ui) {
    let ApiRequest { group, version, kind, .. } = request;
    let of_kind = || project.versions(group, kind);
    if let Some(storage) = project.storage(group, kind).filter(|_| of_kind().count() > 1) {
        let controller =
            if of_kind().any(|r| r.controller) { ", and its controller works with it" } else { "" };
        ui.note(format!("{kind} is stored as {}{controller}", storage.version));
    }
    let (group, kind) = (Module::of_group(group).file, Module::of_kind(kind).file);
    ui.note(format!(
        "Next: edit src/api/{group}/{version}/{kind}.rs, then `make manifests` and `make run`"
    ));
}
