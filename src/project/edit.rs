//! Changes what a project has.

use std::collections::BTreeSet;

use super::api::{NAMESPACED, PLURAL};
use super::image::PinnedImage;
use super::{Feature, License, Project, VERSION, check_value, names, plural};
use crate::error::UserError;

/// New settings. A project keeps those that are `None`.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The name of the project.
    pub name: Option<String>,
    /// The domain of the API groups.
    pub domain: Option<String>,
    /// The license of the project.
    pub license: Option<License>,
    /// The copyright holder.
    pub owner: Option<String>,
    /// Whether the operator watches only its own namespace.
    pub namespaced: Option<bool>,
    /// The optional parts of the deployment.
    pub features: Option<BTreeSet<Feature>>,
}

/// A request to change what all versions of a kind share.
#[derive(Debug, Clone, Default)]
pub struct KindRequest {
    /// The API group, without the project's domain.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The new plural.
    pub plural: Option<String>,
    /// The new scope.
    pub namespaced: Option<bool>,
}

impl Project {
    /// The project with other settings and with the template set of this opctl.
    ///
    /// # Errors
    /// If a setting is invalid, or if a resource conflicts with the settings.
    pub fn with_settings(&self, settings: Settings) -> Result<Self, UserError> {
        let mut project = self.clone();
        VERSION.clone_into(&mut project.cli_version);
        project.project_name = settings.name.unwrap_or(project.project_name);
        project.domain = settings.domain.unwrap_or(project.domain);
        project.namespaced = settings.namespaced.unwrap_or(project.namespaced);
        let config = &mut project.plugins.opctl;
        config.license = settings.license.unwrap_or(config.license);
        config.owner = settings.owner.or(config.owner.take());
        config.features = settings.features.unwrap_or_else(|| std::mem::take(&mut config.features));
        for resource in project.resources.iter_mut().filter(|r| !r.is_external_or_core()) {
            resource.domain.clone_from(&project.domain);
        }
        for domain in project.plugins.opctl.resources.iter_mut().map(|choice| &mut choice.domain) {
            domain.clone_from(&project.domain);
        }
        project.carry_modules(self);
        project.check_scopes()?;
        project.verified()
    }

    /// The project with the templates of a version of opctl.
    ///
    /// # Errors
    /// If the project would be invalid.
    pub fn with_version(&self, version: &str) -> Result<Self, UserError> {
        Self { cli_version: version.to_owned(), ..self.clone() }.verified()
    }

    /// The project that deploys this image or, without one, the image that its Makefile names.
    ///
    /// # Errors
    /// If the project would be invalid.
    pub fn with_image(&self, image: Option<PinnedImage>) -> Result<Self, UserError> {
        let mut project = self.clone();
        project.plugins.opctl.image = image;
        project.verified()
    }

    /// The project with another plural or scope of a kind that it defines.
    ///
    /// # Errors
    /// If the project does not define the kind, or if a value is invalid or taken.
    pub fn with_kind(&self, request: &KindRequest) -> Result<Self, UserError> {
        let KindRequest { group, kind, plural, namespaced } = request;
        if let Some(plural) = plural {
            check_value(PLURAL, plural, names::plural)?;
        }
        if self.namespaced && *namespaced == Some(false) {
            return Err(UserError::invalid_value(
                NAMESPACED,
                false,
                "the operator of a namespaced project can read only its own namespace, not cluster-scoped resources",
            )
            .with_hint("let it read all namespaces with `opctl edit --namespaced=false`"));
        }
        let mut project = self.clone();
        let of_kind = project
            .resources
            .iter_mut()
            .filter(|r| (&r.group, &r.kind) == (group, kind) && r.api.is_some());
        let mut versions = 0;
        for resource in of_kind {
            versions += 1;
            if let Some(plural) = plural {
                resource.plural = (*plural != plural::regular(kind)).then(|| plural.clone());
            }
            if let (Some(namespaced), Some(api)) = (namespaced, &mut resource.api) {
                api.namespaced = *namespaced;
            }
        }
        if versions == 0 {
            return Err(self.no_such_api(&format!("the kind {kind} of the group {group}")));
        }
        project.check_claims()?;
        project.verified()
    }

    /// The error of a request for something that is not in the project.
    pub(super) fn no_such_api(&self, what: &str) -> UserError {
        let own = self.resources.iter().map(|resource| resource.gvk().to_string());
        let hint = match own.collect::<Vec<_>>() {
            apis if apis.is_empty() => "the project has no APIs".to_owned(),
            apis => format!("the project has {}", apis.join(", ")),
        };
        UserError::failure(format!("{what} is not an API of this project")).with_hint(hint)
    }
}
