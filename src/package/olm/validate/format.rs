//! The format `registry+v1`: the directories of a bundle, and its annotations.

use super::{BundleDirectory, Problem, Problems};
use crate::package::olm::metadata::{
    CHANNELS, DEFAULT_CHANNEL, MANIFESTS, MEDIATYPE, METADATA, PACKAGE,
};

/// The format of bundles that opctl knows.
const FORMAT: &str = "registry+v1";

pub fn check(bundle: &BundleDirectory) -> Problems {
    let mut problems = Vec::new();
    let mut error = |message: String| problems.push(Problem::error(message));
    for directory in &bundle.missing {
        error(format!("the directory {directory} is missing"));
    }
    bundle.unreadable.iter().cloned().for_each(&mut error);
    if bundle.annotations.is_none() {
        error("metadata has no annotations.yaml that can be read".to_owned());
        return problems;
    }
    for name in [MEDIATYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS] {
        if bundle.annotation(name).is_none() {
            error(format!("the annotation {name} is missing"));
        }
    }
    for name in [PACKAGE, CHANNELS, DEFAULT_CHANNEL] {
        if bundle.annotation(name) == Some("") {
            error(format!("the annotation {name} is empty"));
        }
    }
    for (name, value) in [(MEDIATYPE, FORMAT), (MANIFESTS, "manifests/"), (METADATA, "metadata/")] {
        if let Some(other) = bundle.annotation(name).filter(|other| *other != value) {
            error(format!("the annotation {name} is `{other}`, not `{value}`"));
        }
    }
    for entry in bundle.dependencies.iter().chain(&bundle.properties) {
        if entry["type"].as_str().is_none_or(str::is_empty) {
            error("an entry of the dependencies or properties has no `type`".to_owned());
        }
    }
    problems
}
