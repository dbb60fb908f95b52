//! Controllers for kinds that are somebody else's: those of Kubernetes, and those of a CRD.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use opctl::project::builtin::{self, CoreGroup, CoreKind};
use serde_json::{Value, json};

use crate::operator::cluster::Cluster;
use crate::operator::machine::Machine;
use crate::operator::project::Project;
use crate::operator::projects::is_clean;
use crate::operator::wait::timed;

/// Namespaced, cluster-scoped, made by the cluster itself; with hard names and of every shape.
const FOREIGN: [&str; 7] = [
    "--group apps --version v1 --kind Deployment --resource=false",
    "--group core --version v1 --kind Node --resource=false",
    "--group core --version v1 --kind Namespace --resource=false",
    "--group admissionregistration.k8s.io --version v1 --kind ValidatingAdmissionPolicyBinding --resource=false",
    "--crd CRDS/box.yaml",
    "--crd CRDS/several.yaml --kind Mode",
    "--crd CRDS/several.yaml --kind Settings --controller=false",
];

#[test]
fn a_project_of_somebody_elses_kinds_is_clean() {
    let machine = Machine::new();
    let project = Project::init(&machine, "foreign-operator", &[]);
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/crds");
    for args in FOREIGN {
        project.api(&args.replace("CRDS", crds));
    }
    // It compiles with the project, and says whether the table is what k8s-openapi has.
    fs::write(project.path("tests/builtin.rs"), test_of_the_table()).unwrap();
    project.make("fmt");
    let cluster = is_clean(&machine, &project);
    the_table_is_what_the_api_server_has(&cluster);
    the_api_server_takes_every_object(&cluster);
    // There is no CRD to install.
    project.make_on(&cluster, "install");

    let printed = timed("make rbac-audit", || project.make("rbac-audit"));
    assert!(printed.contains("the operator is permitted exactly what it uses"), "{printed}");
}

/// A test that names every type of the table, for a generated project.
fn test_of_the_table() -> String {
    let mut test = "use k8s_openapi::{ClusterResourceScope, ListableResource, NamespaceResourceScope};
        fn is<K: ListableResource<Scope = S>, S>(group: &str, version: &str, kind: &str, plural: &str) {
            assert_eq!((K::GROUP, K::VERSION), (group, version));
            assert_eq!((K::KIND, K::URL_PATH_SEGMENT), (kind, plural));
        }
        #[test]
        fn the_table_is_what_k8s_openapi_has() {
    "
    .to_owned();
    for (group, kind) in builtin::all() {
        let scope = if kind.namespaced { "Namespace" } else { "Cluster" };
        let CoreKind { kind, plural, .. } = kind;
        let (version, module) = (&group.version, &group.module);
        let group = group.api_group();
        let _ = writeln!(
            test,
            "is::<{module}::{kind}, {scope}ResourceScope>({group:?}, {version:?}, {kind:?}, {plural:?});"
        );
    }
    test + "}"
}

fn the_table_is_what_the_api_server_has(cluster: &Cluster) {
    let get = |path: &str| -> Value {
        serde_json::from_str(&cluster.ok(&["get", "--raw", path])).unwrap()
    };
    let groups = get("/apis");
    let versions = list(&groups["groups"]).flat_map(|group| list(&group["versions"]));
    let paths = versions.map(|version| format!("/apis/{}", text(&version["groupVersion"])));
    let mut served = BTreeSet::new();
    for path in paths.chain(["/api/v1".to_owned()]) {
        let resources = get(&path);
        let watched = list(&resources["resources"])
            .filter(|resource| list(&resource["verbs"]).any(|verb| verb == "watch"));
        served.extend(watched.map(|resource| {
            let (name, kind) = (text(&resource["name"]), text(&resource["kind"]));
            (text(&resources["groupVersion"]), kind, name, resource["namespaced"] == true)
        }));
    }
    let table = builtin::all()
        .map(|(group, kind)| {
            (api_version(group), kind.kind.clone(), kind.plural.clone(), kind.namespaced)
        })
        .collect();
    // Somebody else's CRDs are those of the tests.
    served.retain(|(version, ..)| !version.contains("example"));
    assert_eq!(served, table);
}

fn the_api_server_takes_every_object(cluster: &Cluster) {
    cluster.ok(&["create", "serviceaccount", "controller-manager"]);
    for (group, kind) in builtin::all() {
        let mut object = json!(kind.object);
        object["apiVersion"] = json!(api_version(group));
        object["kind"] = json!(kind.kind);
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = json!("test");
        }
        let manifest = object.to_string().replace("$NAMESPACE", "default");
        cluster.takes(&serde_json::from_str(&manifest).unwrap());
    }
}

fn api_version(group: &CoreGroup) -> String {
    match group.api_group() {
        name if name.is_empty() => group.version.clone(),
        name => format!("{name}/{}", group.version),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
