//! The minimal object that a schema accepts.

use serde_yaml::{Mapping, Value};

use super::Crd;
use super::schema::{Additional, Schema};
use crate::error::UserError;

/// The maximum size of an object in bytes, about. It is written and read as text.
const MAX_SIZE: usize = 1 << 16;
/// The largest integer up to which floats, such as the bounds of a schema, have all integers.
const MAX_EXACT: f64 = (1_u64 << 53) as f64;

/// An object with only the required fields.
#[derive(Debug, Default)]
pub struct MinimalObject {
    /// The fields, except for `apiVersion`, `kind` and `metadata`.
    pub fields: Mapping,
    /// The paths of the fields for which no valid value could be generated, such as those with a pattern.
    pub incomplete: Vec<String>,
    /// The size so far.
    size: usize,
}

/// Generates the minimal object of a type. The object is valid, except for fields that it lists, and for
/// CEL rules.
///
/// # Errors
/// If even the minimal object is too large.
pub fn minimal_object(crd: &Crd) -> Result<MinimalObject, UserError> {
    let mut root = crd.schema.clone();
    // An object without a spec would test almost nothing.
    root.required.insert("spec".to_owned());
    for field in ["apiVersion", "kind", "metadata"] {
        root.properties.remove(field);
    }
    let mut minimal = MinimalObject::default();
    minimal.fields = minimal.object(&root, "").map_err(|path| {
        UserError::failure(format!(
            "cannot create an object of {} for its test: with `{path}`, it would be larger than {} KB",
            crd.kind,
            MAX_SIZE / 1024
        ))
        .with_hint("create only the types with `--controller=false`")
    })?;
    Ok(minimal)
}

/// A value, or the path of the field that is too large.
type Bounded<T> = Result<T, String>;

impl MinimalObject {
    fn object(&mut self, schema: &Schema, path: &str) -> Bounded<Mapping> {
        let required = schema.properties.iter().filter(|(name, _)| schema.is_required(name));
        let value = |(name, field): (&String, &Schema)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.grow(name.len(), &path)?;
            Ok((name.as_str().into(), self.value(field, &path)?))
        };
        required.map(value).collect()
    }

    fn value(&mut self, schema: &Schema, path: &str) -> Bounded<Value> {
        self.grow(1, path)?;
        if let Some(value) = schema.default.as_ref().or(schema.values.first()) {
            self.grow(size(value), path)?;
            return Ok(value.clone());
        }
        Ok(match schema.type_.as_deref() {
            _ if schema.int_or_string => 0.into(),
            Some("boolean") => false.into(),
            Some("integer") => match schema.integer() {
                Some(number) => number.into(),
                None => self.incomplete(path, 0),
            },
            Some("number") => match schema.number() {
                Some(number) => number.into(),
                None => self.incomplete(path, 0),
            },
            Some("string") => {
                self.grow(schema.min_length, path)?;
                let text = string(schema);
                if schema.pattern.is_some() || text.len() < schema.min_length {
                    self.incomplete(path, text)
                } else {
                    text.into()
                }
            }
            Some("array") => self.array(schema, path)?.into(),
            _ => match &schema.additional_properties {
                Additional::Of(_) | Additional::Any(true) if schema.min_properties > 0 => {
                    self.incomplete(path, Mapping::new())
                }
                Additional::Of(_) | Additional::Any(true) => Mapping::new().into(),
                Additional::Any(false) => self.object(schema, path)?.into(),
            },
        })
    }

    fn array(&mut self, schema: &Schema, path: &str) -> Bounded<Vec<Value>> {
        if schema.min_items == 0 {
            return Ok(Vec::new());
        }
        let before = self.size;
        let path = format!("{path}[]");
        let item = match &schema.items {
            Some(items) => self.value(items, &path)?,
            None => Value::Null,
        };
        // The others are equal to the first.
        let rest = (self.size - before).max(1).saturating_mul(schema.min_items - 1);
        self.grow(rest, &path)?;
        if schema.min_items > 1 && matches!(schema.list_type.as_deref(), Some("set" | "map")) {
            self.incomplete.push(path);
        }
        Ok(vec![item; schema.min_items])
    }

    /// Adds to the size of the object, before the memory is taken.
    fn grow(&mut self, size: usize, path: &str) -> Bounded<()> {
        self.size = self.size.saturating_add(size);
        if self.size > MAX_SIZE { Err(path.to_owned()) } else { Ok(()) }
    }

    /// A value of a field that the user has to change.
    fn incomplete(&mut self, path: &str, value: impl Into<Value>) -> Value {
        self.incomplete.push(path.to_owned());
        value.into()
    }
}

/// The size of a value in bytes, about.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Sequence(items) => items.iter().map(|item| 1 + size(item)).sum(),
        Value::Mapping(fields) => fields.iter().map(|(k, v)| 1 + size(k) + size(v)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Tagged(_) => 1,
    }
}

fn string(schema: &Schema) -> String {
    match schema.format.as_deref() {
        Some("date-time") => "2026-01-01T00:00:00Z".to_owned(),
        Some("date") => "2026-01-01".to_owned(),
        Some("byte") => "dGVzdA==".to_owned(),
        _ => {
            let mut text = "test".to_owned();
            text.extend(std::iter::repeat_n('x', schema.min_length.saturating_sub(text.len())));
            text.truncate(schema.max_length.unwrap_or(usize::MAX));
            text
        }
    }
}

impl Schema {
    /// The integer that is nearest to zero and at least zero, if the bounds allow it.
    fn integer(&self) -> Option<i64> {
        let step =
            self.multiple_of.filter(|step| *step >= 1.0 && step.fract() == 0.0).unwrap_or(1.0);
        let mut low = self.minimum.map_or(f64::MIN, f64::ceil);
        let mut high = self.maximum.map_or(f64::MAX, f64::floor);
        if self.exclusive_minimum && self.minimum == Some(low) {
            low += 1.0;
        }
        if self.exclusive_maximum && self.maximum == Some(high) {
            high -= 1.0;
        }
        let number = if low > 0.0 {
            (low / step).ceil() * step
        } else {
            (high.min(0.0) / step).floor() * step
        };
        let is_short = self.format.as_deref() == Some("int32");
        let limit = if is_short { f64::from(i32::MAX) } else { MAX_EXACT };
        let is_valid = (low..=high).contains(&number) && number.abs() <= limit;
        is_valid.then_some(number as i64)
    }

    /// A number between the bounds.
    fn number(&self) -> Option<f64> {
        let low = self.minimum.unwrap_or(f64::MIN);
        let high = self.maximum.unwrap_or(f64::MAX);
        let is_valid = |number: &f64| {
            (low..=high).contains(number)
                && !(self.exclusive_minimum && *number == low)
                && !(self.exclusive_maximum && *number == high)
                && self.multiple_of.is_none_or(|step| number % step == 0.0)
        };
        let bounds = self.minimum.into_iter().chain(self.maximum);
        let inside = [low + 1.0, high - 1.0, low / 2.0 + high / 2.0];
        [0.0].into_iter().chain(bounds).chain(inside).find(is_valid)
    }
}
