//! Makes the fields of other field managers those of one that applies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Map, Value};

use super::is_tolerated;

type Fields = Map<String, Value>;

/// What a claim makes of the managed fields.
#[derive(Debug, PartialEq)]
pub(crate) struct Claim {
    /// All entries, as they are from now on.
    pub managed_fields: Vec<ManagedFieldsEntry>,
    /// Who loses fields.
    pub managers: Vec<String>,
    /// The fields, such as `spec.template.spec.containers[main].command`.
    pub paths: Vec<String>,
}

/// Moves the fields of other managers to the entry of `manager` for the operation `Apply`, but for
/// those that anybody may set, and for `tolerated` ones. `None` where there are no such fields.
///
/// A field that was written in another version of the API stays: its path may mean something else.
pub(crate) fn claim(
    mut entries: Vec<ManagedFieldsEntry>,
    manager: &str,
    api_version: &str,
    tolerated: &[String],
) -> Option<Claim> {
    let is_own = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.is_none()
            && entry.api_version.as_deref() == Some(api_version)
    };
    let (mut claimed, mut managers, mut paths) = (Fields::new(), Vec::new(), Vec::new());
    for entry in &mut entries {
        let is_readable =
            entry.subresource.is_none() && entry.api_version.as_deref() == Some(api_version);
        if is_own(entry) || !is_readable {
            continue;
        }
        let Some(FieldsV1(Value::Object(fields))) = &mut entry.fields_v1 else {
            continue;
        };
        let taken = take(fields, "", "", tolerated);
        if !taken.is_empty() {
            managers.extend(entry.manager.clone());
            collect_paths(&taken, "", &mut paths);
            merge(&mut claimed, taken);
        }
    }
    if claimed.is_empty() {
        return None;
    }
    claim_aliases(&mut claimed);
    let is_empty = |entry: &ManagedFieldsEntry| matches!(&entry.fields_v1, Some(FieldsV1(Value::Object(fields))) if fields.is_empty());
    entries.retain(|entry| !is_empty(entry));
    match entries.iter_mut().find(|entry| is_own(entry)) {
        Some(own) => {
            let FieldsV1(fields) = own.fields_v1.get_or_insert_default();
            match fields {
                Value::Object(fields) => merge(fields, claimed),
                fields => *fields = Value::Object(claimed),
            }
        }
        None => entries.push(ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some("Apply".to_owned()),
            api_version: Some(api_version.to_owned()),
            fields_type: Some("FieldsV1".to_owned()),
            fields_v1: Some(FieldsV1(Value::Object(claimed))),
            ..ManagedFieldsEntry::default()
        }),
    }
    Some(Claim {
        managed_fields: entries,
        managers,
        paths,
    })
}

/// Takes what is not tolerated out of the fields below `parent`, which is at `path`.
fn take(fields: &mut Fields, parent: &str, path: &str, tolerated: &[String]) -> Fields {
    let mut taken = Fields::new();
    fields.retain(|key, below| {
        // The items of a list have no step in a path.
        let path = match key.strip_prefix("f:") {
            Some(name) if path.is_empty() => name.to_owned(),
            Some(name) => format!("{path}.{name}"),
            None => path.to_owned(),
        };
        if is_tolerated(parent, key) || (key != "." && tolerated.contains(&path)) {
            return true;
        }
        let Value::Object(below) = below else {
            return true;
        };
        if below.is_empty() {
            taken.insert(key.clone(), Value::Object(Fields::new()));
            return false;
        }
        let taken_below = take(below, key, &path, tolerated);
        if !taken_below.is_empty() {
            taken.insert(key.clone(), Value::Object(taken_below));
        }
        !below.is_empty()
    });
    taken
}

/// The API server sets both names of the service account of a pod where one is applied. What is left of
/// them sets the other one again.
fn claim_aliases(fields: &mut Fields) {
    const NAMES: [&str; 2] = ["f:serviceAccount", "f:serviceAccountName"];
    if NAMES.iter().any(|name| fields.contains_key(*name)) {
        for name in NAMES {
            fields
                .entry(name)
                .or_insert_with(|| Value::Object(Fields::new()));
        }
    }
    for below in fields.values_mut() {
        if let Value::Object(below) = below {
            claim_aliases(below);
        }
    }
}

fn merge(into: &mut Fields, from: Fields) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (_, value) => _ = into.insert(key, value),
        }
    }
}

/// The paths of the fields that are owned as a whole, or that have none below.
fn collect_paths(fields: &Fields, path: &str, paths: &mut Vec<String>) {
    for (key, below) in fields {
        let path = join(path, key);
        match below {
            Value::Object(below) if !below.is_empty() && !below.contains_key(".") => {
                collect_paths(below, &path, paths);
            }
            _ if !paths.contains(&path) => paths.push(path),
            _ => {}
        }
    }
}

