//! `opctl create api`.

use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result};
use clap::{ArgAction, Subcommand};

use super::change::Flags;
use crate::crd::{self, Crd, CrdSelector};
use crate::error::UserError;
use crate::project::names::Module;
use crate::project::options::{RecipeOptions, flag};
use crate::project::{ApiRequest, CheckedApi, Gvk, Project, refuse_flag};
use crate::render::{TemplateSet, extra_files};
use crate::sync::{Conflicts, Workspace};
use crate::ui::Ui;

/// Add to a project
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Example:\n  opctl create api --group cache --version v1alpha1 --kind Memcached"
)]
pub enum CreateCommand {
    Api(Box<CreateApiArgs>),
}

/// Add a kind, or a version of one, with its controller
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "opctl create api --group <GROUP> --version <VERSION> --kind <KIND> [OPTIONS]\n       opctl create api --crd <FILE> [OPTIONS]"
)]
#[command(
    after_help = "Examples:\n  opctl create api --group cache --version v1alpha1 --kind Memcached\n  opctl create api --group web --version v1 --kind Shop --image registry.example.com/shop:1.0\n  opctl create api --group apps --version v1 --kind Deployment --resource=false"
)]
pub struct CreateApiArgs {
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
    fn refuse(&self) -> Result<(), UserError> {
        let flags = [
            ("--external-api-path", &self.external_api_path),
            ("--external-api-domain", &self.external_api_domain),
            ("--external-api-module", &self.external_api_module),
        ];
        match flags.iter().find(|(_, value)| value.is_some()) {
            Some((flag, _)) => Err(UserError::usage(format!("`{flag}` is for APIs in Go"))
                .with_hint("give the CRD of the kind with `--crd FILE`: its types are made of it")),
            None => Ok(()),
        }
    }
}

