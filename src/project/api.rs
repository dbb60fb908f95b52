//! Adds an API of the project to a model.

use serde_yaml::Mapping;

use super::names::{self, InvalidValue};
use super::options::RecipeOptions;
use super::version::ApiVersion;
use super::{Api, CRD_RECIPE, ExternalType, Gvk, Project, RecipeChoice, Resource, plural};
use crate::error::UserError;

/// The arguments of `create api`, as clap displays them.
pub(super) const GROUP: &str = "--group <GROUP>";
pub(super) const VERSION: &str = "--version <VERSION>";
pub(super) const KIND: &str = "--kind <KIND>";
/// The argument for the plural of a resource, as clap displays it.
pub const PLURAL: &str = "--plural <PLURAL>";
pub(super) const RESOURCE: &str = "--resource[=<BOOL>]";
/// The argument for the scope of a resource, as clap displays it.
pub const NAMESPACED: &str = "--namespaced[=<BOOL>]";

/// A request to add an API, its controller, or both to a project. Nothing in it is checked.
#[derive(Debug, Clone, Default)]
pub struct ApiRequest {
    /// The requested type.
    pub gvk: Gvk,
    /// The plural, if not the default one.
    pub plural: Option<String>,
    /// Whether the resource is namespaced; by default as in the kind's other versions, else yes.
    pub namespaced: Option<bool>,
    /// Whether an API that exists is created again instead of being an error.
    pub force: bool,
    /// The Rust module of the group, if not the default one. A group that the project has keeps its module.
    pub module: Option<String>,
    /// The type's definition, if the project does not define the type itself.
    pub external: Option<ExternalType>,
}

/// An [`ApiRequest`] that passed every check against a project. The public fields are the choices
/// that remain; [`Project::check_api`] sets their defaults.
#[derive(Debug, Clone)]
pub struct CheckedApi {
    pub(super) request: ApiRequest,
    pub(super) resource: Resource,
    pub(super) exists: bool,
    pub(super) has_controller: bool,
    /// Whether to create the API. By default it is created, unless the type is external.
    pub create_resource: bool,
    /// Whether to create the controller. By default it is created.
    pub create_controller: bool,
    /// The recipe. By default the one that the API has, else the empty one.
    pub recipe: String,
    /// The options of the recipe. By default those that the API has.
    pub options: RecipeOptions,
    /// Whether to store the version though it is not the lowest one.
    pub storage: bool,
}

impl CheckedApi {
    /// The request that was checked.
    pub fn request(&self) -> &ApiRequest {
        &self.request
    }

    /// The type of the request.
    pub fn gvk(&self) -> &Gvk {
        &self.request.gvk
    }

    /// Whether the kind had a controller before the request, in this version or another.
    pub fn has_controller(&self) -> bool {
        self.has_controller
    }

    /// Whether the API existed before the request.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// The resource as the model will hold it, except for the controller.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }
}

impl Project {
    /// Checks everything in a request that does not depend on further choices.
    ///
    /// # Errors
    /// If a name is invalid, if the API conflicts with another one of the project, or if the request
    /// contradicts the type's definition.
    pub fn check_api(&self, request: ApiRequest) -> Result<CheckedApi, UserError> {
        if let Some(external) = request.external.clone() {
            return self.check_external(request, &external);
        }
        let Gvk { group, version, kind } = &request.gvk;
        check_value(GROUP, group, names::group)?;
        check_value(GROUP, group, |group| names::api_group(group, &self.domain))?;
        check_value(VERSION, version, |version| ApiVersion::parse(version).map(drop))?;
        check_value(KIND, kind, names::kind)?;
        if let Some(plural) = &request.plural {
            check_value(PLURAL, plural, names::plural)?;
        }

        let api_group = format!("{group}.{}", self.domain);
        let is_external = |r: &&Resource| {
            r.is_external_or_core() && r.api_group() == api_group && r.kind == *kind
        };
        if let Some(external) = self.resources.iter().find(is_external) {
            return Err(UserError::failure(format!(
                "{} is already in the project, as an external or core type",
                external.gvk()
            ))
            .with_hint("use another group or kind"));
        }
        let sibling = self.versions(group, kind).next();
        let plural = self.plural_of(&request, sibling)?;
        let namespaced = self.scope_of(&request, sibling)?;
        let existing = self.resource(&request.gvk);
        let api = Api { crd_version: "v1".to_owned(), namespaced, unknown: Mapping::new() };
        let resource = match existing.cloned() {
            Some(existing) => Resource { api: existing.api.or(Some(api)), ..existing },
            None => Resource {
                api: Some(api),
                controller: false,
                core: false,
                domain: self.domain.clone(),
                external: false,
                group: group.clone(),
                kind: kind.clone(),
                namespaced: false,
                plural: (plural != plural::regular(kind)).then_some(plural),
                version: version.clone(),
                unknown: Mapping::new(),
            },
        };
        if existing.is_none() {
            let mut project = self.clone();
            project.assign_module(&resource, request.module.as_deref())?;
            project.resources.push(resource.clone());
            project.check_claims()?;
        }
        let has_controller = self.versions(group, kind).any(|r| r.controller);
        Ok(CheckedApi {
            exists: existing.is_some_and(|r| r.api.is_some()),
            has_controller,
            create_resource: true,
            create_controller: true,
            recipe: self.recipe(&resource).to_owned(),
            options: self.options(&resource).cloned().unwrap_or_default(),
            storage: self.recipe_choice(&resource).is_some_and(|choice| choice.storage),
            resource,
            request,
        })
    }

