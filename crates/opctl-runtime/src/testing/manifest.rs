//! The manifests of the project.

use std::fs;
use std::path::Path;

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;

use super::FIELD_MANAGER;

/// The documents of the YAML files in a directory, by the names of the files. A directory that does not
/// exist has none.
pub(super) fn read<T: DeserializeOwned>(directory: &Path) -> Vec<T> {
    let files = fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<_> = files
        .map(|file| file.expect("a directory should be readable").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml")
        })
        .collect();
    paths.sort();
    let documents = paths.iter().flat_map(|path| {
        let text = fs::read_to_string(path);
        let text =
            text.unwrap_or_else(|error| panic!("{} should be text: {error}", path.display()));
        serde_saphyr::from_multiple::<T>(&text)
            .unwrap_or_else(|error| panic!("{} should be a manifest: {error}", path.display()))
    });
    documents.collect()
}

/// Makes the cluster have the object. Its namespace is that of `objects`.
pub(super) async fn apply(objects: &Api<DynamicObject>, mut object: DynamicObject) {
    object.metadata.namespace = None;
    let (name, params) = (object.name_any(), PatchParams::apply(FIELD_MANAGER).force());
    let applied = objects.patch(&name, &params, &Patch::Apply(&object)).await;
    applied.unwrap_or_else(|error| panic!("the manifest of {name} should be valid: {error}"));
}
