//! Compares statuses, without what other controllers write into them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::fields::{Fields, is_equal};

/// A status as JSON. Its conditions are apart, by type: other controllers may have written some of
/// them, and their order means nothing.
pub(super) struct Comparable<'a> {
    fields: Fields<'a>,
    conditions: BTreeMap<String, &'a RawValue>,
}

impl<'a> Comparable<'a> {
    pub(super) fn parse(status: &'a str) -> Result<Self> {
        let mut fields = Fields::parse(status)?;
        let conditions = fields.get("conditions").and_then(by_type);
        if conditions.is_some() {
            fields.remove("conditions");
        }
        let conditions = conditions.unwrap_or_default();
        Ok(Self { fields, conditions })
    }

    /// Whether writing `desired` would change nothing.
    pub(super) fn has(&self, desired: &Self) -> bool {
        self.has_by(desired, is_equal)
    }

    /// Whether writing `desired` would change the transition times of conditions at most.
    pub(super) fn has_but_for_times(&self, desired: &Self) -> bool {
        self.has_by(desired, |condition, desired| {
            let [condition, desired] = [condition, desired].map(without_time);
            condition.is_some() && condition == desired
        })
    }

    fn has_by(&self, desired: &Self, is_same: impl Fn(&RawValue, &RawValue) -> bool) -> bool {
        let mut conditions = desired.conditions.iter();
        self.fields == desired.fields
            && conditions.all(|(type_, desired)| {
                let condition = self.conditions.get(type_);
                condition.is_some_and(|condition| is_same(condition, desired))
            })
    }
}

/// The conditions of a list by their type, if it is one of conditions.
fn by_type(list: &RawValue) -> Option<BTreeMap<String, &RawValue>> {
    #[derive(Deserialize)]
    struct Condition {
        r#type: String,
    }

    let conditions: Vec<&RawValue> = serde_json::from_str(list.get()).ok()?;
    let conditions = conditions.into_iter().map(|condition| {
        let Condition { r#type } = serde_json::from_str(condition.get()).ok()?;
        Some((r#type, condition))
    });
    conditions.collect()
}

fn without_time(condition: &RawValue) -> Option<Fields<'_>> {
    let mut fields = Fields::parse(condition.get()).ok()?;
    fields.remove("lastTransitionTime");
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = r#"{"pages":1,"conditions":[
        {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},
        {"type":"Others","status":"True"}]}"#;

    /// Whether the status has another one: all of it, and but for times.
    fn has(desired: &str) -> [bool; 2] {
        let (status, desired) = (Comparable::parse(STATUS), Comparable::parse(desired));
        let (status, desired) = (status.unwrap(), desired.unwrap());
        [status.has(&desired), status.has_but_for_times(&desired)]
    }

    #[test]
    fn conditions_are_compared_by_type() {
        let ready =
            |fields: &str| format!(r#"{{"conditions":[{{"type":"Ready",{fields}}}],"pages":1}}"#);
        let (time, later) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let at = |time: &str| ready(&format!(r#""lastTransitionTime":"{time}","status":"True""#));
        assert_eq!(has(&at(time)), [true, true]);
        assert_eq!(has(&at(later)), [false, true]);
        assert_eq!(has(&ready(r#""status":"False""#)), [false, false]);
        assert_eq!(
            has(r#"{"conditions":[{"type":"New","status":"True"}],"pages":1}"#),
            [false, false]
        );
        assert_eq!(has(r#"{"pages":2}"#), [false, false]);
        assert_eq!(has(r#"{"pages":1}"#), [true, true]);
    }

    #[test]
    fn what_has_no_type_is_a_field_as_any_other() {
        let status = r#"{"conditions":[{"status":"True"}]}"#;
        let other = r#"{"conditions":[{"status":"False"}]}"#;
        let has = |desired: &str| {
            let status = Comparable::parse(status).unwrap();
            status.has(&Comparable::parse(desired).unwrap())
        };
        assert!(has(status) && !has(other) && !has("{}"));
    }
}
