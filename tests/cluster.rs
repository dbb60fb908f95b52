//! `opctl cluster` against the real control plane. On a new machine the first sandbox builds it.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

const OPCTL: &str = env!("CARGO_BIN_EXE_opctl");

/// A state directory of its own, whose clusters are stopped at the end of the test.
struct Sandbox(TempDir);

impl Sandbox {
    fn new() -> Self {
        // On a new machine this takes minutes, for which no test that waits is patient enough.
        static CONTROL_PLANE_IS_BUILT: Once = Once::new();
        let sandbox = Self(tempfile::tempdir().unwrap());
        CONTROL_PLANE_IS_BUILT.call_once(|| drop(sandbox.ok(&["run", "--", "true"])));
        sandbox
    }

    /// `opctl cluster`. The kubeconfig of the user is one that must never appear.
    fn cluster(&self, args: &[&str]) -> Command {
        let mut command = Command::new(OPCTL);
        command.arg("cluster").args(args).stdin(Stdio::null());
        command.env("OPCTL_STATE_DIR", self.state()).env("KUBECONFIG", self.users_kubeconfig());
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.cluster(args).output().unwrap()
    }

    /// The stdout of a command that must succeed.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn code(&self, args: &[&str]) -> Option<i32> {
        self.output(args).status.code()
    }

    fn spawn(&self, args: &[&str]) -> Child {
        self.cluster(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn state(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("state")
    }

    fn users_kubeconfig(&self) -> PathBuf {
        self.0.path().join("users-kubeconfig")
    }

    /// The processes whose command line contains the state directory.
    fn processes(&self) -> Vec<(u32, String)> {
        let state = self.state().display().to_string();
        let process = |entry: fs::DirEntry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            line.contains(&state).then_some((pid, line.replace('\0', " ")))
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(process).collect()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.state().join("clusters")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if entry.path().is_dir() {
                self.ok(&["stop", "--name", name.to_str().unwrap()]);
            }
        }
        if !std::thread::panicking() {
            // A kubectl that a killed kwokctl had called ends by itself.
            eventually("the end of every process", || self.processes().is_empty());
            assert!(!self.users_kubeconfig().exists(), "the user's kubeconfig was touched");
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come about");
        sleep(Duration::from_millis(50));
    }
}

fn send(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

fn script(directory: &Path, name: &str, body: &str) {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The listening sockets of a process that others than this machine could reach.
fn reachable_from_outside(pid: u32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let sockets: Vec<String> =
        links.filter_map(|fd| Some(fs::read_link(fd.path()).ok()?.display().to_string())).collect();
    let loopback =
        ["0100007F:", "00000000000000000000000001000000:", "0000000000000000FFFF00000100007F:"];
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (local, listens, inode) = (fields[1], fields[3] == "0A", fields[9]);
            if listens && sockets.contains(&format!("socket:[{inode}]")) {
                found.push(local.to_owned());
            }
        }
    }
    found.retain(|local| !loopback.iter().any(|address| local.starts_with(address)));
    found
}

#[test]
fn a_cluster_starts_works_heals_and_stops() {
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
    each_request_is_one_line_of_the_audit_log(&sandbox);
    assert_eq!(sandbox.processes(), before, "a command on a running cluster does not stop it");

    let scheduler = before.iter().find(|(_, command)| command.contains("/bin/kube-scheduler"));
    let pid = scheduler.unwrap().0.to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    eventually("the end of the scheduler", || sandbox.processes().len() == 4);
    let broken = sandbox.output(&["status"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(text(&broken.stdout).contains("kube-scheduler"), "{}", text(&broken.stdout));
    let healed = sandbox.output(&["start"]);
    assert!(healed.status.success() && text(&healed.stderr).contains("Clearing"));
    assert_eq!(sandbox.code(&["status"]), Some(0));

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

/// The command lines of a process's children.
fn children(parent: u32) -> Vec<String> {
    let command = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent_of_process: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        (parent_of_process == parent).then_some(line.replace('\0', " "))
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(command).collect()
}

#[test]
fn what_a_killed_opctl_left_is_cleared() {
    let sandbox = Sandbox::new();
    let runs =
        |program: &str| sandbox.processes().iter().any(|(_, command)| command.contains(program));

    // Killed while kwokctl creates the cluster: it goes on alone.
    let mut start = sandbox.spawn(&["start"]);
    eventually("the API server", || runs("/bin/kube-apiserver --etcd"));
    start.kill().unwrap();
    start.wait().unwrap();
    assert_eq!(sandbox.code(&["status"]), Some(1));
    sandbox.ok(&["stop"]);
    assert!(!runs("/kwok/clusters/opctl/bin/") && !runs("kwokctl create"));

    // Interrupted during a start: nothing is left.
    let mut start = sandbox.spawn(&["start"]);
    eventually("etcd", || runs("/bin/etcd --name"));
    send(&start, "-INT");
    assert_eq!(start.wait().unwrap().code(), Some(130));
    assert!(!runs("/kwok/clusters/opctl/bin/") && !runs("kwokctl create"));

    // Killed while a command runs: the next command is the last one, and stops the cluster.
    let ready = sandbox.0.path().join("ready");
    let touch = format!("touch {}; sleep 2", ready.display());
    let mut run = sandbox.spawn(&["run", "--", "sh", "-c", &touch]);
    eventually("the command", || ready.exists());
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(sandbox.code(&["status"]), Some(0));
    assert_eq!(sandbox.code(&["run", "--no-start", "--", "true"]), Some(0));
    assert_eq!(sandbox.processes(), []);
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

#[test]
fn without_go_and_kwokctl_the_ways_are_listed() {
    let sandbox = Sandbox::new();
    let output = bare(&sandbox).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    for word in ["kube-apiserver", "etcd", "kwok", "install Go 1.26", "OPCTL_CLUSTER_ASSETS"] {
        assert!(error.contains(word), "{word}: {error}");
    }
}

#[test]
fn without_go_kwokctl_fetches_the_rest() {
    let sandbox = Sandbox::new();
    let bin = sandbox.0.path().join("bin");
    fs::create_dir(&bin).unwrap();
    script(&bin, "kwokctl", "echo no network; exit 3");
    let output = bare(&sandbox).env("PATH", format!("{}:/nonexistent", bin.display())).output();
    let error = text(&output.unwrap().stderr);
    assert!(error.contains("kwokctl failed:\nno network"), "{error}");
    assert!(error.contains("hint: install Go"), "{error}");
    let config = sandbox.state().join("clusters/opctl/kwokctl.yaml");
    assert!(!fs::read_to_string(config).unwrap().contains("etcdBinary"));
}

#[test]
fn two_calls_build_once_and_a_failed_build_leaves_nothing() {
    let sandbox = Sandbox::new();
    let bin = sandbox.0.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let calls = sandbox.0.path().join("calls");
    // What it builds cannot start a cluster; here it counts how often each program is built.
    let go = |end: &str| {
        let body = format!(
            "[ \"$1\" = build ] || exit 0\nwhile [ \"$1\" != -o ]; do shift; done\n\
             echo $3 >> {}\necho '#!/bin/sh' > $2\n\
             echo 'echo etcd Version: 3.6.16; [ $1 = --version ]' >> $2\n\
             chmod +x $2; {end}",
            calls.display()
        );
        script(&bin, "go", &body);
    };
    let start = |name: &str| {
        let mut command = bare(&sandbox);
        command.args(["--name", name]).env("PATH", format!("{}:/bin:/usr/bin", bin.display()));
        command
    };
    let built = || {
        let directories = fs::read_dir(sandbox.0.path().join("cache/cluster")).unwrap();
        let bin = directories.flatten().next().unwrap().path().join("bin");
        let files = fs::read_dir(bin).unwrap().flatten();
        files.filter_map(|file| file.file_name().into_string().ok()).collect::<Vec<_>>()
    };

    go("echo does not compile; exit 1");
    let failed = text(&start("a").output().unwrap().stderr);
    assert!(failed.contains("building kube-apiserver failed:\ndoes not compile"), "{failed}");
    assert_eq!(built(), Vec::<String>::new());

    // A build goes on when opctl is killed; the next one ends it and removes its half a program.
    go("sleep 300");
    let mut killed = start("a").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("half a program", || built().iter().any(|file| file.starts_with('.')));
    killed.kill().unwrap();
    killed.wait().unwrap();

    go("sleep 0.2");
    fs::remove_file(&calls).unwrap();
    let spawn = |name| start(name).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for mut child in ["a", "b"].map(spawn) {
        child.wait().unwrap();
    }
    let mut calls: Vec<String> =
        fs::read_to_string(&calls).unwrap().lines().map(str::to_owned).collect();
    calls.sort();
    let count = calls.len();
    calls.dedup();
    assert_eq!(calls.len(), count, "{calls:?}");
    assert!(count >= 6, "{calls:?}");
    assert!(built().iter().all(|file| !file.starts_with('.')), "{:?}", built());
}

/// A start on a machine that has nothing.
fn bare(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.cluster(&["start"]);
    command.env("PATH", "/nonexistent").env_remove("OPCTL_CLUSTER_ASSETS");
    command.env("OPCTL_CACHE_DIR", sandbox.0.path().join("cache"));
    command
}
