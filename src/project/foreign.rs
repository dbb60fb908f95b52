//! Adding a kind that is somebody else's to a model: to watch it, or to make objects of it.

use serde_yaml::Mapping;

use super::names;
use super::version::ApiVersion;
use super::{Answers, ApiRequest, NewApi, Project, Resource, builtin, plural, refuse_flag};
use crate::error::Refusal;

/// Who defines a kind, if not the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Kubernetes itself.
    Core,
    /// A CRD of another project.
    External,
}

/// What is known of a kind that is somebody else's.
#[derive(Debug, Clone)]
pub struct Foreign {
    /// Who defines it.
    pub origin: Origin,
    /// What its API group ends with.
    pub domain: String,
    /// Its plural.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl ApiRequest {
    /// The same request, if it means one of Kubernetes' own kinds.
    ///
    /// # Errors
    /// A [`Refusal`] if Kubernetes has the group, but not the kind.
    pub fn of_builtin(self) -> Result<Option<Self>, Refusal> {
        let Some(name) = builtin::group(&self.group) else { return Ok(None) };
        let (group, kind) = builtin::find(name, &self.version, &self.kind)?;
        let foreign = Foreign {
            origin: Origin::Core,
            domain: group.domain.clone(),
            plural: kind.plural.clone(),
            namespaced: kind.namespaced,
        };
        Ok(Some(Self { group: name.to_owned(), foreign: Some(foreign), ..self }))
    }
}

impl Project {
    pub(super) fn check_foreign(
        &self,
        request: &ApiRequest,
        foreign: &Foreign,
    ) -> Result<NewApi, Refusal> {
        let ApiRequest { group, version, kind, .. } = request;
        if foreign.origin == Origin::External {
            refuse_flag("--group", group, names::group(group))?;
            refuse_flag("--version", version, ApiVersion::parse(version).map(drop))?;
            refuse_flag("--kind", kind, names::kind(kind))?;
            refuse_flag("--plural", &foreign.plural, names::plural(&foreign.plural))?;
        }
        for (flag, asked, actual) in [
            ("--plural", request.plural.clone(), foreign.plural.clone()),
            (
                "--namespaced",
                request.namespaced.map(|b| b.to_string()),
                foreign.namespaced.to_string(),
            ),
        ] {
            if let Some(asked) = asked.filter(|asked| *asked != actual) {
                return Err(Refusal::usage(format!(
                    "`{flag}` is `{asked}`, but {group}/{version} {kind} has `{actual}`"
                ))
                .hint(format!("leave out `{flag}`")));
            }
        }
        let resource = Resource {
            api: None,
            controller: false,
            core: foreign.origin == Origin::Core,
            domain: foreign.domain.clone(),
            external: foreign.origin == Origin::External,
            group: group.clone(),
            kind: kind.clone(),
            namespaced: foreign.namespaced,
            plural: (foreign.plural != plural::regular(kind)).then(|| foreign.plural.clone()),
            version: version.clone(),
            unknown: Mapping::new(),
        };
        let same_group = |r: &&Resource| r.api_group() == resource.api_group();
        let of_kind = || self.versions(group, kind).filter(same_group);
        if let Some(own) = of_kind().find(|r| !r.is_foreign()) {
            return Err(Refusal::failure(format!("{} is an API of this project", own.title()))
                .hint("its controller is made without `--crd`"));
        }
        let existing = of_kind().find(|r| &r.version == version);
        let mut with = self.clone();
        if existing.is_none() {
            with.resources.push(resource.clone());
        }
        with.check_claims()?;
        with.check_scopes()?;
        Ok(NewApi {
            exists: existing.is_some(),
            has_controller: of_kind().any(|r| r.controller),
            resource: existing.cloned().unwrap_or(resource),
        })
    }

    pub(super) fn with_foreign(
        &self,
        new: &NewApi,
        request: &ApiRequest,
        answers: &Answers,
    ) -> Result<Self, Refusal> {
        let title = new.resource.title();
        let adds_controller = answers.controller && !new.has_controller;
        if new.resource.core && !adds_controller {
            if !new.has_controller {
                return Err(Refusal::usage(
                    "`--resource` and `--controller` are both `false`: there is nothing to create",
                ));
            }
            if !new.exists || !request.force {
                return Err(super::api::has_controller(&title));
            }
        }
        let mut project = self.clone();
        project.resources.retain(|r| !r.is(&new.resource));
        let mut resource = new.resource.clone();
        resource.controller |= adds_controller;
        project.resources.push(resource);
        project.normalise();
        Ok(project)
    }
}
