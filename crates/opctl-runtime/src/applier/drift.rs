//! The differences between a live object and the desired one.

use std::fmt;

use serde_json::{Map, Value, json};

/// One field that is not as desired.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    path: Vec<Step>,
    from: Value,
    to: Value,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// The item of a list that has this value under this key.
    Item(&'static str, Value),
    Index(usize),
}

/// The fields of `desired` that differ or are missing in `live`. Other fields of `live` are left alone
/// (defaults, autoscalers, sidecars), except for variables, ports and the labels of a selector: where
/// `desired` lists some, or none, there may be no others.
pub fn changes(desired: &Value, live: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(&mut Vec::new(), desired, live, &mut changes);
    changes
}

fn compare(path: &mut Vec<Step>, desired: &Value, live: &Value, changes: &mut Vec<Change>) {
    let field = match path.last() {
        Some(Step::Field(name)) => name.clone(),
        _ => String::new(),
    };
    let mut enter = |step: Step, desired: &Value, live: &Value| {
        path.push(step);
        compare(path, desired, live, changes);
        path.pop();
    };
    match (desired, live) {
        (Value::Object(desired), _) => {
            for (name, desired) in desired {
                enter(Step::Field(name.clone()), desired, &live[name]);
            }
            for (name, live) in undesired_fields(&field, desired, live) {
                enter(Step::Field(name.clone()), &Value::Null, live);
            }
        }
        (Value::Array(entries), _) if entries.iter().all(|item| key(&field, item).is_some()) => {
            for (key, value, item) in items(&field, desired) {
                enter(Step::Item(key, value.clone()), item, find(live, key, item));
            }
            for (key, value, item) in undesired_items(&field, desired, live) {
                enter(Step::Item(key, value.clone()), &Value::Null, item);
            }
        }
        (Value::Array(entries), Value::Array(found)) if entries.len() == found.len() => {
            for (index, (desired, live)) in entries.iter().zip(found).enumerate() {
                enter(Step::Index(index), desired, live);
            }
        }
        _ if desired == live => {}
        _ => changes.push(Change {
            path: path.clone(),
            from: live.clone(),
            to: desired.clone(),
        }),
    }
}

/// The field that identifies the items of a list; it is the patch merge key of the Kubernetes API.
fn key(list: &str, item: &Value) -> Option<&'static str> {
    let keys: &[&str] = match list {
        "ports" => &["containerPort", "port"],
        "volumeMounts" => &["mountPath"],
        "volumeDevices" => &["devicePath"],
        _ => &["name"],
    };
    keys.iter().copied().find(|key| item.get(key).is_some())
}

fn items<'a>(
    list: &str,
    items: &'a Value,
) -> impl Iterator<Item = (&'static str, &'a Value, &'a Value)> {
    items
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(move |item| {
            let key = key(list, item)?;
            Some((key, &item[key], item))
        })
}

/// The item of `list` that stands for the same as `other`.
fn find<'a>(list: &'a Value, key: &str, other: &Value) -> &'a Value {
    let mut items = list.as_array().into_iter().flatten();
    items
        .find(|item| item[key] == other[key] && protocol(item) == protocol(other))
        .unwrap_or(&Value::Null)
}

/// One port may be there for TCP, which is the default, and for another protocol.
fn protocol(item: &Value) -> &str {
    item["protocol"].as_str().unwrap_or("TCP")
}

/// The fields of a selector that are not desired.
fn undesired_fields<'a>(
    field: &str,
    desired: &Map<String, Value>,
    live: &'a Value,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let live = live.as_object().filter(|_| field == "selector");
    live.into_iter()
        .flatten()
        .filter(|(name, _)| !desired.contains_key(*name))
}

/// The items of a list of variables or ports that are not desired.
fn undesired_items<'a>(
    field: &str,
    desired: &Value,
    live: &'a Value,
) -> impl Iterator<Item = (&'static str, &'a Value, &'a Value)> {
    let live = if field == "env" || field == "ports" {
        live
    } else {
        &Value::Null
    };
    items(field, live).filter(|(key, _, item)| find(desired, key, item).is_null())
}

/// The strategic merge patch that removes from `live` what is not desired, if there is any:
/// server-side apply never removes what another field manager has added. A list gets what is
/// desired in the same patch: without it, a Service may have no port, or two of one name.
pub fn prune_patch(desired: &Value, live: &Value) -> Option<Value> {
    prune_patch_in("", desired, live)
}

fn prune_patch_in(field: &str, desired: &Value, live: &Value) -> Option<Value> {
    match desired {
        Value::Object(fields) => {
            let below = fields.iter().filter_map(|(name, desired)| {
                Some((name.clone(), prune_patch_in(name, desired, &live[name])?))
            });
            let here = undesired_fields(field, fields, live);
            let patch: Map<_, _> = below
                .chain(here.map(|(name, _)| (name.clone(), Value::Null)))
                .collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        Value::Array(entries) => {
            let gone: Vec<_> = undesired_items(field, desired, live)
                .map(|(key, value, _)| json!({ key: value, "$patch": "delete" }))
                .collect();
            let patch: Vec<_> = if gone.is_empty() {
                let below = items(field, desired).filter_map(|(key, value, item)| {
                    let mut patch = prune_patch_in("", item, find(live, key, item))?;
                    patch[key] = value.clone();
                    Some(patch)
                });
                below.collect()
            } else {
                entries.iter().cloned().chain(gone).collect()
            };
            (!patch.is_empty()).then_some(Value::Array(patch))
        }
        _ => None,
    }
}

impl Change {
    /// Where the field is, without what it holds.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) if path.is_empty() => path.push_str(name),
                Step::Field(name) => path.extend([".", name]),
                Step::Item(_, value) => path.push_str(&format!("[{}]", Shown(value))),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, from, to) = (self.path(), Shown(&self.from), Shown(&self.to));
        write!(f, "{path} {from} -> {to}")
    }
}

