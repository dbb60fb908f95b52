//! `opctl create api`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{ArgAction, Subcommand};

use super::change::Flags;
use crate::crd::{self, Crd, CrdSelector, OwnKind};
use crate::error::UserError;
use crate::project::names::Module;
use crate::project::options::{RecipeOptions, argument};
use crate::project::{ApiRequest, CheckedApi, Gvk, NO_RECIPE, Project, check_value, flag_of};
use crate::render::{TemplateSet, extra_files, own_files};
use crate::sync::Workspace;
use crate::ui::Ui;

/// Scaffold a part of a project
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Example:\n  opctl create api --group cache --version v1alpha1 --kind Memcached"
)]
pub enum CreateCommand {
    Api(Box<CreateApiArgs>),
}

/// Scaffold an API and its controller
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "opctl create api --group <GROUP> --version <VERSION> --kind <KIND> [OPTIONS]\n       opctl create api --crd <FILE> [OPTIONS]"
)]
#[command(
    after_help = "Examples:\n  opctl create api --group cache --version v1alpha1 --kind Memcached\n  opctl create api --group web --version v1 --kind Shop --image registry.example.com/shop:1.0\n  opctl create api --group apps --version v1 --kind Deployment --resource=false"
)]
pub struct CreateApiArgs {
    /// API group, without the project's domain
    #[arg(long, required_unless_present_any = ["crd", "list_recipes"])]
    group: Option<String>,
    /// API version, such as v1alpha1
    #[arg(long, required_unless_present_any = ["crd", "list_recipes"])]
    version: Option<String>,
    /// Kind of the resource, such as Memcached
    #[arg(long, required_unless_present_any = ["crd", "list_recipes"])]
    kind: Option<String>,
    /// Plural name of the resource [default: English plural of the kind]
    #[arg(long)]
    plural: Option<String>,
    /// Rust module of the group [default: that of the group's name or, if another group has it, of its full name]
    #[arg(long, value_name = "NAME")]
    module: Option<String>,
    /// Create a namespaced resource [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    namespaced: Option<bool>,
    /// Create the resource; `false` creates only a controller, also for a core type [default: prompt on a terminal, else true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    resource: Option<bool>,
    /// Create the controller [default: prompt on a terminal, else true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    controller: Option<bool>,
    /// Use the external type that this CRD defines instead of creating a resource; `-` reads it from stdin
    #[arg(long, value_name = "FILE")]
    crd: Option<PathBuf>,
    /// Create the resource that `--crd` defines, with all its served versions
    ///
    /// Its types in Rust are written from the schema. For example: `opctl create api --crd crd.yaml --own`
    #[arg(long, requires = "crd")]
    own: bool,
    #[command(flatten)]
    go: GoFlags,
    /// Recipe to scaffold the API from [default: the recipe for the kind, else none]
    #[arg(long, value_name = "NAME")]
    recipe: Option<String>,
    /// Container image to deploy; implies `--recipe image`
    #[arg(long)]
    image: Option<String>,
    /// Command of the container and its arguments, separated by commas [default: the image's entrypoint]
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    image_container_command: Option<String>,
    /// Port that the container listens on
    #[arg(long, value_name = "PORT")]
    image_container_port: Option<String>,
    /// User ID that the container runs as [default: the image's user]
    #[arg(long, value_name = "ID")]
    run_as_user: Option<String>,
    /// List the recipes
    #[arg(long)]
    list_recipes: bool,
    #[command(flatten)]
    flags: Flags,
}

