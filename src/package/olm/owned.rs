//! What a ClusterServiceVersion says of the kinds of the operator, from their CRDs: the user's words come first.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::csv::{Descriptor, OwnedCrd};
use super::object::{Object, strings};
use crate::project::builtin;

/// How the console of OpenShift shows the number of pods.
const POD_COUNT: &str = "urn:alm:descriptor:com.tectonic.ui:podCount";
/// How it shows a switch.
const SWITCH: &str = "urn:alm:descriptor:com.tectonic.ui:booleanSwitch";
/// How it shows conditions.
const CONDITIONS: &str = "urn:alm:descriptor:io.kubernetes.conditions";

/// The entries of all served versions of these CRDs.
pub fn entries(written: &[OwnedCrd], crds: &[&Object], permissions: &[&Value]) -> Vec<OwnedCrd> {
    let created = created(permissions);
    let mut entries = Vec::new();
    for crd in crds {
        let kind = crd.text("/spec/names/kind");
        for version in crd.items("/spec/versions").iter().filter(|v| v["served"] == true) {
            let name = version["name"].as_str().unwrap_or_default();
            let written = written.iter().find(|entry| entry.is(crd.name(), name, kind));
            let entry = written.cloned().unwrap_or_else(|| OwnedCrd::new(crd.name(), name, kind));
            let mut entry = completed(entry, version);
            if entry.resources.is_empty() && created.is_empty() {
                entry.resources.push(resource(&entry.kind, &entry.version));
            } else if entry.resources.is_empty() {
                entry.resources.clone_from(&created);
            }
            entries.push(entry);
        }
    }
    entries
}

/// The core types whose objects the operator may create.
fn created(permissions: &[&Value]) -> Vec<Value> {
    let mut kinds = BTreeSet::new();
    for rule in permissions.iter().flat_map(|entry| items_of(entry, "rules")) {
        let texts = |list: &str| strings(&rule[list]);
        if texts("verbs").any(|verb| ["create", "*"].contains(&verb)) {
            for group in texts("apiGroups") {
                kinds.extend(
                    texts("resources").filter_map(|plural| builtin::kind_of(group, plural)),
                );
            }
        }
    }
    kinds.into_iter().map(|(kind, version)| resource(kind, version)).collect()
}

fn items_of<'a>(value: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    value[list].as_array().into_iter().flatten()
}

fn resource(kind: &str, version: &str) -> Value {
    json!({ "kind": kind, "name": "", "version": version })
}

/// The names of the CRDs of entries that the user has written, and that no CRD has.
pub fn unknown<'a>(written: &'a [OwnedCrd], entries: &[OwnedCrd]) -> Vec<&'a OwnedCrd> {
    let is_known =
        |crd: &OwnedCrd| entries.iter().any(|entry| entry.is(&crd.name, &crd.version, &crd.kind));
    written.iter().filter(|crd| !is_known(crd)).collect()
}

fn completed(mut entry: OwnedCrd, version: &Value) -> OwnedCrd {
    let schema = &version["schema"]["openAPIV3Schema"];
    if entry.display_name.is_empty() {
        entry.display_name = words(&entry.kind);
    }
    if entry.description.is_empty() {
        entry.description = paragraph(&schema["description"]);
    }
    let scale = version.pointer("/subresources/scale/specReplicasPath").and_then(Value::as_str);
    let replicas = scale.and_then(|path| path.strip_prefix(".spec."));
    complete(&mut entry.spec_descriptors, &schema["properties"]["spec"], replicas);
    complete(&mut entry.status_descriptors, &schema["properties"]["status"], None);
    entry
}

/// Adds a descriptor for each field that has none.
fn complete(descriptors: &mut Vec<Descriptor>, schema: &Value, replicas: Option<&str>) {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(name, _)| name.as_str());
    for (name, property) in properties {
        if descriptors.iter().any(|descriptor| descriptor.path == *name) {
            continue;
        }
        let kind = match property["type"].as_str() {
            _ if replicas == Some(name) => Some(POD_COUNT),
            Some("boolean") => Some(SWITCH),
            Some("array") if name == "conditions" => Some(CONDITIONS),
            _ => None,
        };
        descriptors.push(Descriptor {
            path: name.clone(),
            display_name: words(name),
            description: paragraph(&property["description"]),
            kinds: kind.into_iter().map(str::to_owned).collect(),
            ..Descriptor::default()
        });
    }
}

