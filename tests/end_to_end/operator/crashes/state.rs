//! What a namespace contains, without what differs between two operators that do the same.

use serde_json::{Value, json};

use crate::operator::cluster::Cluster;
use crate::operator::everything::{KINDS, Kind};

/// What the operator makes, and what the built-in controllers make of that.
const CHILDREN: [&str; 8] = [
    "deployments",
    "statefulsets",
    "replicasets",
    "pods",
    "services",
    "secrets",
    "persistentvolumeclaims",
    "cronjobs",
];

/// The label that a phase of a life changes, and its value then.
pub const MANAGER: &str = "app.kubernetes.io/managed-by";
pub const FOREIGNER: &str = "another";

/// All objects of a namespace, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects(Vec<Value>);

impl Objects {
    pub fn of(cluster: &Cluster, namespace: &str) -> Self {
        let types = [&CHILDREN[..], &KINDS.map(|kind| kind.plural)].concat().join(",");
        let list = cluster.get(&[&types, "-n", namespace]);
        let items = list["items"].as_array().unwrap();
        let mut text = list["items"].to_string();
        // What refers to an object by its uid still does.
        for item in items {
            let (kind, metadata) = (&item["kind"], &item["metadata"]);
            let name = metadata["generateName"].as_str().or(metadata["name"].as_str());
            let name = format!("uid of {} {}", kind.as_str().unwrap(), name.unwrap());
            text = text.replace(metadata["uid"].as_str().unwrap(), &name);
        }
        let text = text.replace(namespace, "NAMESPACE");
        let mut items: Vec<Value> = serde_json::from_str(&text).unwrap();
        items.iter_mut().for_each(normalize);
        items.sort_by_key(Value::to_string);
        Self(items)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the operator has nothing left to do for the object of that kind.
    pub fn is_settled(&self, kind: &Kind) -> bool {
        let mut objects = self.0.iter().filter(|item| item["kind"] == kind.name);
        let Some(object) = objects.next() else {
            return false;
        };
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        let ready = ready.next().unwrap_or(&Value::Null);
        object["status"]["observedGeneration"] == "current"
            && (ready["status"] == "True" || ready["reason"] == "NotImplemented")
            && self.0.iter().all(|item| {
                let metadata = &item["metadata"];
                metadata["deletionTimestamp"].is_null() && metadata["labels"][MANAGER] != FOREIGNER
            })
    }

    /// The objects that are in one of the two only.
    pub fn difference(&self, other: &Self) -> String {
        let lines = |these: &Self, those: &Self, mark: &str| -> String {
            let missing = these.0.iter().filter(|item| !those.0.contains(item));
            missing.map(|item| format!("{mark} {item}\n")).collect()
        };
        lines(self, other, "-") + &lines(other, self, "+")
    }
}

/// Drops times, versions and random words.
fn normalize(object: &mut Value) {
    let generation = object["metadata"]["generation"].clone();
    if let Some(observed) = object["status"].get_mut("observedGeneration") {
        *observed = json!(if *observed == generation { "current" } else { "old" });
    }
    for condition in list(&mut object["status"]["conditions"]) {
        for field in ["lastTransitionTime", "lastUpdateTime", "observedGeneration"] {
            remove(condition, field);
        }
    }
    if object["metadata"].get("generateName").is_some() {
        remove(&mut object["metadata"], "name");
    }
    for field in ["creationTimestamp", "generation", "managedFields", "resourceVersion"] {
        remove(&mut object["metadata"], field);
    }
    // The hash of what was applied, of which the uids are a part, and what is random about a password.
    for metadata in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
        if let Some(annotations) = object.pointer_mut(metadata).and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !key.contains(".example.com/"));
        }
    }
    remove(&mut object["metadata"]["labels"], "controller-revision-hash");
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => {
            // Where it runs, and its name.
            let is_ready = list(&mut object["status"]["conditions"])
                .any(|it| it["type"] == "Ready" && it["status"] == "True");
            object["status"] = json!({ "ready": is_ready });
            for field in ["nodeName", "hostname", "volumes"] {
                remove(&mut object["spec"], field);
            }
        }
        "Service" => {
            for field in ["clusterIP", "clusterIPs"] {
                remove(&mut object["spec"], field);
            }
        }
        "Secret" => {
            for value in object["data"].as_object_mut().into_iter().flat_map(|it| it.values_mut()) {
                *value = json!("secret");
            }
        }
        "PersistentVolumeClaim" => {
            remove(&mut object["spec"], "volumeName");
            remove(&mut object["metadata"], "annotations"); // the node of the pod
        }
        "StatefulSet" => {
            for field in ["currentRevision", "updateRevision", "collisionCount"] {
                remove(&mut object["status"], field);
            }
        }
        "Deployment" => remove(&mut object["status"], "conditions"), // names of ReplicaSets
        _ => {}
    }
}

fn list(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_array_mut().into_iter().flatten()
}

fn remove(value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(field);
    }
}
