//! The model of a project: the contents of `PROJECT`, and the changes that commands make to it.
//!
//! The field names are those of kubebuilder's `PROJECT` version 3, so that its users and their
//! scripts can read it. Unknown fields are preserved at every level.

mod api;
pub mod builtin;
mod check;
mod delete;
mod edit;
mod external;
mod feature;
mod file;
mod gvk;
pub mod image;
mod module;
pub mod names;
pub mod options;
pub mod plural;
mod rename;
pub mod version;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_yaml::Mapping;

pub use api::{ApiRequest, CheckedApi, NAMESPACED, PLURAL, check_value, flag_of};
pub use edit::{KindRequest, Settings};
pub use external::{ExternalType, Origin};
pub use feature::{FEATURES_FILE, Feature, chosen, listed};
pub(crate) use file::invalid_project;
pub use gvk::Gvk;
use image::PinnedImage;
use options::RecipeOptions;
use version::ApiVersion;

/// The name of the file that holds the model, in the root directory of a project.
pub const FILE: &str = "PROJECT";
/// The entry of `layout` and of `plugins` that identifies a project of opctl.
pub const LAYOUT: &str = "rust.opctl/v1";
/// The version of the format of `PROJECT`.
const FORMAT: &str = "3";
/// The default domain of the API groups.
pub const DEFAULT_DOMAIN: &str = "my.domain";
/// The version of opctl, which is also the version of its newest template set.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The command that installs opctl, for hints and for the texts of projects. opctl is not published yet.
///
/// # Caveats
/// Templates render it: the template sets of released versions have to keep their value.
pub const INSTALL: &str = "cargo install --locked --path <checkout of opctl>";

/// A project, as `PROJECT` holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// The version of the template set that the project was rendered with.
    pub cli_version: String,
    /// The domain of the API groups that the project defines.
    pub domain: String,
    layout: Vec<String>,
    /// Whether the operator watches only its own namespace.
    #[serde(default, skip_serializing_if = "is_false")]
    pub namespaced: bool,
    #[serde(default)]
    plugins: Plugins,
    /// The name of the Cargo package, and the prefix of the operator's objects.
    pub project_name: String,
    /// Sorted by group, kind and version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    version: String,
    #[serde(flatten)]
    unknown: Mapping,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Plugins {
    #[serde(rename = "rust.opctl/v1", default)]
    opctl: PluginConfig,
    #[serde(flatten)]
    unknown: Mapping,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct PluginConfig {
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    features: BTreeSet<Feature>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<PinnedImage>,
    #[serde(default)]
    license: License,
    /// The Rust modules of the API groups that do not have the default one, by the full name of the group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    modules: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resources: Vec<RecipeChoice>,
    #[serde(flatten)]
    unknown: Mapping,
}

/// The recipe of a resource, with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RecipeChoice {
    domain: String,
    group: String,
    kind: String,
    #[serde(default, skip_serializing_if = "RecipeOptions::is_empty")]
    options: RecipeOptions,
    recipe: String,
    /// Whether the version is stored though it is not the lowest one.
    #[serde(default, skip_serializing_if = "is_false")]
    storage: bool,
    version: String,
    #[serde(flatten)]
    unknown: Mapping,
}

/// The license of the generated project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum License {
    /// Apache-2.0
    #[default]
    Apache2,
    /// MIT
    Mit,
    /// No license file and no headers
    None,
}

/// One version of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// How the resource is served, if the project defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// Whether the project has a controller for the kind. Set on the storage version only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub controller: bool,
    /// Whether it is a core type.
    #[serde(default, skip_serializing_if = "is_false")]
    pub core: bool,
    /// The domain of the API group; that of the project for the types that it defines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Whether it is an external type: one that a CRD of another project defines.
    #[serde(default, skip_serializing_if = "is_false")]
    pub external: bool,
    /// The API group without the domain.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// Whether an external or core type is namespaced. [`Api`] has the scope of the project's own.
    #[serde(default, skip_serializing_if = "is_false")]
    namespaced: bool,
    /// The plural, unless it is the regular one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plural: Option<String>,
    /// The version.
    pub version: String,
    #[serde(flatten)]
    unknown: Mapping,
}

