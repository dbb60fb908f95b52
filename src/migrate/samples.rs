//! The samples of a Go project.

use std::collections::BTreeMap;

use serde_yaml::Value;

use super::LIMIT;
use super::files::Files;
use crate::crd::OwnKind;

/// A sample of a version.
#[derive(Debug)]
pub struct Sample {
    /// Where it is in the Go project.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The samples of a kind by version: the files with one object that has a spec. kubebuilder's own samples have
/// none, and Kubernetes refuses them where a field is required.
pub fn of(files: &Files, kind: &OwnKind) -> BTreeMap<String, Sample> {
    let mut samples = BTreeMap::new();
    for (path, text) in files.texts("config/samples/", ".yaml") {
        let Ok(value) = LIMIT.parse(text) else { continue };
        let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let version = field("apiVersion").strip_prefix(kind.group.as_str());
        let version = version.and_then(|version| version.strip_prefix('/'));
        let Some(version) = version.filter(|_| field("kind") == kind.kind) else { continue };
        if value.get("spec").is_none_or(Value::is_null) {
            continue;
        }
        let text = text.strip_prefix("---\n").unwrap_or(text).trim_end();
        let sample = Sample { path: path.to_owned(), text: format!("{text}\n") };
        samples.entry(version.to_owned()).or_insert(sample);
    }
    samples
}
