//! Keywords of a schema as attributes.

use std::fmt::Write;

use serde_json::Value;

use super::Object;
use super::types::{Items, Type};
use crate::text::rust_literal;

/// The keywords that are no attribute of their own: descriptions are doc comments, defaults are serde's, and
/// whether a field may be null follows from its type.
const ELSEWHERE: &[&str] =
    &["default", "description", "nullable", "title", "x-kubernetes-validations"];

/// The keywords that combine schemas.
pub const JUNCTIONS: &[&str] = &["allOf", "anyOf", "not", "oneOf"];

/// The rules of a schema in CEL, each as an attribute.
pub fn rules(schema: &Object) -> Vec<String> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    rules
        .into_iter()
        .flatten()
        .map(|rule| format!("#[x_kube(validation = {})]", self::rule(rule)))
        .collect()
}

/// A rule as an expression of kube.
pub fn rule(rule: &Value) -> String {
    let text = |name: &str| rule[name].as_str().map(rust_literal);
    let mut expression = format!("Rule::new({})", text("rule").unwrap_or_default());
    let message = text("messageExpression")
        .map(|text| format!("Message::Expression({text}.to_owned())"))
        .or_else(|| text("message"));
    for (method, argument) in [
        ("message", message),
        ("field_path", text("fieldPath")),
        ("reason", rule["reason"].as_str().map(|reason| format!("Reason::{reason}"))),
        ("optional_old_self", rule["optionalOldSelf"].as_bool().map(|value| value.to_string())),
    ] {
        if let Some(argument) = argument {
            let _ = write!(expression, ".{method}({argument})");
        }
    }
    expression
}

/// The keywords that do not follow from the type as attributes of schemars: those that it knows, then the
/// others.
pub fn schemars(schema: &Object, type_: &Type) -> Vec<String> {
    let mut attributes: Vec<String> =
        validations(schema, type_).into_iter().map(|text| format!("#[schemars({text})]")).collect();
    let mut others = rest(schema, type_);
    match &type_.items {
        Items::Inner(arguments) => {
            attributes.push(format!("#[schemars(inner({}))]", arguments.join(", ")));
        }
        Items::Whole => {
            let keyword =
                if schema.contains_key("items") { "items" } else { "additionalProperties" };
            others.push((keyword, &schema[keyword]));
        }
        Items::Plain => {}
    }
    // The keys of a list that is a map come after its type.
    others.sort_by_key(|(name, _)| name.ends_with("-map-keys"));
    if !others.is_empty() {
        attributes.push(extend(&others));
    }
    attributes
}

/// The keywords for which schemars has attributes, such as `length(min = 1)`.
pub fn validations(schema: &Object, type_: &Type) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut range = |name: &str, keywords: [&str; 2]| {
        let bound = |(word, keyword): (&str, &str)| {
            schema.get(keyword).map(|value| format!("{word} = {}", number(value, type_)))
        };
        let bounds: Vec<String> =
            ["min", "max"].into_iter().zip(keywords).filter_map(bound).collect();
        if !bounds.is_empty() {
            arguments.push(format!("{name}({})", bounds.join(", ")));
        }
    };
    match kind(type_) {
        Kind::Text => range("length", ["minLength", "maxLength"]),
        Kind::List => range("length", ["minItems", "maxItems"]),
        Kind::Number => range("range", ["minimum", "maximum"]),
        Kind::Other => {}
    }
    if let (Kind::Text, Some(pattern)) =
        (kind(type_), schema.get("pattern").and_then(Value::as_str))
    {
        arguments.push(format!("regex(pattern = {})", raw_literal(pattern)));
    }
    arguments
}

