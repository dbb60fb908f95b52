//! The ClusterServiceVersion of a bundle: what the user has written, with what follows from the manifests.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::object::Object;
use crate::error::UserError;
use crate::text::one_line;

/// The API group of ClusterServiceVersions.
pub const GROUP: &str = "operators.coreos.com";
/// Their kind.
pub const KIND: &str = "ClusterServiceVersion";

/// A ClusterServiceVersion. Fields that opctl does not write are preserved.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Csv {
    api_version: String,
    kind: String,
    /// The name and the annotations.
    pub metadata: Metadata,
    /// What OLM installs, and what catalogs show.
    pub spec: Spec,
}

/// The metadata of a ClusterServiceVersion.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Metadata {
    /// The package and the version.
    pub name: String,
    /// Settings for catalogs.
    #[serde(default, deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// The specification of a ClusterServiceVersion.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// The version of the operator.
    #[serde(default)]
    pub version: String,
    /// The deployments and their permissions.
    #[serde(default, deserialize_with = "or_default")]
    pub install: Install,
    /// The kinds of the operator.
    #[serde(default, deserialize_with = "or_default")]
    pub customresourcedefinitions: Crds,
    /// The webhooks of the operator.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub webhookdefinitions: Vec<Value>,
    /// The images that a cluster without access to the internet needs.
    #[serde(
        default,
        rename = "relatedImages",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub related_images: Vec<RelatedImage>,
    /// How the operator can be installed.
    #[serde(rename = "installModes", default, deserialize_with = "or_default")]
    pub install_modes: Vec<Value>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// How OLM installs an operator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Install {
    /// `deployment`, the only strategy.
    #[serde(default)]
    pub strategy: String,
    /// What is installed.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: Strategy,
}

/// What OLM installs besides the objects of a bundle.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// The deployments.
    #[serde(deserialize_with = "or_default")]
    pub deployments: Vec<Value>,
    /// The permissions in the namespace of the operator.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Value>,
    /// The permissions in the cluster.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub cluster_permissions: Vec<Value>,
}

/// The kinds of an operator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Crds {
    /// Those that it defines, an entry for each version.
    #[serde(deserialize_with = "or_default")]
    pub owned: Vec<OwnedCrd>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// A version of a kind that the operator defines.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnedCrd {
    /// The name of the CRD.
    pub name: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// Its name for people.
    pub display_name: String,
    /// What an object of it is.
    pub description: String,
    /// The kinds of the objects that the operator creates for an object of it.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Value>,
    /// The fields of `spec`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub spec_descriptors: Vec<Descriptor>,
    /// The fields of `status`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub status_descriptors: Vec<Descriptor>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// What a field is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Descriptor {
    /// The path below `spec` or `status`.
    pub path: String,
    /// Its name for people.
    pub display_name: String,
    /// What it does.
    pub description: String,
    /// How consoles show it.
    #[serde(
        rename = "x-descriptors",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub kinds: Vec<String>,
    #[serde(flatten)]
    pub(super) other: Map<String, Value>,
}

/// An image that the operator uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelatedImage {
    /// What it is for.
    pub name: String,
    /// Where it is.
    pub image: String,
}

/// A value, or the default for null, which generators of Go write for empty lists.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Csv {
    /// What the user has written.
    ///
    /// # Errors
    /// If a field has the wrong type.
    pub fn parse(object: Object) -> Result<Self, UserError> {
        let title = object.title();
        serde_json::from_value(object.into_value()).map_err(|error| {
            UserError::failure(format!("invalid {title}: {}", one_line(&error.to_string())))
        })
    }

    /// The whole object.
    ///
    /// # Errors
    /// None: every value is one of JSON.
    pub fn to_object(&self) -> Result<Object, serde_json::Error> {
        Ok(Object::new(serde_json::to_value(self)?))
    }

    /// Sets an annotation.
    pub fn annotate(&mut self, name: &str, value: impl Into<String>) {
        self.metadata.annotations.insert(name.to_owned(), value.into());
    }

    /// Names a version of the package.
    pub fn set_version(&mut self, package: &str, version: &str) {
        self.metadata.name = format!("{package}.v{version}");
        self.metadata.other.remove("namespace");
        version.clone_into(&mut self.spec.version);
    }
}

impl OwnedCrd {
    /// A version without any text.
    pub fn new(name: &str, version: &str, kind: &str) -> Self {
        let [name, version, kind] = [name, version, kind].map(str::to_owned);
        Self { name, version, kind, ..Self::default() }
    }

    /// Whether it is this version of this CRD.
    pub fn is(&self, name: &str, version: &str, kind: &str) -> bool {
        (self.name.as_str(), self.version.as_str(), self.kind.as_str()) == (name, version, kind)
    }
}