/// How the API server serves a resource that the project defines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Api {
    crd_version: String,
    /// Whether the resource is namespaced.
    #[serde(default, skip_serializing_if = "is_false")]
    pub namespaced: bool,
    #[serde(flatten)]
    unknown: Mapping,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Project {
    /// A project without resources, with the default settings.
    pub fn new(name: String) -> Self {
        Self {
            cli_version: VERSION.to_owned(),
            domain: DEFAULT_DOMAIN.to_owned(),
            layout: vec![LAYOUT.to_owned()],
            namespaced: false,
            plugins: Plugins::default(),
            project_name: name,
            resources: Vec::new(),
            version: FORMAT.to_owned(),
            unknown: Mapping::new(),
        }
    }

    /// The license of the generated project.
    pub fn license(&self) -> License {
        self.plugins.opctl.license
    }

    /// The optional parts of the deployment.
    pub fn features(&self) -> &BTreeSet<Feature> {
        &self.plugins.opctl.features
    }

    /// The image that is deployed, if one is pinned.
    pub fn image(&self) -> Option<&PinnedImage> {
        self.plugins.opctl.image.as_ref()
    }

    /// The copyright holder.
    pub fn owner(&self) -> String {
        self.plugins
            .opctl
            .owner
            .clone()
            .unwrap_or_else(|| format!("The {} Authors", self.project_name))
    }

    /// The recipe of a resource.
    pub fn recipe(&self, resource: &Resource) -> &str {
        if resource.is_external_or_core() {
            return EXTERNAL_RECIPE;
        }
        self.recipe_choice(resource).map_or(NO_RECIPE, |choice| &choice.recipe)
    }

    /// The options of the recipe of a resource, if a recipe is recorded.
    pub fn options(&self, resource: &Resource) -> Option<&RecipeOptions> {
        self.recipe_choice(resource).map(|choice| &choice.options)
    }

    fn recipe_choice(&self, resource: &Resource) -> Option<&RecipeChoice> {
        self.plugins.opctl.resources.iter().find(|choice| choice.is_for(resource))
    }

    /// The storage version of a kind: the one that a CRD has made it, else the lowest one with an API, so
    /// that it does not depend on the order in which the versions were created.
    pub fn storage(&self, group: &str, kind: &str) -> Option<&Resource> {
        let is_chosen = |r: &Resource| self.recipe_choice(r).is_some_and(|choice| choice.storage);
        self.versions(group, kind)
            .min_by_key(|r| (!is_chosen(r), ApiVersion::parse(&r.version).ok()))
    }

    /// The resource of a type that the project defines.
    pub fn resource(&self, gvk: &Gvk) -> Option<&Resource> {
        self.versions(&gvk.group, &gvk.kind).find(|r| r.version == gvk.version)
    }

    /// All versions of a kind that the project defines.
    pub fn versions<'a, 'b>(
        &'a self,
        group: &'b str,
        kind: &'b str,
    ) -> impl Iterator<Item = &'a Resource> + use<'a, 'b> {
        let is_meant = move |r: &&Resource| r.api.is_some() && r.group == group && r.kind == kind;
        self.resources.iter().filter(is_meant)
    }

    /// The resource of the project that is the same version of the same kind.
    pub fn find(&self, resource: &Resource) -> Option<&Resource> {
        self.resources.iter().find(|r| r.is_same_version(resource))
    }
}

/// The recipe of APIs for which no other was chosen: an empty reconciler.
pub const NO_RECIPE: &str = "none";
/// The recipe of own kinds whose types are made from a CRD.
pub const CRD_RECIPE: &str = "crd";
/// The recipe of all external and core types.
pub const EXTERNAL_RECIPE: &str = "foreign";

impl RecipeChoice {
    fn is_for(&self, resource: &Resource) -> bool {
        let r = resource;
        (&self.group, &self.domain, &self.kind, &self.version)
            == (&r.group, &r.domain, &r.kind, &r.version)
    }
}

impl Resource {
    /// The plural.
    pub fn plural(&self) -> String {
        self.plural.clone().unwrap_or_else(|| plural::regular(&self.kind))
    }

    /// Whether both are the same version of the same kind.
    pub fn is_same_version(&self, other: &Self) -> bool {
        self.is_same_kind(other) && self.version == other.version
    }

    /// Whether both are versions of the same kind.
    pub fn is_same_kind(&self, other: &Self) -> bool {
        (&self.group, &self.domain, &self.kind) == (&other.group, &other.domain, &other.kind)
    }

    /// The type of the resource.
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&self.group, &self.version, &self.kind)
    }

    /// Whether the resource is namespaced.
    pub fn namespaced(&self) -> bool {
        self.namespaced || self.api.as_ref().is_some_and(|api| api.namespaced)
    }

    /// Whether it is an external or core type, which the project does not define.
    pub fn is_external_or_core(&self) -> bool {
        self.core || self.external
    }

    /// The full name of the API group; `core` for the core group.
    fn full_group(&self) -> String {
        match self.api_group() {
            core if core.is_empty() => builtin::CORE.to_owned(),
            group => group,
        }
    }

    /// The full name of the API group; empty for the core group.
    pub fn api_group(&self) -> String {
        match (self.core, self.group.as_str(), self.domain.as_str()) {
            (true, builtin::CORE, _) => String::new(),
            (_, group, "") => group.to_owned(),
            (_, group, domain) => format!("{group}.{domain}"),
        }
    }
}
