//! The manifests of a file, and the part of them that opctl reads.

use serde::Deserialize;
use serde_yaml::Value;

use super::schema::Schema;
use crate::text::one_line;
use crate::yaml::{self, Limit};

/// The maximum size of a file, several times that of the largest bundles of CRDs.
pub const LIMIT: Limit = Limit { megabytes: 10 };

#[derive(Debug, Deserialize)]
pub struct CrdManifest {
    pub spec: CrdSpec,
}

#[derive(Debug, Deserialize)]
pub struct CrdSpec {
    pub group: String,
    pub names: CrdNames,
    pub scope: String,
    pub versions: Vec<CrdVersion>,
}

#[derive(Debug, Deserialize)]
pub struct CrdNames {
    pub kind: String,
    pub plural: String,
}

#[derive(Debug, Deserialize)]
pub struct CrdVersion {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    #[serde(default)]
    pub schema: CrdValidation,
}

#[derive(Debug, Default, Deserialize)]
pub struct CrdValidation {
    #[serde(rename = "openAPIV3Schema", default)]
    pub schema: Schema,
}

/// The types of a file in their order, such as `cert-manager.io Certificate`.
pub fn titles(all: &[(String, CrdManifest)]) -> String {
    let title = |(_, CrdManifest { spec }): &(String, CrdManifest)| {
        one_line(&format!("{} {}", spec.group, spec.names.kind)).into_owned()
    };
    all.iter().map(title).collect::<Vec<_>>().join(", ")
}

/// The CRDs of a text, each with its part of the text.
pub fn manifests(text: &str) -> Result<Vec<(String, CrdManifest)>, String> {
    let mut all = Vec::new();
    for text in documents(text) {
        let value = LIMIT.parse(&text)?;
        let is_list = value.get("kind").and_then(Value::as_str) == Some("List");
        let items = value.get("items").and_then(Value::as_sequence).filter(|_| is_list);
        match items {
            Some(items) => {
                for item in items {
                    let text = serde_yaml::to_string(item).map_err(|error| error.to_string())?;
                    all.extend(manifest(item, None).transpose()?.map(|manifest| (text, manifest)));
                }
            }
            None => {
                let manifest = manifest(&value, Some(&text)).transpose()?;
                all.extend(manifest.map(|manifest| (text, manifest)));
            }
        }
    }
    Ok(all)
}

/// The manifest of a CRD; `None` for other kinds. `text` is that of the value, if the value is a document.
fn manifest(value: &Value, text: Option<&str>) -> Option<Result<CrdManifest, String>> {
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    match (field("apiVersion"), field("kind")) {
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
            Some(yaml::check_json(value, f64::MAX).and_then(|()| {
                let manifest = serde_yaml::from_value(value.clone());
                // Errors of the text have the path and the line.
                let manifest = manifest.or_else(|error| match text {
                    Some(text) => serde_yaml::from_str(text),
                    None => Err(error),
                });
                manifest.map_err(|error| one_line(&error.to_string()).into_owned())
            }))
        }
        (version, "CustomResourceDefinition") => Some(Err(format!(
            "unsupported apiVersion `{}`: Kubernetes serves only apiextensions.k8s.io/v1",
            one_line(version)
        ))),
        _ => None,
    }
}

/// The YAML documents of a text, except for empty ones.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        let after_marker = line
            .strip_prefix("---")
            .filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if let Some(rest) = after_marker {
            documents.push(String::new());
            // A document can begin on the line of its marker.
            if rest.trim().is_empty() || rest.trim().starts_with('#') {
                continue;
            }
        }
        if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim().starts_with('#');
    documents.retain(|document| document.lines().any(is_content));
    documents
}
