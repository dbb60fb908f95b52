//! Known attacks by CRDs.

use std::time::Instant;

use super::PATIENCE;
use super::sandbox::{self, Sandbox};
use super::sweep::assert_formatted;

/// A CRD whose spec has one required field, with this schema.
pub fn with_field(schema: &str) -> String {
    crd("cert.example.org", "v1", "Widget", "widgets", schema)
}

/// A CRD with one version, whose spec has one required field.
pub fn crd(group: &str, version: &str, kind: &str, plural: &str, field: &str) -> String {
    format!(
        r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: a}}
spec:
  group: {group}
  names: {{kind: {kind}, plural: {plural}}}
  scope: Namespaced
  versions:
  - name: {version}
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [field]
            properties:
              field: {field}
"#
    )
}

/// Asserts that opctl refuses the CRD with an error that contains `expected`, and writes nothing.
#[track_caller]
fn assert_refused(crd: &str, expected: &str) {
    let sandbox = Sandbox::new();
    // A directory that the path of an escaping file passes through.
    std::fs::create_dir_all(sandbox.project().join("tests/crds/widgets.a.b")).unwrap();
    let crd_file = sandbox.crd(crd);
    let before = sandbox.tree();
    let start = Instant::now();
    let output = sandbox.opctl(&["create", "api", "--crd", &crd_file]);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{:?}: {stderr}", output.status);
    assert!(stderr.contains(expected), "{stderr}");
    assert!(!stderr.contains(sandbox::is_hidden), "{stderr:?}");
    assert_eq!(sandbox.tree(), before);
}

