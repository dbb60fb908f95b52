//! What is changed in the schemas of CRDs before they are written.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// The formats of numbers that Kubernetes knows.
const NUMBER_FORMATS: [&str; 4] = ["double", "float", "int32", "int64"];

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
