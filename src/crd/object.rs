//! The least that a schema asks of an object.

use serde_yaml::{Mapping, Value};

use super::Crd;
use super::schema::{Additional, Schema};

/// The fields that an object of the kind has to have, with values that its schema takes as far as
/// they are no matter of patterns and of rules.
pub fn least(crd: &Crd) -> Mapping {
    let mut root = crd.schema.clone();
    // One without a spec would hardly be worth a test.
    root.required.push("spec".to_owned());
    match object(&root) {
        Value::Mapping(mut fields) => {
            for own in ["apiVersion", "kind", "metadata"] {
                fields.remove(own);
            }
            fields
        }
        _ => Mapping::new(),
    }
}

fn object(schema: &Schema) -> Value {
    let required = schema.properties.iter().filter(|(name, _)| schema.is_required(name));
    Value::Mapping(required.map(|(name, field)| (name.as_str().into(), value(field))).collect())
}

fn value(schema: &Schema) -> Value {
    if let Some(value) = schema.default.as_ref().or(schema.values.first()) {
        return value.clone();
    }
    let number = || schema.minimum.unwrap_or(0.0) + f64::from(u8::from(schema.exclusive_minimum));
    match schema.type_.as_deref() {
        _ if schema.int_or_string => 0.into(),
        Some("boolean") => false.into(),
        Some("integer") => (number().max(0.0) as i64).into(),
        Some("number") => number().max(0.0).into(),
        Some("string") => string(schema).into(),
        Some("array") => {
            let item = schema.items.as_deref().map_or(Value::Null, value);
            vec![item; schema.min_items].into()
        }
        _ => match &schema.additional_properties {
            Additional::Of(_) | Additional::Any(true) => Mapping::new().into(),
            Additional::Any(false) => object(schema),
        },
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
