//! The CRDs by themselves, as far as the API server would refuse them for something else than their schema.

use std::collections::BTreeSet;

use super::csv::is_subdomain;
use super::{BundleDirectory, Problem, Problems};
use crate::package::olm::object::Object;

pub fn check(bundle: &BundleDirectory) -> Problems {
    let problems = bundle.crds.iter().flat_map(|crd| {
        let name = crd.name();
        let title = move |problem| Problem::error(format!("the CRD {name}: {problem}"));
        problems(crd).into_iter().map(title)
    });
    problems.collect()
}

fn problems(crd: &Object) -> Vec<String> {
    // Kubernetes 1.22 has removed the old version, which the validator of removed APIs reports.
    if crd.version() != "v1" {
        return match crd.version() {
            "v1beta1" => Vec::new(),
            version => vec![format!("unknown version `{version}` of its API")],
        };
    }
    let mut problems = Vec::new();
    let (plural, group) = (crd.text("/spec/names/plural"), crd.text("/spec/group"));
    if crd.name() != format!("{plural}.{group}") {
        problems.push(format!("its name must be {plural}.{group}"));
    }
    if !is_subdomain(group) || !group.contains('.') {
        problems.push(format!("spec.group: `{group}` must be a domain"));
    }
    for name in ["plural", "kind"] {
        let value = crd.text(&format!("/spec/names/{name}")).to_lowercase();
        if !is_subdomain(&value) || value.contains('.') {
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
        if !version["schema"]["openAPIV3Schema"].is_object() {
            problems.push(format!("spec.versions: {name} has no schema"));
        }
    }
    match versions.iter().filter(|version| version["storage"] == true).count() {
        1 => {}
        count => problems.push(format!("spec.versions: {count} are stored, not one")),
    }
    problems
}
