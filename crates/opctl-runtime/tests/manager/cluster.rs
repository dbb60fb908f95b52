//! The control plane, and a project that has the permissions of all operators of these tests.

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::LazyLock;
use std::{env, fs};

use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::CustomResourceExt;
use opctl_runtime::rbac::{rule, subresource_rule};
use opctl_runtime::testing::{Operator, Process};
use opctl_runtime::{Identity, Manager};
use serde_json::{Value, json};

use crate::api::{Backup, Tenant};

/// What it is called in field managers and events.
const IDENTITY: Identity = Identity::new("runtime-tests", "1.0.0");

/// The directory of these tests' files.
const DIRECTORY: &str = env!("CARGO_TARGET_TMPDIR");

/// Starts controllers in a namespace of their own.
pub async fn operator(start: impl FnOnce(&Manager)) -> Operator {
    static PROJECT: LazyLock<()> = LazyLock::new(write_project);
    if env::var_os("OPCTL_CLUSTER").is_none() {
        run_on_a_cluster();
    }
    LazyLock::force(&PROJECT);
    Operator::start(IDENTITY, start).await
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

/// Runs these tests once more, on a control plane that ends with them, and exits with their result.
fn run_on_a_cluster() -> ! {
    static RUN: LazyLock<i32> = LazyLock::new(|| {
        let opctl = target().join("opctl");
        if !opctl.is_file() {
            eprintln!(
                "these tests need a cluster of their own, and {} is not there to start it: run them \
                 with `opctl cluster run -- cargo test`",
                opctl.display()
            );
            return 1;
        }
        let mut command = Command::new(opctl);
        command.args(["cluster", "run", "--name", "runtime", "--"]);
        command.arg(executable()).args(env::args_os().skip(1));
        // The user's own clusters are elsewhere.
        command.env("OPCTL_STATE_DIR", Path::new(DIRECTORY).join("state"));
        command.env_remove("KUBECONFIG");
        let status = command.status().expect("opctl should run");
        status.code().unwrap_or(1)
    });
    process::exit(*RUN)
}

/// The directory of what cargo has built, such as target/debug.
fn target() -> PathBuf {
    let executable = executable();
    let target = executable.ancestors().nth(2);
    target.expect("cargo should have built the test").to_owned()
}

/// These tests.
pub fn executable() -> PathBuf {
    env::current_exe().expect("the path of the test should be known")
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
        rule::<Event>(&["create", "patch"]),
        rule::<Lease>(&["create", "get", "update"]),
        rule::<SubjectAccessReview>(&["create"]),
        rule::<TokenReview>(&["create"]),
    ]
}
