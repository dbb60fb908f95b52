use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;
use crate::rbac::rule;

fn crd(version: &str) -> CustomResourceDefinition {
    let schema = json!({ "type": "object", "description": "First. Second.", "properties": {
        "port": { "type": "integer", "format": "uint16", "maximum": 65535.0, "minimum": 0.0 },
    } });
    let version = json!({
        "name": version, "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
    });
    let spec = json!({
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": { "kind": "Test", "plural": "tests" },
    });
    serde_json::from_value(json!({ "metadata": { "name": "tests.example.com" }, "spec": spec }))
        .unwrap()
}

fn manifests() -> Manifests {
    Manifests::new(
        vec![crd("v2"), crd("v1")],
        vec![rule::<ConfigMap>(&["list"])],
    )
}

fn render(manifests: &Manifests, path: &str) -> String {
    manifests.render().unwrap().remove(path).unwrap()
}

#[test]
fn a_kind_has_one_crd_that_stores_the_first_version() {
    let text = render(&manifests(), "config/crd/bases/example.com_tests.yaml");
    let crd: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
    let versions = crd.spec.versions.iter();
    let versions: Vec<_> = versions
        .map(|version| (version.name.as_str(), version.storage))
        .collect();
    assert_eq!(versions, [("v2", true), ("v1", false)]);
    assert!(text.contains("maximum: 65535\n"), "{text}");
    assert!(
        text.contains("minimum: 0\n") && !text.contains("format"),
        "{text}"
    );
}

#[test]
fn descriptions_can_be_cut_or_left_out() {
    let path = "config/crd/bases/example.com_tests.yaml";
    let cut = render(&manifests().max_description_length(10), path);
    assert!(cut.contains("description: First.\n"), "{cut}");
    let without = render(&manifests().without_descriptions(), path);
    assert!(!without.contains("description"), "{without}");
}

#[test]
fn the_role_is_of_the_cluster_or_of_a_namespace() {
    let text = |kind| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: manager-role\n\
             rules:\n- apiGroups:\n  - \"\"\n  resources:\n  - configmaps\n  verbs:\n  - list\n"
        )
    };
    assert_eq!(render(&manifests(), ROLE), text("ClusterRole"));
    assert_eq!(render(&manifests().namespaced(), ROLE), text("Role"));
}

#[test]
fn only_manifests_that_are_out_of_date_are_written() {
    let root = std::env::temp_dir().join(format!("opctl-runtime-manifests-{}", std::process::id()));
    let error = manifests().check_in(&root).unwrap_err().to_string();
    assert_eq!(
        error,
        "config/crd/bases/example.com_tests.yaml, config/rbac/role.yaml are out of date: \
         run `make manifests`"
    );
    assert_eq!(manifests().write(&root).unwrap().len(), 2);
    assert!(manifests().check_in(&root).is_ok());

    let error = manifests()
        .namespaced()
        .check_in(&root)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "config/rbac/role.yaml is out of date: run `make manifests`"
    );
    assert_eq!(manifests().namespaced().write(&root).unwrap(), [ROLE]);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn the_chart_has_copies() {
    let root = std::env::temp_dir().join(format!("opctl-runtime-chart-{}", std::process::id()));
    let write = |path: &str, text: &str| super::write(&root.join(path), text).unwrap();
    write("config/rbac/cache_memcached_viewer_role.yaml", "viewer");
    write("config/rbac/role_binding.yaml", "binding");
    write("config/prometheus/rules.yaml", "alerts");
    write("config/grafana/dashboard.json", "{}");
    assert_eq!(manifests().write(&root).unwrap().len(), 2);

    let with_chart = manifests().with_chart();
    assert_eq!(
        with_chart.write(&root).unwrap(),
        [
            "chart/files/crd/bases/example.com_tests.yaml",
            "chart/files/grafana/dashboard.json",
            "chart/files/prometheus/rules.yaml",
            "chart/files/rbac/cache_memcached_viewer_role.yaml",
            "chart/files/rbac/role.yaml",
        ]
    );
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    assert_eq!(read("chart/files/rbac/role.yaml"), read(ROLE));

    write("config/prometheus/rules.yaml", "more alerts");
    let error = with_chart.check_in(&root).unwrap_err().to_string();
    assert_eq!(
        error,
        "chart/files/prometheus/rules.yaml is out of date: run `make manifests`"
    );
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn flags_are_those_that_the_makefile_uses() {
    let command = Flags::augment_args(Command::new("manifests"));
    let matches = command
        .try_get_matches_from(["manifests", "--check"])
        .unwrap();
    assert!(Flags::from_arg_matches(&matches).unwrap().check);
}