/// A path as a person writes it: `k:{"name":"main"}` is the item `[main]`.
fn join(path: &str, key: &str) -> String {
    match key.split_once(':') {
        Some(("f", name)) if path.is_empty() => name.to_owned(),
        Some(("f", name)) => format!("{path}.{name}"),
        Some(("k", keys)) => {
            let keys: Fields = serde_json::from_str(keys).unwrap_or_default();
            let values: Vec<_> = keys.values().map(shown).collect();
            format!("{path}[{}]", values.join(", "))
        }
        Some((_, value)) => {
            let value = serde_json::from_str(value).unwrap_or_default();
            format!("{path}[{}]", shown(&value))
        }
        None => path.to_owned(),
    }
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            api_version: Some("apps/v1".to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    fn fields_of<'a>(claim: &'a Claim, manager: &str) -> Option<&'a Value> {
        let mut entries = claim.managed_fields.iter();
        let entry = entries.find(|entry| entry.manager.as_deref() == Some(manager))?;
        entry.fields_v1.as_ref().map(|FieldsV1(fields)| fields)
    }

    #[test]
    fn what_others_have_added_is_claimed_and_the_rest_stays_theirs() {
        let own =
            json!({ "f:spec": { "f:containers": { "k:{\"name\":\"main\"}": { "f:image": {} } } } });
        let other = json!({
            "f:metadata": { "f:labels": { "f:a": {} } },
            "f:spec": {
                "f:paused": {},
                "f:replicas": {},
                "f:containers": {
                    "k:{\"name\":\"main\"}": { "f:command": {} },
                    "k:{\"name\":\"sidecar\"}": { ".": {}, "f:image": {}, "f:name": {} },
                },
            },
        });
        let entries = vec![
            entry("operator", "Apply", own),
            entry("kubectl", "Update", other),
        ];
        let claim = claim(entries, "operator", "apps/v1", &[]).unwrap();
        assert_eq!(claim.managers, ["kubectl"]);
        let expected = [
            "spec.containers[main].command",
            "spec.containers[sidecar]",
            "spec.paused",
        ];
        assert_eq!(claim.paths, expected);
        let own = json!({ "f:spec": {
            "f:paused": {},
            "f:containers": {
                "k:{\"name\":\"main\"}": { "f:image": {}, "f:command": {} },
                "k:{\"name\":\"sidecar\"}": { ".": {}, "f:image": {}, "f:name": {} },
            },
        } });
        assert_eq!(fields_of(&claim, "operator"), Some(&own));
        let other = json!({
            "f:metadata": { "f:labels": { "f:a": {} } },
            "f:spec": { "f:replicas": {} },
        });
        assert_eq!(fields_of(&claim, "kubectl"), Some(&other));
    }

    #[test]
    fn both_names_of_the_service_account_are_claimed() {
        let fields = json!({ "f:spec": { "f:serviceAccountName": {} } });
        let entries = vec![entry("kubectl", "Apply", fields)];
        let claim = claim(entries, "operator", "apps/v1", &[]).unwrap();
        let own = json!({ "f:spec": { "f:serviceAccount": {}, "f:serviceAccountName": {} } });
        assert_eq!(fields_of(&claim, "operator"), Some(&own));
        assert_eq!(claim.paths, ["spec.serviceAccountName"]);
    }

    #[test]
    fn an_update_by_the_operator_itself_is_claimed_too() {
        let fields = json!({ "f:data": { "f:a": {} } });
        let entries = vec![entry("operator", "Update", fields.clone())];
        let claim = claim(entries, "operator", "apps/v1", &[]).unwrap();
        let [own] = claim.managed_fields.as_slice() else {
            panic!("{claim:?}");
        };
        assert_eq!(own.operation.as_deref(), Some("Apply"));
        assert_eq!(own.fields_v1, Some(FieldsV1(fields)));
    }

    #[test]
    fn tolerated_fields_and_those_of_other_versions_stay() {
        let fields = json!({ "f:spec": { "f:containers": { "k:{\"name\":\"a\"}": { "f:resources": { "f:limits": {} } } } } });
        let mut other = entry("kubectl", "Update", fields.clone());
        let tolerated = ["spec.containers.resources".to_owned()];
        assert_eq!(
            claim(vec![other.clone()], "operator", "apps/v1", &tolerated),
            None
        );
        assert!(claim(vec![other.clone()], "operator", "apps/v1", &[]).is_some());
        other.api_version = Some("apps/v1beta1".to_owned());
        assert_eq!(claim(vec![other], "operator", "apps/v1", &[]), None);
    }
}
