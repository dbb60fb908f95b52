//! The ClusterServiceVersion by itself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{BundleDirectory, Problem, Problems};
use crate::package::olm::object::Object;

/// Annotations that OLM finds only if their case is right.
const CASED: [&str; 5] = [
    "olm.operatorGroup",
    "olm.operatorNamespace",
    "olm.targetNamespaces",
    "olm.providedAPIs",
    "olm.skipRange",
];

/// A type, by group, version and kind.
type Type = (String, String, String);

pub fn check(bundle: &BundleDirectory) -> Problems {
    let Some(csv) = &bundle.csv else { return Vec::new() };
    let mut problems = Vec::new();
    for (field, pointer) in
        [("metadata.name", "/metadata/name"), ("spec.replaces", "/spec/replaces")]
    {
        let name = csv.text(pointer);
        let is_required = pointer == "/metadata/name";
        if (is_required || !name.is_empty()) && !(is_subdomain(name) && name.len() <= 63) {
            problems.push(Problem::error(format!(
                "{field}: `{name}` must be a DNS subdomain of at most 63 characters"
            )));
        }
    }
    problems.extend(examples(csv));
    problems.extend(install_modes(csv));
    // `1.29` without quotes is a number.
    let minimum = csv.value().pointer("/spec/minKubeVersion").filter(|value| !value.is_null());
    let minimum =
        minimum.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    match minimum.unwrap_or_default().trim() {
        "" => problems.push(Problem::warning(
            "spec.minKubeVersion is missing: the operator could be installed on any version of Kubernetes",
        )),
        version if semver::Version::parse(version).is_err() => problems.push(Problem::error(
            format!("spec.minKubeVersion: `{version}` must be a version such as 1.29.0"),
        )),
        _ => {}
    }
    problems.extend(required_fields(csv));
    for name in annotations(csv) {
        let right = CASED.iter().find(|cased| cased.eq_ignore_ascii_case(name) && **cased != name);
        if let Some(right) = right {
            problems.push(Problem::error(format!("the annotation {name} must be spelt {right}")));
        }
        if name == "olm.properties" {
            problems.push(Problem::warning(
                "the annotation olm.properties: define them in metadata/properties.yaml instead",
            ));
        }
    }
    problems
}

fn annotations(csv: &Object) -> impl Iterator<Item = &str> {
    let annotations = csv.value().pointer("/metadata/annotations").and_then(Value::as_object);
    annotations.into_iter().flat_map(|annotations| annotations.keys().map(String::as_str))
}

/// Fields without which OLM refuses a ClusterServiceVersion.
fn required_fields(csv: &Object) -> Problems {
    let is_empty = |pointer: &str| match csv.value().pointer(pointer) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        _ => false,
    };
    let mut required = vec!["/metadata", "/spec"];
    if !is_empty("/spec") {
        required.extend(["/spec/install", "/spec/displayName"]);
    }
    if !is_empty("/spec/install") {
        required.push("/spec/install/strategy");
    }
    if !is_empty("/spec/install/spec") {
        required.push("/spec/install/spec/deployments");
    }
    let missing = required.into_iter().filter(|pointer| is_empty(pointer));
    let problem =
        |pointer: &str| Problem::error(format!("{} is missing", pointer[1..].replace('/', ".")));
    missing.map(problem).collect()
}

/// The examples are of the kinds that the operator defines, and each has one.
fn examples(csv: &Object) -> Problems {
    let mut names = annotations(csv).peekable();
    if names.peek().is_none() {
        return vec![Problem::warning("metadata.annotations is missing, and with it the examples")];
    }
    let annotations = (csv.annotation("alm-examples"), csv.annotation("olm.examples"));
    let (text, mut problems) = match annotations {
        (None, None) => return vec![Problem::warning("the annotation alm-examples is missing")],
        (Some(text), Some(_)) => {
            let problem = "there are both alm-examples and olm.examples: the first is used";
            (text, vec![Problem::warning(problem)])
        }
        (Some(text), None) | (None, Some(text)) => (text, Vec::new()),
    };
    let examples: Vec<Value> = match serde_json::from_str(text) {
        Ok(examples) => examples,
        Err(_) if text.is_empty() => Vec::new(),
        Err(error) => {
            problems
                .push(Problem::error(format!("the annotation alm-examples is invalid: {error}")));
            return problems;
        }
    };
    let examples: BTreeSet<Type> = examples.into_iter().map(type_of).collect();
    let provided = provided(csv, &mut problems);
    for unknown in examples.difference(&provided) {
        let problem = format!("there is an example of {}, which is not provided", title(unknown));
        problems.push(Problem::error(problem));
    }
    for missing in provided.difference(&examples) {
        let problem = format!("{} should have an example in alm-examples", title(missing));
        problems.push(Problem::warning(problem));
    }
    problems
}

fn type_of(example: Value) -> Type {
    let object = Object::new(example);
    (object.group().to_owned(), object.version().to_owned(), object.kind().to_owned())
}

fn title((group, version, kind): &Type) -> String {
    format!("{group}/{version} {kind}")
}

/// The types that the operator provides.
fn provided(csv: &Object, problems: &mut Problems) -> BTreeSet<Type> {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let mut provided = BTreeSet::new();
    for entry in csv.items("/spec/customresourcedefinitions/owned") {
        let name = text(entry, "name");
        match name.split_once('.') {
            Some((_, group)) => {
                provided.insert((group.to_owned(), text(entry, "version"), text(entry, "kind")));
            }
            None => problems.push(Problem::error(format!(
                "the owned CRD `{name}` must be named <plural>.<group>"
            ))),
        }
    }
    for entry in csv.items("/spec/apiservicedefinitions/owned") {
        provided.insert((text(entry, "group"), text(entry, "version"), text(entry, "kind")));
    }
    provided
}

/// The ways to install the operator.
fn install_modes(csv: &Object) -> Problems {
    let modes = csv.items("/spec/installModes");
    if modes.is_empty() {
        return vec![Problem::error("spec.installModes is missing")];
    }
    let mut problems = Vec::new();
    let supported: Vec<&str> = modes
        .iter()
        .filter(|mode| mode["supported"] == true)
        .filter_map(|mode| mode["type"].as_str())
        .collect();
    if supported.is_empty() {
        problems.push(Problem::error("spec.installModes: none is supported"));
    }
    let mut webhooks = csv.items("/spec/webhookdefinitions").iter();
    let converts = webhooks
        .any(|webhook| webhook["conversionCRDs"].as_array().is_some_and(|crds| !crds.is_empty()));
    if converts && supported != ["AllNamespaces"] {
        problems.push(Problem::error(
            "spec.installModes: only AllNamespaces may be supported, because a webhook converts CRDs",
        ));
    }
    problems
}

/// The rules of all service accounts.
pub fn rules(csv: &Object) -> impl Iterator<Item = &Value> {
    let entries = ["permissions", "clusterPermissions"]
        .map(|list| csv.items(&format!("/spec/install/spec/{list}")));
    let entries = entries.into_iter().flatten();
    entries.flat_map(|entry| entry["rules"].as_array().into_iter().flatten())
}

/// Whether a name is a DNS subdomain.
pub fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        let ends = [label.chars().next(), label.chars().last()];
        label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && ends.iter().all(|c| c.is_some_and(|c| c != '-'))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