impl CreateApiArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        if self.list_recipes {
            return list_recipes(ui);
        }
        self.go.refuse()?;
        let directory = env::current_dir().context("cannot tell the current folder")?;
        let workspace = Workspace::open(&directory)?;
        let project = workspace.project().context("there is no PROJECT")?;
        let crd = self.crd()?;
        let mut api = project.check_api(self.request(project, crd.as_ref())?)?;
        self.choose(&mut api, project, ui)?;
        let new = project.with_api(&api)?;

        // With --force the files are written as if the API were new, so the base is a project without it.
        // Only of somebody else's CRD are the types alone to be had anew.
        let base = if api.exists() && api.request().force && crd.is_none() {
            project.without_api(api.gvk())
        } else {
            project.clone()
        };
        let extra_files = extra_files(&new, &api, crd.as_ref())?;
        let has_object = extra_files.keys().any(|path| path.starts_with("tests/objects/"));
        let options = self.flags.options(self.conflicts);
        let plan = workspace.plan_with(Some(&base), &new, extra_files, options)?;
        if self.flags.carry_out(&workspace, &plan, ui)? {
            if let Some(crd) = crd.filter(|_| has_object) {
                say_what_to_correct(&crd, ui);
            }
            say_what_is_next(&new, &api, ui);
        }
        Ok(())
    }

    /// The CRD of the file that `--crd` names.
    fn crd(&self) -> Result<Option<Crd>> {
        let Some(path) = &self.crd else { return Ok(None) };
        if self.resource == Some(true) {
            return Err(UserError::usage(
                "`--resource` is `true`, but `--crd` says that the API is somebody else's",
            )
            .with_hint("leave out `--resource`")
            .into());
        }
        let file = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| UserError::usage(format!("`--crd` is `{file}`: {error}")))?;
        let selector = CrdSelector {
            group: self.group.as_deref(),
            version: self.version.as_deref(),
            kind: self.kind.as_deref(),
        };
        Ok(Some(Crd::read(&file, &text, selector)?))
    }

    fn request(&self, project: &Project, crd: Option<&Crd>) -> Result<ApiRequest> {
        let request = ApiRequest {
            plural: self.plural.clone(),
            namespaced: self.namespaced,
            force: self.flags.force,
            ..ApiRequest::default()
        };
        if let Some(crd) = crd {
            return Ok(crd.request(request));
        }
        let request = ApiRequest { gvk: self.gvk()?, ..request };
        let Gvk { group, kind, .. } = &request.gvk;
        let has_api = project.versions(group, kind).any(|r| r.api.is_some());
        match self.resource {
            Some(false) if !has_api => Ok(request.clone().for_core_type()?.unwrap_or(request)),
            _ => Ok(request),
        }
    }

    /// The type that the flags name.
    fn gvk(&self) -> Result<Gvk> {
        // clap requires the three flags where there is no `--crd`.
        let value = |flag: &Option<String>, name: &str| {
            flag.clone().with_context(|| format!("`{name}` is missing"))
        };
        Ok(Gvk {
            group: value(&self.group, "--group")?,
            version: value(&self.version, "--version")?,
            kind: value(&self.kind, "--kind")?,
        })
    }

    /// Makes the choices of a checked request: by the flags, and by asking what they leave open.
    fn choose(&self, api: &mut CheckedApi, project: &Project, ui: Ui) -> Result<()> {
        let is_external = api.request().external.is_some();
        if is_external {
            self.refuse_recipe()?;
        } else {
            self.choose_recipe(api, project)?;
        }
        let ask =
            |answer: Option<bool>, question| answer.unwrap_or_else(|| ui.confirm(question, true));
        api.create_resource = !is_external && ask(self.resource, "Create the API?");
        api.create_controller =
            !api.has_controller() && ask(self.controller, "Create the controller?");
        Ok(())
    }

    /// Refuses the flags of recipes: an external or core type has none to choose from.
    fn refuse_recipe(&self) -> Result<(), UserError> {
        let options = self.options();
        let option = options.given().next().map(|given| (flag(given.name), given.value));
        match self.recipe.as_deref().map(|recipe| ("--recipe", recipe)).or(option) {
            None => Ok(()),
            Some((flag, value)) => Err(UserError::usage(format!(
                "`{flag}` is `{value}`, but somebody else's kind gets no recipe"
            ))
            .with_hint(format!("leave out `{flag}`"))),
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

    /// Chooses the recipe and its options. An API keeps those that it has unless the flags name others.
    fn choose_recipe(&self, api: &mut CheckedApi, project: &Project) -> Result<()> {
        let options = self.options();
        let is_requested = self.recipe.is_some() || options.given().next().is_some();
        if !is_requested && project.options(api.resource()).is_some() {
            return Ok(());
        }
        for given in options.given() {
            refuse_flag(flag(given.name), given.value, given.check())?;
        }
        let set = TemplateSet::for_version(&project.cli_version);
        let recipe = set.choose_recipe(self.recipe.as_deref(), &api.gvk().kind, &options)?;
        recipe.check_scope(self.namespaced.unwrap_or(true))?;
        api.recipe = recipe.name;
        api.options = options;
        Ok(())
    }
}

fn list_recipes(ui: Ui) -> Result<()> {
    for recipe in TemplateSet::current().recipes()? {
        ui.data(format!("{:<16} {}", recipe.name, recipe.summary));
    }
    Ok(())
}

/// What opctl could not make up for the test.
fn say_what_to_correct(crd: &Crd, ui: Ui) {
    let patterns = crd::minimal_object(crd).patterns;
    if !patterns.is_empty() {
        ui.note(format!(
            "In tests/objects, give values that match their patterns to {}",
            patterns.join(", ")
        ));
    }
}

fn say_what_is_next(project: &Project, api: &CheckedApi, ui: Ui) {
    let Gvk { group, version, kind } = api.gvk();
    let versions = || project.versions(group, kind);
    let has_controller = versions().any(|r| r.controller);
    if let Some(storage) = project.storage(group, kind).filter(|_| versions().count() > 1) {
        let controller = if has_controller { ", and its controller works with it" } else { "" };
        ui.note(format!("{kind} is stored as {}{controller}", storage.version));
    }
    let (group, kind) = (Module::of_group(group).file, Module::of_kind(kind).file);
    let is_external = api.request().external.is_some();
    ui.note(match (is_external, has_controller) {
        (false, _) => format!(
            "Next: edit src/api/{group}/{version}/{kind}.rs, then `make manifests` and `make run`"
        ),
        (true, true) => format!("Next: edit src/controller/{group}/{kind}.rs, then `make run`"),
        (true, false) => {
            format!("Next: use the types of src/api/{group}/{version}/{kind}.rs in a controller")
        }
    });
}
