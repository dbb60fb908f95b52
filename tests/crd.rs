//! The Rust types of somebody else's CRD, and the object that its test makes. `tests/crds` holds CRDs
//! and what is made of them; `SNAPSHOTS=overwrite cargo test --test crd` takes what is made for what is
//! expected.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use opctl::crd::{Choice, Crd, least};
use opctl::error::Refusal;
use snapbox::{Assert, Data};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crds")
}

fn read(file: &str, choice: Choice<'_>) -> Result<Crd, Refusal> {
    Crd::read(file, &std::fs::read_to_string(folder().join(file)).unwrap(), choice)
}

fn kind(kind: &str) -> Choice<'_> {
    Choice { kind: Some(kind), ..Choice::default() }
}

/// All kinds of the fixtures.
fn all() -> [Crd; 3] {
    [
        read("box.yaml", Choice::default()).unwrap(),
        read("several.yaml", kind("Mode")).unwrap(),
        read("several.yaml", kind("Settings")).unwrap(),
    ]
}

#[test]
fn types_and_objects_are_as_expected() {
    let assert = Assert::new().action_env("SNAPSHOTS").normalize_paths(false);
    for crd in all() {
        let path = |end: &str| folder().join(format!("{}{end}", crd.kind.to_lowercase()));
        assert.eq(crd.types("// A header\n\n"), Data::read_from(&path(".rs"), None));
        let object = serde_saphyr::to_string(&least(&crd).fields).unwrap();
        assert.eq(object, Data::read_from(&path(".object.yaml"), None));
    }
}

#[test]
fn types_are_as_rustfmt_would_write_them() {
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
fn what_has_to_match_a_pattern_is_told() {
    let text = std::fs::read_to_string(folder().join("several.yaml")).unwrap();
    let crd = text.replace("enum: [\"On\", \"Off\"]", "pattern: '^[A-Z]+/[a-z]+$'");
    let crd = Crd::read("-", &crd, kind("Mode")).unwrap();
    assert_eq!(least(&crd).patterns, ["spec.mode"]);
    assert!(all().iter().all(|crd| least(crd).patterns.is_empty()));
}

#[test]
fn a_kind_is_what_its_crd_says() {
    let crd = read("box.yaml", Choice::default()).unwrap();
    let names = (crd.group.as_str(), crd.version.as_str(), crd.kind.as_str(), crd.plural.as_str());
    assert_eq!(names, ("async.example.org", "v1", "Box", "boxes"));
    assert!(crd.namespaced && !read("several.yaml", kind("Mode")).unwrap().namespaced);
    let other = Choice { version: Some("v1beta1"), ..Choice::default() };
    assert_eq!(read("box.yaml", other).unwrap().version, "v1beta1");
    let settings = read("several.yaml", kind("Settings")).unwrap();
    assert!(
        settings.manifest.starts_with("# Like a ConfigMap") && !settings.manifest.contains("Mode")
    );
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let refusal = |file: &str, choice| {
        let refusal = read(file, choice).unwrap_err();
        format!("{refusal}; {}", refusal.way_out().unwrap_or_default())
    };
    for (file, choice, expected) in [
        ("several.yaml", Choice::default(), "tools.example.org Mode, tools.example.org Settings"),
        ("several.yaml", kind("Box"), "it defines no kind that is asked for"),
        (
            "box.yaml",
            Choice { group: Some("sync"), ..Choice::default() },
            "no kind that is asked for",
        ),
        ("box.yaml", Choice { version: Some("v2"), ..Choice::default() }, "served as v1beta1, v1"),
        (
            "box.yaml",
            Choice { version: Some("v1alpha1"), ..Choice::default() },
            "served as v1beta1, v1",
        ),
    ] {
        let refusal = refusal(file, choice);
        assert!(refusal.contains(expected), "{refusal}");
    }
    for (text, expected) in [
        ("", "there is no CustomResourceDefinition in it"),
        ("kind: Pod", "there is no CustomResourceDefinition in it"),
        ("{", "--crd"),
        ("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}", "spec"),
        ("{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition}", "v1beta1"),
    ] {
        let refusal = Crd::read("-", text, Choice::default()).unwrap_err();
        assert!(refusal.to_string().contains(expected), "{refusal}");
    }
}

#[test]
fn a_list_is_read_like_its_items() {
    let text = std::fs::read_to_string(folder().join("box.yaml")).unwrap();
    let item: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
    let list = serde_yaml::to_string(&std::collections::BTreeMap::from([
        ("kind", serde_yaml::Value::from("List")),
        ("items", vec![item].into()),
    ]));
    let crd = Crd::read("-", &list.unwrap(), Choice::default()).unwrap();
    assert_eq!(crd.types(""), all()[0].types(""));
}
