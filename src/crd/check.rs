//! The checks of a CRD: of all names that become identifiers, paths or YAML, and of its size.

use serde_yaml::Value;

use super::manifest::CrdSpec;
use super::schema::{Additional, Schema};
use crate::project::names::{self, InvalidValue};
use crate::project::version::ApiVersion;
use crate::text::{find_hidden, is_hidden, one_line};

/// The maximum number of fields of a version, several times that of the largest CRDs.
const MAX_FIELDS: usize = 50_000;
/// The maximum nesting of fields, items and values. rustc checks that a type is `Send` field by field, and
/// by default only to a limited depth.
const MAX_NESTING: usize = 32;

/// Checks the names of a CRD like those from flags. `version` is the index of the requested version.
///
/// # Errors
/// A phrase that names the field.
pub fn names(spec: &CrdSpec, version: usize) -> Result<(), String> {
    type Check = fn(&str) -> Result<(), InvalidValue>;
    let version_name = format!("spec.versions[{version}].name");
    let parse_version = |version: &str| ApiVersion::parse(version).map(drop);
    for (field, value, check) in [
        ("spec.group", &spec.group, names::external_api_group as Check),
        (&version_name, &spec.versions[version].name, parse_version),
        ("spec.names.kind", &spec.names.kind, kind),
        ("spec.names.plural", &spec.names.plural, names::plural),
        ("spec.scope", &spec.scope, scope),
    ] {
        check(value).map_err(|invalid| {
            format!("invalid value '{}' for `{field}`: {}", one_line(value), invalid.reason)
        })?;
    }
    Ok(())
}

fn kind(name: &str) -> Result<(), InvalidValue> {
    if name == "Repr" {
        return Err(InvalidValue::new(
            "a type `Repr` would clash with the one that kube generates for a type without a spec",
        ));
    }
    names::kind(name)
}

fn scope(name: &str) -> Result<(), InvalidValue> {
    match name {
        "Namespaced" | "Cluster" => Ok(()),
        _ => Err(InvalidValue::new("must be `Namespaced` or `Cluster`")),
    }
}

/// Checks the schema of a version.
///
/// # Errors
/// A phrase that names the field.
pub fn schema(schema: &Schema) -> Result<(), String> {
    Check { fields: 0, path: Vec::new() }.schema(schema)
}

struct Check<'a> {
    /// The number of fields so far.
    fields: usize,
    /// The property names and, for items and other values, `[]`.
    path: Vec<&'a str>,
}

impl<'a> Check<'a> {
    fn schema(&mut self, schema: &'a Schema) -> Result<(), String> {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(format!("more than {MAX_FIELDS} fields"));
        }
        if self.path.len() > MAX_NESTING {
            return Err(
                self.error(format!("fields are nested more than {MAX_NESTING} levels deep"))
            );
        }
        let default = schema.default.iter().map(|value| ("default", value));
        for (field, value) in default.chain(schema.values.iter().map(|value| ("enum", value))) {
            if let Some(hidden) = find_hidden_in(value) {
                return Err(self.error(format!("`{field}` contains {hidden}")));
            }
        }
        for (name, property) in &schema.properties {
            self.path.push(name);
            if name.contains(is_hidden) {
                return Err(self.error("a name must not contain control or invisible characters"));
            }
            self.schema(property)?;
            self.path.pop();
        }
        let values = match &schema.additional_properties {
            Additional::Of(values) => Some(values),
            Additional::Any(_) => None,
        };
        for schema in schema.items.iter().chain(values) {
            self.path.push("[]");
            self.schema(schema)?;
            self.path.pop();
        }
        Ok(())
    }

    fn error(&self, reason: impl std::fmt::Display) -> String {
        let path = self.path.join(".").replace(".[]", "[]");
        format!("`{}`: {reason}", one_line(&path))
    }
}

/// The first hidden character of a value.
fn find_hidden_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => find_hidden(text),
        Value::Sequence(items) => items.iter().find_map(find_hidden_in),
        Value::Mapping(fields) => fields
            .iter()
            .find_map(|(key, value)| find_hidden_in(key).or_else(|| find_hidden_in(value))),
        Value::Tagged(tagged) => find_hidden_in(&tagged.value),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
