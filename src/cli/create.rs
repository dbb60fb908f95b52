//! `opctl create api`.

use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result};
use clap::{ArgAction, Subcommand};

use super::change::Flags;
use crate::crd::{self, Choice, Crd};
use crate::error::Refusal;
use crate::project::names::Module;
use crate::project::options::{RecipeOptions, flag};
use crate::project::{Answers, ApiRequest, FOREIGN_RECIPE, NewApi, Project, refuse_flag};
use crate::render::{Set, attach};
use crate::sync::{Conflicts, Workspace};
use crate::ui::Ui;

/// Add to a project
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Example:\n  opctl create api --group cache --version v1alpha1 --kind Memcached"
)]
pub enum Create {
    Api(Box<Api>),
}

/// Add a kind, or a version of one, with its controller
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "opctl create api --group <GROUP> --version <VERSION> --kind <KIND> [OPTIONS]\n       opctl create api --crd <FILE> [OPTIONS]"
)]
#[command(
    after_help = "Examples:\n  opctl create api --group cache --version v1alpha1 --kind Memcached\n  opctl create api --group web --version v1 --kind Shop --image registry.example.com/shop:1.0\n  opctl create api --group apps --version v1 --kind Deployment --resource=false"
)]
pub struct Api {
    /// The API group, without the project's domain
    #[arg(long, required_unless_present_any = ["crd", "list_recipes"])]
    group: Option<String>,
    /// The version, such as v1alpha1
    #[arg(long, required_unless_present_any = ["crd", "list_recipes"])]
    version: Option<String>,
    /// The kind, such as Memcached
    #[arg(long, required_unless_present_any = ["crd", "list_recipes"])]
    kind: Option<String>,
    /// The plural of the kind [default: by the rules of English]
    #[arg(long)]
    plural: Option<String>,
    /// Whether objects live in namespaces [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    namespaced: Option<bool>,
    /// Create the API; false for the controller alone, also of a kind of Kubernetes [default: ask on a terminal, else true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    resource: Option<bool>,
    /// Create the controller [default: ask on a terminal, else true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    controller: Option<bool>,
    /// Somebody else's CRD: watch the kind that it defines instead of defining one
    #[arg(long, value_name = "FILE")]
    crd: Option<PathBuf>,
    #[command(flatten)]
    go: GoFlags,
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

/// kubebuilder's flags for a kind that is somebody else's. They name Go packages.
#[derive(Debug, clap::Args)]
struct GoFlags {
    #[arg(long, hide = true, value_name = "PATH")]
    external_api_path: Option<String>,
    #[arg(long, hide = true, value_name = "DOMAIN")]
    external_api_domain: Option<String>,
    #[arg(long, hide = true, value_name = "MODULE")]
    external_api_module: Option<String>,
}

impl GoFlags {
    /// Says what to use instead.
    fn refuse(&self) -> Result<(), Refusal> {
        let flags = [
            ("--external-api-path", &self.external_api_path),
            ("--external-api-domain", &self.external_api_domain),
            ("--external-api-module", &self.external_api_module),
        ];
        match flags.iter().find(|(_, value)| value.is_some()) {
            Some((flag, _)) => Err(Refusal::usage(format!("`{flag}` is for APIs in Go"))
                .hint("give the CRD of the kind with `--crd FILE`: its types are made of it")),
            None => Ok(()),
        }
    }
}

impl Api {
    pub fn run(self, ui: Ui) -> Result<()> {
        if self.list_recipes {
            return list_recipes(ui);
        }
        self.go.refuse()?;
        let folder = env::current_dir().context("cannot tell the current folder")?;
        let workspace = Workspace::open(&folder)?;
        let project = workspace.project().context("there is no PROJECT")?;
        let crd = self.crd()?;
        let request = self.request(project, crd.as_ref())?;
        let new = project.check_api(&request)?;
        let answers = self.answers(&request, &new, project, ui)?;
        let with = project.with_api(&new, &request, &answers)?;

        // With --force the files are written as if the API were new, so the base is a project without it.
        // Only of somebody else's CRD are the types alone to be had anew.
        let base = if new.exists() && request.force && crd.is_none() {
            project.without_api(&request)
        } else {
            project.clone()
        };
        let attached = attach::files(&with, &request, crd.as_ref(), new.has_controller())?;
        let has_object = attached.keys().any(|path| path.starts_with("tests/objects/"));
        let options = self.flags.options(self.conflicts);
        let plan = workspace.plan_with(Some(&base), &with, attached, options)?;
        if self.flags.carry_out(&workspace, &plan, ui)? {
            if let Some(crd) = crd.filter(|_| has_object) {
                say_what_to_correct(&crd, ui);
            }
            say_what_is_next(&with, &request, ui);
        }
        Ok(())
    }

