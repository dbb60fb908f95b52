//! The objects of a bundle, and how they fit to its ClusterServiceVersion.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{BundleDirectory, Problem, Problems};
use crate::package::olm::generate::SUPPORTED;
use crate::package::olm::object::Object;

/// The size that a ConfigMap can store, in which OLM unpacks a bundle.
const MAX_SIZE: usize = 1 << 20;

/// A version of a kind.
type Key<'a> = (&'a str, &'a str, &'a str);

pub fn check(bundle: &BundleDirectory) -> Problems {
    let mut problems = Vec::new();
    for object in &bundle.objects {
        problems.extend(object_problems(object).into_iter().map(Problem::error));
    }
    let Some(csv) = &bundle.csv else {
        problems.push(Problem::error("there is no ClusterServiceVersion"));
        return problems;
    };
    problems.extend(crds(bundle, csv));
    let deployments = csv.items("/spec/install/spec/deployments");
    let accounts: BTreeSet<&str> = deployments
        .iter()
        .filter_map(|d| d.pointer("/spec/template/spec/serviceAccountName")?.as_str())
        .collect();
    for object in bundle.objects.iter().filter(|object| object.is("", "ServiceAccount")) {
        if accounts.contains(object.name()) {
            let title = object.title();
            problems.push(Problem::error(format!(
                "{title} must not be in the bundle: OLM creates it for a Deployment"
            )));
        }
    }
    for (index, image) in csv.items("/spec/relatedImages").iter().enumerate() {
        let image = image["image"].as_str().unwrap_or_default();
        if image.is_empty() || image.parse::<oci_client::Reference>().is_err() {
            problems.push(Problem::error(format!(
                "spec.relatedImages[{index}]: `{image}` is not the name of an image"
            )));
        }
    }
    let size = bundle.stored_size;
    if size > MAX_SIZE {
        problems.push(Problem::error(format!(
            "the bundle has {size} bytes when it is compressed, and the limit is {MAX_SIZE}"
        )));
    } else if size * 100 > MAX_SIZE * 85 {
        problems.push(Problem::warning(format!(
            "the bundle has {size} bytes when it is compressed, near the limit of {MAX_SIZE}"
        )));
    }
    problems
}

fn object_problems(object: &Object) -> Vec<String> {
    let title = object.title();
    if !SUPPORTED.contains(&object.kind()) {
        return vec![format!("{title}: a bundle cannot have this kind")];
    }
    let mut problems = Vec::new();
    if object.name().is_empty() && object.text("/metadata/generateName").is_empty() {
        problems.push(format!("{title}: metadata.name is missing"));
    }
    if !object.namespace().is_empty() {
        problems.push(format!("{title}: metadata.namespace must not be set, OLM chooses it"));
    }
    problems
}

/// CRDs that are owned but missing, and the reverse.
fn crds(bundle: &BundleDirectory, csv: &Object) -> Problems {
    let mut problems = Vec::new();
    let mut error = |message: String| problems.push(Problem::error(message));
    let mut defined: BTreeSet<Key<'_>> = BTreeSet::new();
    for crd in &bundle.crds {
        for version in versions(crd) {
            let key = (crd.text("/spec/group"), version, crd.text("/spec/names/kind"));
            if !defined.insert(key) {
                error(format!("two CRDs define {}", title(key)));
            }
        }
    }
    let mut owned = BTreeSet::new();
    for entry in csv.items("/spec/customresourcedefinitions/owned") {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        let name = text("name");
        let group = name.split_once('.').map_or(name, |(_, group)| group);
        let key = (group, text("version"), text("kind"));
        if defined.contains(&key) {
            owned.insert((key.0, key.2));
        } else {
            error(format!("no CRD defines {}, which the ClusterServiceVersion owns", title(key)));
        }
    }
    for key in defined.iter().filter(|key| !owned.contains(&(key.0, key.2))) {
        error(format!(
            "the ClusterServiceVersion does not own {}, which a CRD defines",
            title(*key)
        ));
    }
    problems
}

fn versions(crd: &Object) -> Vec<&str> {
    let versions =
        crd.items("/spec/versions").iter().filter_map(|version| version["name"].as_str());
    let versions: Vec<&str> = versions.collect();
    match crd.value().pointer("/spec/version").and_then(Value::as_str) {
        Some(version) if versions.is_empty() => vec![version],
        _ => versions,
    }
}

fn title((group, version, kind): Key<'_>) -> String {
    format!("{group}/{version} {kind}")
}
