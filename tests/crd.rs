//! The Rust types of external types, and the objects of their tests. `tests/crds` contains CRDs with the
//! expected output; `SNAPSHOTS=overwrite cargo test --test crd` replaces it by the actual one.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use opctl::crd::{Crd, CrdSelector, minimal_object};
use opctl::error::UserError;
use snapbox::{Assert, Data};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crds")
}

fn read(file: &str, selector: CrdSelector<'_>) -> Result<Crd, UserError> {
    Crd::read(file, &std::fs::read_to_string(directory().join(file)).unwrap(), selector)
}

fn kind(kind: &str) -> CrdSelector<'_> {
    CrdSelector { kind: Some(kind), ..CrdSelector::default() }
}

/// All types of the fixtures.
fn all() -> [Crd; 4] {
    [
        read("box.yaml", CrdSelector::default()).unwrap(),
        read("several.yaml", kind("Mode")).unwrap(),
        read("several.yaml", kind("Settings")).unwrap(),
        read("routes.yaml", CrdSelector::default()).unwrap(),
    ]
}

#[test]
fn types_and_objects_are_as_expected() {
    let assert = Assert::new().action_env("SNAPSHOTS").normalize_paths(false);
    for crd in all() {
        let path = |end: &str| directory().join(format!("{}{end}", crd.kind.to_lowercase()));
        assert.eq(crd.types("// A header\n\n"), Data::read_from(&path(".rs"), None));
        let object = serde_saphyr::to_string(&minimal_object(&crd).unwrap().fields).unwrap();
        assert.eq(object, Data::read_from(&path(".object.yaml"), None));
    }
}

#[test]
fn equal_schemas_share_one_type() {
    let types = read("routes.yaml", CrdSelector::default()).unwrap().types("");
    let count = |text: &str| types.matches(text).count();
    // The spec, the status, both kinds of routes (which are equal), the backend, and the fallback.
    assert_eq!(count("pub struct "), 5, "{types}");
    assert_eq!(count("pub enum "), 1, "{types}");
    // What is said of one of them is not said of all.
    assert_eq!((count("Where requests go"), count("gets copies")), (2, 0), "{types}");
}

#[test]
fn types_of_kubernetes_are_those_of_k8s_openapi() {
    let types = read("several.yaml", kind("Settings")).unwrap().types("");
    for field in [
        "pub tolerations: Option<Vec<k8s_openapi::api::core::v1::Toleration>>,",
        "pub selector: Option<meta::LabelSelector>,",
        "pub resources: Option<SettingsResources>,",
    ] {
        assert!(types.contains(field), "{field} {types}");
    }
}

#[test]
fn types_are_formatted_like_rustfmt() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for crd in all() {
        let file = target.join(format!("{}.rs", crd.kind));
        std::fs::write(&file, crd.types("")).unwrap();
        let check =
            Command::new("rustfmt").args(["--check", "--edition", "2024"]).arg(&file).output();
        let output = check.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn fields_with_patterns_are_listed() {
    let text = std::fs::read_to_string(directory().join("several.yaml")).unwrap();
    let crd = text.replace("enum: [\"On\", \"Off\"]", "pattern: '^[A-Z]+/[a-z]+$'");
    let crd = Crd::read("-", &crd, kind("Mode")).unwrap();
    assert_eq!(minimal_object(&crd).unwrap().incomplete, ["spec.mode"]);
    assert!(all().iter().all(|crd| minimal_object(crd).unwrap().incomplete.is_empty()));
}

#[test]
fn crd_is_read() {
    let crd = read("box.yaml", CrdSelector::default()).unwrap();
    let names = (crd.group.as_str(), crd.version.as_str(), crd.kind.as_str(), crd.plural.as_str());
    assert_eq!(names, ("async.example.org", "v1", "Box", "boxes"));
    assert!(crd.namespaced && !read("several.yaml", kind("Mode")).unwrap().namespaced);
    let other = CrdSelector { version: Some("v1beta1"), ..CrdSelector::default() };
    assert_eq!(read("box.yaml", other).unwrap().version, "v1beta1");
    let settings = read("several.yaml", kind("Settings")).unwrap();
    assert!(
        settings.manifest.starts_with("# Like a ConfigMap") && !settings.manifest.contains("Mode")
    );
}

#[test]
fn ambiguous_or_missing_type_is_refused_with_a_hint() {
    let error = |file: &str, selector| {
        let error = read(file, selector).unwrap_err();
        format!("{error}; {}", error.hint().unwrap_or_default())
    };
    for (file, selector, expected) in [
        (
            "several.yaml",
            CrdSelector::default(),
            "tools.example.org Mode, tools.example.org Settings",
        ),
        ("several.yaml", kind("Box"), "the file does not define the requested kind"),
        (
            "box.yaml",
            CrdSelector { group: Some("sync"), ..CrdSelector::default() },
            "does not define the requested kind",
        ),
        (
            "box.yaml",
            CrdSelector { version: Some("v2"), ..CrdSelector::default() },
            "served versions: v1beta1, v1",
        ),
        (
            "box.yaml",
            CrdSelector { version: Some("v1alpha1"), ..CrdSelector::default() },
            "served versions: v1beta1, v1",
        ),
    ] {
        let error = error(file, selector);
        assert!(error.contains(expected), "{error}");
    }
    for (text, expected) in [
        ("", "contains no CustomResourceDefinition"),
        ("kind: Pod", "contains no CustomResourceDefinition"),
        ("{", "--crd"),
        ("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}", "spec"),
        ("{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition}", "v1beta1"),
    ] {
        let error = Crd::read("-", text, CrdSelector::default()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn list_is_read_like_its_items() {
    let text = std::fs::read_to_string(directory().join("box.yaml")).unwrap();
    let item: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
    let list = serde_yaml::to_string(&std::collections::BTreeMap::from([
        ("kind", serde_yaml::Value::from("List")),
        ("items", vec![item].into()),
    ]));
    let crd = Crd::read("-", &list.unwrap(), CrdSelector::default()).unwrap();
    assert_eq!(crd.types(""), all()[0].types(""));
}
