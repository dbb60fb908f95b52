//! The Rust modules of API groups.
//!
//! A group has the module of its short name: `batch` for `batch.example.com`. Where another group has it
//! already, the module is that of the full name, and `PROJECT` records it. A module never changes by itself.

use std::collections::BTreeSet;

use super::names::{self, MAX_MODULE, Module};
use super::{Project, Resource, check_value};
use crate::error::UserError;

/// The argument that names a module, as clap displays it.
const MODULE: &str = "--module <NAME>";

impl Project {
    /// The Rust module of the API group of a resource.
    pub fn module(&self, resource: &Resource) -> Module {
        let recorded = self.plugins.opctl.modules.get(&resource.full_group());
        Module::of_group(recorded.unwrap_or(&resource.group))
    }

    /// A name of the API group of a resource that no other group of the project has: the short name or,
    /// where several groups may share it, the name of the module.
    pub fn group_label(&self, resource: &Resource) -> String {
        let module = self.module(resource);
        if module == Module::of_group(&resource.group) {
            resource.group.clone()
        } else {
            module.file
        }
    }

    /// Gives the API group of a resource a module, the requested one or a free one, before the resource is
    /// added. A group that the project has keeps its module.
    pub(super) fn assign_module(
        &mut self,
        resource: &Resource,
        requested: Option<&str>,
    ) -> Result<(), UserError> {
        if let Some(name) = requested {
            check_value(MODULE, name, names::module)?;
        }
        let of_group = |r: &&Resource| r.full_group() == resource.full_group();
        if let Some(existing) = self.resources.iter().find(of_group) {
            let module = self.module(existing).file;
            return match requested.filter(|name| *name != module) {
                None => Ok(()),
                Some(name) => {
                    let group = resource.full_group();
                    let reason = format!("the group {group} has the module `{module}`");
                    Err(UserError::invalid_value(MODULE, name, reason).with_hint("omit `--module`"))
                }
            };
        }
        let taken: BTreeSet<String> = self.resources.iter().map(|r| self.module(r).file).collect();
        let module = match requested {
            Some(name) => Some(name.to_owned()),
            None => candidates(resource).find(|name| !taken.contains(name)),
        };
        // A requested one that is taken is refused with the other claims.
        let module = module.filter(|name| *name != Module::of_group(&resource.group).file);
        let modules = &mut self.plugins.opctl.modules;
        match module {
            Some(name) => modules.insert(resource.full_group(), name),
            None => modules.remove(&resource.full_group()),
        };
        Ok(())
    }

    /// Keeps the modules of groups whose full names change with a change of the project.
    pub(super) fn carry_modules(&mut self, old: &Self) {
        for (resource, before) in self.resources.iter().zip(&old.resources) {
            if let Some(module) = old.plugins.opctl.modules.get(&before.full_group()) {
                let (old, new) = (before.full_group(), resource.full_group());
                self.plugins.opctl.modules.remove(&old);
                self.plugins.opctl.modules.insert(new, module.clone());
            }
        }
    }

    /// Gives a group that was renamed its module: a name that a user has chosen stays, others follow the name
    /// of the group.
    pub(super) fn rename_module(
        &mut self,
        before: &Self,
        old: &str,
        new: &str,
    ) -> Result<(), UserError> {
        let is_own = |r: &&Resource, group: &str| r.api.is_some() && r.group == group;
        let (Some(before_resource), Some(resource)) = (
            before.resources.iter().find(|r| is_own(r, old)),
            self.resources.iter().find(|r| is_own(r, new)).cloned(),
        ) else {
            return Ok(());
        };
        let module = before.module(before_resource).file;
        let default = Module::of_group(old).file;
        let is_chosen = module.strip_prefix(&default).is_none_or(|rest| !rest.starts_with('_'))
            && module != default;
        let mut others = self.clone();
        others.resources.retain(|r| r.full_group() != resource.full_group());
        others.plugins.opctl.modules.remove(&before_resource.full_group());
        others.assign_module(&resource, is_chosen.then_some(module.as_str()))?;
        self.plugins.opctl.modules = others.plugins.opctl.modules;
        Ok(())
    }

    /// Drops what says nothing: the modules of other groups, and default ones.
    pub(super) fn normalise_modules(&mut self) {
        let resources = &self.resources;
        self.plugins.opctl.modules.retain(|group, module| {
            let default = resources.iter().find(|r| r.full_group() == *group);
            default.is_some_and(|r| Module::of_group(&r.group).file != *module)
        });
    }
}

