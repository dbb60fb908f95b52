//! What a generated project is before anyone has touched it: formatted, without a warning, tested,
//! and accepted by the API server.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::operator::cluster::Cluster;
use crate::operator::docs;
use crate::operator::machine::{Machine, processes};
use crate::operator::memcached::settled;
use crate::operator::project::Project;
use crate::operator::recipes::{flags, recipes};
use crate::operator::wait::timed;

const MEMCACHED: &str = "--group cache --version v1alpha1 --kind Memcached";

/// Kinds that are words of Rust, of its prelude, of Kubernetes or of the generated code itself.
const HOSTILE: [&str; 20] = [
    "Action",
    "Applier",
    "Async",
    "Box",
    "Cache",
    "Clone",
    "Context",
    "Controller",
    "Crate",
    "Deployment",
    "Error",
    "Index",
    "Manager",
    "Mod",
    "Options",
    "Result",
    "Status",
    "Store",
    "Type",
    "URLMap",
];

/// What the hostile kinds don't have: scopes, versions, groups that are no identifiers, recipes.
const OTHERS: [&str; 19] = [
    "--group cache --version v1 --kind Memcached",
    "--group cache --version v1alpha1 --kind Memcached",
    "--group async --version v10 --kind Y",
    "--group async --version v2 --kind Series",
    "--group a.b --version v1beta1 --kind A",
    "--group a-b --version v1beta1 --kind A",
    "--group batch --version v1 --kind CronJob",
    "--group batch --version v1 --kind Job --resource=false",
    "--group my-group --version v1 --kind Widget --namespaced=false",
    "--group ops --version v1 --kind Pod --recipe memcached",
    "--group ops --version v1 --kind Some --recipe memcached",
    "--group ops --version v1 --kind Service --recipe webserver",
    "--group ops --version v1 --kind EmptyDirVolumeSource --recipe webserver",
    "--group proxy --version v2beta10 --kind Proxy --recipe webserver",
    "--group ops --version v1 --kind Probe --image nginx --image-container-port 80",
    "--group ops --version v1 --kind Container --image nginx@sha256:0000000000000000000000000000000000000000000000000000000000000000 --image-container-command sh,-c,\"'{}<$\\ --run-as-user 1",
    "--group ops --version v1 --kind Cluster --recipe postgres",
    "--group ops --version v1 --kind Secret --recipe postgres",
    "--group ops --version v1 --kind True --controller=false",
];

/// What a kind is called matters to the compiler and to the API server, and not when it runs.
#[test]
fn a_project_of_hostile_names_compiles() {
    let machine = Machine::new();
    let project = Project::init(&machine, "hostile-operator", &[]);
    for args in OTHERS {
        project.api(args);
    }
    for kind in HOSTILE {
        project.api(&format!("--group ops --version v1 --kind {kind}"));
    }
    for (recipe, letter) in recipes().iter().zip('b'..) {
        project.api(&format!("--group {letter} --version v1 --kind B {}", flags(recipe)));
    }
    let before = project.snapshot();
    for target in ["lint", "manifests"] {
        timed(&format!("make {target} in {}", project.name()), || project.make(target));
        project.assert_unchanged(&before, &format!("make {target}"));
    }
    takes_samples(&Cluster::start(&machine, "names"), &project);
}

#[test]
fn a_project_of_long_names_is_clean() {
    let machine = Machine::new();
    let project = Project::init(&machine, "the-longest-of-project-names", &[]);
    for (recipe, letter) in recipes().iter().zip('a'..) {
        let (group, kind) = ("g".repeat(63), format!("K{}", letter.to_string().repeat(58)));
        let longest = format!("--group {group} --version v65535alpha65535 --kind {kind}");
        project.api(&format!("{longest} {}", flags(recipe)));
    }
    let cluster = is_clean(&machine, &project);
    takes_samples(&cluster, &project);
}

