//! The variables of templates: a view of the model.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::Serialize;

use super::rustfmt;
use crate::project::names::Module;
use crate::project::options::RecipeOptions;
use crate::project::version::ApiVersion;
use crate::project::{self, Feature, License, builtin};

/// The maximum length of `version::Kind` in recipes. Up to this length their lines break in the same
/// way, except for the signatures that [`rustfmt::tidy`] breaks.
const LONGEST_PATH: usize = 30;

/// The project, as templates see it.
#[derive(Debug, Clone, Serialize)]
pub struct ProjectContext {
    name: String,
    domain: String,
    namespaced: bool,
    features: BTreeSet<Feature>,
    license: License,
    owner: String,
    opctl_version: String,
    image: Option<ImageContext>,
}

/// The image that is deployed, as templates see it.
#[derive(Debug, Clone, Serialize)]
struct ImageContext {
    name: String,
    digest: String,
}

/// An API group, as templates see it.
#[derive(Debug, Clone, Serialize)]
pub struct GroupContext {
    /// The group without the domain.
    pub name: String,
    /// Its name in `PROJECT.lock`.
    #[serde(skip)]
    pub label: String,
    /// The name of its directory.
    pub file: String,
    /// Its Rust identifier.
    pub module: String,
    api_group: String,
    /// The versions, in the order in which rustfmt sorts modules.
    pub versions: Vec<VersionContext>,
    /// The storage version of every kind.
    pub kinds: Vec<ResourceContext>,
    /// The storage version of every kind with a controller.
    pub controllers: Vec<ResourceContext>,
}

/// A version of a group, as templates see it.
#[derive(Debug, Clone, Serialize)]
pub struct VersionContext {
    /// The version.
    pub name: String,
    file: String,
    module: String,
    /// The kinds of this version.
    pub resources: Vec<ResourceContext>,
}

/// A resource, as templates see it: one version of a kind.
#[derive(Debug, Clone, Serialize)]
pub struct ResourceContext {
    /// The group without the domain.
    pub group: String,
    domain: String,
    /// The full group.
    pub api_group: String,
    /// The version.
    pub version: String,
    /// The full group with the version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The kind in lower case.
    pub kind_lower: String,
    /// The stem of the kind's files.
    pub kind_file: String,
    kind_module: String,
    /// The name of the group in `PROJECT.lock`, which no other group of the project has.
    #[serde(skip)]
    pub group_label: String,
    /// The name of the group's directory.
    pub group_file: String,
    group_module: String,
    version_module: String,
    /// The plural.
    pub plural: String,
    singular: String,
    namespaced: bool,
    api: bool,
    /// Whether it is a core type.
    core: bool,
    /// Whether it is an external type: one that a CRD of another project defines.
    external: bool,
    /// The path of the module with its types, from the operator's crate.
    module: String,
    /// Whether the kind has a controller that uses this version.
    pub controller: bool,
    storage: bool,
    /// The recipe of the resource.
    pub recipe: String,
    /// The options of the recipe.
    options: OptionsContext,
    /// Whether `version::Kind` is too long to be written out.
    long: bool,
    /// The Rust name of the type: `version::Kind`, or if that is too long `Resource`, the alias of
    /// its import. Never the kind alone, so that a `Box` or a `Deployment` shadows nothing.
    ty: String,
}

/// The options of a recipe; null or empty if not set.
#[derive(Debug, Clone, Default, Serialize)]
struct OptionsContext {
    image: Option<String>,
    /// The program and its arguments.
    command: Vec<String>,
    /// Digits.
    port: Option<String>,
    /// Digits.
    user: Option<String>,
}

impl OptionsContext {
    fn new(options: &RecipeOptions) -> Self {
        Self {
            image: options.image.clone(),
            command: options.command().into_iter().map(str::to_owned).collect(),
            port: options.container_port.clone(),
            user: options.run_as_user.clone(),
        }
    }
}

impl ProjectContext {
    /// The view of a project.
    pub fn new(project: &project::Project) -> Self {
        Self {
            name: project.project_name.clone(),
            domain: project.domain.clone(),
            namespaced: project.namespaced,
            features: project.features().clone(),
            license: project.license(),
            owner: project.owner(),
            opctl_version: project.cli_version.clone(),
            image: project.image().map(|image| ImageContext {
                name: image.name.clone(),
                digest: image.digest.clone(),
            }),
        }
    }

    /// The license comment at the start of a file, each line after `comment`; empty without a license.
    pub fn header(&self, comment: &str) -> String {
        let spdx = match self.license {
            License::Apache2 => "Apache-2.0",
            License::Mit => "MIT",
            License::None => return String::new(),
        };
        format!("{comment} Copyright {}\n{comment} SPDX-License-Identifier: {spdx}\n", self.owner)
    }
}

