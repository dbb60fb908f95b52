//! A file-based catalog (FBC) with the bundles of one package
//! (<https://olm.operatorframework.io/docs/reference/file-based-catalogs/>).

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::bundle::RunBundle;
use crate::package::olm::Object;
use crate::package::olm::csv;

/// The channel of the catalog.
pub const CHANNEL: &str = "opctl-run-bundle";

/// A version in a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name of its ClusterServiceVersion.
    pub name: String,
    /// That of the version which it upgrades.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
}

/// The package with its channel, as documents of JSON, one on each line.
pub fn package(name: &str, entries: &[Entry]) -> String {
    let package = json!({ "schema": "olm.package", "name": name, "defaultChannel": CHANNEL });
    let channel = json!({
        "schema": "olm.channel", "package": name, "name": CHANNEL, "entries": entries,
    });
    format!("{package}\n{channel}\n")
}

/// The versions in a channel that [`package`] has written.
///
/// # Errors
/// If the text is another one.
pub fn entries(text: &str) -> Result<Vec<Entry>> {
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    for document in documents {
        let document = document.context("the catalog is not JSON")?;
        if document["schema"] == "olm.channel" {
            return serde_json::from_value(document["entries"].clone()).context("the channel");
        }
    }
    anyhow::bail!("the catalog has no channel")
}

/// The entries with a version at the end, which upgrades the last one.
pub fn upgraded(mut entries: Vec<Entry>, name: &str) -> Vec<Entry> {
    // An attempt that failed before.
    entries.retain(|entry| entry.name != name);
    let replaces = entries.last().map(|entry| entry.name.clone());
    entries.push(Entry { name: name.to_owned(), replaces });
    entries
}

/// The bundle. Without an image, it has the manifests themselves.
pub fn bundle(bundle: &RunBundle) -> Value {
    let directory = &bundle.directory;
    let csv = &bundle.csv;
    let mut properties = vec![property(
        "olm.package",
        json!({ "packageName": bundle.package, "version": csv.text("/spec/version") }),
    )];
    for (list, kind) in [("owned", "olm.gvk"), ("required", "olm.gvk.required")] {
        let crds = csv.items(&format!("/spec/customresourcedefinitions/{list}"));
        properties.extend(crds.iter().filter_map(crd_gvk).map(|gvk| property(kind, gvk)));
        let services = csv.items(&format!("/spec/apiservicedefinitions/{list}"));
        properties.extend(services.iter().map(|api| {
            let gvk =
                json!({ "group": api["group"], "version": api["version"], "kind": api["kind"] });
            property(kind, gvk)
        }));
    }
    properties.extend(directory.dependencies.iter().map(dependency));
    properties.extend(directory.properties.iter().cloned());
    match bundle.image() {
        Some(_) => properties.push(property("olm.csv.metadata", csv_metadata(csv))),
        None => {
            let objects = [csv].into_iter().chain(&directory.crds).chain(&directory.objects);
            properties.extend(objects.map(|object| {
                let data = BASE64_STANDARD.encode(object.value().to_string());
                property("olm.bundle.object", json!({ "data": data }))
            }));
        }
    }
    json!({
        "schema": "olm.bundle",
        "package": bundle.package,
        "name": csv.name(),
        "image": bundle.image().unwrap_or_default(),
        "properties": properties,
        "relatedImages": csv.items("/spec/relatedImages"),
    })
}

fn property(kind: &str, value: Value) -> Value {
    json!({ "type": kind, "value": value })
}

/// The group, version and kind of a CRD in a ClusterServiceVersion, by its name `plural.group`.
fn crd_gvk(crd: &Value) -> Option<Value> {
    let (_, group) = crd["name"].as_str()?.split_once('.')?;
    Some(json!({ "group": group, "version": crd["version"], "kind": crd["kind"] }))
}

/// What an entry of `dependencies.yaml` is in a catalog.
fn dependency(entry: &Value) -> Value {
    let value = &entry["value"];
    match entry["type"].as_str() {
        Some("olm.package") => property(
            "olm.package.required",
            json!({ "packageName": value["packageName"], "versionRange": value["version"] }),
        ),
        Some("olm.gvk") => property("olm.gvk.required", value.clone()),
        _ => entry.clone(),
    }
}

