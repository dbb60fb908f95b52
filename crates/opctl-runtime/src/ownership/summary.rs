//! What an object keeps of its managed fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{DESIRED_HASH, is_tolerated};

/// Reads `metadata.managedFields` of an object. Returns who else owns fields that nobody but the applier
/// should set, and a hash of these fields: nothing for an object that was not applied.
pub(crate) fn summarize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let entries = Option::<Vec<Entry<'_>>>::deserialize(deserializer)?.unwrap_or_default();
    if !entries.iter().any(Entry::is_appliers) {
        return Ok(None);
    }
    let (mut managers, mut hasher) = (Vec::new(), DefaultHasher::new());
    for entry in entries.iter().filter(|entry| !entry.is_appliers()) {
        // A subresource, such as `status` or `scale`, has rules of its own.
        if entry.subresource.is_none() && entry.fields.leaves > 0 {
            managers.push(entry.manager.as_ref());
            entry.fields.hash.hash(&mut hasher);
        }
    }
    let hash = hasher.finish();
    Ok((!managers.is_empty()).then(|| format!("{} {hash:016x}", managers.join(", "))))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(default, rename = "fieldsV1")]
    fields: Fields,
    subresource: Option<IgnoredAny>,
}

impl Entry<'_> {
    /// Whether it is that of an applier. A write with another operation, such as one of an earlier
    /// version of the operator, counts as somebody else's.
    fn is_appliers(&self) -> bool {
        self.fields.has_desired_hash && self.operation == "Apply"
    }
}

/// The fields of one manager, in the format FieldsV1: the keys of an object, where `f:name` is a
/// field, `k:{...}` the item of a list and `.` the object or the item itself.
#[derive(Default)]
struct Fields {
    /// How many fields there are that are not tolerated.
    leaves: u32,
    /// The hash of these.
    hash: u64,
    has_desired_hash: bool,
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (mut fields, mut hasher) = (Self::default(), DefaultHasher::new());
        let walk = Walk {
            parent: "",
            fields: &mut fields,
            hasher: &mut hasher,
        };
        walk.deserialize(deserializer)?;
        fields.hash = hasher.finish();
        Ok(fields)
    }
}

/// Walks through the fields below one of them. Returns whether there were any.
struct Walk<'a> {
    parent: &'a str,
    fields: &'a mut Fields,
    hasher: &'a mut DefaultHasher,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut any = false;
        while let Some(Key(key)) = map.next_key()? {
            any = true;
            if self.parent.is_empty() && key == "f:metadata" {
                let metadata: Metadata<'_> = map.next_value()?;
                self.fields.has_desired_hash = metadata.has_desired_hash();
            } else if is_tolerated(self.parent, &key) {
                map.next_value::<IgnoredAny>()?;
            } else {
                key.hash(self.hasher);
                let below = map.next_value_seed(Walk {
                    parent: &key,
                    fields: &mut *self.fields,
                    hasher: &mut *self.hasher,
                })?;
                self.fields.leaves += u32::from(!below);
                below.hash(self.hasher);
            }
        }
        Ok(any)
    }
}

/// The key of a map, borrowed where it can be.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key<'a>(#[serde(borrow)] pub Cow<'a, str>);

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default, rename = "f:annotations")]
    annotations: BTreeMap<Key<'a>, IgnoredAny>,
}

impl Metadata<'_> {
    fn has_desired_hash(&self) -> bool {
        let mut names = self.annotations.keys().map(|Key(name)| name.rsplit('/'));
        names.any(|mut name| name.next() == Some(DESIRED_HASH))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Of an object that an applier and another one, with these fields, have written.
    fn summary(fields: Value, subresource: Option<&str>) -> Option<String> {
        let annotations = json!({ "f:example.com/desired-hash": {} });
        let own =
            json!({ "f:metadata": { "f:annotations": annotations }, "f:spec": { "f:a": {} } });
        let mut other = json!({ "manager": "other", "operation": "Update", "fieldsV1": fields });
        if let Some(subresource) = subresource {
            other["subresource"] = json!(subresource);
        }
        let own = json!({ "manager": "operator", "operation": "Apply", "fieldsV1": own });
        summarize(json!([own, other])).unwrap()
    }

    #[test]
    fn fields_of_others_are_summarized() {
        let paused = json!({ "f:spec": { "f:paused": {} } });
        let text = summary(paused.clone(), None).unwrap();
        assert!(text.starts_with("other "), "{text}");
        assert_eq!(summary(paused, None), Some(text.clone()));
        let suspended = json!({ "f:spec": { "f:suspend": {} } });
        assert_ne!(summary(suspended, None), Some(text));
    }

    #[test]
    fn what_others_may_set_is_not_summarized() {
        for fields in [
            json!({ "f:metadata": { "f:labels": { "f:a": {} } } }),
            json!({ "f:status": { "f:replicas": {} } }),
            json!({ "f:spec": { "f:replicas": {} } }),
            json!({ "f:spec": { "f:template": { "f:metadata": { "f:annotations": { "f:a": {} } } } } }),
        ] {
            assert_eq!(summary(fields, None), None);
        }
        let scaled = json!({ "f:spec": { "f:minReadySeconds": {} } });
        assert_eq!(summary(scaled, Some("scale")), None);
    }

    #[test]
    fn an_object_that_was_not_applied_has_no_summary() {
        let entry =
            json!({ "manager": "other", "operation": "Update", "fieldsV1": { "f:data": {} } });
        assert_eq!(summarize(json!([entry])).unwrap(), None);
        assert_eq!(summarize(Value::Null).unwrap(), None);
    }
}