/// The names of modules for the group of a resource, the best one first.
fn candidates(resource: &Resource) -> impl Iterator<Item = String> {
    let short = Module::of_group(&resource.group).file;
    let long = match resource.core {
        true => format!("k8s_{short}"),
        false => Module::of_group(&resource.api_group()).file,
    };
    let stem = short.trim_end_matches('_').to_owned();
    let numbered = (2..).map(move |n| {
        let end = format!("_{n}");
        format!("{}{end}", stem[..stem.len().min(MAX_MODULE - end.len())].trim_end_matches('_'))
    });
    [short].into_iter().chain((long.len() <= MAX_MODULE).then_some(long)).chain(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::{ApiRequest, ExternalType, Gvk, Origin};

    fn project() -> Project {
        Project::new("test".to_owned())
    }

    fn own(group: &str) -> ApiRequest {
        ApiRequest { gvk: Gvk::new(group, "v1", "Job"), ..ApiRequest::default() }
    }

    fn core(group: &str, kind: &str) -> ApiRequest {
        let request = ApiRequest { gvk: Gvk::new(group, "v1", kind), ..ApiRequest::default() };
        request.for_core_type().unwrap().unwrap()
    }

    fn external(group: &str, domain: &str) -> ApiRequest {
        let external = ExternalType {
            origin: Origin::Crd,
            domain: domain.to_owned(),
            plural: "jobs".to_owned(),
            namespaced: true,
        };
        ApiRequest { external: Some(external), ..own(group) }
    }

    fn add(project: &Project, request: ApiRequest) -> Result<Project, UserError> {
        project.with_api(&project.check_api(request)?)
    }

    fn modules(requests: Vec<ApiRequest>) -> Vec<String> {
        let project = requests.into_iter().fold(project(), |project, request| {
            add(&project, request).unwrap_or_else(|error| panic!("{error:?}"))
        });
        let module = |r: &Resource| format!("{} {}", r.full_group(), project.module(r).ident);
        project.resources.iter().map(module).collect()
    }

    #[test]
    fn groups_of_the_same_short_name_have_modules_of_their_own() {
        for (requests, expected) in [
            (
                vec![own("batch"), core("batch", "Job")],
                ["batch k8s_batch", "batch.my.domain batch"],
            ),
            (
                vec![core("batch", "Job"), own("batch")],
                ["batch batch", "batch.my.domain batch_my_domain"],
            ),
            (
                vec![external("gateway", "net.k8s.io"), external("gateway", "net.x-k8s.io")],
                ["gateway.net.k8s.io gateway", "gateway.net.x-k8s.io gateway_net_x_k8s_io"],
            ),
            (vec![own("a.b"), own("a-b")], ["a-b.my.domain a_b_my_domain", "a.b.my.domain a_b"]),
            (vec![own("type"), core("batch", "Job")], ["batch batch", "type.my.domain r#type"]),
            (vec![own("mod"), external("mod", "io")], ["mod.io mod_io", "mod.my.domain mod_"]),
        ] {
            assert_eq!(modules(requests), expected);
        }
    }

    #[test]
    fn a_third_group_and_a_long_name_have_a_number() {
        let three = modules(vec![own("a.b"), external("a-b", "my-domain"), own("a-b")]);
        let expected = ["a-b.my-domain a_b_my_domain", "a-b.my.domain a_b_2", "a.b.my.domain a_b"];
        assert_eq!(three, expected);
        let long = "a".repeat(63);
        let both = modules(vec![own(&long), external(&long, "io")]);
        assert_eq!(both[0], format!("{long}.io {}_2", &long[..61]));
    }

    #[test]
    fn requested_module_is_checked_and_recorded() {
        let request = |group, module: &str| {
            let module = Some(module.to_owned());
            ApiRequest { module, ..own(group) }
        };
        let project = add(&project(), request("batch", "jobs")).unwrap();
        assert!(project.to_text().unwrap().contains("modules:\n      batch.my.domain: jobs\n"));
        assert_eq!(Project::parse(&project.to_text().unwrap()).unwrap(), project);
        let same = ApiRequest { gvk: Gvk::new("batch", "v1", "Other"), ..request("batch", "jobs") };
        assert!(add(&project, same.clone()).is_ok());
        for (request, reason) in [
            (request("other", "jobs"), "would share the Rust module `jobs`"),
            (ApiRequest { module: Some("b".to_owned()), ..same }, "has the module `jobs`"),
            (request("other", "Jobs"), "must consist of"),
            (request("other", "mod"), "must consist of"),
            (request("other", "a__b"), "must consist of"),
            (request("other", "../a"), "must consist of"),
        ] {
            let error = add(&project, request).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        // The default one says nothing.
        let project = add(&self::project(), request("batch", "batch")).unwrap();
        assert!(!project.to_text().unwrap().contains("modules"));
    }

    #[test]
    fn what_does_not_change_the_group_does_not_move_its_module() {
        let project = add(&add(&project(), core("batch", "Job")).unwrap(), own("batch")).unwrap();
        let module = |project: &Project| {
            let own = project.resources.iter().find(|r| r.api.is_some()).unwrap();
            project.module(own).file
        };
        let domain =
            super::super::Settings { domain: Some("example.com".to_owned()), ..Default::default() };
        let moved = project.with_settings(domain).unwrap();
        assert_eq!(module(&moved), "batch_my_domain");
        let alone = moved.delete_controller("k8s_batch", "Job").unwrap_err();
        assert!(alone.to_string().contains("is not an API"), "{alone}");
        let alone = moved.delete_api(&Gvk::new("batch", "v1", "Job")).unwrap();
        assert!(alone.resources[0].core, "the project's own group comes first");
        let core = moved.resources.iter().find(|r| r.core).unwrap();
        assert_eq!(module(&moved.without_api(core)), "batch_my_domain");
        let renamed = moved.with_group_renamed("batch", "apps").unwrap();
        assert_eq!(module(&renamed), "apps");
        let back = renamed.with_group_renamed("apps", "batch").unwrap();
        assert_eq!(module(&back), "batch_example_com");
        let named =
            add(&self::project(), ApiRequest { module: Some("jobs".to_owned()), ..own("batch") });
        assert_eq!(module(&named.unwrap().with_group_renamed("batch", "apps").unwrap()), "jobs");
    }
}
