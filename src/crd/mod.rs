//! Somebody else's CRD: read from a file, and made into Rust types and into an object to test with.
//!
//! kube has a generator of its own, kopium. It brings kube's client and tokio into every program that
//! uses it, and its output needs chrono, an `allow` and rustfmt, so this is a small one instead.

mod object;
mod rust;
mod schema;
mod types;

use serde::Deserialize;
use serde_yaml::Value;

use crate::error::UserError;
use crate::project::{ApiRequest, ExternalType, Gvk, Origin};
pub use object::{MinimalObject, minimal_object};
use schema::Schema;

/// One version of somebody else's kind.
#[derive(Debug)]
pub struct Crd {
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural.
    pub plural: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The manifest that defines it.
    pub manifest: String,
    schema: Schema,
}

/// What is asked for of a file with several.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrdSelector<'a> {
    /// The group, with or without what it ends with.
    pub group: Option<&'a str>,
    /// The version; by default the one that is stored.
    pub version: Option<&'a str>,
    /// The kind.
    pub kind: Option<&'a str>,
}

#[derive(Debug, Deserialize)]
struct CrdManifest {
    spec: CrdSpec,
}

#[derive(Debug, Deserialize)]
struct CrdSpec {
    group: String,
    names: CrdNames,
    scope: String,
    versions: Vec<CrdVersion>,
}

#[derive(Debug, Deserialize)]
struct CrdNames {
    kind: String,
    plural: String,
}

#[derive(Debug, Deserialize)]
struct CrdVersion {
    name: String,
    served: bool,
    storage: bool,
    #[serde(default)]
    schema: CrdValidation,
}

#[derive(Debug, Default, Deserialize)]
struct CrdValidation {
    #[serde(rename = "openAPIV3Schema", default)]
    schema: Schema,
}

impl Crd {
    /// Reads a CRD from a text with one or several manifests, of which others than CRDs do not count.
    ///
    /// # Errors
    /// A [`UserError`] if there is no CRD in it, none or more than one that is asked for, or no such
    /// version that is served.
    pub fn read(file: &str, text: &str, selector: CrdSelector<'_>) -> Result<Self, UserError> {
        let refuse = |what: String| UserError::usage(format!("`--crd` is `{file}`: {what}"));
        let all = manifests(text).map_err(refuse)?;
        if all.is_empty() {
            return Err(refuse("there is no CustomResourceDefinition in it".to_owned())
                .with_hint("get one with `kubectl get crd NAME -o yaml`"));
        }
        let is_meant = |(_, CrdManifest { spec }): &&(String, CrdManifest)| {
            selector.kind.is_none_or(|kind| kind == spec.names.kind)
                && selector.group.is_none_or(|group| {
                    group == spec.group || spec.group.split('.').next() == Some(group)
                })
        };
        let (text, CrdManifest { spec }) = match *all.iter().filter(is_meant).collect::<Vec<_>>() {
            [one] => one,
            [] => {
                return Err(refuse("it defines no kind that is asked for".to_owned())
                    .with_hint(format!("it defines {}", titles(&all))));
            }
            _ => {
                return Err(refuse("it defines several kinds".to_owned()).with_hint(format!(
                    "choose one with `--kind` and `--group`: {}",
                    titles(&all)
                )));
            }
        };
        let is_version = |version: &&CrdVersion| match selector.version {
            Some(name) => version.name == name && version.served,
            None => version.storage,
        };
        let Some(version) = spec.versions.iter().find(is_version) else {
            let served = spec.versions.iter().filter(|version| version.served);
            let served: Vec<&str> = served.map(|version| version.name.as_str()).collect();
            let wanted = selector.version.unwrap_or("that is stored");
            return Err(refuse(format!("{} has no version {wanted}", spec.names.kind))
                .with_hint(format!("it is served as {}", served.join(", "))));
        };
        Ok(Self {
            group: spec.group.clone(),
            version: version.name.clone(),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
            namespaced: spec.scope == "Namespaced",
            manifest: text.clone(),
            schema: version.schema.schema.clone(),
        })
    }

    /// The request for this kind that has these further wishes.
    pub fn request(&self, request: ApiRequest) -> ApiRequest {
        let (group, domain) = self.group.split_once('.').unwrap_or((&self.group, ""));
        ApiRequest {
            gvk: Gvk::new(group, &self.version, &self.kind),
            external: Some(ExternalType {
                origin: Origin::Crd,
                domain: domain.to_owned(),
                plural: self.plural.clone(),
                namespaced: self.namespaced,
            }),
            ..request
        }
    }
}

/// `cert-manager.io Certificate, ...`, in the order of the file.
fn titles(all: &[(String, CrdManifest)]) -> String {
    let title = |(_, CrdManifest { spec }): &(String, CrdManifest)| {
        format!("{} {}", spec.group, spec.names.kind)
    };
    all.iter().map(title).collect::<Vec<_>>().join(", ")
}

/// The CRDs of a text, each with its own part of it.
fn manifests(text: &str) -> Result<Vec<(String, CrdManifest)>, String> {
    let mut all = Vec::new();
    for text in documents(text) {
        let value: Value = serde_yaml::from_str(&text).map_err(|error| error.to_string())?;
        let is_list = value.get("kind").and_then(Value::as_str) == Some("List");
        let items = value.get("items").and_then(Value::as_sequence).filter(|_| is_list);
        match items {
            Some(items) => {
                for item in items {
                    let text = serde_yaml::to_string(item).map_err(|error| error.to_string())?;
                    all.extend(manifest(item).transpose()?.map(|manifest| (text, manifest)));
                }
            }
            None => all.extend(manifest(&value).transpose()?.map(|manifest| (text, manifest))),
        }
    }
    Ok(all)
}

/// A manifest, if it is that of a CRD.
fn manifest(value: &Value) -> Option<Result<CrdManifest, String>> {
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    match (field("apiVersion"), field("kind")) {
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
            Some(serde_yaml::from_value(value.clone()).map_err(|error| error.to_string()))
        }
        (version, "CustomResourceDefinition") => Some(Err(format!(
            "its apiVersion is `{version}`, and Kubernetes knows only apiextensions.k8s.io/v1"
        ))),
        _ => None,
    }
}

/// The YAML documents of a text, without those that are empty.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line == "---" || line.starts_with("--- ") {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    let says_something = |line: &str| !line.trim().is_empty() && !line.trim().starts_with('#');
    documents.retain(|document| document.lines().any(says_something));
    documents
}
