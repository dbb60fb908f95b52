//! Adding an API to a model.

use serde_yaml::Mapping;

use super::names::{self, Invalid};
use super::options::RecipeOptions;
use super::version::ApiVersion;
use super::{Api, Choice, Foreign, Project, Resource, plural};
use crate::error::Refusal;

/// What a user asks of `create api`.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    /// The API group without the domain.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural, if not the default one.
    pub plural: Option<String>,
    /// Whether objects live in namespaces; by default as in the kind's other versions, else yes.
    pub namespaced: Option<bool>,
    /// Whether an existing API is no error.
    pub force: bool,
    /// What is known of the kind, if it is not to be the project's own.
    pub foreign: Option<Foreign>,
}

/// A request that was checked against a project: what is left are the user's choices.
#[derive(Debug, Clone)]
pub struct NewApi {
    pub(super) resource: Resource,
    pub(super) exists: bool,
    pub(super) has_controller: bool,
}

impl Project {
    /// Checks everything that does not depend on further answers.
    pub fn check_api(&self, request: &ApiRequest) -> Result<NewApi, Refusal> {
        if let Some(foreign) = &request.foreign {
            return self.check_foreign(request, foreign);
        }
        let ApiRequest { group, version, kind, .. } = request;
        refuse_flag("--group", group, names::group(group))?;
        refuse_flag("--group", group, names::api_group(group, &self.domain))?;
        refuse_flag("--version", version, ApiVersion::parse(version).map(drop))?;
        refuse_flag("--kind", kind, names::kind(kind))?;
        if let Some(plural) = &request.plural {
            refuse_flag("--plural", plural, names::plural(plural))?;
        }

        if let Some(foreign) = self.versions(group, kind).find(|r| r.is_foreign()) {
            return Err(Refusal::failure(format!(
                "{} is somebody else's kind that this project knows already",
                foreign.title()
            ))
            .hint("use another group or another kind"));
        }
        let sibling = self.versions(group, kind).find(|r| r.api.is_some());
        let plural = self.plural_of(request, sibling)?;
        let namespaced = self.scope_of(request, sibling)?;
        let existing = self.versions(group, kind).find(|r| &r.version == version);
        let resource = Resource {
            api: Some(Api { crd_version: "v1".to_owned(), namespaced, unknown: Mapping::new() }),
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
        };
        let checked = NewApi {
            exists: existing.is_some_and(|r| r.api.is_some()),
            has_controller: self.versions(group, kind).any(|r| r.controller),
            resource: match existing.cloned() {
                Some(existing) => Resource { api: existing.api.or(resource.api), ..existing },
                None => resource,
            },
        };
        if existing.is_none() {
            let mut with = self.clone();
            with.resources.push(checked.resource.clone());
            with.check_claims()?;
        }
        Ok(checked)
    }

    fn plural_of(
        &self,
        request: &ApiRequest,
        sibling: Option<&Resource>,
    ) -> Result<String, Refusal> {
        match (&request.plural, sibling) {
            (Some(plural), Some(sibling)) if *plural != sibling.plural() => {
                Err(Refusal::usage(format!("`--plural` is `{plural}`: all versions of a kind share one plural, {} has `{}`", sibling.title(), sibling.plural()))
                    .hint("leave out `--plural`"))
            }
            (_, Some(sibling)) => Ok(sibling.plural()),
            (Some(plural), None) => Ok(plural.clone()),
            (None, None) => {
                let plural = plural::default(&request.kind);
                match names::plural(&plural) {
                    Ok(()) => Ok(plural),
                    Err(invalid) => Err(Refusal::usage(format!("the plural of `{}` would be `{plural}`: {}", request.kind, invalid.why))
                        .hint("name another one with `--plural`")),
                }
            }
        }
    }

    fn scope_of(&self, request: &ApiRequest, sibling: Option<&Resource>) -> Result<bool, Refusal> {
        let namespaced = match (request.namespaced, sibling.map(Resource::namespaced)) {
            (Some(asked), Some(other)) if asked != other => {
                return Err(Refusal::usage(format!("`--namespaced` is `{asked}`: all versions of a kind share one scope, its other versions have `{other}`"))
                    .hint("leave out `--namespaced`"));
            }
            (asked, other) => asked.or(other).unwrap_or(true),
        };
        if self.namespaced && !namespaced {
            return Err(Refusal::usage(
                "`--namespaced` is `false`: the operator of a namespaced project may only read its own namespace and cannot \
                 see objects of a cluster-scoped kind",
            )
            .hint("leave out `--namespaced=false`"));
        }
        Ok(namespaced)
    }

