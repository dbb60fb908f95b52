//! Takes APIs and controllers out of a model.

use super::{Gvk, Project, Resource, builtin};
use crate::error::UserError;

impl Project {
    /// The model without one version of a kind. The controller stays if the kind has another version, and
    /// uses the storage version then.
    ///
    /// # Errors
    /// If the version is not in the project.
    pub fn delete_api(&self, gvk: &Gvk) -> Result<Self, UserError> {
        let resource = self.resource_named(gvk)?;
        let mut project = self.without_api(resource);
        if resource.controller && !resource.is_external_or_core() {
            for other in project.resources.iter_mut().filter(|r| r.is_same_kind(resource)) {
                other.controller = true; // until the flag is moved to the storage version
            }
            project.normalise();
        }
        project.verified()
    }

    /// The model without the controller of a kind. A core type without one is not in a project.
    ///
    /// # Errors
    /// If the kind has no controller in the project.
    pub fn delete_controller(&self, group: &str, kind: &str) -> Result<Self, UserError> {
        let versions = self.kind_named(group, kind)?;
        if versions.is_empty() {
            return Err(self.no_such_api(&format!("the kind {kind} of the group {group}")));
        }
        let Some(resource) = versions.iter().find(|r| r.controller) else {
            let problem = format!("the kind {kind} of the group {group} has no controller");
            return Err(UserError::failure(problem));
        };
        let mut project = self.clone();
        project.resources.retain(|r| !(r.core && r.controller && r.is_same_kind(resource)));
        for other in project.resources.iter_mut().filter(|r| r.is_same_kind(resource)) {
            other.controller = false;
        }
        project.normalise();
        project.verified()
    }

    /// The version of a kind that a user names.
    ///
    /// # Errors
    /// If the project does not have it, or if several groups have the name.
    pub fn resource_named(&self, gvk: &Gvk) -> Result<&Resource, UserError> {
        let mut versions = self.kind_named(&gvk.group, &gvk.kind)?.into_iter();
        let is_version = |r: &&Resource| r.version == gvk.version;
        versions.find(is_version).ok_or_else(|| self.no_such_api(&gvk.to_string()))
    }

    /// The versions of a kind in the group that a user names: a group that the project defines, or else a
    /// group by its full name, by its short name if only one has it, or by its module.
    fn kind_named(&self, group: &str, kind: &str) -> Result<Vec<&Resource>, UserError> {
        let is_core = |r: &Resource| r.core && builtin::group(group) == Some(&r.group);
        let named: [&dyn Fn(&Resource) -> bool; 4] = [
            &|r| r.api.is_some() && r.group == group,
            &|r| r.api_group() == group || is_core(r),
            &|r| r.group == group,
            &|r| self.module(r).file == group,
        ];
        let of_kind = |is_named: &dyn Fn(&Resource) -> bool| {
            self.resources.iter().filter(|r| r.kind == kind && is_named(r)).collect::<Vec<_>>()
        };
        let versions = named.into_iter().map(of_kind).find(|versions| !versions.is_empty());
        let versions = versions.unwrap_or_default();
        match versions.iter().find(|r| !r.is_same_kind(versions[0])) {
            None => Ok(versions),
            Some(other) => {
                let groups = [versions[0].api_group(), other.api_group()].join(", ");
                Err(UserError::usage(format!("several groups `{group}` have a kind {kind}"))
                    .with_hint(format!("name one in full: {groups}")))
            }
        }
    }
}