/// kubebuilder's flags for external types, which name Go packages.
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
    /// Refuses the flags, with a hint to their replacement.
    fn refuse(&self) -> Result<(), UserError> {
        let flags = [
            ("--external-api-path", &self.external_api_path),
            ("--external-api-domain", &self.external_api_domain),
            ("--external-api-module", &self.external_api_module),
        ];
        match flags.iter().find(|(_, value)| value.is_some()) {
            Some((flag, _)) => Err(UserError::usage(format!(
                "unsupported argument '{flag}': it is for Go projects"
            ))
            .with_hint("use `--crd FILE`: opctl generates the Rust types from the CRD")),
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
        let directory = super::directory()?;
        let workspace = Workspace::open(&directory)?;
        let project = super::model(&workspace)?;
        if self.own {
            return self.create_own(&workspace, project, ui);
        }
        let crd = self.crd()?;
        let mut api = project.check_api(self.request(project, crd.as_ref())?)?;
        self.choose(&mut api, project, ui)?;
        let new = project.with_api(&api)?;

        // With --force the files are written as if the API were new, so the base is a project without it.
        // For a CRD, --force regenerates only the types: the base stays.
        let base = if api.exists() && api.request().force && crd.is_none() {
            project.without_api(api.resource())
        } else {
            project.clone()
        };
        let extra_files = extra_files(&new, &api, crd.as_ref())?;
        let has_object = extra_files.keys().any(|path| path.starts_with("tests/objects/"));
        let plan =
            |options: &_| workspace.plan_with(Some(&base), &new, extra_files.clone(), options);
        if self.flags.apply(&workspace, plan, ui)? {
            if let Some(crd) = crd.filter(|_| has_object) {
                print_missing_values(&crd, ui)?;
            }
            print_next_steps(&new, &api, ui);
        }
        Ok(())
    }

    /// The CRD of the file that `--crd` names.
    fn crd(&self) -> Result<Option<Crd>> {
        let Some(path) = &self.crd else { return Ok(None) };
        if self.resource == Some(true) {
            return Err(UserError::invalid_value(
                "--resource[=<BOOL>]",
                true,
                "the CRD of `--crd` already defines the resource",
            )
            .with_hint("omit `--resource`")
            .into());
        }
        Ok(Some(Crd::open(path, self.selector())?))
    }

    fn selector(&self) -> CrdSelector<'_> {
        CrdSelector {
            group: self.group.as_deref(),
            version: self.version.as_deref(),
            kind: self.kind.as_deref(),
        }
    }

    /// Creates the kind that a CRD has defined so far.
    fn create_own(&self, workspace: &Workspace, project: &Project, ui: Ui) -> Result<()> {
        self.refuse_own_flags()?;
        let path = self.crd.as_deref().context("missing argument `--crd`")?;
        let kind = OwnKind::open(path, self.selector())?;
        let controller =
            self.controller.unwrap_or_else(|| ui.confirm("Create the controller?", true));
        let versions = kind.versions(&project.domain, &self.given())?;
        let new = project.with_own_kind(&versions, controller)?;
        let mut base = project.clone();
        if self.flags.force() {
            for api in &versions {
                if let Some(resource) = project.resource(&api.gvk) {
                    base = base.without_api(resource);
                }
            }
        }
        let files = own_files(&new, &kind, &BTreeMap::new())?;
        let plan = |options: &_| workspace.plan_with(Some(&base), &new, files.clone(), options);
        if self.flags.apply(workspace, plan, ui)? {
            for note in &kind.notes {
                ui.warning(format!("not carried over: {note}"));
            }
            ui.note("Next: check the types with `make manifests` and `git diff config/crd`");
        }
        Ok(())
    }

    /// Refuses the flags that contradict `--own`.
    fn refuse_own_flags(&self) -> Result<(), UserError> {
        if self.resource == Some(false) {
            let reason = "`--own` creates the resource";
            return Err(UserError::invalid_value("--resource[=<BOOL>]", false, reason)
                .with_hint("omit `--own` to use the kind as an external type"));
        }
        match self.recipe.as_deref() {
            None | Some(NO_RECIPE) => {}
            Some(recipe) => {
                let reason = "the types are made from the CRD";
                return Err(UserError::invalid_value("--recipe <NAME>", recipe, reason)
                    .with_hint("omit `--recipe`"));
            }
        }
        let options = self.options();
        match options.given().next() {
            None => Ok(()),
            Some(given) => {
                let argument = argument(given.name);
                let reason = "the types are made from the CRD";
                Err(UserError::invalid_value(argument, given.value, reason)
                    .with_hint(format!("omit `{}`", flag_of(argument))))
            }
        }
    }

    /// What the flags say of the API, whatever defines its type.
    fn given(&self) -> ApiRequest {
        ApiRequest {
            plural: self.plural.clone(),
            namespaced: self.namespaced,
            force: self.flags.force(),
            module: self.module.clone(),
            ..ApiRequest::default()
        }
    }

    fn request(&self, project: &Project, crd: Option<&Crd>) -> Result<ApiRequest> {
        let request = self.given();
        if let Some(crd) = crd {
            return Ok(crd.request(request));
        }
        let request = ApiRequest { gvk: self.gvk()?, ..request };
        let Gvk { group, kind, .. } = &request.gvk;
        let has_api = project.versions(group, kind).next().is_some();
        match self.resource {
            Some(false) if !has_api => Ok(request.clone().for_core_type()?.unwrap_or(request)),
            _ => Ok(request),
        }
    }

    /// The type that the flags name.
    fn gvk(&self) -> Result<Gvk> {
        // clap requires the three flags where there is no `--crd`.
        let required = |value: &Option<String>, name: &str| {
            value.clone().with_context(|| format!("missing argument `{name}`"))
        };
        Ok(Gvk {
            group: required(&self.group, "--group")?,
            version: required(&self.version, "--version")?,
            kind: required(&self.kind, "--kind")?,
        })
    }

    /// Makes the choices that remain in a checked request: by flags, or by prompts.
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

    /// Refuses the flags of recipes, which external and core types do not have.
    fn refuse_recipe(&self) -> Result<(), UserError> {
        let options = self.options();
        let option = options.given().next().map(|given| (argument(given.name), given.value));
        match self.recipe.as_deref().map(|recipe| ("--recipe <NAME>", recipe)).or(option) {
            None => Ok(()),
            Some((argument, value)) => Err(UserError::invalid_value(
                argument,
                value,
                "external and core types have no recipes",
            )
            .with_hint(format!("omit `{}`", flag_of(argument)))),
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
            check_value(argument(given.name), given.value, given.check)?;
        }
        let set = TemplateSet::current();
        let recipe = set.choose_recipe(self.recipe.as_deref(), &api.gvk().kind, &options)?;
        recipe.check_scope(self.namespaced.unwrap_or(true))?;
        api.recipe = recipe.name;
        api.options = options;
        Ok(())
    }
}

