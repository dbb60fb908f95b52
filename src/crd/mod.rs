//! External types: reads a CRD from a file, and generates its Rust types and an object for tests.
//!
//! kopium, kube's generator, is not used, because it depends on kube's client and tokio, and because its
//! output needs chrono, an `allow` and rustfmt.

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

/// One version of an external type, as its CRD defines it.
#[derive(Debug)]
pub struct Crd {
    /// The full name of the API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural.
    pub plural: String,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The manifest of the CRD.
    pub manifest: String,
    schema: Schema,
}

/// Selects a type in a file that may define several.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrdSelector<'a> {
    /// The API group, with or without its domain.
    pub group: Option<&'a str>,
    /// The version; by default the storage version.
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
    /// Reads a CRD from a text with one or more manifests, of which those of other kinds are ignored.
    /// `file` names the source in errors.
    ///
    /// # Errors
    /// A [`UserError`] if not exactly one CRD matches the selector, or if the CRD does not serve the version.
    pub fn read(file: &str, text: &str, selector: CrdSelector<'_>) -> Result<Self, UserError> {
        let error = |reason: String| UserError::invalid_value("--crd <FILE>", file, reason);
        let all = manifests(text).map_err(error)?;
        if all.is_empty() {
            return Err(error("the file contains no CustomResourceDefinition".to_owned())
                .with_hint("get one with `kubectl get crd NAME -o yaml`"));
        }
        let is_selected = |(_, CrdManifest { spec }): &&(String, CrdManifest)| {
            selector.kind.is_none_or(|kind| kind == spec.names.kind)
                && selector.group.is_none_or(|group| {
                    group == spec.group || spec.group.split('.').next() == Some(group)
                })
        };
        let (text, CrdManifest { spec }) =
            match *all.iter().filter(is_selected).collect::<Vec<_>>() {
                [one] => one,
                [] => {
                    return Err(error("the file does not define the requested kind".to_owned())
                        .with_hint(format!("it defines {}", titles(&all))));
                }
                _ => {
                    return Err(error("the file defines several kinds".to_owned()).with_hint(
                        format!("select one with `--kind` and `--group`: {}", titles(&all)),
                    ));
                }
            };
        let is_version = |version: &&CrdVersion| match selector.version {
            Some(name) => version.name == name && version.served,
            None => version.storage,
        };
        let Some(version) = spec.versions.iter().find(is_version) else {
            let served = spec.versions.iter().filter(|version| version.served);
            let served: Vec<&str> = served.map(|version| version.name.as_str()).collect();
            let missing = match selector.version {
                Some(version) => format!("served version `{version}`"),
                None => "storage version".to_owned(),
            };
            return Err(error(format!("{} has no {missing}", spec.names.kind))
                .with_hint(format!("served versions: {}", served.join(", "))));
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

    /// A request for this type, with the other fields of `request`.
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

/// The types of a file in their order, such as `cert-manager.io Certificate`.
fn titles(all: &[(String, CrdManifest)]) -> String {
    let title = |(_, CrdManifest { spec }): &(String, CrdManifest)| {
        format!("{} {}", spec.group, spec.names.kind)
    };
    all.iter().map(title).collect::<Vec<_>>().join(", ")
}

/// The CRDs of a text, each with its part of the text.
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

/// The manifest of a CRD; `None` for other kinds.
fn manifest(value: &Value) -> Option<Result<CrdManifest, String>> {
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    match (field("apiVersion"), field("kind")) {
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
            Some(serde_yaml::from_value(value.clone()).map_err(|error| error.to_string()))
        }
        (version, "CustomResourceDefinition") => Some(Err(format!(
            "unsupported apiVersion `{version}`: Kubernetes serves only apiextensions.k8s.io/v1"
        ))),
        _ => None,
    }
}

/// The YAML documents of a text, except for empty ones.
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
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim().starts_with('#');
    documents.retain(|document| document.lines().any(is_content));
    documents
}
