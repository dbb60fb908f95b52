//! Adding a type that the project does not define to a model, to reconcile or to use it.

use serde_yaml::Mapping;

use super::names;
use super::options::RecipeOptions;
use super::version::ApiVersion;
use super::{
    ApiRequest, CheckedApi, EXTERNAL_RECIPE, Gvk, Project, Resource, builtin, plural, refuse_flag,
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
            refuse_flag("--group", group, names::group(group))?;
            refuse_flag("--version", version, ApiVersion::parse(version).map(drop))?;
            refuse_flag("--kind", kind, names::kind(kind))?;
            refuse_flag("--plural", &external.plural, names::plural(&external.plural))?;
        }
        for (flag, asked, actual) in [
            ("--plural", request.plural.clone(), external.plural.clone()),
            (
                "--namespaced",
                request.namespaced.map(|b| b.to_string()),
                external.namespaced.to_string(),
            ),
        ] {
            if let Some(asked) = asked.filter(|asked| *asked != actual) {
                return Err(UserError::usage(format!(
                    "`{flag}` is `{asked}`, but {} has `{actual}`",
                    request.gvk
                ))
                .with_hint(format!("leave out `{flag}`")));
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
        let same_group = |r: &&Resource| r.api_group() == resource.api_group();
        let of_kind = || self.versions(group, kind).filter(same_group);
        if let Some(own) = of_kind().find(|r| !r.is_external_or_core()) {
            return Err(UserError::failure(format!("{} is an API of this project", own.gvk()))
                .with_hint("its controller is made without `--crd`"));
        }
        let existing = of_kind().find(|r| &r.version == version);
        let mut project = self.clone();
        if existing.is_none() {
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
            resource: existing.cloned().unwrap_or(resource),
            request,
        })
    }

    pub(super) fn with_external(&self, api: &CheckedApi) -> Result<Self, UserError> {
        let adds_controller = api.create_controller && !api.has_controller;
        if api.resource.core && !adds_controller {
            if !api.has_controller {
                return Err(UserError::usage(
                    "`--resource` and `--controller` are both `false`: there is nothing to create",
                ));
            }
            if !api.exists || !api.request.force {
                return Err(super::api::controller_exists(api.gvk()));
            }
        }
        let mut project = self.clone();
        project.resources.retain(|r| !r.is_same_version(&api.resource));
        let mut resource = api.resource.clone();
        resource.controller |= adds_controller;
        project.resources.push(resource);
        project.normalise();
        Ok(project)
    }
}