/// The keywords for which neither the type nor schemars has a word.
pub fn rest<'a>(schema: &'a Object, type_: &Type) -> Vec<(&'a str, &'a Value)> {
    let own: &[&str] = match kind(type_) {
        Kind::Text => &["minLength", "maxLength", "pattern"],
        Kind::List => &["minItems", "maxItems"],
        Kind::Number => &["minimum", "maximum"],
        Kind::Other => &[],
    };
    let is_rest = |name: &str| {
        !type_.native.contains(&name) && !own.contains(&name) && !ELSEWHERE.contains(&name)
    };
    let rest = schema.iter().filter(|(name, value)| {
        is_rest(name) && !(JUNCTIONS.contains(&name.as_str()) && has_fields(value))
    });
    rest.map(|(name, value)| (name.as_str(), value)).collect()
}

/// Whether a combination of schemas describes fields, which kube moves out of it.
pub fn has_fields(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_fields),
        Value::Object(fields) => {
            ["properties", "items", "additionalProperties"].iter().any(|k| fields.contains_key(*k))
                || JUNCTIONS.iter().filter_map(|name| fields.get(*name)).any(has_fields)
        }
        _ => false,
    }
}

/// Keywords that the derive macros do not know.
pub fn extend(keywords: &[(&str, &Value)]) -> String {
    let keyword =
        |(name, value): &(&str, &Value)| format!("{} = {}", rust_literal(name), json(value));
    let keywords: Vec<String> = keywords.iter().map(keyword).collect();
    format!("#[schemars(extend({}))]", keywords.join(", "))
}

enum Kind {
    Text,
    Number,
    List,
    Other,
}

/// What the attributes of schemars apply to. They ignore a list of values and types with schemas of their own.
fn kind(type_: &Type) -> Kind {
    match type_.name.as_str() {
        "String" => Kind::Text,
        "f64" | "i32" | "i64" => Kind::Number,
        name if name.starts_with("Vec<") => Kind::List,
        _ => Kind::Other,
    }
}

fn number(value: &Value, type_: &Type) -> String {
    let text = value.to_string();
    match value.as_f64().filter(|float| type_.name.starts_with('i') && float.fract() == 0.0) {
        Some(_) if text.contains(['.', 'e']) => {
            format!("{:.0}", value.as_f64().unwrap_or_default())
        }
        _ => text,
    }
}

/// A text in which backslashes stand for themselves, if it can be one.
fn raw_literal(text: &str) -> String {
    let is_plain = text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    match text.contains('\\') && is_plain {
        true if text.contains('"') => format!("r#\"{text}\"#"),
        true => format!("r\"{text}\""),
        false => rust_literal(text),
    }
}

/// A JSON value in the syntax of `serde_json::json!`.
pub fn json(value: &Value) -> String {
    match value {
        Value::String(text) => rust_literal(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(json).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(k, v)| format!("{}: {}", rust_literal(k), json(v)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    fn of(schema: Value, type_: &Type) -> Vec<String> {
        schemars(schema.as_object().unwrap(), type_)
    }

    #[test]
    fn keywords_become_attributes() {
        let text =
            value!({ "type": "string", "minLength": 1, "pattern": r"^\d$", "format": "uri" });
        assert_eq!(
            of(text, &Type::plain("String")),
            [
                "#[schemars(length(min = 1))]",
                r#"#[schemars(regex(pattern = r"^\d$"))]"#,
                r#"#[schemars(extend("format" = "uri"))]"#
            ]
        );
        let number = value!({ "type": "integer", "minimum": 0, "maximum": 10.0, "multipleOf": 5 });
        assert_eq!(
            of(number, &Type::plain("i32")),
            ["#[schemars(range(min = 0, max = 10))]", r#"#[schemars(extend("multipleOf" = 5))]"#]
        );
    }

    #[test]
    fn rules_have_all_their_fields() {
        let rule = value!({
            "rule": "self == oldSelf", "messageExpression": "'x'", "reason": "FieldValueForbidden",
            "fieldPath": ".a", "optionalOldSelf": true,
        });
        assert_eq!(
            super::rule(&rule),
            "Rule::new(\"self == oldSelf\").message(Message::Expression(\"'x'\".to_owned()))\
             .field_path(\".a\").reason(Reason::FieldValueForbidden).optional_old_self(true)"
        );
    }
}
