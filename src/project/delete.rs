//! Takes APIs and controllers out of a model.

use super::{Gvk, Project, builtin};
use crate::error::UserError;

impl Project {
    /// The model without one version of a kind. The controller stays if the kind has another version, and
    /// uses the storage version then.
    ///
    /// # Errors
    /// If the version is not in the project.
    pub fn delete_api(&self, gvk: &Gvk) -> Result<Self, UserError> {
        let gvk = Gvk { group: self.group_named(&gvk.group), ..gvk.clone() };
        let Some(resource) = self.resource(&gvk) else {
            return Err(self.no_such_api(&gvk.to_string()));
        };
        let mut project = self.without_api(&gvk);
        if resource.controller && !resource.is_external_or_core() {
            for other in project.resources.iter_mut().filter(|r| r.is_kind(&gvk.group, &gvk.kind)) {
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
        let group = self.group_named(group);
        if self.versions(&group, kind).next().is_none() {
            return Err(self.no_such_api(&format!("the kind {kind} of the group {group}")));
        }
        if !self.versions(&group, kind).any(|r| r.controller) {
            let problem = format!("the kind {kind} of the group {group} has no controller");
            return Err(UserError::failure(problem));
        }
        let mut project = self.clone();
        project.resources.retain(|r| !(r.core && r.controller && r.is_kind(&group, kind)));
        for resource in project.resources.iter_mut().filter(|r| r.is_kind(&group, kind)) {
            resource.controller = false;
        }
        project.verified()
    }

    /// The group as `PROJECT` names it: `networking` for `networking.k8s.io`.
    fn group_named(&self, name: &str) -> String {
        match self.resources.iter().any(|r| r.group == name) {
            true => name.to_owned(),
            false => builtin::group(name).unwrap_or(name).to_owned(),
        }
    }
}
