//! The least that a schema asks of an object.

use serde_yaml::{Mapping, Value};

use super::Crd;
use super::schema::{Additional, Schema};

/// An object that has what it has to have.
#[derive(Debug, Default)]
pub struct MinimalObject {
    /// Its fields, besides those that all objects have.
    pub fields: Mapping,
    /// Those of them that have to match a pattern, for which nothing could be made up.
    pub patterns: Vec<String>,
}

/// The least object of the kind that its schema takes, as far as it is no matter of patterns and of
/// rules.
pub fn minimal_object(crd: &Crd) -> MinimalObject {
    let mut root = crd.schema.clone();
    // One without a spec would hardly be worth a test.
    root.required.push("spec".to_owned());
    for own in ["apiVersion", "kind", "metadata"] {
        root.properties.remove(own);
    }
    let mut least = MinimalObject::default();
    least.fields = least.object(&root, "");
    least
}

impl MinimalObject {
    fn object(&mut self, schema: &Schema, path: &str) -> Mapping {
        let required = schema.properties.iter().filter(|(name, _)| schema.is_required(name));
        let value = |(name, field): (&String, &Schema)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            (name.as_str().into(), self.value(field, &path))
        };
        required.map(value).collect()
    }

    fn value(&mut self, schema: &Schema, path: &str) -> Value {
        if let Some(value) = schema.default.as_ref().or(schema.values.first()) {
            return value.clone();
        }
        let least = schema.minimum.unwrap_or(0.0) + f64::from(u8::from(schema.exclusive_minimum));
        match schema.type_.as_deref() {
            _ if schema.int_or_string => 0.into(),
            Some("boolean") => false.into(),
            Some("integer") => (least.max(0.0) as i64).into(),
            Some("number") => least.max(0.0).into(),
            Some("string") => {
                self.patterns.extend(schema.pattern.is_some().then(|| path.to_owned()));
                string(schema).into()
            }
            Some("array") => {
                let items = schema.items.as_deref().filter(|_| schema.min_items > 0);
                let item = items.map_or(Value::Null, |items| self.value(items, path));
                vec![item; schema.min_items].into()
            }
            _ => match &schema.additional_properties {
                Additional::Of(_) | Additional::Any(true) => Mapping::new().into(),
                Additional::Any(false) => self.object(schema, path).into(),
            },
        }
    }
}

fn string(schema: &Schema) -> String {
    match schema.format.as_deref() {
        Some("date-time") => "2026-01-01T00:00:00Z".to_owned(),
        Some("date") => "2026-01-01".to_owned(),
        Some("byte") => "dGVzdA==".to_owned(),
        _ => format!("{:x<1$}", "test", schema.min_length),
    }
}