    fn plural_of(
        &self,
        request: &ApiRequest,
        sibling: Option<&Resource>,
    ) -> Result<String, UserError> {
        match (&request.plural, sibling) {
            (Some(plural), Some(sibling)) if *plural != sibling.plural() => {
                Err(UserError::invalid_value(
                    PLURAL,
                    plural,
                    format!(
                        "all versions of a kind share one plural, and {} has `{}`",
                        sibling.gvk(),
                        sibling.plural()
                    ),
                )
                .with_hint("omit `--plural`"))
            }
            (_, Some(sibling)) => Ok(sibling.plural()),
            (Some(plural), None) => Ok(plural.clone()),
            (None, None) => {
                let kind = &request.gvk.kind;
                let plural = plural::default(kind);
                match names::plural(&plural) {
                    Ok(()) => Ok(plural),
                    Err(invalid) => Err(UserError::usage(format!(
                        "cannot derive a plural from the kind '{kind}': '{plural}' {}",
                        invalid.reason
                    ))
                    .with_hint("set the plural with `--plural`")),
                }
            }
        }
    }

    fn scope_of(
        &self,
        request: &ApiRequest,
        sibling: Option<&Resource>,
    ) -> Result<bool, UserError> {
        let namespaced = match (request.namespaced, sibling.map(Resource::namespaced)) {
            (Some(requested), Some(other)) if requested != other => {
                return Err(UserError::invalid_value(
                    NAMESPACED,
                    requested,
                    format!(
                        "all versions of a kind share one scope, and the others have `{other}`"
                    ),
                )
                .with_hint("omit `--namespaced`"));
            }
            (requested, other) => requested.or(other).unwrap_or(true),
        };
        if self.namespaced && !namespaced {
            return Err(UserError::invalid_value(
                NAMESPACED,
                false,
                "the operator of a namespaced project can read only its own namespace, not cluster-scoped resources",
            )
            .with_hint("omit `--namespaced=false`"));
        }
        Ok(namespaced)
    }

    /// The model with the API, its controller, or both.
    ///
    /// # Errors
    /// If the API exists and the request was not forced, or if there is nothing to create.
    pub fn with_api(&self, api: &CheckedApi) -> Result<Self, UserError> {
        if api.request.external.is_some() {
            return self.with_external(api);
        }
        let gvk = api.gvk();
        let force = api.request.force;
        if !api.create_resource && !api.create_controller {
            return Err(UserError::usage(
                "neither the resource nor the controller is requested: nothing to create",
            ));
        }
        if !api.create_resource && !api.exists {
            return Err(UserError::invalid_value(
                RESOURCE,
                false,
                format!("{gvk} is not an API of this project"),
            )
            .with_hint(
                "omit `--resource=false`, or give the CRD of an external type with `--crd FILE`",
            ));
        }
        let adds_controller = api.create_controller && !api.has_controller;
        if api.create_resource && api.exists && !force {
            let error = UserError::failure(format!("the API {gvk} already exists"));
            return Err(error.with_hint(if adds_controller {
                "create only its controller with `--resource=false`, or regenerate its files with `--force`"
            } else {
                "regenerate its files with `--force`, which overwrites your edits"
            }));
        }
        if !api.create_resource && !adds_controller && !force {
            return Err(controller_exists(gvk));
        }

        let mut project = self.clone();
        let mut resource = api.resource.clone();
        resource.controller |= adds_controller;
        project.set_recipe(api)?;
        project.assign_module(&resource, api.request.module.as_deref())?;
        match project.resources.iter_mut().find(|r| r.is_same_version(&resource)) {
            Some(existing) => *existing = resource,
            None => project.resources.push(resource),
        }
        project.normalise();
        project.verified()
    }

