//! The part of a CRD's schema that determines the Rust types and the required fields of an object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;
use serde_yaml::Value;

/// A structural schema
/// (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Schema {
    #[serde(rename = "type")]
    pub type_: Option<String>,
    pub format: Option<String>,
    pub description: String,
    pub nullable: bool,
    pub default: Option<Value>,
    #[serde(rename = "enum")]
    pub values: Vec<Value>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: usize,
    pub max_length: Option<usize>,
    pub pattern: Option<String>,
    pub min_items: usize,
    pub min_properties: usize,
    #[serde(rename = "x-kubernetes-list-type")]
    pub list_type: Option<String>,
    pub properties: BTreeMap<String, Schema>,
    pub required: BTreeSet<String>,
    pub items: Option<Box<Schema>>,
    pub additional_properties: Additional,
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub int_or_string: bool,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub preserves_unknown_fields: bool,
}

/// The values of a map.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Additional {
    /// Whether any value is allowed.
    Any(bool),
    /// Values with this schema.
    Of(Box<Schema>),
}

impl Default for Additional {
    fn default() -> Self {
        Self::Any(false)
    }
}

impl Schema {
    pub fn is_required(&self, field: &str) -> bool {
        self.required.contains(field)
    }

    /// What determines the Rust type of a value: schemas with the same shape have the same one.
    pub fn shape(&self) -> String {
        let mut shape = String::new();
        self.write_shape(&mut shape);
        shape
    }

    fn write_shape(&self, shape: &mut String) {
        let Self { type_, format, int_or_string, preserves_unknown_fields, .. } = self;
        // Quoted names cannot be taken for what is around them.
        let _ = write!(shape, "{type_:?}{format:?}{int_or_string}{preserves_unknown_fields}");
        if let Some(values) = self.strings() {
            let _ = write!(shape, "{values:?}");
        }
        if let Some(items) = &self.items {
            shape.push('[');
            items.write_shape(shape);
            shape.push(']');
        }
        match &self.additional_properties {
            Additional::Any(any) => drop(write!(shape, "{any}")),
            Additional::Of(values) => {
                shape.push('<');
                values.write_shape(shape);
                shape.push('>');
            }
        }
        shape.push('{');
        for (name, property) in &self.properties {
            let (required, nullable) = (self.is_required(name), property.nullable);
            let _ = write!(shape, "{name:?}{required}{nullable}:");
            property.write_shape(shape);
        }
        shape.push('}');
    }

    pub fn is_object(&self) -> bool {
        self.type_.as_deref() == Some("object")
    }

    /// Whether a value in it is a quantity: a number, or a text of a certain form.
    pub fn has_quantity(&self) -> bool {
        let values = match &self.additional_properties {
            Additional::Of(values) => Some(values.as_ref()),
            Additional::Any(_) => None,
        };
        let mut parts = self.properties.values().chain(self.items.as_deref()).chain(values);
        self.int_or_string && self.pattern.is_some() || parts.any(Self::has_quantity)
    }

    /// The values of a string enum.
    pub fn strings(&self) -> Option<Vec<&str>> {
        let is_string = self.type_.as_deref() == Some("string") && !self.values.is_empty();
        is_string.then(|| self.values.iter().map(Value::as_str).collect()).flatten()
    }
}
