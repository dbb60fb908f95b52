//! Renames what a project defines.

use super::api::{GROUP, KIND, PLURAL};
use super::{Project, Resource, check_value, names, plural};
use crate::error::UserError;

impl Project {
    /// The group of a kind that the project defines, which may be requested.
    ///
    /// # Errors
    /// If there is no such kind, or if several groups have one.
    pub fn group_of_kind(&self, kind: &str, group: Option<&str>) -> Result<String, UserError> {
        let is_meant = |r: &&Resource| {
            r.api.is_some() && r.kind == kind && group.is_none_or(|group| r.group == group)
        };
        let mut groups: Vec<&str> =
            self.resources.iter().filter(is_meant).map(|r| r.group.as_str()).collect();
        groups.dedup();
        match groups.as_slice() {
            [] => Err(self.no_such_api(&format!("the kind {kind}"))),
            [group] => Ok((*group).to_owned()),
            _ => Err(UserError::usage(format!("several groups have a kind {kind}"))
                .with_hint(format!("name one with `--group`: {}", groups.join(", ")))),
        }
    }

    /// The model with another name of a kind. The plural follows, unless it is not the default one.
    ///
    /// # Errors
    /// If the name is invalid or taken.
    pub fn with_kind_renamed(
        &self,
        group: &str,
        old: &str,
        new: &str,
        plural: Option<&str>,
    ) -> Result<Self, UserError> {
        check_value(KIND, new, names::kind)?;
        if self.versions(group, new).next().is_some() {
            let problem = format!("the group {group} already has a kind {new}");
            return Err(UserError::failure(problem));
        }
        let mut project = self.clone();
        let is_renamed = |r: &&mut Resource| r.api.is_some() && r.group == group && r.kind == old;
        for resource in project.resources.iter_mut().filter(is_renamed) {
            let current = resource.plural();
            let plural = match plural {
                Some(plural) => plural.to_owned(),
                None if current == plural::default(old) => plural::default(new),
                None => current,
            };
            check_value(PLURAL, &plural, names::plural)?;
            new.clone_into(&mut resource.kind);
            resource.plural = (plural != plural::regular(new)).then_some(plural);
        }
        for choice in &mut project.plugins.opctl.resources {
            if (choice.group.as_str(), choice.kind.as_str()) == (group, old) {
                new.clone_into(&mut choice.kind);
            }
        }
        project.renamed()
    }

    /// The model with another name of a group that it defines.
    ///
    /// # Errors
    /// If the project does not define the group, or if the name is invalid or taken.
    pub fn with_group_renamed(&self, old: &str, new: &str) -> Result<Self, UserError> {
        check_value(GROUP, new, names::group)?;
        check_value(GROUP, new, |group| names::api_group(group, &self.domain))?;
        let is_own = |r: &Resource, group: &str| r.api.is_some() && r.group == group;
        if !self.resources.iter().any(|r| is_own(r, old)) {
            return Err(self.no_such_api(&format!("the group {old}")));
        }
        let full = format!("{new}.{}", self.domain);
        if self.resources.iter().any(|r| r.api_group() == full) {
            return Err(UserError::failure(format!("the project already has a group {new}")));
        }
        let mut project = self.clone();
        for resource in project.resources.iter_mut().filter(|r| is_own(r, old)) {
            new.clone_into(&mut resource.group);
        }
        for choice in project.plugins.opctl.resources.iter_mut().filter(|c| c.group == old) {
            new.clone_into(&mut choice.group);
        }
        project.rename_module(self, old, new)?;
        project.renamed()
    }

    fn renamed(mut self) -> Result<Self, UserError> {
        self.normalise();
        self.check_claims()?;
        self.verified()
    }
}
