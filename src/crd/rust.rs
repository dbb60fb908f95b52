//! Writes Rust types in the format of rustfmt.

use std::fmt::Write;

use super::Crd;
use super::types::{Definition, Field, Shape, Type, Types};
use crate::text::{rust_literal, visible};

/// The name of the type of maps, as it is imported.
const MAP: &str = "BTreeMap";
/// rustfmt's `max_width`.
pub const WIDTH: usize = 100;
/// rustfmt's `attr_fn_like_width`: the maximum width of the arguments of an attribute on one line.
const ATTRIBUTE_WIDTH: usize = 70;
/// The fields that kube adds to those of an object without a spec.
const ROOT_FIELDS: &[&str] = &["api_version", "kind", "metadata", "status"];

impl Crd {
    /// The source of a file with the Rust types, which begins with `header`.
    pub fn types(&self, header: &str) -> String {
        let (root, kind) = (&self.schema, &self.kind);
        let is_payload = |name: &str| !["apiVersion", "kind", "metadata", "status"].contains(&name);
        let only_spec = root.properties.keys().filter(|name| is_payload(name)).eq(["spec"]);
        let spec = root.properties.get("spec").filter(|spec| only_spec && spec.is_object());
        let status = root.properties.get("status").filter(|status| status.is_object());

        let reserved = ["", "List", "Fields", "Status"].map(|end| format!("{kind}{end}"));
        let mut types = Types::new(reserved.into_iter().chain([MAP.to_owned()]));
        // kube derives the object from its spec. If there are other fields, all of them make up the spec.
        let main = match spec.filter(|_| root.is_required("spec")) {
            Some(spec) => {
                let main = format!("{kind}Spec");
                types.root(&main, &main, spec, &[]);
                main
            }
            None => {
                let mut fields = root.clone();
                fields.properties.retain(|name, _| is_payload(name));
                fields.description =
                    "All fields besides metadata and status, which are the spec for kube."
                        .to_owned();
                let main = format!("{kind}Fields");
                types.root(&main, kind, &fields, ROOT_FIELDS);
                main
            }
        };
        if let Some(status) = status {
            let name = format!("{kind}Status");
            types.root(&name, &name, status, &[]);
        }
        self.write(header, &types, &main, status.is_some())
    }

    fn write(&self, header: &str, types: &Types, main: &str, has_status: bool) -> String {
        let Self { group, version, kind, plural, .. } = self;
        // A kind of the same name would clash with the import.
        let map = if kind == MAP { "std::collections::BTreeMap" } else { MAP };
        let mut body = String::new();
        for definition in &types.definitions {
            let mut attributes = String::new();
            if definition.name == main {
                let mut arguments = vec![
                    format!("group = {group:?}"),
                    format!("version = {version:?}"),
                    format!("kind = {kind:?}"),
                    format!("plural = {plural:?}"),
                ];
                arguments.extend(self.namespaced.then(|| "namespaced".to_owned()));
                arguments.extend(has_status.then(|| format!("status = \"{kind}Status\"")));
                arguments.extend(main.ends_with("Fields").then(|| "no_spec".to_owned()));
                arguments.push("schema = \"disabled\"".to_owned());
                arguments.push("derive = \"PartialEq\"".to_owned());
                attributes = attribute("", "kube", &arguments);
            }
            let is_spec = definition.name == main;
            write_definition(&mut body, definition, is_spec, &attributes, map);
        }
        let mut text = format!(
            "{header}//! {kind} of `{group}/{version}`, an external type. Its CRD is\n\
             //! tests/crds/{plural}.{group}.yaml. To regenerate this file from a newer CRD, run\n\
             //! `opctl create api --crd FILE --kind {kind} --version {version} --force`.\n\n"
        );
        text.push_str(&imports(&body, kind != MAP));
        text.push_str("use kube::CustomResource;\nuse serde::{Deserialize, Serialize};\n");
        text + &body
    }
}

/// The imports of the types of others that a source uses; `has_map` is whether it uses the map by its name.
pub fn imports(body: &str, has_map: bool) -> String {
    let mut text = String::new();
    if has_map && body.contains("BTreeMap<") {
        text.push_str("use std::collections::BTreeMap;\n\n");
    }
    if body.contains("meta::") {
        text.push_str("use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;\n");
    }
    if body.contains("intstr::") {
        text.push_str("use k8s_openapi::apimachinery::pkg::util::intstr;\n");
    }
    text
}

