//! `opctl create api`.

use std::env;

use anyhow::{Context, Result};
use clap::{ArgAction, Subcommand};

use super::change::Flags;
use crate::error::Refusal;
use crate::project::{Answers, ApiRequest};
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
    after_help = "Example:\n  opctl create api --group cache --version v1alpha1 --kind Memcached"
)]
pub struct Api {
    /// The API group, without the project's domain
    #[arg(long, required_unless_present = "list_recipes", default_value = "")]
    group: String,
    /// The version, such as v1alpha1
    #[arg(long, required_unless_present = "list_recipes", default_value = "")]
    version: String,
    /// The kind, such as Memcached
    #[arg(long, required_unless_present = "list_recipes", default_value = "")]
    kind: String,
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
            for recipe in Set::current().recipes()? {
                ui.data(format!("{:<16} {}", recipe.name, recipe.summary));
            }
            return Ok(());
        }
        let folder = env::current_dir().context("cannot tell the current folder")?;
        let workspace = Workspace::open(&folder)?;
        let project = workspace.project().context("no PROJECT")?;
        let request = ApiRequest {
            group: self.group,
            version: self.version,
            kind: self.kind,
            plural: self.plural,
            namespaced: self.namespaced,
            force: self.flags.force,
        };
        let new = project.check_api(&request)?;
        let set = Set::of(&project.cli_version)?;
        let recipe = match self.recipe {
            Some(name) => known_recipe(set, name)?,
            None => set.default_recipe(&request.kind)?,
        };
        let answers = Answers {
            resource: self.resource.unwrap_or_else(|| ui.confirm("Create the API?", true)),
            controller: match self.controller {
                None if new.has_controller() => false,
                None => ui.confirm("Create the controller?", true),
                Some(answer) => answer,
            },
            recipe,
        };
        let with = project.with_api(&new, &request, &answers)?;
        let base = if new.exists() && request.force {
            project.without_api(&request)
        } else {
            project.clone()
        };
        let plan = workspace.plan(Some(&base), &with, self.flags.options(self.conflicts))?;
        if self.flags.carry_out(&workspace, &plan, ui)? {
            ui.note("Next: make manifests");
        }
        Ok(())
    }
}

fn known_recipe(set: &Set, name: String) -> Result<String> {
    let known: Vec<String> = set.recipes()?.into_iter().map(|recipe| recipe.name).collect();
    match known.contains(&name) {
        true => Ok(name),
        false => Err(Refusal::usage(format!("`--recipe` is `{name}`: there is no such recipe"))
            .hint(format!("use one of {}", known.join(", ")))
            .into()),
    }
}
