//! The control plane, and a project that has the permissions of all operators of these tests.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::CustomResourceExt;
use opctl_runtime::rbac::{rule, subresource_rule};
use opctl_runtime::testing::{FaultProxy, Operator, Process};
use opctl_runtime::{Identity, Manager};
use serde_json::{Value, json};

use crate::api::{Backup, Probe, Tenant};
use crate::support::{DIRECTORY, on_a_cluster, target};

/// What it is called in field managers and events.
pub const IDENTITY: Identity = Identity::new("runtime-tests", "1.0.0");

/// Starts controllers in a namespace of their own.
pub async fn operator(start: impl FnOnce(&Manager)) -> Operator {
    prepare();
    Operator::start(IDENTITY, start).await
}

fn prepare() {
    static PROJECT: LazyLock<()> = LazyLock::new(write_project);
    on_a_cluster();
    LazyLock::force(&PROJECT);
}

/// Starts controllers in a namespace of their own, behind a proxy.
pub async fn operator_through_proxy(
    start: impl FnOnce(&Manager, &FaultProxy),
) -> (Operator, FaultProxy) {
    prepare();
    Operator::through_proxy(IDENTITY, &[], start).await
}

/// Starts the binary of the example as the operator's service account.
pub fn example(operator: &Operator, flags: &[&str]) -> Process {
    let binary = target().join("examples/configmaps");
    assert!(
        binary.is_file(),
        "{} is missing: `cargo build --examples` builds it",
        binary.display()
    );
    let mut command = Command::new(binary);
    command.env("KUBECONFIG", &operator.kubeconfig);
    command.args(["--namespaces", &operator.namespace, "--log-level=warn"]);
    Process::start(command.args(flags))
}

/// Makes the current directory a project with a role for the operators of all tests.
fn write_project() {
    let project = Path::new(DIRECTORY).join("project");
    let group = "rbac.authorization.k8s.io";
    let role = json!({ "apiGroup": group, "kind": "ClusterRole", "name": "manager-role" });
    let manager_role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "manager-role" },
        "rules": rules(),
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "manager-rolebinding" },
        "roleRef": role,
        "subjects": [{ "kind": "ServiceAccount", "name": "controller-manager" }],
    });
    for (path, manifest) in [
        ("config/crd/bases/backups.yaml", json!(Backup::crd())),
        ("config/crd/bases/probes.yaml", json!(Probe::crd())),
        ("config/crd/bases/tenants.yaml", json!(Tenant::crd())),
        ("config/rbac/role.yaml", manager_role),
        ("config/rbac/role_binding.yaml", binding),
    ] {
        write(&project.join(path), &manifest);
    }
    env::set_current_dir(&project).expect("the project should be there");
}

/// JSON is YAML.
fn write(path: &Path, manifest: &Value) {
    let directory = path.parent().expect("a manifest should be in a directory");
    fs::create_dir_all(directory).expect("the project should be writable");
    fs::write(path, manifest.to_string()).expect("the project should be writable");
}

fn rules() -> Vec<PolicyRule> {
    vec![
        rule::<Backup>(&["list", "watch"]),
        subresource_rule::<Backup>("status", &["patch"]),
        rule::<Tenant>(&["list", "watch"]),
        rule::<Namespace>(&["list", "watch"]),
        rule::<ConfigMap>(&["create", "list", "patch", "watch"]),
        rule::<Deployment>(&["create", "delete", "list", "patch", "watch"]),
        rule::<StatefulSet>(&["create", "list", "patch", "watch"]),
        rule::<CronJob>(&["create", "list", "patch", "watch"]),
        rule::<Probe>(&["create", "list", "patch", "watch"]),
        rule::<Secret>(&["create", "list", "patch", "watch"]),
        rule::<Service>(&["create", "list", "patch", "watch"]),
        rule::<Event>(&["create", "patch"]),
        rule::<Lease>(&["create", "get", "update"]),
        rule::<SubjectAccessReview>(&["create"]),
        rule::<TokenReview>(&["create"]),
    ]
}
