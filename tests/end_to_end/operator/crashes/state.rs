//! What a namespace contains, without what differs between two operators that do the same.

use serde_json::{Value, json};

use crate::operator::everything::{KINDS, Kind};
use crate::operator::project::get;

/// What the operator makes, and what the built-in controllers make of that.
const CHILDREN: [(&str, &str); 8] = [
    ("/apis/apps/v1", "deployments"),
    ("/apis/apps/v1", "statefulsets"),
    ("/apis/apps/v1", "replicasets"),
    ("/api/v1", "pods"),
    ("/api/v1", "services"),
    ("/api/v1", "secrets"),
    ("/api/v1", "persistentvolumeclaims"),
    ("/apis/batch/v1", "cronjobs"),
];

/// All objects of a namespace, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects(Vec<Value>);

impl Objects {
    /// Asks the API server through the proxy on that port. This is done all the time: kubectl would keep the machine busy.
    pub fn of(port: u16, namespace: &str) -> Self {
        let children = CHILDREN.iter();
        let children =
            children.map(|(api, plural)| format!("{api}/namespaces/{namespace}/{plural}"));
        let paths = children.chain(KINDS.iter().map(|kind| kind.path(namespace)));
        let items: Vec<Value> = paths.flat_map(|path| items(port, &path)).collect();
        let mut text = Value::from(items.clone()).to_string();
        // What refers to an object by its uid still does.
        for item in &items {
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
            && self.0.iter().all(|item| item["metadata"]["deletionTimestamp"].is_null())
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

/// The objects of a list, each with the kind that only the list has.
pub fn items(port: u16, path: &str) -> Vec<Value> {
    let list = get(port, path).unwrap_or_else(|answer| panic!("{path}: {answer}"));
    let mut list: Value = serde_json::from_str(&list).unwrap();
    let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
    let Value::Array(mut items) = list["items"].take() else { return Vec::new() };
    items.iter_mut().for_each(|item| item["kind"] = json!(kind));
    items
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