fn write_definition(
    body: &mut String,
    definition: &Definition,
    is_spec: bool,
    attributes: &str,
    map: &str,
) {
    let mut derives = vec!["Clone", "Debug"];
    if is_spec {
        derives.insert(0, "CustomResource");
    }
    derives.extend(definition.has_default.then_some("Default"));
    derives.extend(["PartialEq", "Serialize", "Deserialize"]);
    let _ = write!(body, "\n{}#[derive({})]\n", docs("", &definition.docs), derives.join(", "));
    match &definition.shape {
        Shape::Struct { fields, is_open } => {
            let _ = write!(
                body,
                "#[serde(rename_all = \"camelCase\")]\n{attributes}pub struct {} {{",
                definition.name
            );
            body.push_str(if fields.is_empty() && is_open.is_none() { "}\n" } else { "\n" });
            for (i, field) in fields.iter().enumerate() {
                body.push_str(if i > 0 { "\n" } else { "" });
                write_field(body, field, map);
            }
            if let Some(ident) = is_open {
                body.push_str(if fields.is_empty() { "" } else { "\n" });
                body.push_str(
                    "    /// Fields that the CRD does not describe.\n    #[serde(flatten)]\n",
                );
                let _ = writeln!(body, "    pub {ident}: {map}<String, serde_json::Value>,");
            }
            if !fields.is_empty() || is_open.is_some() {
                body.push_str("}\n");
            }
        }
        Shape::Enum { variants, other } => {
            let _ = writeln!(body, "pub enum {} {{", definition.name);
            for variant in variants {
                if let Some(rename) = &variant.rename {
                    body.push_str(&attribute(
                        "    ",
                        "serde",
                        &[format!("rename = {}", rust_literal(rename))],
                    ));
                }
                let _ = writeln!(body, "    {},", variant.ident);
            }
            let _ = write!(
                body,
                "    /// A value that the CRD does not list.\n    \
                 #[serde(untagged)]\n    {other}(String),\n}}\n"
            );
        }
    }
}

fn write_field(body: &mut String, field: &Field, map: &str) {
    body.push_str(&docs("    ", &field.docs));
    let mut arguments = Vec::new();
    arguments.extend(field.rename.as_ref().map(|name| format!("rename = {}", rust_literal(name))));
    if field.may_be_absent {
        arguments.push("skip_serializing_if = \"Option::is_none\"".to_owned());
    }
    if !arguments.is_empty() {
        body.push_str(&attribute("    ", "serde", &arguments));
    }
    let type_ = if field.is_option {
        format!("Option<{}>", rust(&field.type_, map))
    } else {
        rust(&field.type_, map)
    };
    let line = format!("    pub {}: {type_},", field.ident);
    if line.len() <= WIDTH {
        body.push_str(&line);
    } else {
        let _ = write!(body, "    pub {}:\n        {type_},", field.ident);
    }
    body.push('\n');
}

fn rust(type_: &Type, map: &str) -> String {
    match type_ {
        Type::Plain(name, _) => (*name).to_owned(),
        Type::Array(items) => format!("Vec<{}>", rust(items, map)),
        Type::Map(values) => format!("{map}<String, {}>", rust(values, map)),
        Type::Named(name) => name.clone(),
    }
}

/// An attribute on one line, or with one argument per line. rustfmt allows a single argument the width of
/// the file.
pub fn attribute(indent: &str, name: &str, arguments: &[String]) -> String {
    let list = arguments.join(", ");
    let line = format!("{indent}#[{name}({list})]");
    let fits =
        if arguments.len() == 1 { line.len() <= WIDTH } else { list.len() <= ATTRIBUTE_WIDTH };
    if fits {
        return line + "\n";
    }
    let list = arguments.join(&format!(",\n{indent}    "));
    format!("{indent}#[{name}(\n{indent}    {list}\n{indent})]\n")
}

/// The first paragraph of a description as a doc comment. Markdown other than code is escaped. A hidden
/// character is shown as its escape instead of being refused: in a comment it can do no harm then, and
/// descriptions are often pasted from elsewhere.
fn docs(indent: &str, description: &str) -> String {
    let paragraph = description.trim().split("\n\n").next().unwrap_or_default();
    let has_code = paragraph.matches('`').count().is_multiple_of(2) && !paragraph.contains("``");
    let (mut lines, mut is_code) = (Vec::<String>::new(), false);
    for word in paragraph.split_whitespace() {
        let word = visible(word);
        let mut escaped = String::new();
        for c in word.chars() {
            is_code ^= has_code && c == '`';
            let is_markup = match c {
                '`' => !has_code,
                '_' => word.starts_with('_') || word.ends_with(['_', ',', '.']),
                c => "\\*[]<>".contains(c),
            };
            if is_markup && !is_code {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        let width = |text: &str| text.chars().count();
        match lines.last_mut() {
            Some(line)
                if indent.len() + "/// ".len() + width(line) + 1 + width(&escaped) <= WIDTH =>
            {
                line.push(' ');
                line.push_str(&escaped);
            }
            _ => lines.push(escape_block(escaped)),
        }
    }
    lines.iter().map(|line| format!("{indent}/// {line}\n")).collect()
}

/// Escapes a word at the start of a line that would begin a list, a heading or a fence.
fn escape_block(mut word: String) -> String {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    if word[digits..].starts_with(['.', ')']) || word.starts_with(['-', '+', '=', '#', '~', '|']) {
        word.insert(digits, '\\');
    }
    word
}
