//! Known attacks by `PROJECT` files and flags.

use std::time::Instant;

use super::PATIENCE;
use super::sandbox::{self, Sandbox};

#[test]
fn hidden_character_in_the_owner_is_refused() {
    let sandbox = Sandbox::new();
    for owner in ["a\u{202e}b", "a\u{200b}b", "a\u{2028}b", "a\u{e0041}b"] {
        let output = sandbox.opctl(&["init", "--force", "--owner", owner]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains(sandbox::is_hidden), "{stderr:?}");
    }
    sandbox.write(
        "PROJECT",
        &sandbox.read("PROJECT").replace("apache2", "mit\n    owner: \"a\\u202eb\""),
    );
    let output =
        sandbox.opctl(&["create", "api", "--group", "a", "--version", "v1", "--kind", "B"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("'owner'") && !stderr.contains(sandbox::is_hidden), "{stderr:?}");
}

#[test]
fn setting_that_makes_an_api_invalid_is_refused() {
    let sandbox = Sandbox::new();
    let create = ["create", "api", "--group", "cache", "--version", "v1", "--kind", "B"];
    assert!(sandbox.opctl(&create).status.success());
    let before = sandbox.tree();
    // The domain alone is valid, the API group with it is too long.
    let domain = "b".repeat(250);
    let output = sandbox.opctl(&["init", "--force", "--domain", &domain]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("would make PROJECT invalid") && stderr.contains("253"), "{stderr}");
    assert_eq!(sandbox.tree(), before);
}

#[test]
fn unknown_fields_of_a_project_are_preserved_or_refused_in_true_words() {
    let create = ["create", "api", "--group", "a", "--version", "v1", "--kind", "B"];
    for (value, expected) in [
        ("36893488147419103232", "36893488147419103232"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("99999999999999999999999999999999999999999999", "`theirs`"),
        ("!vault x", "`theirs` has the YAML tag `!vault`"),
        ("{a: [1, !x {b: 1}]}", "`theirs.a[1]` has the YAML tag `!x`"),
        ("{1: x}", "`theirs` has a key that is not a string"),
        (".inf", "`theirs` is not a finite number"),
    ] {
        let sandbox = Sandbox::new();
        let project = format!("{}theirs: {value}\n", sandbox.read("PROJECT"));
        sandbox.write("PROJECT", &project);
        let output = sandbox.opctl(&create);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{value}: {stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert!(!stderr.contains("damaged") && !stderr.contains("not YAML"), "{stderr}");
        assert_eq!(sandbox.read("PROJECT"), project);
    }
    for value in [
        "18446744073709551615",
        "-9223372036854775808",
        "1.5e-300",
        "[[], {}, '', null, ~, 'on', \"2026-01-01\", 0x10, \"\\e\"]",
        "{<<: {a: 1}, '': 1, 'a: b': c, '1': d}",
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("PROJECT", &format!("{}theirs: {value}\n", sandbox.read("PROJECT")));
        let output = sandbox.opctl(&create);
        assert!(output.status.success(), "{value}: {output:?}");
        let project: serde_yaml::Value = serde_yaml::from_str(&sandbox.read("PROJECT")).unwrap();
        let value: serde_yaml::Value = serde_yaml::from_str(value).unwrap();
        assert_eq!(project["theirs"], value);
        sandbox.assert_usable();
    }
}

#[test]
fn project_that_contradicts_itself_is_refused() {
    let sandbox = Sandbox::new();
    let project = sandbox.read("PROJECT");
    let resources = |text: &str| {
        let (before, after) = project.split_once("version: \"3\"").unwrap();
        format!("{before}resources:\n- {text}\nversion: \"3\"{after}")
    };
    for (text, expected) in [
        (
            resources(
                "{core: true, domain: \"a\\nb\", group: apps, version: v1, kind: Deployment, controller: true}",
            ),
            "resources[0].domain",
        ),
        (
            resources(
                "{core: true, group: apps, version: v1, kind: Deployment, plural: pods, controller: true}",
            ),
            "resources[0].plural",
        ),
        (
            resources("{core: true, external: true, group: apps, version: v1, kind: Deployment}"),
            "resources[0]",
        ),
        (
            resources(
                "{api: {crdVersion: v1}, external: true, domain: b.c, group: a, version: v1, kind: D}",
            ),
            "resources[0]",
        ),
        (
            resources("{controller: true, domain: my.domain, group: a, version: v1, kind: D}"),
            "resources[0]",
        ),
        (resources(&"[".repeat(200_000)), "nested"),
        (format!("{project}# {}", "x".repeat(1_100_000)), "1 MB"),
    ] {
        sandbox.write("PROJECT", &text);
        let before = sandbox.tree();
        let start = Instant::now();
        let output =
            sandbox.opctl(&["create", "api", "--group", "c", "--version", "v1", "--kind", "B"]);
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{expected}: {stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert_eq!(sandbox.tree(), before);
    }
}