#[test]
fn a_namespaced_project_needs_no_cluster_role() {
    let machine = Machine::new();
    let project = Project::init(&machine, "namespaced-operator", &["--namespaced"]);
    project.api(MEMCACHED);
    let cluster = is_clean(&machine, &project);
    takes_samples(&cluster, &project);
    let role = project.read("config/rbac/role.yaml");
    assert!(role.contains("kind: Role\n"), "{role}");

    let operator = project.run();
    project.make("sample");
    settled(&Cluster::running(&machine, "opctl"), "memcached-sample", 3);
    drop(operator);
}

#[test]
fn a_project_without_an_api_runs() {
    let machine = Machine::new();
    let project = Project::init(&machine, "empty-operator", &[]);
    is_clean(&machine, &project);

    let mut operator = project.run();
    let manager = PathBuf::from(project.path("target/debug/manager"));
    let runs = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|it| it == manager);
    let (pid, _) = processes().into_iter().find(|(pid, _)| runs(*pid)).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    assert_eq!(operator.wait().code(), Some(0), "make passes on how the operator ends");
    assert!(operator.log().contains("stopping on SIGTERM"));
    assert_eq!(machine.status("opctl")["running"], json!(false), "its cluster goes with it");
}

#[test]
fn the_audit_tells_what_is_permitted_but_never_used_and_what_is_refused() {
    let machine = Machine::new();
    let project = Project::init(&machine, "audited-operator", &[]);
    project.api(MEMCACHED);
    // Started here, its audit log stays for the rest.
    let cluster = Cluster::start(&machine, "rbac-audit-here");
    let [make] = docs::commands("docs/least-privilege.md").try_into().unwrap();
    let target = make.strip_prefix("make ").unwrap();
    let printed = timed(&make, || project.make(target));
    assert!(printed.contains("the operator is permitted exactly what it uses"), "{printed}");

    project.replace(
        "config/rbac/role.yaml",
        "  - pods\n  verbs:\n",
        "  - pods\n  verbs:\n  - delete\n",
    );
    let mut audit = project.command(env!("CARGO_BIN_EXE_opctl"));
    audit.arg("audit").env("OPCTL_AUDIT_LOG", &cluster.audit_log);
    let output = audit.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && printed.contains("UNUSED   delete pods (core)"),
        "{printed}"
    );

    // A request of the service account's that no role permits.
    cluster.ok(&["create", "serviceaccount", "controller-manager"]);
    let token = cluster.kubectl(&["create", "token", "controller-manager"]).stdout;
    let server = machine.status("rbac-audit-here")["server"].as_str().unwrap().to_owned();
    let mut kubectl = machine.command("kubectl");
    kubectl.args(["--insecure-skip-tls-verify", "--server", &server, "--token"]);
    kubectl.arg(String::from_utf8(token).unwrap().trim()).args(["get", "secrets"]);
    assert!(!kubectl.output().unwrap().status.success());
    let printed = String::from_utf8(audit.output().unwrap().stdout).unwrap();
    assert!(printed.contains("REFUSED  list secrets (core)"), "{printed}");
}

/// Checks all that a project promises before it runs; none of it may change a file. Returns the
/// cluster on which this was done.
pub fn is_clean(machine: &Machine, project: &Project) -> Cluster {
    // The one on which `make test` runs. Started here, it stays for the rest.
    let cluster = Cluster::start(machine, "test");
    let before = project.snapshot();
    for target in ["lint", "manifests", "test", "test-e2e"] {
        timed(&format!("make {target} in {}", project.name()), || project.make(target));
        project.assert_unchanged(&before, &format!("make {target}"));
    }
    // A dry run cannot see a namespace that it would only make.
    cluster.ok(&["create", "namespace", &format!("{}-system", project.name())]);
    accepts(&cluster, project, "config/default");
    cluster
}

fn takes_samples(cluster: &Cluster, project: &Project) {
    project.make_on(cluster, "install");
    accepts(cluster, project, "config/samples");
}

/// The API server would take the manifests, and has nothing to say about them.
pub fn accepts(cluster: &Cluster, project: &Project, folder: &str) {
    let path = project.path(folder);
    let output = cluster.kubectl(&["apply", "--server-side", "--dry-run=server", "-k", &path]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{folder}: {errors}");
}