/// All resources, sorted by group, kind and version.
pub fn resources(project: &project::Project) -> Vec<ResourceContext> {
    let mut contexts = Vec::with_capacity(project.resources.len());
    for resource in &project.resources {
        let storage = project.storage(&resource.group, &resource.kind);
        let storage = storage.is_some_and(|s| s.is_same_version(resource));
        contexts.push(ResourceContext::new(project, resource, storage));
    }
    contexts.sort_by(by_group_kind_version);
    contexts
}

fn by_group_kind_version(a: &ResourceContext, b: &ResourceContext) -> Ordering {
    let versions = || ApiVersion::parse(&a.version).ok().cmp(&ApiVersion::parse(&b.version).ok());
    (&a.group, &a.api_group, &a.kind).cmp(&(&b.group, &b.api_group, &b.kind)).then_with(versions)
}

impl ResourceContext {
    /// The view of a resource, which may be the storage version of its kind.
    pub fn new(project: &project::Project, resource: &project::Resource, storage: bool) -> Self {
        let group = project.module(resource);
        let kind = Module::of_kind(&resource.kind);
        let api_group = resource.api_group();
        let path = format!("{}::{}", resource.version, resource.kind);
        let long = path.len() > LONGEST_PATH;
        let module = match resource.core.then(|| builtin::find(&resource.gvk())) {
            Some(Ok((builtin, _))) => builtin.module.clone(),
            _ => format!("crate::api::{}::{}", group.ident, resource.version),
        };
        Self {
            group: resource.group.clone(),
            domain: resource.domain.clone(),
            api_version: match api_group.as_str() {
                "" => resource.version.clone(),
                group => format!("{group}/{}", resource.version),
            },
            api_group,
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            kind_lower: resource.kind.to_ascii_lowercase(),
            kind_file: kind.file,
            kind_module: kind.ident,
            group_label: project.group_label(resource),
            group_file: group.file,
            group_module: group.ident,
            version_module: resource.version.clone(),
            plural: resource.plural(),
            singular: resource.kind.to_ascii_lowercase(),
            namespaced: resource.namespaced(),
            api: resource.api.is_some(),
            core: resource.core,
            external: resource.external,
            module,
            controller: resource.controller,
            storage,
            recipe: project.recipe(resource).to_owned(),
            options: project.options(resource).map(OptionsContext::new).unwrap_or_default(),
            long,
            ty: if long { "Resource".to_owned() } else { path },
        }
    }

    /// The name of the type in messages, such as `cache/v1alpha1 Memcached`.
    pub fn title(&self) -> String {
        format!("{}/{} {}", self.group, self.version, self.kind)
    }

    /// The name of the type in `PROJECT.lock`, such as `cache/v1alpha1/Memcached`.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.group_label, self.version, self.kind)
    }

    /// Whether this is the storage version.
    pub fn is_storage(&self) -> bool {
        self.storage
    }

    /// The image in the options of the recipe.
    pub fn image(&self) -> Option<&str> {
        self.options.image.as_deref()
    }

    /// Whether the project defines the resource.
    pub fn has_api(&self) -> bool {
        self.api
    }
}

/// The groups of resources, which must be sorted by API group.
pub fn groups(resources: &[ResourceContext]) -> Vec<GroupContext> {
    let mut groups: Vec<GroupContext> =
        resources.chunk_by(|a, b| a.api_group == b.api_group).map(GroupContext::new).collect();
    groups.sort_by(|a, b| rustfmt::by_module(&a.module, &b.module));
    groups
}

impl GroupContext {
    fn new(resources: &[ResourceContext]) -> Self {
        let mut resources = resources.to_vec();
        resources.sort_by(|a, b| rustfmt::by_module(&a.kind_module, &b.kind_module));
        let first = &resources[0];
        let mut versions: Vec<VersionContext> = Vec::new();
        for resource in resources.iter().filter(|r| r.api || r.external) {
            match versions.iter_mut().find(|v| v.name == resource.version) {
                Some(version) => version.resources.push(resource.clone()),
                None => versions.push(VersionContext {
                    name: resource.version.clone(),
                    file: resource.version.clone(),
                    module: resource.version_module.clone(),
                    resources: vec![resource.clone()],
                }),
            }
        }
        versions.sort_by(|a, b| rustfmt::by_module(&a.module, &b.module));
        let pick =
            |keep: fn(&&ResourceContext) -> bool| resources.iter().filter(keep).cloned().collect();
        Self {
            name: first.group.clone(),
            label: first.group_label.clone(),
            file: first.group_file.clone(),
            module: first.group_module.clone(),
            api_group: first.api_group.clone(),
            versions,
            kinds: pick(|r| r.storage),
            controllers: pick(|r| r.controller),
        }
    }
}
