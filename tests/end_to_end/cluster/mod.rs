//! `opctl cluster` against the real control plane. On a new machine the first sandbox builds it.

mod build;
mod harm;
mod keep;
mod pods;
mod sandbox;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::operator::docs::commands;
use crate::operator::machine::path;
use harm::reachable_from_outside;
use sandbox::{OPCTL, Sandbox, children, eventually, send, text};

#[test]
fn a_cluster_starts_works_and_stops() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.code(&["status"]), Some(1));

    let kubeconfig = sandbox.ok(&["start"]);
    assert!(Path::new(kubeconfig.trim()).is_file());
    let status: Value = serde_json::from_str(&sandbox.ok(&["status", "-o", "json"])).unwrap();
    assert_eq!(status["running"], json!(true));
    assert_eq!(status["kubeconfig"], json!(kubeconfig.trim()));
    assert!(sandbox.ok(&["status"]).contains("no container runs"));

    let before = sandbox.processes();
    assert_eq!(before.len(), 5, "{before:?}");
    for (pid, command) in &before {
        assert_eq!(reachable_from_outside(*pid), Vec::<String>::new(), "{command}");
    }
    assert_eq!(sandbox.ok(&["start"]), kubeconfig);
    assert_eq!(sandbox.processes(), before, "a second start does nothing");

    claims_bind_and_pods_run(&sandbox);
    the_volume_of_a_claim_is_deleted_with_it(&sandbox);
    each_request_is_one_line_of_the_audit_log(&sandbox);
    assert_eq!(sandbox.processes(), before, "a command on a running cluster does not stop it");

    sandbox.ok(&["stop"]);
    assert_eq!(sandbox.processes(), []);
    assert!(!Path::new(kubeconfig.trim()).exists());
    sandbox.ok(&["stop"]);
}

fn claims_bind_and_pods_run(sandbox: &Sandbox) {
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"},
            "spec": {
                "containers": [{"name": "main", "image": "example.com/none"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}],
            },
        },
    ]});
    let file = sandbox.0.path().join("objects.json");
    fs::write(&file, objects.to_string()).unwrap();
    sandbox.ok(&["run", "--no-start", "--", "kubectl", "create", "-f", file.to_str().unwrap()]);
    for (object, phase) in [("pvc/claim", "Bound"), ("pod/pod", "Running")] {
        let wait = format!("--for=jsonpath={{.status.phase}}={phase}");
        sandbox.ok(&["run", "--", "kubectl", "wait", &wait, "--timeout=60s", object]);
    }
}

/// A volume is only simulated: it needs no directory, and ends with its claim.
fn the_volume_of_a_claim_is_deleted_with_it(sandbox: &Sandbox) {
    let kubectl =
        |args: &[&str]| sandbox.ok(&[&["run", "--no-start", "--", "kubectl"], args].concat());
    assert_eq!(kubectl(&["get", "pv", "-o", "jsonpath={.items[*].spec.hostPath}"]), "");
    assert_eq!(kubectl(&["get", "pv", "-o", "name"]).lines().count(), 1);
    kubectl(&["delete", "pod/pod", "pvc/claim"]);
    eventually("the end of the volume", || kubectl(&["get", "pv", "-o", "name"]).is_empty());
}

fn each_request_is_one_line_of_the_audit_log(sandbox: &Sandbox) {
    let log = sandbox.ok(&["logs", "audit"]);
    let created: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["verb"] == "create" && event["objectRef"]["name"] == "claim")
        .collect();
    assert_eq!(created.len(), 1, "{created:?}");
    assert!(created[0]["userAgent"].as_str().unwrap().starts_with("kubectl/"));
    assert!(sandbox.ok(&["logs", "apiserver"]).lines().count() > 10);
    assert_eq!(sandbox.ok(&["logs"]).lines().count(), 6);
}