    /// The CRD of the file that `--crd` names.
    fn crd(&self) -> Result<Option<Crd>> {
        let Some(path) = &self.crd else { return Ok(None) };
        if self.resource == Some(true) {
            return Err(Refusal::usage(
                "`--resource` is `true`, but `--crd` says that the API is somebody else's",
            )
            .hint("leave out `--resource`")
            .into());
        }
        let file = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| Refusal::usage(format!("`--crd` is `{file}`: {error}")))?;
        let choice = Choice {
            group: self.group.as_deref(),
            version: self.version.as_deref(),
            kind: self.kind.as_deref(),
        };
        Ok(Some(Crd::read(&file, &text, choice)?))
    }

    fn request(&self, project: &Project, crd: Option<&Crd>) -> Result<ApiRequest> {
        let request = ApiRequest {
            group: self.group.clone().unwrap_or_default(),
            version: self.version.clone().unwrap_or_default(),
            kind: self.kind.clone().unwrap_or_default(),
            plural: self.plural.clone(),
            namespaced: self.namespaced,
            force: self.flags.force,
            foreign: None,
        };
        if let Some(crd) = crd {
            return Ok(crd.request(request));
        }
        let is_own = project.versions(&request.group, &request.kind).any(|r| r.api.is_some());
        match self.resource {
            Some(false) if !is_own => Ok(request.clone().of_builtin()?.unwrap_or(request)),
            _ => Ok(request),
        }
    }

    /// Asks what the flags leave open.
    fn answers(
        &self,
        request: &ApiRequest,
        new: &NewApi,
        project: &Project,
        ui: Ui,
    ) -> Result<Answers> {
        let is_foreign = request.foreign.is_some();
        let (recipe, options) = match is_foreign {
            true => self.no_recipe()?,
            false => self.recipe(new, project)?,
        };
        let ask =
            |answer: Option<bool>, question| answer.unwrap_or_else(|| ui.confirm(question, true));
        let resource = !is_foreign && ask(self.resource, "Create the API?");
        let controller = !new.has_controller() && ask(self.controller, "Create the controller?");
        Ok(Answers { resource, controller, recipe, options })
    }

    /// Somebody else's kind gets none of the recipes that one can ask for.
    fn no_recipe(&self) -> Result<(String, RecipeOptions)> {
        let options = self.options();
        let option = options.given().next().map(|given| (flag(given.name), given.value));
        match self.recipe.as_deref().map(|recipe| ("--recipe", recipe)).or(option) {
            None => Ok((FOREIGN_RECIPE.to_owned(), RecipeOptions::default())),
            Some((flag, value)) => Err(Refusal::usage(format!(
                "`{flag}` is `{value}`, but somebody else's kind gets no recipe"
            ))
            .hint(format!("leave out `{flag}`"))
            .into()),
        }
    }

    fn options(&self) -> RecipeOptions {
        RecipeOptions {
            container_command: self.image_container_command.clone(),
            container_port: self.image_container_port.clone(),
            image: self.image.clone(),
            run_as_user: self.run_as_user.clone(),
            ..RecipeOptions::default()
        }
    }

    /// The recipe and what is told to it. A resource keeps those that it has unless others are asked for.
    fn recipe(&self, new: &NewApi, project: &Project) -> Result<(String, RecipeOptions)> {
        let options = self.options();
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

/// What opctl could not make up for the test.
fn say_what_to_correct(crd: &Crd, ui: Ui) {
    let patterns = crd::least(crd).patterns;
    if !patterns.is_empty() {
        ui.note(format!(
            "In tests/objects, give values that match their patterns to {}",
            patterns.join(", ")
        ));
    }
}

fn say_what_is_next(project: &Project, request: &ApiRequest, ui: Ui) {
    let ApiRequest { group, version, kind, .. } = request;
    let of_kind = || project.versions(group, kind);
    if let Some(storage) = project.storage(group, kind).filter(|_| of_kind().count() > 1) {
        let controller =
            if of_kind().any(|r| r.controller) { ", and its controller works with it" } else { "" };
        ui.note(format!("{kind} is stored as {}{controller}", storage.version));
    }
    let with_controller = of_kind().any(|r| r.controller);
    let (group, kind) = (Module::of_group(group).file, Module::of_kind(kind).file);
    ui.note(match request.foreign {
        None => format!(
            "Next: edit src/api/{group}/{version}/{kind}.rs, then `make manifests` and `make run`"
        ),
        Some(_) if with_controller => {
            format!("Next: edit src/controller/{group}/{kind}.rs, then `make run`")
        }
        Some(_) => {
            format!("Next: use the types of src/api/{group}/{version}/{kind}.rs in a controller")
        }
    });
}
