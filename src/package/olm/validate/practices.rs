//! What works, but should not be done (<https://sdk.operatorframework.io/docs/best-practices/>).

use serde_json::Value;

use super::csv::rules;
use super::{BundleDirectory, Problem, Problems};
use crate::package::olm::object::{Object, strings};

/// The beginnings of the names of channels that users expect.
const CHANNELS: [&str; 3] = ["candidate", "fast", "stable"];

pub fn check(bundle: &BundleDirectory) -> Problems {
    let Some(csv) = &bundle.csv else { return Vec::new() };
    let mut problems = Vec::new();
    let deployments = csv.items("/spec/install/spec/deployments");
    if deployments.is_empty() {
        problems.push(Problem::error("spec.install.spec.deployments is empty"));
    }
    let mut warn = |message: String| problems.push(Problem::warning(message));
    for deployment in deployments {
        let containers = deployment.pointer("/spec/template/spec/containers");
        for container in containers.and_then(Value::as_array).into_iter().flatten() {
            let requests = &container["resources"]["requests"];
            if requests["cpu"].is_null() || requests["memory"].is_null() {
                let name = container["name"].as_str().unwrap_or_default();
                warn(format!("the container {name} should request cpu and memory"));
            }
        }
    }
    for list in ["owned", "required"] {
        for entry in csv.items(&format!("/spec/customresourcedefinitions/{list}")) {
            if entry["description"].as_str().is_none_or(str::is_empty) {
                let name = entry["name"].as_str().unwrap_or_default();
                warn(format!("the {list} CRD {name} should have a description"));
            }
        }
    }
    for channel in bundle.channels() {
        if !CHANNELS.iter().any(|start| channel.starts_with(start)) {
            warn(format!("the channel {channel} should begin with candidate, fast or stable"));
        }
    }
    if creates_crds(csv) {
        warn("the permissions include to create CRDs, which OLM should install".to_owned());
    }
    if !is_named_by_version(bundle.name()) {
        warn(format!("metadata.name: `{}` should be <package>.v<version>", bundle.name()));
    }
    problems.extend(objects(bundle));
    problems
}

fn is_named_by_version(name: &str) -> bool {
    let parts: Vec<&str> = name.split(".v").collect();
    matches!(parts[..], [package, version]
        if !package.is_empty() && semver::Version::parse(version).is_ok())
}

fn creates_crds(csv: &Object) -> bool {
    let mut rules = rules(csv).filter(|rule| has(rule, "apiGroups", &["apiextensions.k8s.io"]));
    rules.any(|rule| {
        has(rule, "resources", &["customresourcedefinitions", "*"])
            && has(rule, "verbs", &["create", "patch", "*"])
    })
}

fn has(rule: &Value, list: &str, values: &[&str]) -> bool {
    strings(&rule[list]).any(|item| values.contains(&item))
}

/// Objects that get in the way of others in the cluster.
fn objects(bundle: &BundleDirectory) -> Problems {
    let mut problems = Vec::new();
    for object in &bundle.objects {
        let title = object.title();
        let is = |pointer: &str, values: &[Value]| {
            object.value().pointer(pointer).is_some_and(|value| values.contains(value))
        };
        if object.kind() == "PodDisruptionBudget" {
            if is("/spec/maxUnavailable", &[0.into(), "0".into(), "0%".into()]) {
                let problem = format!("{title}: maxUnavailable 0 lets nobody drain a node");
                problems.push(Problem::error(problem));
            }
            if is("/spec/minAvailable", &["100%".into()]) {
                let problem = format!("{title}: minAvailable 100% lets nobody drain a node");
                problems.push(Problem::error(problem));
            }
        }
        if object.kind() == "PriorityClass" && is("/globalDefault", &[true.into()]) {
            let problem = format!("{title}: globalDefault changes the pods of others");
            problems.push(Problem::error(problem));
        }
    }
    problems
}
