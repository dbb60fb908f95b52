//! Writes the types in the format of rustfmt.

use std::fmt::Write;

use super::types::{Definition, Enum, Struct, Types};
use super::{Object, OwnKind, OwnVersion, attributes, docs, get, list};
use crate::crd::rust::{WIDTH, attribute, imports};
use crate::text::rust_literal;

impl OwnKind {
    /// The source of a file with the Rust types of a version, which begins with `header`.
    pub fn types(&self, version: &OwnVersion, header: &str) -> String {
        let kind = &self.kind;
        let types = version.derive(kind);
        let mut body = String::new();
        for definition in &types.definitions {
            match definition {
                Definition::Struct(definition) => {
                    let is_spec = definition.name == format!("{kind}Spec");
                    let kube = if is_spec { self.kube(version) } else { String::new() };
                    write_struct(&mut body, definition, is_spec, &kube);
                }
                Definition::Enum(definition) => write_enum(&mut body, definition),
                Definition::Function(text) => {
                    let _ = write!(body, "\n{text}");
                }
            }
        }
        let mut text = format!("{header}//! The API type {kind}.\n\n");
        text.push_str(&imports(&body, true));
        text.push_str("use kube::{CustomResource, KubeSchema};\n");
        text.push_str("use serde::{Deserialize, Serialize};\n");
        text + &body
    }

    /// The attribute of kube.
    fn kube(&self, version: &OwnVersion) -> String {
        let Self { group, kind, plural, .. } = self;
        let mut arguments = vec![
            format!("group = {group:?}"),
            format!("version = {:?}", version.name),
            format!("kind = {kind:?}"),
            format!("plural = {plural:?}"),
        ];
        let mut push = |text: String| arguments.push(text);
        if let Some(singular) = self.singular.as_ref().filter(|name| **name != kind.to_lowercase())
        {
            push(format!("singular = {}", rust_literal(singular)));
        }
        if self.namespaced {
            push("namespaced".to_owned());
        }
        for name in &self.short_names {
            push(format!("shortname = {}", rust_literal(name)));
        }
        for name in &self.categories {
            push(format!("category = {}", rust_literal(name)));
        }
        push(format!("doc = {}", rust_literal(&version.description(kind))));
        if version.has_status {
            push(format!("status = \"{kind}Status\""));
        }
        push("derive = \"PartialEq\"".to_owned());
        if !version.served {
            push("served = false".to_owned());
        }
        match &version.deprecated {
            Some(Some(warning)) => push(format!("deprecated = {}", rust_literal(warning))),
            Some(None) => push("deprecated".to_owned()),
            None => {}
        }
        for (name, values) in [("annotation", &self.annotations), ("label", &self.labels)] {
            for (key, value) in values {
                push(format!("{name}({}, {})", rust_literal(key), rust_literal(value)));
            }
        }
        for rule in list(get(&version.schema, "x-kubernetes-validations")) {
            push(format!("validation = {}", attributes::rule(rule)));
        }
        if let Some(scale) = &version.scale {
            let names = [
                ("spec_replicas_path", "specReplicasPath"),
                ("status_replicas_path", "statusReplicasPath"),
                ("label_selector_path", "labelSelectorPath"),
            ];
            push(nested("scale", &texts(scale, &names)));
        }
        for path in &version.selectable {
            push(format!("selectable = {}", rust_literal(path)));
        }
        for column in &version.columns {
            let names = [
                ("name", "name"),
                ("type_", "type"),
                ("json_path", "jsonPath"),
                ("description", "description"),
                ("format", "format"),
            ];
            let mut fields = texts(column, &names);
            let priority = column.get("priority").filter(|priority| **priority != 0);
            fields.extend(priority.map(|priority| format!("priority = {priority}")));
            push(nested("printcolumn", &fields));
        }
        format!("#[kube(\n    {}\n)]\n", arguments.join(",\n    "))
    }
}