/// A value as a person writes it.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("none"),
            Value::String(text) if text.contains('\n') => f.write_str("(text)"),
            Value::String(text) => f.write_str(text),
            value => write!(f, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(desired: &Value, live: &Value) -> Vec<String> {
        changes(desired, live)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn tells_what_is_missing_or_different() {
        let desired = json!({ "spec": { "replicas": 3, "paused": false } });
        let live = json!({ "spec": { "replicas": 4, "strategy": { "type": "Recreate" } } });
        assert_eq!(
            shown(&desired, &live),
            ["spec.paused none -> false", "spec.replicas 4 -> 3"]
        );
    }

    #[test]
    fn finds_list_entriesby_name_and_leaves_the_others_alone() {
        let desired = json!({ "containers": [{ "name": "main", "image": "a:2" }] });
        let live =
            json!({ "containers": [{ "name": "sidecar" }, { "name": "main", "image": "a:1" }] });
        assert_eq!(
            shown(&desired, &live),
            ["containers[main].image a:1 -> a:2"]
        );
    }

    #[test]
    fn a_volume_may_be_mounted_twice() {
        let mounts = |second| json!({ "volumeMounts": [{ "name": "data", "mountPath": "/a" }, { "name": "data", "mountPath": second }] });
        assert_eq!(shown(&mounts("/b"), &mounts("/b")), [""; 0]);
        assert_eq!(shown(&mounts("/b"), &mounts("/c")).len(), 2);
    }

    #[test]
    fn a_port_may_be_there_for_two_protocols() {
        let dns = json!({ "ports": [{ "port": 53 }, { "port": 53, "protocol": "UDP" }] });
        let live = json!({ "ports": [
            { "port": 53, "protocol": "TCP" },
            { "port": 53, "protocol": "UDP" },
        ] });
        assert_eq!(shown(&dns, &live), [""; 0]);
        let udp = json!({ "ports": [{ "port": 53, "protocol": "UDP" }] });
        assert_eq!(shown(&udp, &live).len(), 1);
    }

    #[test]
    fn compares_lists_without_names_item_by_item() {
        let desired = json!({ "args": ["-m", "64"], "ports": [{ "port": 80 }] });
        let live = json!({ "args": ["-m", "32"], "ports": [{ "port": 80, "protocol": "TCP" }] });
        assert_eq!(shown(&desired, &live), ["args[1] 32 -> 64"]);
    }

    #[test]
    fn an_empty_list_is_the_same_as_none() {
        assert_eq!(shown(&json!({ "env": [] }), &json!({})), [""; 0]);
    }

    #[test]
    fn a_script_is_not_printed() {
        let desired = json!({ "args": ["a\nb"] });
        assert_eq!(
            shown(&desired, &json!({ "args": ["c"] })),
            ["args[0] c -> (text)"]
        );
    }

    #[test]
    fn an_added_variable_is_removed() {
        let desired = json!({ "containers": [{ "name": "main", "env": [] }] });
        let live =
            json!({ "containers": [{ "name": "main", "env": [{ "name": "A", "value": "1" }] }] });
        assert_eq!(
            shown(&desired, &live),
            [r#"containers[main].env[A] {"name":"A","value":"1"} -> none"#]
        );
        let patch = json!({ "containers": [
            { "name": "main", "env": [{ "name": "A", "$patch": "delete" }] }
        ] });
        assert_eq!(prune_patch(&desired, &live), Some(patch));
    }

    #[test]
    fn puts_ports_in_the_place_of_others_at_once() {
        let desired = json!({ "ports": [{ "name": "http", "port": 80 }] });
        let live =
            json!({ "ports": [{ "name": "http", "port": 81 }, { "name": "b", "port": 82 }] });
        let patch = json!({ "ports": [
            { "name": "http", "port": 80 },
            { "port": 81, "$patch": "delete" },
            { "port": 82, "$patch": "delete" },
        ] });
        assert_eq!(prune_patch(&desired, &live), Some(patch));
    }

    #[test]
    fn removes_what_narrows_a_selector() {
        let desired = json!({ "selector": { "app": "a" }, "labels": { "app": "a" } });
        let live = json!({
            "selector": { "app": "a", "more": "so" },
            "labels": { "app": "a", "more": "so" },
        });
        assert_eq!(shown(&desired, &live), ["selector.more so -> none"]);
        let patch = json!({ "selector": { "more": null } });
        assert_eq!(prune_patch(&desired, &live), Some(patch));
    }

    #[test]
    fn removes_nothing_where_nothing_is_undesired() {
        let desired = json!({ "replicas": 3, "ports": [{ "port": 80 }] });
        let live = json!({ "replicas": 4, "ports": [{ "port": 80, "protocol": "TCP" }] });
        assert_eq!(prune_patch(&desired, &live), None);
    }
}
