//! Derives the types from a schema.

use heck::{ToSnakeCase, ToUpperCamelCase};
use serde_json::Value;

use super::attributes::{self, JUNCTIONS, has_fields};
use super::types::{Definition, Enum, Field, Items, Struct, Type, Types};
use super::{Object, get, object, text_of, texts};
use crate::crd::core_types::{self, CONDITION};
use crate::crd::types::{camel_case, ident_of, words};
use crate::text::rust_literal;

/// The maximum length of a name; rustfmt could not break lines with longer ones.
const LONGEST_NAME: usize = 60;

const MAP: &str = "BTreeMap";

impl Types {
    /// Adds a struct, before the types of its fields.
    pub fn structure(&mut self, name: String, schema: &Object) {
        let place = self.definitions.len();
        self.definitions.push(Definition::Struct(Struct::default()));
        let numbered = |ident: &str, n| {
            format!("{}_{n}", ident.trim_start_matches("r#").trim_end_matches('_'))
        };
        let mut idents = crate::crd::types::Names::new([]);
        let required = texts(get(schema, "required"));
        let (mut fields, mut has_default) = (Vec::new(), true);
        for (property, field_schema) in object(schema, "properties").iter() {
            let empty = Object::new();
            let field_schema = field_schema.as_object().unwrap_or(&empty);
            let ident = idents.unique(ident_of(property), numbered);
            self.path.push(property.clone());
            let is_required = required.contains(property);
            let (field, field_has_default) =
                self.field(&name, property, ident, field_schema, is_required);
            self.path.pop();
            fields.push(field);
            has_default &= field_has_default;
        }
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
            fields.push(Field {
                ident: idents.unique("unknown_fields".to_owned(), numbered),
                docs: "Fields that the schema does not describe.".to_owned(),
                attributes: vec!["#[serde(flatten)]".to_owned()],
                type_: format!("{MAP}<String, serde_json::Value>"),
            });
        }
        self.note_junctions(schema);
        if has_default {
            self.with_default.insert(name.clone());
        }
        let own = ["properties", "required", "additionalProperties"];
        let own = [&own[..], &["x-kubernetes-preserve-unknown-fields"]].concat();
        let type_ = Type::plain(name.clone()).with(&own);
        let mut attributes = attributes::rules(schema);
        attributes.extend(attributes::schemars(schema, &type_));
        // That of a field is written there.
        if let (1, Some(default)) = (self.path.len(), schema.get("default")) {
            attributes.push(attributes::extend(&[("default", default)]));
        }
        let docs = text_of(get(schema, "description")).unwrap_or_default();
        self.definitions[place] =
            Definition::Struct(Struct { name, docs, attributes, fields, has_default });
    }

    /// A field, and whether its default is that of its type.
    fn field(
        &mut self,
        owner: &str,
        property: &str,
        ident: String,
        schema: &Object,
        is_required: bool,
    ) -> (Field, bool) {
        let default = schema.get("default").filter(|value| !value.is_null());
        let is_nullable = schema.get("nullable") == Some(&Value::Bool(true));
        if is_nullable && (!is_required || default.is_some()) {
            let place = self.place();
            self.notes.push(format!(
                "`{place}`: `nullable`; the API server drops a null as if the field were left out"
            ));
        }
        let type_ = self.type_of(property, schema, default);
        let rename = (camel_case(&ident) != *property)
            .then(|| format!("rename = {}", rust_literal(property)));
        let mut serde: Vec<String> = rename.into_iter().collect();
        let mut attributes = Vec::new();
        let mut name = type_.as_ref().map_or_else(|| opaque(schema), |type_| type_.name.clone());

        let literal = type_.as_ref().filter(|_| !is_nullable).and_then(|type_| {
            default.and_then(|default| self.default_of(owner, &ident, default, type_))
        });
        let mut has_default = true;
        match (literal, default) {
            (Some(DefaultValue::OfType), _) => serde.push("default".to_owned()),
            (Some(DefaultValue::Function(function)), _) => {
                serde.push(format!("default = \"{function}\""));
                has_default = false;
            }
            (None, default) => {
                if let Some(default) = default.filter(|_| type_.is_some()) {
                    attributes.push(attributes::extend(&[("default", default)]));
                }
                let is_collection = type_.as_ref().is_some_and(|type_| type_.is_collection);
                if !is_required || default.is_some() {
                    let is_absent = match is_collection && default.is_none() && !is_nullable {
                        true => format!("{}::is_empty", name.split('<').next().unwrap_or(MAP)),
                        false => {
                            name = format!("Option<{name}>");
                            "Option::is_none".to_owned()
                        }
                    };
                    serde.push("default".to_owned());
                    serde.push(format!("skip_serializing_if = \"{is_absent}\""));
                } else if is_nullable {
                    name = format!("Option<{name}>");
                    if type_.is_some() {
                        attributes.push("#[schemars(required)]".to_owned());
                        attributes.push(attributes::extend(&[("nullable", &Value::Bool(true))]));
                    }
                } else {
                    has_default = type_.as_ref().is_none_or(|type_| type_.has_default);
                }
            }
        }
        match &type_ {
            Some(type_) => {
                self.note_junctions(schema);
                // A struct has its rules and keywords itself.
                if !type_.native.contains(&"properties") {
                    attributes.extend(attributes::rules(schema));
                    attributes.extend(attributes::schemars(schema, type_));
                }
            }
            None => {
                let function = self.schema_function(owner, &ident, schema);
                attributes.push(format!("#[schemars(schema_with = \"{function}\")]"));
            }
        }
        if !serde.is_empty() {
            attributes.insert(0, format!("#[serde({})]", serde.join(", ")));
        }
        let docs = text_of(get(schema, "description")).unwrap_or_default();
        (Field { ident, docs, attributes, type_: name }, has_default)
    }

    /// The type of a schema; `None` if only the schema itself says what is allowed.
    fn type_of(
        &mut self,
        property: &str,
        schema: &Object,
        default: Option<&Value>,
    ) -> Option<Type> {
        let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        if flag("x-kubernetes-int-or-string") {
            let native = ["x-kubernetes-int-or-string", "anyOf", "allOf"];
            return Some(Type::plain("intstr::IntOrString").with(&native));
        }
        if flag("x-kubernetes-embedded-resource") {
            return None;
        }
        if let Some(values) = strings(schema)
            && let Some(name) = self.string_enum(property, &values, schema, default)
        {
            let has_default = self.with_default.contains(&name);
            return Some(Type { has_default, ..Type::plain(name).with(&["enum"]) });
        }
        let format = schema.get("format").and_then(Value::as_str);
        match schema.get("type").and_then(Value::as_str)? {
            "boolean" => Some(Type::plain("bool")),
            "integer" if format == Some("int32") => Some(Type::plain("i32").with(&["format"])),
            "integer" => Some(Type::plain("i64").with(&["format"])),
            "number" => Some(Type::plain("f64").with(&["format"])),
            "string" => Some(match format {
                Some("date-time") => {
                    Type { has_default: false, ..Type::plain("meta::Time").with(&["format"]) }
                }
                Some("byte") => Type::plain("k8s_openapi::ByteString").with(&["format"]),
                _ => Type::plain("String"),
            }),
            "array" => {
                let items = schema.get("items").and_then(Value::as_object)?;
                self.collection("Vec", "items", property, items)
            }
            "object" => self.object_type(property, schema),
            _ => None,
        }
    }

    fn object_type(&mut self, property: &str, schema: &Object) -> Option<Type> {
        if let Some(values) = schema.get("additionalProperties").and_then(Value::as_object) {
            return self.collection(MAP, "additionalProperties", property, values);
        }
        if object(schema, "properties").is_empty() {
            return None;
        }
        let native = ["properties", "required", "additionalProperties"];
        if let Some(path) = core_types::find(schema) {
            let all: [&str; 3] = ["x-kubernetes-map-type", "properties", "required"];
            let has_default = path != CONDITION;
            return Some(Type { has_default, ..Type::plain(path).with(&all) });
        }
        let name = self.free_name(property);
        self.structure(name.clone(), schema);
        let has_default = self.with_default.contains(&name);
        Some(Type { has_default, ..Type::plain(name).with(&native) })
    }

    /// A list or a map.
    fn collection(
        &mut self,
        name: &str,
        keyword: &'static str,
        property: &str,
        items: &Object,
    ) -> Option<Type> {
        self.path.push("[]".to_owned());
        let item = if name == MAP { property.to_owned() } else { singular(property) };
        let type_ = self.type_of(&item, items, None);
        self.path.pop();
        let (inner, constraints) = match type_ {
            None => (opaque(items), Items::Whole),
            Some(type_) if type_.native.contains(&"properties") => (type_.name, Items::Plain),
            Some(type_) => {
                let validations = attributes::validations(items, &type_);
                let is_exact = attributes::rest(items, &type_).is_empty()
                    && attributes::rules(items).is_empty()
                    && !items.contains_key("default")
                    && items.get("nullable") != Some(&Value::Bool(true))
                    && type_.items == Items::Plain;
                let items = match (is_exact, validations.is_empty()) {
                    (true, true) => Items::Plain,
                    (true, false) if name == "Vec" => Items::Inner(validations),
                    _ => Items::Whole,
                };
                (type_.name, items)
            }
        };
        let name = match name {
            MAP => format!("{MAP}<String, {inner}>"),
            _ => format!("{name}<{inner}>"),
        };
        let type_ = Type::plain(name).with(&[keyword]);
        Some(Type { is_collection: true, items: constraints, ..type_ })
    }

    /// Adds an enum, if each of the values can be a variant. Returns its name.
    fn string_enum(
        &mut self,
        property: &str,
        values: &[&str],
        schema: &Object,
        default: Option<&Value>,
    ) -> Option<String> {
        let mut variants: Vec<(String, Option<String>)> = Vec::new();
        for value in values {
            let ident = value.to_upper_camel_case();
            let is_ident = ident.starts_with(|c: char| c.is_ascii_alphabetic())
                && ident.chars().all(|c| c.is_ascii_alphanumeric())
                && ident != "Self";
            if !is_ident || variants.iter().any(|(other, _)| *other == ident) {
                return None;
            }
            let rename = (ident != **value).then(|| (*value).to_owned());
            variants.push((ident, rename));
        }
        let name = self.free_name(property);
        let default = default.and_then(|value| values.iter().position(|other| value == other));
        if default.is_some() {
            self.with_default.insert(name.clone());
        }
        let docs = text_of(get(schema, "description")).unwrap_or_default();
        self.definitions.push(Definition::Enum(Enum {
            name: name.clone(),
            docs,
            variants,
            default,
        }));
        Some(name)
    }

    /// How serde writes a default; `None` if it cannot.
    fn default_of(
        &mut self,
        owner: &str,
        ident: &str,
        default: &Value,
        type_: &Type,
    ) -> Option<DefaultValue> {
        let value = match (type_.name.as_str(), default) {
            ("bool", Value::Bool(false)) => return Some(DefaultValue::OfType),
            ("bool", Value::Bool(true)) => "true".to_owned(),
            ("String", Value::String(text)) if text.is_empty() => {
                return Some(DefaultValue::OfType);
            }
            ("String", Value::String(text)) => format!("{}.to_owned()", rust_literal(text)),
            ("i32" | "i64", Value::Number(number)) if number.as_i64() == Some(0) => {
                return Some(DefaultValue::OfType);
            }
            ("i32" | "i64", Value::Number(number)) => number.as_i64()?.to_string(),
            ("f64", Value::Number(number)) => format!("{:?}", number.as_f64()?),
            ("intstr::IntOrString", Value::Number(number)) => {
                format!("intstr::IntOrString::Int({})", i32::try_from(number.as_i64()?).ok()?)
            }
            ("intstr::IntOrString", Value::String(text)) => {
                format!("intstr::IntOrString::String({}.to_owned())", rust_literal(text))
            }
            (_, Value::Array(items)) if items.is_empty() && type_.is_collection => {
                return Some(DefaultValue::OfType);
            }
            (_, Value::Object(fields)) if fields.is_empty() && type_.is_collection => {
                return Some(DefaultValue::OfType);
            }
            (_, Value::String(_)) if type_.native.contains(&"enum") && type_.has_default => {
                return Some(DefaultValue::OfType);
            }
            _ => return None,
        };
        let name = self.function_name("default", owner, ident);
        let type_ = &type_.name;
        let text = format!("fn {name}() -> {type_} {{\n    {value}\n}}\n");
        self.definitions.push(Definition::Function(text));
        Some(DefaultValue::Function(name))
    }

    /// Adds the function that returns the schema of a field as it is.
    fn schema_function(&mut self, owner: &str, ident: &str, schema: &Object) -> String {
        let name = self.function_name("schema_of", owner, ident);
        let mut schema = schema.clone();
        schema.remove("description");
        let json = attributes::json(&Value::Object(schema));
        let text = format!(
            "fn {name}(_: &mut schemars::SchemaGenerator) -> schemars::Schema {{\n    \
             schemars::json_schema!({json})\n}}\n"
        );
        self.definitions.push(Definition::Function(text));
        name
    }

    fn function_name(&mut self, prefix: &str, owner: &str, ident: &str) -> String {
        let ident = ident.trim_start_matches("r#").trim_end_matches('_');
        let short = format!("{prefix}_{ident}");
        let name = match self.functions.contains(&short) {
            true => format!("{prefix}_{}_{ident}", owner.to_snake_case()),
            false => short,
        };
        self.functions.unique(name, |name, n| format!("{name}_{n}"))
    }

    /// A name that is not taken, as short as it can be.
    fn free_name(&mut self, property: &str) -> String {
        let own = words(property).to_upper_camel_case();
        let above = self.path.iter().rev().filter(|step| *step != "[]" && *step != property);
        let parent = above.clone().next().map(|name| words(name).to_upper_camel_case());
        let names = [
            Some(format!("{}{own}", self.prefix)),
            parent.map(|parent| format!("{}{parent}{own}", self.prefix)),
        ];
        let names: Vec<String> = names.into_iter().flatten().collect();
        let is_free = |name: &&String| name.len() <= LONGEST_NAME && !self.names.contains(name);
        let name = names
            .iter()
            .find(is_free)
            .or_else(|| names.iter().find(|name| name.len() <= LONGEST_NAME));
        let name = name.cloned().unwrap_or_else(|| self.prefix.clone());
        self.names.unique(name, |name, n| format!("{name}{n}"))
    }

    fn note_junctions(&mut self, schema: &Object) {
        for name in JUNCTIONS {
            if schema.get(*name).is_some_and(has_fields) {
                let place = self.place();
                self.notes.push(format!(
                    "`{place}`: `{name}` with fields, which kube cannot express; write it as a rule in CEL"
                ));
            }
        }
    }
}

/// The name of an item of a list.
fn singular(property: &str) -> String {
    let snake = words(property).to_snake_case();
    let (before, last) = snake.rsplit_once('_').unwrap_or(("", &snake));
    match before {
        "" => pluralizer::pluralize(last, 1, false),
        before => format!("{before}_{}", pluralizer::pluralize(last, 1, false)),
    }
}

enum DefaultValue {
    /// That of the type.
    OfType,
    /// What this function returns.
    Function(String),
}

/// The type of a value that only its schema describes.
fn opaque(schema: &Object) -> String {
    let is_object = schema.get("type").is_some_and(|type_| type_ == "object");
    let is_resource = schema.contains_key("x-kubernetes-embedded-resource");
    match is_object && !is_resource {
        true => format!("{MAP}<String, serde_json::Value>"),
        false => "serde_json::Value".to_owned(),
    }
}

/// The values of a string enum.
fn strings(schema: &Object) -> Option<Vec<&str>> {
    let values = schema.get("enum").and_then(Value::as_array)?;
    let is_string = schema.get("type").is_some_and(|type_| type_ == "string");
    let values = is_string.then(|| values.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    values.flatten().filter(|values| !values.is_empty())
}