/// Asserts that opctl accepts the CRD, writes only into the project, and leaves a project that the next
/// command accepts. Returns the project.
#[track_caller]
fn accepted(crd: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let crd_file = sandbox.crd(crd);
    let before = sandbox.surroundings();
    let output = sandbox.opctl(&["create", "api", "--crd", &crd_file]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(!stderr.contains(sandbox::is_hidden), "{stderr:?}");
    assert_eq!(sandbox.surroundings(), before);
    sandbox.assert_usable();
    sandbox
}

#[test]
fn invalid_name_in_a_crd_is_refused() {
    let field = "{type: string}";
    for group in [
        r#""example.org\npub fn injected() {}\n//""#,
        r#""example.org\e[31m""#,
        r#""example.org\u202e""#,
        "a.b/../../../../../escaped",
        "nodomain",
        "Example.org",
        r#""""#,
        &format!("{}.example.org", "a".repeat(64)),
        &format!("a.{}", "b".repeat(253)),
    ] {
        assert_refused(&crd(group, "v1", "Widget", "widgets", field), "`spec.group`");
    }
    for version in ["v1/../..", r#""v1\n""#, "latest", "v0"] {
        assert_refused(&crd("a.b", version, "Widget", "widgets", field), "`spec.versions[0].name`");
    }
    for kind in [r#""Widget;//""#, "../Widget", "widget", "Self", r#""Wid\u200bget""#] {
        assert_refused(&crd("a.b", "v1", kind, "widgets", field), "`spec.names.kind`");
    }
    for plural in ["../widgets", r#""wid\ngets""#, "Widgets", r#""""#] {
        assert_refused(&crd("a.b", "v1", "Widget", plural, field), "`spec.names.plural`");
    }
    // Each name is valid, but the file for the CRD could not be created.
    let group = format!("a.{}", "b".repeat(241));
    assert_refused(&crd(&group, "v1", "Widget", "widgets", field), "file name");
}

#[test]
fn names_are_not_printed_raw() {
    let several = ["A\\e[2J", "B\\nhint: run this"]
        .map(|kind| crd("a.b", "v1", &format!("\"{kind}\""), "widgets", "{type: string}"));
    let sandbox = Sandbox::new();
    let crd_file = sandbox.crd(&several.join("---\n"));
    for arguments in [
        &["create", "api", "--crd", &crd_file][..],
        &["create", "api", "--kind", "C", "--group", "a", "--version", "v1", "--crd", &crd_file],
    ] {
        let output = sandbox.opctl(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(r"A\u{1b}[2J, a.b B\u{a}hint"), "{stderr}");
    }
}

#[test]
fn hidden_character_in_what_becomes_code_is_refused() {
    let property = r#"{type: object, required: ["a\nb"], properties: {"a\nb": {type: string}}}"#;
    assert_refused(&with_field(property), r"`spec.field.a\u{a}b`");
    let default = r#"{type: string, default: "a\u202eb"}"#;
    assert_refused(&with_field(default), "`spec.field`: `default` contains U+202E");
    let value = r#"{type: string, enum: ["a\eb"]}"#;
    assert_refused(&with_field(value), "`spec.field`: `enum` contains U+001B");
}

#[test]
fn hidden_character_in_a_description_is_visible() {
    let field = r#"{type: string, description: "a\u202eb\e[31m\u200b \r\n pub fn c() {} */"}"#;
    let sandbox = accepted(&with_field(field));
    let types = sandbox.read("src/api/cert/v1/widget.rs");
    assert!(!types.contains(sandbox::is_hidden), "{types}");
    assert!(
        types.contains(r"    /// a\\u{202e}b\\u{1b}\[31m\\u{200b} pub fn c() {} \*/"),
        "{types}"
    );
}

#[test]
fn enum_value_that_is_not_an_identifier_yields_a_string() {
    for value in ["m²", "Ⅷ", "é", "日本", "", "+", "1", "Self"] {
        let sandbox = accepted(&with_field(&format!("{{type: string, enum: [a, {value:?}]}}")));
        let types = sandbox.read("src/api/cert/v1/widget.rs");
        assert!(types.contains("    pub field: String,"), "{types}");
    }
}

#[test]
fn number_without_bound_is_refused() {
    for (schema, path) in [
        ("{type: string, minLength: 65536}", "`spec.field`"),
        ("{type: string, minLength: 1000000000000000}", "`spec.field`"),
        ("{type: array, minItems: 1000000000000000}", "`spec.field[]`"),
        ("{type: array, minItems: 18446744073709551615}", "`spec.field[]`"),
        (
            "{type: array, minItems: 1000, items: {type: array, minItems: 1000, items: {type: array, minItems: 1000}}}",
            "`spec.field[]",
        ),
        (
            "{type: array, minItems: 1000, items: {type: object, required: [b], properties: {b: {type: string, minLength: 1000}}}}",
            "`spec.field[]`",
        ),
    ] {
        assert_refused(&with_field(schema), path);
    }
}

#[test]
fn maximum_is_respected() {
    for (schema, value) in [
        ("{type: string, maxLength: 3}", "tes"),
        ("{type: string, maxLength: 0}", "''"),
        ("{type: integer, maximum: -5}", "-5"),
        ("{type: integer, maximum: -5, exclusiveMaximum: true}", "-6"),
        ("{type: integer, minimum: 3, exclusiveMinimum: true, maximum: 4}", "4"),
        ("{type: integer, minimum: 5, multipleOf: 4}", "8"),
        ("{type: number, maximum: 0.5, exclusiveMinimum: true, minimum: 0}", "0.5"),
        (
            "{type: number, maximum: 0.5, exclusiveMaximum: true, exclusiveMinimum: true, minimum: 0}",
            "0.25",
        ),
        ("{type: number, maximum: -0.5}", "-0.5"),
    ] {
        let sandbox = accepted(&with_field(schema));
        let object = sandbox.read("tests/objects/cert_widget.yaml");
        let actual: serde_yaml::Value = serde_yaml::from_str(&object).unwrap();
        let expected: serde_yaml::Value = serde_yaml::from_str(value).unwrap();
        assert_eq!(actual["spec"]["field"], expected, "{schema}\n{object}");
    }
    // No value is valid.
    for schema in [
        "{type: string, minLength: 3, maxLength: 2}",
        "{type: integer, minimum: 3, maximum: 2}",
        "{type: integer, minimum: 1.0e+300}",
    ] {
        let object = accepted(&with_field(schema)).read("tests/objects/cert_widget.yaml");
        assert!(object.contains("# Set values that the CRD accepts: spec.field\n"), "{object}");
    }
}

#[test]
fn kind_may_be_an_imported_type() {
    let text =
        crd("a.b", "v1", "BTreeMap", "btreemaps", "{type: object, additionalProperties: true}");
    let types = accepted(&text).read("src/api/a/v1/b_tree_map.rs");
    assert!(!types.contains("use std::collections::BTreeMap;"), "{types}");
    assert!(types.contains("std::collections::BTreeMap<String, serde_json::Value>"), "{types}");
}

#[test]
fn deep_nesting_is_refused() {
    let deep = |open: &str, close: &str, n| format!("{}{}", open.repeat(n), close.repeat(n));
    for flow in [
        deep("[", "]", 200_000),
        deep("{a: ", "}", 200_000),
        "[".repeat(3_000_000),
        format!("\"]]]\" # ]]]\n  b: ']]]'\n  c: |\n   ]]]\n  d: {}", "[".repeat(3_000_000)),
        format!("['\"', \"'\", it's, \"\\\"\", {}", "['', ".repeat(1_000_000)),
    ] {
        assert_refused(&format!("a:\n  b: {flow}\n"), "nested");
    }
    for block in ["- ", "? ", "- !a ", "- &a ", "- ? "] {
        assert_refused(&block.repeat(1_000_000), "nested");
    }
    let lines: Vec<String> = (0..2000).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    assert_refused(&lines.concat(), "nested");
    let schema =
        format!("{}{{type: string}}{}", "{type: array, items: ".repeat(60), "}".repeat(60));
    assert_refused(&with_field(&schema), "`spec.field[][]");
}

#[test]
fn brackets_in_text_are_not_nesting() {
    let text = format!("\"{}\"", "[{".repeat(5000));
    let plain = format!("a {}", "[ ( ".repeat(5000));
    let block = format!("|\n                  {}\n", "- [{\n                  ".repeat(5000));
    for description in [text.as_str(), &text.replace('"', "'"), &plain, &block] {
        let field =
            format!("\n                type: string\n                description: {description}");
        accepted(&with_field(&field));
    }
    accepted(&with_field(&format!("{{type: string}} # {}", "[{".repeat(5000))));
}

#[test]
fn large_file_is_refused() {
    let padding = format!("# {}\n", "x".repeat(98)).repeat(110_000);
    assert_refused(&format!("{padding}{}", with_field("{type: string}")), "10 MB");
    let fields: Vec<String> = (0..60_000).map(|i| format!("f{i}: {{}}")).collect();
    let field = format!("{{type: object, properties: {{{}}}}}", fields.join(", "));
    assert_refused(&with_field(&field), "fields");
}

#[test]
fn long_values_are_formatted_like_rustfmt() {
    let values: Vec<String> =
        (50..110).map(|n| format!("{}-", "é".repeat(n / 8) + &"x".repeat(n))).collect();
    let fields = values.iter().map(|value| format!("{value:?}: {{type: string}}"));
    let fields: Vec<String> = fields.collect();
    let field = format!(
        "{{type: object, properties: {{{}, a: {{type: string, enum: {:?}}}}}}}",
        fields.join(", "),
        values.iter().map(|value| value.replace('é', "e")).collect::<Vec<_>>()
    );
    let types = accepted(&with_field(&field)).read("src/api/cert/v1/widget.rs");
    assert!(types.contains("enum WidgetSpecFieldA"), "{types}");
    assert_formatted(&[types].into());
}

#[test]
fn names_that_clash_are_numbered_in_time() {
    // Each name is one letter for Rust.
    let names = (0x4e00..0x9e00).filter_map(char::from_u32);
    let fields: Vec<String> = names.map(|c| format!("a{c}: {{type: object}}")).collect();
    let start = Instant::now();
    let sandbox =
        accepted(&with_field(&format!("{{type: object, properties: {{{}}}}}", fields.join(", "))));
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    let types = sandbox.read("src/api/cert/v1/widget.rs");
    assert!(types.contains(&format!(
        "pub a_{}: Option<WidgetSpecFieldA{}>,",
        fields.len(),
        fields.len()
    )));
}

#[test]
fn document_after_its_marker_is_read() {
    let json = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"group": "a.b",
      "names": {"kind": "Other", "plural": "others"}, "scope": "Cluster", "versions": [{"name": "v1", "served": true, "storage": true}]}}"#;
    let sandbox = accepted(&format!("--- # a comment\n---\n--- {json}\n--- # the end\n"));
    assert!(sandbox.read("tests/crds/others.a.b.yaml").contains("\"Other\""));
}

#[test]
fn value_that_json_does_not_have_is_refused() {
    assert_refused(&with_field("{type: string, default: !secret x}"), "YAML tag `!secret`");
    assert_refused(&with_field("{type: number, default: .nan}"), "not a finite number");
    assert_refused(&with_field("{type: object, default: {1: x}}"), "not a string");
    assert_refused(
        &with_field("{type: integer, default: 36893488147419103232}"),
        "36893488147419103232",
    );
    let scope = with_field("{type: string}").replace("Namespaced", "\"Name\\nspaced\"");
    assert_refused(&scope, r"invalid value 'Name\u{a}spaced' for `spec.scope`");
}