/// The first paragraph of a description, on one line.
fn paragraph(description: &Value) -> String {
    let text = description.as_str().unwrap_or_default();
    let first = text.trim().split("\n\n").next().unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.strip_suffix(':').map(|line| line.rsplit_once(". ")) {
        // It introduces a list, which is left out.
        Some(Some((before, _))) => format!("{before}."),
        _ => line,
    }
}

/// The words of a name in camel case: `containerPort` is `Container Port`.
fn words(name: &str) -> String {
    heck::ToTitleCase::to_title_case(name)
}

/// The examples of the kinds as the annotation `alm-examples` has them, and the other objects.
pub fn examples(objects: Vec<Object>, crds: &[&Object]) -> (Vec<Value>, Vec<Object>) {
    let is_example = |object: &Object| {
        crds.iter().any(|crd| {
            object.is(crd.text("/spec/group"), crd.text("/spec/names/kind"))
                && crd.items("/spec/versions").iter().any(|v| v["name"] == json!(object.version()))
        })
    };
    let (mut examples, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_example);
    let key = |object: &Object| {
        (object.text("/apiVersion").to_owned(), object.kind().to_owned(), object.name().to_owned())
    };
    examples.sort_by_key(key);
    let examples = examples.into_iter().map(|example| example.without_cluster().into_value());
    (examples.collect(), others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd() -> Object {
        Object::new(json!({
            "metadata": { "name": "boxes.a.io" },
            "spec": { "group": "a.io", "names": { "kind": "Box" }, "versions": [
                { "name": "v1", "served": true, "subresources": { "scale": { "specReplicasPath": ".spec.size" } },
                  "schema": { "openAPIV3Schema": { "description": "A box.\nIt is:\n\n- large", "properties": {
                    "spec": { "properties": {
                        "size": { "type": "integer", "description": "Pods" },
                        "isOpen": { "type": "boolean" },
                    } },
                    "status": { "properties": { "conditions": { "type": "array" } } },
                  } } } },
                { "name": "v0", "served": false },
            ] },
        }))
    }

    #[test]
    fn fields_of_crds_have_descriptors() {
        let rules = json!({ "rules": [
            { "apiGroups": ["apps", ""], "resources": ["deployments", "events"], "verbs": ["create", "list"] },
            { "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] },
        ] });
        let entries = entries(&[], &[&crd()], &[&rules]);
        let expected = json!([{
            "name": "boxes.a.io", "version": "v1", "kind": "Box", "displayName": "Box",
            "description": "A box.",
            "resources": [
                { "kind": "Deployment", "name": "", "version": "v1" },
                { "kind": "Event", "name": "", "version": "v1" },
            ],
            "specDescriptors": [
                { "path": "isOpen", "displayName": "Is Open", "description": "", "x-descriptors": [SWITCH] },
                { "path": "size", "displayName": "Size", "description": "Pods", "x-descriptors": [POD_COUNT] },
            ],
            "statusDescriptors": [
                { "path": "conditions", "displayName": "Conditions", "description": "", "x-descriptors": [CONDITIONS] },
            ],
        }]);
        assert_eq!(serde_json::to_value(entries).unwrap(), expected);
    }

    #[test]
    fn words_of_the_user_come_first() {
        let mut written = OwnedCrd::new("boxes.a.io", "v1", "Box");
        written.display_name = "The Box".to_owned();
        written.spec_descriptors =
            vec![Descriptor { path: "size".to_owned(), ..Descriptor::default() }];
        let entries = entries(&[written, OwnedCrd::new("gone", "v1", "Gone")], &[&crd()], &[]);
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].display_name, "The Box");
        assert_eq!(entries[0].resources, [resource("Box", "v1")]);
        let paths: Vec<&str> =
            entries[0].spec_descriptors.iter().map(|field| field.path.as_str()).collect();
        assert_eq!(paths, ["size", "isOpen"]);
        assert_eq!(entries[0].spec_descriptors[0].display_name, "");
    }
}
