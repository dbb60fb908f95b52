//! The CRDs by themselves, as far as the API server would refuse them for something else than their schema.

use std::collections::BTreeSet;

use super::csv::is_subdomain;
use super::{BundleDirectory, Problem, Problems};
use crate::package::olm::object::Object;

pub fn check(bundle: &BundleDirectory) -> Problems {
    let problems = bundle.crds.iter().flat_map(|crd| {
        let title = |problem| format!("the CRD {}: {problem}", crd.name());
        let errors = errors(crd).into_iter().map(title).map(Problem::error);
        // operator-sdk lets it pass, though no API server takes it.
        let unspecified = versions_without_schema(crd).map(title).map(Problem::warning);
        errors.chain(unspecified).collect::<Problems>()
    });
    problems.collect()
}

fn versions_without_schema(crd: &Object) -> impl Iterator<Item = String> {
    let is_v1 = crd.version() == "v1";
    let versions = crd.items("/spec/versions").iter();
    let unspecified =
        versions.filter(move |v| is_v1 && !v["schema"]["openAPIV3Schema"].is_object());
    unspecified.map(|version| format!("the version {} has no schema", version["name"]))
}

fn errors(crd: &Object) -> Vec<String> {
    let mut problems = Vec::new();
    // It is the default of the old version.
    let preserves = crd.value().pointer("/spec/preserveUnknownFields");
    match crd.version() {
        "v1" if preserves.is_none_or(|value| *value == false) => {}
        "v1beta1" if preserves.is_some_and(|value| *value == false) => {}
        "v1" | "v1beta1" => problems.push("spec.preserveUnknownFields must be false".to_owned()),
        version => return vec![format!("unknown version `{version}` of its API")],
    }
    // Kubernetes 1.22 has removed the old version, which the validator of removed APIs reports.
    if crd.version() != "v1" {
        return problems;
    }
    let (plural, group) = (crd.text("/spec/names/plural"), crd.text("/spec/group"));
    if crd.name() != format!("{plural}.{group}") {
        problems.push(format!("its name must be {plural}.{group}"));
    }
    if !is_subdomain(group) || !group.contains('.') {
        problems.push(format!("spec.group: `{group}` must be a domain"));
    }
    for name in ["plural", "singular", "kind", "listKind"] {
        let value = crd.text(&format!("/spec/names/{name}")).to_lowercase();
        let is_optional = ["singular", "listKind"].contains(&name) && value.is_empty();
        if !is_optional && (!is_subdomain(&value) || value.contains('.')) {
            problems.push(format!("spec.names.{name}: `{value}` must be a DNS label"));
        }
    }
    if !["Namespaced", "Cluster"].contains(&crd.text("/spec/scope")) {
        problems.push("spec.scope must be Namespaced or Cluster".to_owned());
    }
    let versions = crd.items("/spec/versions");
    let mut names = BTreeSet::new();
    for version in versions {
        let name = version["name"].as_str().unwrap_or_default();
        if !is_subdomain(name) || name.contains('.') {
            problems.push(format!("spec.versions: `{name}` must be a DNS label"));
        }
        if !names.insert(name) {
            problems.push(format!("spec.versions: there are two of {name}"));
        }
    }
    match versions.iter().filter(|version| version["storage"] == true).count() {
        1 => {}
        count => problems.push(format!("spec.versions: {count} are stored, not one")),
    }
    problems
}