#[test]
fn run_passes_codes_and_signals_on_and_stops_what_it_started() {
    let sandbox = Sandbox::new();
    let name = ["--name", "test"];
    let no_start = sandbox.output(&["run", name[0], name[1], "--no-start", "--", "true"]);
    assert_eq!(no_start.status.code(), Some(1));
    assert!(text(&no_start.stderr).contains("hint: run `opctl cluster start --name test`"));

    // The command says that it is there and how it was ended; a second one finds it running.
    let ready = sandbox.0.path().join("ready");
    let shell = format!(
        "trap 'kill $!; exit 9' TERM; echo $OPCTL_CLUSTER $KUBECONFIG > {0}.new; mv {0}.new {0}; \
         sleep 300 & wait",
        ready.display()
    );
    let mut first = sandbox.spawn(&["run", name[0], name[1], "--", "sh", "-c", &shell]);
    eventually("the command", || ready.exists());
    let output = fs::read_to_string(&ready).unwrap();
    let (cluster, kubeconfig) = output.trim().split_once(' ').unwrap();
    assert_eq!(cluster, "test");
    assert!(Path::new(kubeconfig).is_file());

    let code =
        |command: &[&str]| sandbox.code(&[&["run", name[0], name[1], "--"], command].concat());
    assert_eq!(code(&["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["sh", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(code(&["/nonexistent"]), Some(127));
    assert_eq!(code(&["/etc/passwd"]), Some(126));

    // The one that started it ends first: the cluster stays for the other, who then stops it.
    let released = sandbox.0.path().join("released");
    let wait =
        format!("until test -e {}; do sleep 0.1; done; kubectl get nodes", released.display());
    let mut second = sandbox.spawn(&["run", name[0], name[1], "--", "sh", "-c", &wait]);
    eventually("the second command", || {
        children(second.id()).iter().any(|command| command.starts_with("sh -c until"))
    });
    send(&first, "-TERM");
    assert_eq!(first.wait().unwrap().code(), Some(9));
    assert_eq!(sandbox.code(&["status", name[0], name[1]]), Some(0));
    fs::write(&released, "").unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(0));
    assert_eq!(sandbox.processes(), []);
}

#[test]
fn the_commands_of_the_documentation_work() {
    let sandbox = Sandbox::new();
    let script = commands("docs/cluster.md").join("\n");
    let mut shell = Command::new("bash");
    shell.args(["-ec", &script]).env("PATH", path());
    shell.env("OPCTL_STATE_DIR", sandbox.state());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let stdout = text(&output.stdout);
    assert!(stdout.contains("opctl  stopped "), "{stdout}");
    assert_eq!(sandbox.ok(&["list"]), "");
}

#[test]
fn two_clusters_run_at_once() {
    let sandbox = Sandbox::new();
    let mut other = sandbox.spawn(&["start", "--name", "other", "--nodes", "1"]);
    sandbox.ok(&["start", "--nodes", "2"]);
    assert!(other.wait().unwrap().success());

    let nodes = |name: &str| {
        sandbox.ok(&["run", "--name", name, "--", "kubectl", "get", "nodes", "-o", "name"])
    };
    assert_eq!(nodes("opctl").lines().count(), 2);
    assert_eq!(nodes("other").lines().count(), 1);
    sandbox.ok(&["stop"]);
    assert_eq!(nodes("other").lines().count(), 1);
}

#[test]
fn the_cluster_of_the_current_context_is_preferred() {
    let sandbox = Sandbox::new();
    let own = sandbox.ok(&["start", "--name", "own", "--nodes", "1"]);
    let script = "kubectl get nodes -o name | wc -l; echo $OPCTL_NAMESPACE:$OPCTL_CLUSTER";
    let run = ["run", "--prefer-current-context", "--nodes", "2", "--", "sh", "-ec", script];

    // The user's own cluster, though the local one would have started.
    let output = sandbox.cluster(&run).env("KUBECONFIG", own.trim()).output().unwrap();
    assert_eq!(text(&output.stdout), "1\ndefault:\n", "{output:?}");
    let status: Value =
        serde_json::from_str(&sandbox.ok(&["status", "--name", "own", "-o", "json"])).unwrap();
    let server = status["server"].as_str().unwrap();
    assert!(text(&output.stderr).starts_with(&format!("cluster: {server} (context ")));
    assert_eq!(sandbox.code(&["status"]), Some(1), "the local cluster was started");

    // Without a current context, the local one; a command on it that prefers its context stays there.
    let nested = [&["run", "--prefer-current-context", "--", OPCTL, "cluster"], &run[..]].concat();
    let output = sandbox.cluster(&nested).output().unwrap();
    assert!(text(&output.stderr).starts_with("cluster: local cluster `opctl` ("), "{output:?}");
    assert_eq!(text(&output.stdout), "20\ndefault:opctl\n", "{output:?}");
    assert_eq!(sandbox.code(&["status"]), Some(1), "the local cluster is still running");
}