fn list_recipes(ui: Ui) -> Result<()> {
    for recipe in TemplateSet::current().recipes()? {
        ui.data(format!("{:<16} {}", recipe.name, recipe.summary))?;
    }
    Ok(())
}

/// Prints the fields of the test's object that opctl could not fill in.
fn print_missing_values(crd: &Crd, ui: Ui) -> Result<(), UserError> {
    let incomplete = crd::minimal_object(crd)?.incomplete;
    if !incomplete.is_empty() {
        ui.note(format!(
            "Set values that the CRD accepts in tests/objects: {}",
            incomplete.join(", ")
        ));
    }
    Ok(())
}

fn print_next_steps(project: &Project, api: &CheckedApi, ui: Ui) {
    let Gvk { group, version, kind } = api.gvk();
    let versions = || project.resources.iter().filter(|r| r.is_same_kind(api.resource()));
    let has_controller = versions().any(|r| r.controller);
    if let Some(storage) = project
        .storage(group, kind)
        .filter(|s| s.is_same_kind(api.resource()) && versions().count() > 1)
    {
        let controller = if has_controller { "; the controller uses it" } else { "" };
        ui.note(format!("The storage version of {kind} is {}{controller}", storage.version));
    }
    let (group, kind) = (project.module(api.resource()).file, Module::of_kind(kind).file);
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
