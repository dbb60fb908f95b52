//! The CRD of an own kind, as `make manifests` of the generated project writes it.

use std::sync::LazyLock;

use anyhow::Result;
use serde_json::{Value, json};

use super::attributes::{JUNCTIONS, has_fields};
use super::{Object, OwnKind, OwnVersion, docs, get, texts};
use crate::crd::core_types;
use crate::project::names;

/// The descriptions that k8s-openapi has for its types, where a field has none of its own.
const INT_OR_STRING: &str = "IntOrString is a type that can hold an int32 or a string.  When used in JSON or YAML marshalling and unmarshalling, it produces or consumes the inner type.  This allows you to have, for example, a JSON field that can accept a name or number.";
const TIME: &str = "Time is a wrapper around time.Time which supports correct marshaling to YAML and JSON.  Wrappers are provided for many of the factory methods that the time package offers.";

/// The schema of a condition.
static CONDITION: LazyLock<Object> = LazyLock::new(|| {
    serde_yaml::from_str(include_str!("condition.yaml")).unwrap_or_else(|error| panic!("{error}"))
});

impl OwnKind {
    /// The text of the CRD.
    ///
    /// # Errors
    /// If it cannot be written as YAML.
    pub fn manifest(&self) -> Result<String> {
        let Self { group, kind, plural, .. } = self;
        let singular = self.singular.clone().unwrap_or_else(|| kind.to_lowercase());
        let mut names = json!({ "kind": kind, "plural": plural, "singular": singular });
        for (name, values) in [("categories", &self.categories), ("shortNames", &self.short_names)]
        {
            if !values.is_empty() {
                names[name] = json!(values);
            }
        }
        let mut metadata = json!({ "name": format!("{plural}.{group}") });
        for (name, values) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            if !values.is_empty() {
                metadata[name] = json!(values);
            }
        }
        let versions = self.versions.iter().enumerate();
        let versions: Vec<Value> = versions.map(|(i, v)| v.manifest(kind, i == 0)).collect();
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": group,
                "names": names,
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "versions": versions,
            },
        });
        let options = serde_saphyr::ser_options! { folded_wrap_chars: names::MAX_SUBDOMAIN };
        Ok(serde_saphyr::to_string_with_options(&crd, options)?)
    }
}

impl OwnVersion {
    fn manifest(&self, kind: &str, storage: bool) -> Value {
        let mut properties = Object::new();
        properties.insert("spec".to_owned(), Value::Object(normalised(&self.part("spec"))));
        if self.has_status {
            properties.insert("status".to_owned(), Value::Object(normalised(&self.part("status"))));
        }
        let mut schema = json!({
            "description": self.description(kind),
            "properties": properties,
            "required": ["spec"],
            "title": kind,
            "type": "object",
        });
        if let Some(rules) = self.schema.get("x-kubernetes-validations") {
            schema["x-kubernetes-validations"] = rules.clone();
        }
        let mut subresources = Object::new();
        if self.has_status {
            subresources.insert("status".to_owned(), json!({}));
        }
        if let Some(scale) = &self.scale {
            subresources.insert("scale".to_owned(), Value::Object(scale.clone()));
        }
        let mut version = json!({
            "name": self.name,
            "schema": { "openAPIV3Schema": schema },
            "served": self.served,
            "storage": storage,
        });
        if !subresources.is_empty() {
            version["subresources"] = Value::Object(subresources);
        }
        if !self.columns.is_empty() {
            version["additionalPrinterColumns"] = json!(self.columns);
        }
        if let Some(warning) = &self.deprecated {
            version["deprecated"] = true.into();
            if let Some(warning) = warning {
                version["deprecationWarning"] = warning.as_str().into();
            }
        }
        if !self.selectable.is_empty() {
            let field = |path: &String| json!({ "jsonPath": path });
            version["selectableFields"] = self.selectable.iter().map(field).collect();
        }
        version
    }
}

/// The schema as the derive macros write it.
fn normalised(schema: &Object) -> Object {
    let mut schema = schema.clone();
    let described = schema.remove("description");
    let described = described.as_ref().and_then(Value::as_str).map(docs::description);
    let described = described.filter(|text| !text.is_empty()).map(Value::String);
    if core_types::find(&schema) == Some(core_types::CONDITION) {
        let mut condition = CONDITION.clone();
        condition.extend(described.map(|text| ("description".to_owned(), text)));
        return condition;
    }
    let is_int_or_string = schema.contains_key("x-kubernetes-int-or-string");
    let is_time = schema.get("format").is_some_and(|format| format == "date-time");
    let described = described.or_else(|| match (is_int_or_string, is_time) {
        (true, _) => Some(INT_OR_STRING.into()),
        (_, true) => Some(TIME.into()),
        _ => None,
    });
    schema.extend(described.map(|text| ("description".to_owned(), text)));
    schema.retain(|name, value| {
        let is_implied = is_int_or_string && ["anyOf", "allOf", "type"].contains(&name.as_str());
        let is_inexpressible = JUNCTIONS.contains(&name.as_str()) && has_fields(value);
        !is_implied && !is_inexpressible
    });
    match schema.get("type").and_then(Value::as_str) {
        Some("integer") if schema.get("format").is_none_or(|format| format != "int32") => {
            schema.insert("format".to_owned(), "int64".into());
        }
        Some("number") => {
            schema.insert("format".to_owned(), "double".into());
        }
        _ => {}
    }
    let required = texts(get(&schema, "required"));
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        let is_required = |name: &String, field: &Object| {
            required.contains(name) && !field.contains_key("default")
        };
        let mut still = Vec::new();
        for (name, field) in fields.iter_mut() {
            let Value::Object(inner) = field else { continue };
            let mut inner = normalised(inner);
            match is_required(name, &inner) {
                true => still.push(name.clone()),
                false => drop(inner.remove("nullable")),
            }
            *field = Value::Object(inner);
        }
        match still.is_empty() {
            true => drop(schema.remove("required")),
            false => drop(schema.insert("required".to_owned(), still.into())),
        }
    }
    for name in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get(name) {
            let inner = normalised(inner);
            schema.insert(name.to_owned(), Value::Object(inner));
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    #[test]
    fn condition_is_that_of_the_recipes() {
        let set = crate::render::TemplateSet::current();
        let recipe = set.source("recipes/none/crd_version.yaml.tera").unwrap();
        let items = recipe.split("items:\n").nth(1).unwrap();
        let condition = include_str!("condition.yaml").lines().skip(1);
        for (expected, line) in items.lines().zip(condition) {
            assert_eq!(line.trim(), expected.trim());
        }
    }
}
