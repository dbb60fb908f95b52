//! What OLM v1 refuses, though version 0 installs it
//! (<https://operator-framework.github.io/operator-controller/project/olmv1_limitations/>).

use std::collections::BTreeSet;

use serde_json::Value;

use super::BundleDirectory;
use super::csv::{is_subdomain, rules};
use crate::package::olm::object::{Object, strings};

/// Properties that are dependencies on other packages.
const REQUIRED: [&str; 3] = ["olm.constraint", "olm.gvk.required", "olm.package.required"];
/// API groups whose objects a webhook must not stop.
const FORBIDDEN: [&str; 2] = ["*", "olm.operatorframework.io"];
/// The kinds of the configurations of webhooks, which a webhook must not stop either.
const CONFIGURATIONS: [&str; 3] =
    ["*", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

pub fn check(bundle: &BundleDirectory) -> Vec<String> {
    let Some(csv) = &bundle.csv else { return Vec::new() };
    let mut problems = dependencies(bundle);
    problems.extend(install_modes(csv));
    problems.extend(deployments(csv));
    problems.extend(webhooks(csv));
    let is_unsupported = |pointer: &str| !csv.items(pointer).is_empty();
    if is_unsupported("/spec/apiservicedefinitions/owned")
        || is_unsupported("/spec/apiservicedefinitions/required")
    {
        problems.push("spec.apiservicedefinitions: API services are not supported".to_owned());
    }
    if is_unsupported("/spec/customresourcedefinitions/required") {
        let problem = "spec.customresourcedefinitions.required: dependencies are not resolved";
        problems.push(problem.to_owned());
    }
    if uses_conditions(csv) {
        problems.push("OperatorConditions do not exist: do not write them".to_owned());
    }
    problems.into_iter().map(|problem| format!("OLM v1: {problem}")).collect()
}

/// Dependencies that are declared, which version 1 does not resolve.
fn dependencies(bundle: &BundleDirectory) -> Vec<String> {
    let annotation = bundle.csv.as_ref().and_then(|csv| csv.annotation("olm.properties"));
    let annotated: Vec<Value> =
        annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let properties = bundle.properties.iter().chain(&annotated);
    let properties = properties.filter_map(|entry| entry["type"].as_str());
    let dependencies = bundle.dependencies.iter().filter_map(|entry| entry["type"].as_str());
    let required = properties.filter(|kind| REQUIRED.contains(kind));
    let mut kinds: Vec<&str> = required.chain(dependencies).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.iter().map(|kind| format!("the dependency `{kind}` is not supported")).collect()
}

fn install_modes(csv: &Object) -> Option<String> {
    let modes = csv.items("/spec/installModes");
    let is_all = |mode: &Value| mode["type"] == "AllNamespaces" && mode["supported"] == true;
    let problem = "spec.installModes: AllNamespaces must be supported";
    (!modes.iter().any(is_all)).then(|| problem.to_owned())
}

fn deployments(csv: &Object) -> Vec<String> {
    let mut names = BTreeSet::new();
    let mut problems = Vec::new();
    for deployment in csv.items("/spec/install/spec/deployments") {
        let name = deployment["name"].as_str().unwrap_or_default();
        if !names.insert(name) {
            problems.push(format!("there are two deployments {name}"));
        }
        if !is_subdomain(name) {
            problems.push(format!("the deployment `{name}` must be named by a DNS subdomain"));
        }
    }
    problems
}

fn webhooks(csv: &Object) -> Vec<String> {
    let deployments = csv.items("/spec/install/spec/deployments");
    let owned = csv.items("/spec/customresourcedefinitions/owned");
    let (mut names, mut converted) = (BTreeSet::new(), BTreeSet::new());
    let mut problems = Vec::new();
    for webhook in csv.items("/spec/webhookdefinitions") {
        let text = |field: &str| webhook[field].as_str().unwrap_or_default();
        let (kind, name) = (text("type"), text("generateName"));
        let mut problem = |problem: String| problems.push(format!("webhook {name}: {problem}"));
        if !names.insert((kind, name)) {
            problem(format!("there are two of the type {kind}"));
        }
        if !is_subdomain(name) {
            problem("its name must be a DNS subdomain".to_owned());
        }
        let deployment = text("deploymentName");
        if !deployments.iter().any(|other| other["name"] == deployment) {
            problem(format!("there is no deployment {deployment}"));
        }
        for crd in strings(&webhook["conversionCRDs"]) {
            if !owned.iter().any(|entry| entry["name"] == crd) {
                problem(format!("it converts {crd}, which the operator does not own"));
            }
            if !converted.insert(crd) {
                problem(format!("another webhook converts {crd} too"));
            }
        }
        for rule in webhook["rules"].as_array().into_iter().flatten() {
            for group in strings(&rule["apiGroups"]) {
                if FORBIDDEN.contains(&group) {
                    problem(format!("it must not select the API group {group}"));
                }
                let resources = strings(&rule["resources"]).map(str::to_lowercase);
                for resource in resources.filter(|name| CONFIGURATIONS.contains(&name.as_str())) {
                    if group == "admissionregistration.k8s.io" {
                        problem(format!("it must not select {resource} of {group}"));
                    }
                }
            }
        }
    }
    problems
}

/// Whether the operator may write the conditions of OLM v0.
fn uses_conditions(csv: &Object) -> bool {
    rules(csv)
        .any(|rule| strings(&rule["resources"]).any(|name| name.starts_with("operatorconditions")))
}
