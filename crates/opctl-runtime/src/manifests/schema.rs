//! What is changed in the schemas of CRDs before they are written.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use crate::conditions::MAX_MESSAGE_LENGTH;

/// The formats of numbers that Kubernetes knows.
const NUMBER_FORMATS: [&str; 4] = ["double", "float", "int32", "int64"];

/// The reason of a condition: CamelCase, or words with `_`, `,` and `:`.
const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// The type of a condition: a qualified name, whose prefix is a DNS subdomain.
const CONDITION_TYPE: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
                              (([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// Drops the formats of Rust's other integers, such as `uint32`, of which the API server warns that it
/// does not recognize them. A `minimum` or `maximum` says the same.
pub(super) fn drop_unknown_formats(crd: &mut CustomResourceDefinition) {
    visit_crd(crd, &mut |schema| {
        if matches!(schema.type_.as_deref(), Some("integer" | "number")) {
            let is_known = |format: &String| NUMBER_FORMATS.contains(&format.as_str());
            schema.format = schema.format.take().filter(is_known);
        }
    });
}

/// Makes the schemas what those of the same types in Go are: fields that may be left out need no null,
/// and a `Condition` has the rules of Kubernetes, which its type in Rust does not carry.
pub(super) fn match_controller_gen(crd: &mut CustomResourceDefinition) {
    visit_crd(crd, &mut |schema| {
        let required = schema.required.clone().unwrap_or_default();
        for (name, field) in schema.properties.iter_mut().flatten() {
            // The API server drops a null, as if the field were not there.
            if !required.contains(name) {
                field.nullable = None;
            }
        }
        if is_condition(schema) {
            constrain_condition(schema);
        }
    });
}

fn is_condition(schema: &JSONSchemaProps) -> bool {
    let fields = schema.properties.iter().flatten().map(|(name, _)| name);
    fields.eq([
        "lastTransitionTime",
        "message",
        "observedGeneration",
        "reason",
        "status",
        "type",
    ])
}

/// The markers of `Condition` in k8s.io/apimachinery.
fn constrain_condition(schema: &mut JSONSchemaProps) {
    for (name, field) in schema.properties.iter_mut().flatten() {
        match name.as_str() {
            "message" => field.max_length = Some(MAX_MESSAGE_LENGTH.into()),
            "observedGeneration" => field.minimum = Some(0.0),
            "reason" => {
                (field.min_length, field.max_length) = (Some(1), Some(1024));
                field.pattern = Some(REASON.to_owned());
            }
            "status" => {
                let statuses = ["True", "False", "Unknown"];
                field.enum_ = Some(statuses.map(|status| JSON(status.into())).to_vec());
            }
            "type" => {
                field.max_length = Some(316);
                field.pattern = Some(CONDITION_TYPE.to_owned());
            }
            _ => {}
        }
    }
}

/// Cuts the descriptions to so many bytes; 0 leaves them out.
pub(super) fn cut_descriptions(crd: &mut CustomResourceDefinition, length: usize) {
    visit_crd(crd, &mut |schema| {
        let description = schema.description.take().filter(|_| length > 0);
        schema.description = description.map(|text| cut(&text, length).to_owned());
    });
}

/// The text or, where it is longer, its first sentences or, where the first is longer, its beginning.
fn cut(text: &str, length: usize) -> &str {
    let text = text.trim();
    if text.len() <= length {
        return text;
    }
    let beginning = &text[..text.floor_char_boundary(length)];
    let sentence = beginning.rfind(['.', '!', '?']);
    sentence.map_or(beginning, |end| &beginning[..=end])
}

/// The CRD with `1` where it has `1.0`: the bounds of integers are floats in Rust.
///
/// # Errors
/// It is no JSON.
pub(super) fn with_whole_numbers(crd: &CustomResourceDefinition) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(crd)?;
    make_whole(&mut value);
    Ok(value)
}

fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            // From 2^53 on, a float does not tell neighbours apart.
            if let Some(float) = float.filter(|it| it.fract() == 0.0 && it.abs() < 2f64.powi(53)) {
                *number = (float as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(fields) => fields.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn visit_crd(crd: &mut CustomResourceDefinition, visit: &mut impl FnMut(&mut JSONSchemaProps)) {
    let versions = crd.spec.versions.iter_mut();
    let schemas = versions.filter_map(|version| version.schema.as_mut());
    for schema in schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()) {
        visit_schema(schema, visit);
    }
}

/// Visits the schema and those in it. A CRD's schema is structural: there are no other places.
fn visit_schema(schema: &mut JSONSchemaProps, visit: &mut impl FnMut(&mut JSONSchemaProps)) {
    visit(schema);
    let lists = [&mut schema.all_of, &mut schema.any_of, &mut schema.one_of];
    for schema in lists.into_iter().flatten().flatten() {
        visit_schema(schema, visit);
    }
    for schema in schema
        .properties
        .iter_mut()
        .flat_map(|schemas| schemas.values_mut())
    {
        visit_schema(schema, visit);
    }
    if let Some(schema) = &mut schema.not {
        visit_schema(schema, visit);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(schema)) => visit_schema(schema, visit),
        Some(JSONSchemaPropsOrArray::Schemas(schemas)) => {
            schemas
                .iter_mut()
                .for_each(|schema| visit_schema(schema, visit));
        }
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(schema)) = &mut schema.additional_properties {
        visit_schema(schema, visit);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_description_is_cut_after_a_sentence_and_between_characters() {
        assert_eq!(cut(" Short. ", 6), "Short.");
        assert_eq!(cut("One. Two. Three.", 12), "One. Two.");
        assert_eq!(cut("No sentence ends", 4), "No s");
        assert_eq!(cut("éé", 3), "é");
    }

    fn crd(schema: serde_json::Value) -> CustomResourceDefinition {
        let versions = json!([{
            "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
        }]);
        let spec = json!({
            "group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": { "kind": "Test", "plural": "tests" },
        });
        serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
    }

    #[test]
    fn bounds_of_integers_are_written_as_such() {
        let mut value = json!([{ "maximum": 65535.0, "minimum": -1.0 }, 0.5, 1e300, 7, u64::MAX]);
        make_whole(&mut value);
        let expected = r#"[{"maximum":65535,"minimum":-1},0.5,1e+300,7,18446744073709551615]"#;
        assert_eq!(value.to_string(), expected);
    }

    #[test]
    fn formats_of_numbers_are_those_that_kubernetes_knows() {
        let schema = |uint8: Option<&str>, uint32: Option<&str>| {
            json!({ "type": "object", "properties": {
                "any": { "anyOf": [{ "type": "integer", "format": uint8, "minimum": 0.0 }] },
                "known": { "type": "integer", "format": "int64" },
                "list": { "type": "array", "items": { "type": "integer", "format": uint32 } },
                "map": { "additionalProperties": { "type": "integer", "format": uint32 } },
                "not": { "not": { "type": "integer", "format": uint32 } },
                "time": { "type": "string", "format": "date-time" },
            } })
        };
        let mut crd_of_rust = crd(schema(Some("uint8"), Some("uint32")));
        drop_unknown_formats(&mut crd_of_rust);
        assert_eq!(crd_of_rust, crd(schema(None, None)));
    }

    #[test]
    fn only_what_is_required_can_be_null() {
        let schema = |nullable: Option<bool>| {
            json!({ "type": "object", "nullable": nullable, "required": ["known"], "properties": {
                "known": { "type": "string", "nullable": true },
                "nullable": { "type": "boolean", "nullable": nullable },
                "list": { "type": "array", "items": { "type": "string", "nullable": true } },
            } })
        };
        let whole = |nullable| {
            crd(json!({ "type": "object", "properties": { "status": schema(nullable) } }))
        };
        let mut crd_of_rust = whole(Some(true));
        match_controller_gen(&mut crd_of_rust);
        assert_eq!(crd_of_rust, whole(None));
    }

    #[test]
    fn conditions_are_as_strict_as_those_of_kubernetes() {
        #[derive(schemars::JsonSchema)]
        #[expect(dead_code, reason = "only its schema counts")]
        struct Status {
            conditions: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
        }
        let schema = schemars::generate::SchemaSettings::openapi3()
            .with(|settings| settings.inline_subschemas = true)
            .into_generator()
            .into_root_schema_for::<Status>();
        let mut crd = crd(schema.into());
        match_controller_gen(&mut crd);
        let crd = serde_json::to_value(crd).unwrap();
        let of = |field: &str, rule: &str| {
            let schema = "/spec/versions/0/schema/openAPIV3Schema";
            let path = format!("{schema}/properties/conditions/items/properties/{field}/{rule}");
            crd.pointer(&path).cloned().unwrap_or_default()
        };
        assert_eq!(of("status", "enum"), json!(["True", "False", "Unknown"]));
        assert_eq!(of("observedGeneration", "minimum"), json!(0.0));
        assert_eq!(
            [of("reason", "minLength"), of("reason", "maxLength")],
            [1, 1024]
        );
        assert_eq!(
            [of("message", "maxLength"), of("type", "maxLength")],
            [32_768, 316]
        );
        for (field, pattern) in [("reason", REASON), ("type", CONDITION_TYPE)] {
            assert_eq!(of(field, "pattern"), pattern);
        }
    }

    #[test]
    fn descriptions_are_left_out() {
        let schema = |text: Option<&str>| {
            json!({ "description": text, "type": "object", "properties": {
                "description": { "description": text, "type": "string", "default": "description" },
            } })
        };
        let mut described = crd(schema(Some("A text.")));
        cut_descriptions(&mut described, 0);
        assert_eq!(described, crd(schema(None)));
    }
}