impl OwnVersion {
    /// The types of the version.
    pub(super) fn derive(&self, kind: &str) -> Types {
        let reserved = ["", "List", "Spec", "Status", "SpecValidated", "StatusValidated"];
        let reserved = reserved.map(|end| format!("{kind}{end}"));
        let mut types = Types::new(kind, reserved);
        types.root(&format!("{kind}Spec"), "spec", &self.part("spec"));
        if self.has_status {
            types.root(&format!("{kind}Status"), "status", &self.part("status"));
        }
        types
    }

    /// The description of the kind.
    pub(super) fn description(&self, kind: &str) -> String {
        let description = self.schema.get("description").and_then(|text| text.as_str());
        description.map_or_else(|| format!("An object of kind {kind}."), docs::description)
    }
}

fn texts(fields: &Object, names: &[(&str, &str)]) -> Vec<String> {
    let text = |(word, field): &(&str, &str)| {
        let text = fields.get(*field)?.as_str()?;
        Some(format!("{word} = {}", rust_literal(text)))
    };
    names.iter().filter_map(text).collect()
}

/// A list among the arguments of an attribute.
fn nested(name: &str, arguments: &[String]) -> String {
    let text = attribute("    ", name, arguments);
    let text = text.trim().trim_start_matches("#[");
    text.strip_suffix(']').unwrap_or(text).to_owned()
}

fn write_struct(body: &mut String, definition: &Struct, is_spec: bool, kube: &str) {
    let mut derives = vec!["KubeSchema", "Clone", "Debug"];
    if is_spec {
        derives.insert(0, "CustomResource");
    }
    derives.extend(definition.has_default.then_some("Default"));
    derives.extend(["PartialEq", "Serialize", "Deserialize"]);
    let docs = docs::comment("", &definition.docs);
    let _ = write!(body, "\n{docs}#[derive({})]\n", derives.join(", "));
    body.push_str("#[serde(rename_all = \"camelCase\")]\n");
    body.push_str(kube);
    for attribute in &definition.attributes {
        let _ = writeln!(body, "{attribute}");
    }
    let _ = write!(body, "pub struct {} {{", definition.name);
    for (i, field) in definition.fields.iter().enumerate() {
        body.push_str(if i > 0 { "\n" } else { "" });
        if i == 0 {
            body.push('\n');
        }
        body.push_str(&docs::comment("    ", &field.docs));
        for attribute in &field.attributes {
            let _ = writeln!(body, "    {}", fitted(attribute));
        }
        let line = format!("    pub {}: {},", field.ident, field.type_);
        if line.len() <= WIDTH {
            let _ = writeln!(body, "{line}");
        } else {
            let _ = writeln!(body, "    pub {}:\n        {},", field.ident, field.type_);
        }
    }
    body.push_str("}\n");
}

/// An attribute as rustfmt breaks it. Those with values that are no literals stay as they are.
fn fitted(text: &str) -> String {
    let is_serde = text.starts_with("#[serde(");
    let inner = text.strip_prefix("#[serde(").and_then(|text| text.strip_suffix(")]"));
    let arguments: Vec<String> = match inner {
        Some(inner) if is_serde && text.len() > 70 => {
            inner.split(", ").map(str::to_owned).collect()
        }
        _ => return text.to_owned(),
    };
    attribute("    ", "serde", &arguments).trim().to_owned()
}

fn write_enum(body: &mut String, definition: &Enum) {
    let mut derives = vec!["schemars::JsonSchema", "Clone", "Copy", "Debug"];
    derives.extend(definition.default.is_some().then_some("Default"));
    derives.extend(["PartialEq", "Serialize", "Deserialize"]);
    let docs = docs::comment("", &definition.docs);
    let _ = write!(body, "\n{docs}#[derive({})]\n", derives.join(", "));
    let _ = writeln!(body, "pub enum {} {{", definition.name);
    for (i, (ident, rename)) in definition.variants.iter().enumerate() {
        if let Some(rename) = rename {
            let _ = writeln!(body, "    #[serde(rename = {})]", rust_literal(rename));
        }
        if definition.default == Some(i) {
            body.push_str("    #[default]\n");
        }
        let _ = writeln!(body, "    {ident},");
    }
    body.push_str("}\n");
}