    /// The model with the API, its controller, or both.
    ///
    /// # Errors
    /// If the API exists and the request was not forced, or if there is nothing to create.
    pub fn with_api(
        &self,
        new: &NewApi,
        request: &ApiRequest,
        answers: &Answers,
    ) -> Result<Self, Refusal> {
        if request.foreign.is_some() {
            return self.with_foreign(new, request, answers);
        }
        let title = new.resource.title();
        if !answers.resource && !answers.controller {
            return Err(Refusal::usage(
                "`--resource` and `--controller` are both `false`: there is nothing to create",
            ));
        }
        if !answers.resource && !new.exists {
            return Err(Refusal::usage(format!(
                "`--resource` is `false`, but {title} is no API of this project"
            ))
            .hint("leave out `--resource=false`, or give the CRD of somebody else's kind with `--crd FILE`"));
        }
        let adds_controller = answers.controller && !new.has_controller;
        if answers.resource && new.exists && !request.force {
            let refusal = Refusal::failure(format!("the API {title} exists already"));
            return Err(match adds_controller {
                true => refusal.hint("add its controller alone with `--resource=false`, or write its files again with `--force`"),
                false => refusal.hint("`--force` writes its files again, over your edits"),
            });
        }
        if !answers.resource && !adds_controller && !request.force {
            return Err(has_controller(&title));
        }

        let mut project = self.clone();
        let mut resource = new.resource.clone();
        resource.controller |= adds_controller;
        project.choose(&resource, request, answers)?;
        match project.resources.iter_mut().find(|r| r.is(&resource)) {
            Some(existing) => *existing = resource,
            None => project.resources.push(resource),
        }
        project.normalise();
        Ok(project)
    }

    /// Notes the recipe of a resource and what is told to it. Only `--force` changes them.
    fn choose(
        &mut self,
        resource: &Resource,
        request: &ApiRequest,
        answers: &Answers,
    ) -> Result<(), Refusal> {
        let choices = &mut self.plugins.own.resources;
        match choices.iter_mut().find(|choice| choice.is_of(resource)) {
            None => choices.push(Choice {
                domain: resource.domain.clone(),
                group: resource.group.clone(),
                kind: resource.kind.clone(),
                options: answers.options.clone(),
                recipe: answers.recipe.clone(),
                version: resource.version.clone(),
                unknown: Mapping::new(),
            }),
            Some(choice)
                if (&choice.recipe, &choice.options) == (&answers.recipe, &answers.options) => {}
            Some(choice) if request.force => {
                choice.recipe.clone_from(&answers.recipe);
                choice.options = answers.options.clone();
            }
            Some(choice) => {
                let made_with = if choice.recipe == answers.recipe {
                    "other options".to_owned()
                } else {
                    format!("the recipe `{}`", choice.recipe)
                };
                let title = resource.title();
                return Err(Refusal::failure(format!("the API {title} was made with {made_with}"))
                .hint("leave out `--recipe` and its options, or write all its files again with `--force`"));
            }
        }
        Ok(())
    }

    /// The model without one version of a kind.
    pub fn without_api(&self, request: &ApiRequest) -> Self {
        let mut project = self.clone();
        project.resources.retain(|r| {
            (&r.group, &r.kind, &r.version) != (&request.group, &request.kind, &request.version)
        });
        project.plugins.own.resources.retain(|c| {
            (&c.group, &c.kind, &c.version) != (&request.group, &request.kind, &request.version)
        });
        project.normalise();
        project
    }
}

pub(super) fn has_controller(title: &str) -> Refusal {
    Refusal::failure(format!("the controller of {title} exists already"))
        .hint("`--force` writes its files again, over your edits")
}

/// What is left to choose once a request was checked.
#[derive(Debug, Clone)]
pub struct Answers {
    /// Create the API.
    pub resource: bool,
    /// Create the controller.
    pub controller: bool,
    /// The recipe of a new API.
    pub recipe: String,
    /// What is told to the recipe.
    pub options: RecipeOptions,
}

impl NewApi {
    /// Whether the kind has a controller, through this version or another.
    pub fn has_controller(&self) -> bool {
        self.has_controller
    }

    /// Whether the API exists.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// The resource as it would be.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }
}

/// Turns a reason into an error that names the flag.
pub fn refuse_flag(flag: &str, value: &str, result: Result<(), Invalid>) -> Result<(), Refusal> {
    result.map_err(|invalid| {
        let refusal = Refusal::usage(format!("`{flag}` is `{value}`: {}", invalid.why));
        match invalid.instead {
            Some(instead) => refusal.hint(format!("use `{flag} {instead}`")),
            None => refusal,
        }
    })
}