/// What catalogs show of a ClusterServiceVersion.
fn csv_metadata(csv: &Object) -> Value {
    const SAME: [&str; 11] = [
        "description",
        "displayName",
        "installModes",
        "keywords",
        "labels",
        "links",
        "maintainers",
        "maturity",
        "minKubeVersion",
        "nativeAPIs",
        "provider",
    ];
    let spec = &csv.value()["spec"];
    let fields = SAME.into_iter().map(|name| (name, &spec[name])).chain([
        ("annotations", &csv.value()["metadata"]["annotations"]),
        ("apiServiceDefinitions", &spec["apiservicedefinitions"]),
        ("crdDescriptions", &spec["customresourcedefinitions"]),
    ]);
    let fields = fields.filter(|(_, value)| !value.is_null());
    let fields: Map<String, Value> =
        fields.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    Value::Object(fields)
}

/// A ClusterServiceVersion in the API of OLM.
pub fn csv_resource() -> String {
    format!("clusterserviceversions.v1alpha1.{}", csv::GROUP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::olm::BundleDirectory;
    use crate::package::olm::cluster::BundleSource;

    /// The types of the properties of a bundle from there, and their values.
    fn properties(source: BundleSource) -> Vec<(String, Value)> {
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": { "name": "a.v1.0.0", "annotations": { "capabilities": "Basic Install" } },
            "spec": {
                "version": "1.0.0",
                "displayName": "A",
                "customresourcedefinitions": {
                    "owned": [{ "name": "boxes.example.com", "version": "v1", "kind": "Box" }],
                    "required": [{ "name": "bags.example.com", "version": "v2", "kind": "Bag" }],
                },
            },
        });
        let requirement = json!({
            "type": "olm.package", "value": { "packageName": "b", "version": ">1" },
        });
        let directory =
            BundleDirectory { dependencies: vec![requirement], ..BundleDirectory::default() };
        let run = RunBundle { source, package: "a".to_owned(), directory, csv: Object::new(csv) };
        let bundle = bundle(&run);
        let properties = bundle["properties"].as_array().unwrap().iter();
        properties
            .map(|it| (it["type"].as_str().unwrap().to_owned(), it["value"].clone()))
            .collect()
    }

    #[test]
    fn bundle_of_a_directory_has_its_manifests() {
        let properties = properties(BundleSource::Directory("bundle".into()));
        let (kind, object) = properties.last().unwrap();
        assert_eq!(kind, "olm.bundle.object");
        let object = BASE64_STANDARD.decode(object["data"].as_str().unwrap()).unwrap();
        let object: Value = serde_json::from_slice(&object).unwrap();
        assert_eq!(object["metadata"]["name"], "a.v1.0.0");
    }

    #[test]
    fn bundle_of_an_image_says_what_it_provides_and_requires() {
        let metadata = json!({
            "annotations": { "capabilities": "Basic Install" },
            "displayName": "A",
            "crdDescriptions": {
                "owned": [{ "name": "boxes.example.com", "version": "v1", "kind": "Box" }],
                "required": [{ "name": "bags.example.com", "version": "v2", "kind": "Bag" }],
            },
        });
        let gvk = |kind: &str, version: &str| json!({ "group": "example.com", "version": version, "kind": kind });
        let expected = [
            ("olm.package", json!({ "packageName": "a", "version": "1.0.0" })),
            ("olm.gvk", gvk("Box", "v1")),
            ("olm.gvk.required", gvk("Bag", "v2")),
            ("olm.package.required", json!({ "packageName": "b", "versionRange": ">1" })),
            ("olm.csv.metadata", metadata),
        ];
        let properties = properties(BundleSource::Image("example.com/a:v1".to_owned()));
        assert_eq!(properties, expected.map(|(kind, value)| (kind.to_owned(), value)));
    }

    #[test]
    fn each_version_upgrades_the_one_before() {
        let entries = upgraded(upgraded(Vec::new(), "a.v1"), "a.v2");
        // A failed attempt is repeated.
        let entries = upgraded(entries, "a.v2");
        let replaces: Vec<_> = entries.iter().map(|entry| entry.replaces.as_deref()).collect();
        assert_eq!(replaces, [None, Some("a.v1")]);
        assert_eq!(super::entries(&package("a", &entries)).unwrap(), entries);
    }

    #[test]
    fn other_texts_are_no_catalog() {
        assert!(entries("").is_err());
        assert!(entries("{").is_err());
        assert!(entries("{\"schema\": \"olm.package\"}").is_err());
    }
}