    /// The model with all versions of a kind whose types are made from a CRD, of which the first is stored.
    ///
    /// # Errors
    /// Those of [`Project::check_api`] and [`Project::with_api`].
    pub fn with_own_kind(
        &self,
        versions: &[ApiRequest],
        controller: bool,
    ) -> Result<Self, UserError> {
        let mut project = self.clone();
        for (i, request) in versions.iter().enumerate() {
            let mut api = project.check_api(request.clone())?;
            CRD_RECIPE.clone_into(&mut api.recipe);
            api.storage = i == 0 && versions.len() > 1;
            api.create_controller = controller;
            project = project.with_api(&api)?;
        }
        Ok(project)
    }

    /// Records the recipe of a resource and its options. Only `--force` changes recorded ones.
    fn set_recipe(&mut self, api: &CheckedApi) -> Result<(), UserError> {
        let resource = &api.resource;
        let choices = &mut self.plugins.opctl.resources;
        if api.storage {
            let is_kind = |choice: &&mut RecipeChoice| {
                (&choice.group, &choice.kind) == (&resource.group, &resource.kind)
            };
            choices.iter_mut().filter(is_kind).for_each(|choice| choice.storage = false);
        }
        match choices.iter_mut().find(|choice| choice.is_for(resource)) {
            None => choices.push(RecipeChoice {
                domain: resource.domain.clone(),
                group: resource.group.clone(),
                kind: resource.kind.clone(),
                options: api.options.clone(),
                recipe: api.recipe.clone(),
                storage: api.storage,
                version: resource.version.clone(),
                unknown: Mapping::new(),
            }),
            Some(choice) if (&choice.recipe, &choice.options) == (&api.recipe, &api.options) => {
                choice.storage = api.storage;
            }
            Some(choice) if api.request.force => {
                choice.recipe.clone_from(&api.recipe);
                choice.options = api.options.clone();
            }
            Some(choice) => {
                let recipe = if choice.recipe == api.recipe {
                    "other options".to_owned()
                } else {
                    format!("the recipe `{}`", choice.recipe)
                };
                return Err(UserError::failure(format!(
                    "the API {} was created with {recipe}",
                    api.gvk()
                ))
                .with_hint("omit `--recipe` and its options, or regenerate all files of the API with `--force`"));
            }
        }
        Ok(())
    }

    /// The model without one version of a kind.
    pub fn without_api(&self, resource: &Resource) -> Self {
        let mut project = self.clone();
        project.resources.retain(|r| !r.is_same_version(resource));
        project.plugins.opctl.resources.retain(|choice| !choice.is_for(resource));
        project.normalise();
        project
    }
}

pub(super) fn controller_exists(gvk: &Gvk) -> UserError {
    UserError::failure(format!("the controller of {gvk} already exists"))
        .with_hint("regenerate its files with `--force`, which overwrites your edits")
}

/// Checks the value of a command line argument, which is given as clap displays it: `--kind <KIND>`.
///
/// # Errors
/// If the value is invalid, with a hint to the nearest valid one.
pub fn check_value(
    argument: &str,
    value: &str,
    check: impl FnOnce(&str) -> Result<(), InvalidValue>,
) -> Result<(), UserError> {
    check(value).map_err(|invalid| {
        let error = UserError::invalid_value(argument, value, invalid.reason);
        match invalid.suggestion {
            Some(suggestion) => {
                error.with_hint(format!("use `{} {suggestion}`", flag_of(argument)))
            }
            None => error,
        }
    })
}

/// The flag of an argument: `--kind` of `--kind <KIND>`.
pub fn flag_of(argument: &str) -> &str {
    argument.split([' ', '[']).next().unwrap_or(argument)
}
