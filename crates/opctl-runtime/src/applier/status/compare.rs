//! Compares statuses, without what other controllers write into them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::error::Result;
use crate::object::tree_of;

/// A status as JSON. Its conditions are apart, by type: other controllers may have written some of
/// them, and their order means nothing.
pub(super) struct Comparable {
    fields: Value,
    conditions: BTreeMap<String, Value>,
}

impl Comparable {
    pub(super) fn new(status: &impl Serialize) -> Result<Self> {
        Ok(Self::of(tree_of(status)?))
    }

    pub(super) fn parse(json: &str) -> Result<Self> {
        Ok(Self::of(serde_json::from_str(json)?))
    }

    fn of(mut fields: Value) -> Self {
        let mut by_type = BTreeMap::new();
        if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
            conditions.retain(|condition| {
                let Some(type_) = condition["type"].as_str() else {
                    return true;
                };
                by_type.insert(type_.to_owned(), condition.clone());
                false
            });
        }
        Self {
            fields,
            conditions: by_type,
        }
    }

    /// Without the times at which the conditions changed.
    pub(super) fn without_times(mut self) -> Self {
        for condition in self.conditions.values_mut() {
            if let Some(condition) = condition.as_object_mut() {
                condition.remove("lastTransitionTime");
            }
        }
        self
    }

    /// Whether writing `desired` would change nothing.
    pub(super) fn has(&self, desired: &Self) -> bool {
        let mut conditions = desired.conditions.iter();
        self.fields == desired.fields
            && conditions.all(|(type_, condition)| self.conditions.get(type_) == Some(condition))
    }
}
