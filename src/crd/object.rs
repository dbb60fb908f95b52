//! The minimal object that a schema accepts.

use serde_yaml::{Mapping, Value};

use super::Crd;
use super::schema::{Additional, Schema};

/// An object with only the required fields.
#[derive(Debug, Default)]
pub struct MinimalObject {
    /// The fields, except for `apiVersion`, `kind` and `metadata`.
    pub fields: Mapping,
    /// The paths of the fields with a pattern, for which no valid value could be generated.
    pub patterns: Vec<String>,
}

/// Generates the minimal object of a type. The object is valid, except for patterns and CEL rules.
pub fn minimal_object(crd: &Crd) -> MinimalObject {
    let mut root = crd.schema.clone();
    // An object without a spec would test almost nothing.
    root.required.push("spec".to_owned());
    for field in ["apiVersion", "kind", "metadata"] {
        root.properties.remove(field);
    }
    let mut minimal = MinimalObject::default();
    minimal.fields = minimal.object(&root, "");
    minimal
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
        let minimum = schema.minimum.unwrap_or(0.0) + f64::from(u8::from(schema.exclusive_minimum));
        match schema.type_.as_deref() {
            _ if schema.int_or_string => 0.into(),
            Some("boolean") => false.into(),
            Some("integer") => (minimum.max(0.0) as i64).into(),
            Some("number") => minimum.max(0.0).into(),
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
