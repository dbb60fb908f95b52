//! Adds a type that the project does not define to a model, to reconcile or to use it.

use serde_yaml::Mapping;

use super::api::{GROUP, KIND, NAMESPACED, PLURAL, VERSION};
use super::names;
use super::options::RecipeOptions;
use super::version::ApiVersion;
use super::{
    ApiRequest, CheckedApi, EXTERNAL_RECIPE, Gvk, Project, Resource, builtin, check_value, flag_of,
    plural,
};
use crate::error::UserError;

/// Where a type that the project does not define comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A core type: one of Kubernetes itself.
    Core,
    /// An external type: a CRD of another project.
    Crd,
}

/// The definition of a type that the project does not define itself.
#[derive(Debug, Clone)]
pub struct ExternalType {
    /// Whether it is a core type or the type of a CRD.
    pub origin: Origin,
    /// The domain of its API group.
    pub domain: String,
    /// Its plural.
    pub plural: String,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
}

impl ApiRequest {
    /// The same request for a core type of Kubernetes, if its group is one of Kubernetes.
    ///
    /// # Errors
    /// A [`UserError`] if Kubernetes has the group, but not the kind.
    pub fn for_core_type(self) -> Result<Option<Self>, UserError> {
        let Some(name) = builtin::group(&self.gvk.group) else { return Ok(None) };
        let gvk = Gvk { group: name.to_owned(), ..self.gvk };
        let (group, kind) = builtin::find(&gvk)?;
        let external = ExternalType {
            origin: Origin::Core,
            domain: group.domain.clone(),
            plural: kind.plural.clone(),
            namespaced: kind.namespaced,
        };
        Ok(Some(Self { gvk, external: Some(external), ..self }))
    }
}

impl Project {
    pub(super) fn check_external(
        &self,
        request: ApiRequest,
        external: &ExternalType,
    ) -> Result<CheckedApi, UserError> {
        let Gvk { group, version, kind } = &request.gvk;
        if external.origin == Origin::Crd {
            let full = format!("{group}.{}", external.domain);
            check_value(GROUP, &full, names::external_api_group)?;
            check_value(VERSION, version, |version| ApiVersion::parse(version).map(drop))?;
            check_value(KIND, kind, names::kind)?;
            check_value(PLURAL, &external.plural, names::plural)?;
        }
        let scopes = (request.namespaced.map(|b| b.to_string()), external.namespaced.to_string());
        for (argument, requested, actual) in [
            (PLURAL, request.plural.clone(), external.plural.clone()),
            (NAMESPACED, scopes.0, scopes.1),
        ] {
            if let Some(requested) = requested.filter(|requested| *requested != actual) {
                let reason = format!("{} has `{actual}`", request.gvk);
                return Err(UserError::invalid_value(argument, requested, reason)
                    .with_hint(format!("omit `{}`", flag_of(argument))));
            }
        }
        let resource = Resource {
            api: None,
            controller: false,
            core: external.origin == Origin::Core,
            domain: external.domain.clone(),
            external: external.origin == Origin::Crd,
            group: group.clone(),
            kind: kind.clone(),
            namespaced: external.namespaced,
            plural: (external.plural != plural::regular(kind)).then(|| external.plural.clone()),
            version: version.clone(),
            unknown: Mapping::new(),
        };
        let is_kind = |r: &&Resource| r.api_group() == resource.api_group() && r.kind == *kind;
        let of_kind = || self.resources.iter().filter(is_kind);
        if let Some(existing) = of_kind().find(|r| !r.is_external_or_core()) {
            return Err(UserError::failure(format!(
                "the project defines {} itself",
                existing.gvk()
            ))
            .with_hint("omit `--crd` to create its controller"));
        }
        let existing = of_kind().find(|r| &r.version == version);
        let mut project = self.clone();
        if existing.is_none() {
            project.assign_module(&resource, request.module.as_deref())?;
            project.resources.push(resource.clone());
        }
        project.check_claims()?;
        project.check_scopes()?;
        let has_controller = of_kind().any(|r| r.controller);
        Ok(CheckedApi {
            exists: existing.is_some(),
            has_controller,
            create_resource: false,
            create_controller: true,
            recipe: EXTERNAL_RECIPE.to_owned(),
            options: RecipeOptions::default(),
            storage: false,
            resource: existing.cloned().unwrap_or(resource),
            request,
        })
    }

    pub(super) fn with_external(&self, api: &CheckedApi) -> Result<Self, UserError> {
        let adds_controller = api.create_controller && !api.has_controller;
        if api.resource.core && !adds_controller {
            if !api.has_controller {
                return Err(UserError::usage(
                    "neither the resource nor the controller is requested: nothing to create",
                ));
            }
            if !api.exists || !api.request.force {
                return Err(super::api::controller_exists(api.gvk()));
            }
        }
        let mut project = self.clone();
        project.assign_module(&api.resource, api.request.module.as_deref())?;
        project.resources.retain(|r| !r.is_same_version(&api.resource));
        let mut resource = api.resource.clone();
        resource.controller |= adds_controller;
        project.resources.push(resource);
        project.normalise();
        project.verified()
    }
}
