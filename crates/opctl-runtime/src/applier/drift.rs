//! The differences between a live object and the desired one.

use std::fmt;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// One field that is not as desired.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    path: String,
    is_image: bool,
    from: Value,
    to: Value,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    /// The item of a list that has this value under its key.
    Item(&'a Value),
    Index(usize),
}

/// The fields of `desired` that differ or are missing in `live`. Other fields of `live` are left
/// alone: defaults, and what others own ([`ownership`](crate::ownership)).
///
/// A value that the API server writes in another way, such as the quantity `1000m`, differs. The applier
/// notices that an apply does not change it.
pub fn changes(desired: &Value, live: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(&mut Vec::new(), desired, live, &mut changes);
    changes
}

fn compare<'a>(
    path: &mut Vec<Step<'a>>,
    desired: &'a Value,
    live: &Value,
    changes: &mut Vec<Change>,
) {
    let field = match path.last() {
        Some(Step::Field(name)) => name,
        _ => "",
    };
    let mut enter = |step: Step<'a>, desired: &'a Value, live: &Value| {
        path.push(step);
        compare(path, desired, live, changes);
        path.pop();
    };
    match (desired, live) {
        (Value::Object(desired), _) => {
            for (name, desired) in desired {
                enter(Step::Field(name), desired, &live[name]);
            }
        }
        (Value::Array(entries), _) if entries.iter().all(|item| key(field, item).is_some()) => {
            for (key, value, item) in items(field, desired) {
                enter(Step::Item(value), item, find(live, key, item));
            }
        }
        (Value::Array(entries), Value::Array(found)) if entries.len() == found.len() => {
            for (index, (desired, live)) in entries.iter().zip(found).enumerate() {
                enter(Step::Index(index), desired, live);
            }
        }
        _ if desired == live || (live.is_null() && is_zero(desired)) => {}
        _ => changes.push(Change {
            path: path_of(path),
            is_image: field == "image",
            from: live.clone(),
            to: desired.clone(),
        }),
    }
}

/// Whether the API server leaves out a field that has this value (`omitempty` in Go).
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The desired object in the form in which the API server stores it: `stringData` of a Secret is
/// written, and read as `data`.
pub fn as_stored(mut desired: Value) -> Value {
    let Some(Value::Object(texts)) = desired
        .as_object_mut()
        .and_then(|it| it.remove("stringData"))
    else {
        return desired;
    };
    for (key, text) in texts {
        let bytes = text.as_str().unwrap_or_default().as_bytes().to_vec();
        desired["data"][key] = json!(ByteString(bytes));
    }
    desired
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

fn path_of(steps: &[Step<'_>]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Field(name) if path.is_empty() => path.push_str(name),
            Step::Field(name) => path.extend([".", name]),
            Step::Item(value) => path.push_str(&format!("[{}]", Shown(value))),
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// Where the fields are, without what they hold.
pub fn paths(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|change| change.path.clone()).collect()
}

/// With its values, if they are not confidential. A variable, an argument or the data of a ConfigMap may
/// be: events and logs have more readers than the object.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        let is_shown = |value: &Value| match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(_) => self.is_image,
            Value::Array(_) | Value::Object(_) => false,
        };
        if is_shown(&self.from) && is_shown(&self.to) {
            write!(f, " {} -> {}", Shown(&self.from), Shown(&self.to))?;
        }
        Ok(())
    }
}

/// A value as a person writes it.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("none"),
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
    fn what_is_missing_or_different_is_a_change() {
        let desired = json!({ "spec": { "replicas": 3, "paused": true } });
        let live = json!({ "spec": { "replicas": 4, "strategy": { "type": "Recreate" } } });
        assert_eq!(
            shown(&desired, &live),
            ["spec.paused none -> true", "spec.replicas 4 -> 3"]
        );
    }

    #[test]
    fn items_are_found_by_name() {
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
        let udp = json!({ "ports": [{ "port": 54, "protocol": "UDP" }] });
        assert_eq!(shown(&udp, &live).len(), 2);
    }

    #[test]
    fn items_without_a_name_are_compared_in_order() {
        let desired = json!({ "args": ["-m", "64"], "ports": [{ "port": 80 }] });
        let live = json!({ "args": ["-m", "32"], "ports": [{ "port": 80, "protocol": "TCP" }] });
        assert_eq!(shown(&desired, &live), ["args[1]"]);
    }

    #[test]
    fn a_zero_value_is_the_same_as_none() {
        for zero in [json!([]), json!({}), json!(false), json!(0), json!("")] {
            assert_eq!(shown(&json!({ "a": { "b": zero } }), &json!({})), [""; 0]);
        }
        assert_eq!(
            shown(&json!({ "a": false }), &json!({ "a": true })).len(),
            1
        );
    }

    #[test]
    fn string_data_are_compared_with_data() {
        let desired = as_stored(json!({ "stringData": { "a": "new" } }));
        assert_eq!(
            shown(&desired, &json!({ "data": { "a": "bmV3" } })),
            [""; 0]
        );
        assert_eq!(
            shown(&desired, &json!({ "data": { "a": "b2xk" } })),
            ["data.a"]
        );
    }

    #[test]
    fn values_that_may_be_confidential_are_not_shown() {
        let env = |value: &str| json!({ "env": [{ "name": "TOKEN", "value": value }] });
        assert_eq!(shown(&env("a"), &env("b")), ["env[TOKEN].value"]);
        assert_eq!(
            shown(&env("a"), &json!({})),
            ["env[TOKEN].name", "env[TOKEN].value"]
        );
        assert_eq!(
            shown(&json!({ "data": { "a": "x" } }), &json!({})),
            ["data.a"]
        );
    }
}
