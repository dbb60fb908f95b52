//! The fields of a JSON object, read only as far as a comparison needs it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Result, Value};

/// The fields of a JSON object, by name.
#[derive(Debug)]
pub(crate) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    pub fn parse(json: &'a str) -> Result<Self> {
        Ok(Self(serde_json::from_str(json)?))
    }

    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Without those whose value is a number or a list.
    pub fn without_counts_and_lists(mut self) -> Self {
        let is_other = |value: &RawValue| {
            !value
                .get()
                .starts_with(|c: char| "-[".contains(c) || c.is_ascii_digit())
        };
        self.0.retain(|_, value| is_other(value));
        self
    }
}

impl PartialEq for Fields<'_> {
    fn eq(&self, other: &Self) -> bool {
        let mut values = self.0.values().zip(other.0.values());
        self.0.keys().eq(other.0.keys()) && values.all(|(value, other)| is_equal(value, other))
    }
}

/// Whether two values are equal. What the same serializer has written differs in text where the values do, and
/// where the keys of a map have no order.
pub(crate) fn is_equal(value: &RawValue, other: &RawValue) -> bool {
    let read = |value: &RawValue| serde_json::from_str::<Value>(value.get()).ok();
    value.get() == other.get() || read(value) == read(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_equal_in_any_order_of_keys() {
        let equal =
            |one: &str, other: &str| Fields::parse(one).unwrap() == Fields::parse(other).unwrap();
        assert!(equal(
            r#"{"a":{"b":1,"c":[2]},"d":3}"#,
            r#"{"d":3,"a":{"c":[2],"b":1}}"#
        ));
        assert!(!equal(r#"{"a":{"b":1}}"#, r#"{"a":{"b":2}}"#));
        assert!(!equal(r#"{"a":1}"#, r#"{"a":1,"b":1}"#));
        assert!(!equal(r#"{"a":1,"b":1}"#, r#"{"a":1,"c":1}"#));
    }
}
