//! `opctl cluster` against the real control plane. On a new machine the first sandbox builds it.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
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

    /// The directory of the cluster with the default name.
    fn directory(&self) -> PathBuf {
        self.state().join("clusters/opctl")
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

/// A process that has nothing to do with opctl, and is killed at the end of the test.
struct Bystander(Child);

impl Bystander {
    fn new(command: &mut Command) -> Self {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.spawn().unwrap())
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
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
    the_volume_of_a_claim_is_deleted_with_it(&sandbox);
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

/// A volume is only simulated: it needs no directory, and ends with its claim.
fn the_volume_of_a_claim_is_deleted_with_it(sandbox: &Sandbox) {
    let kubectl =
        |args: &[&str]| sandbox.ok(&[&["run", "--no-start", "--", "kubectl"], args].concat());
    assert_eq!(kubectl(&["get", "pv", "-o", "jsonpath={.items[*].spec.hostPath}"]), "");
    assert_eq!(kubectl(&["get", "pv", "-o", "name"]).lines().count(), 1);
    kubectl(&["delete", "pod/pod", "pvc/claim"]);
    eventually("the end of the volume", || kubectl(&["get", "pv", "-o", "name"]).is_empty());
}

/// The controller manager runs as the user, and would delete the directories of volumes.
#[test]
fn a_volume_never_deletes_files_of_the_machine() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["start", "--nodes", "1"]);
    // The controller manager deletes whatever has `/tmp/` in its path.
    let directory = sandbox.0.path().join("home/tmp/project");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("file"), "precious").unwrap();
    let file = sandbox.0.path().join("objects.json");
    let apply = |name: &str, policy: &str| {
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": directory},
                "persistentVolumeReclaimPolicy": policy,
                "storageClassName": "",
            },
        });
        fs::write(&file, volume.to_string()).unwrap();
        sandbox.output(&["run", "--", "kubectl", "apply", "-f", file.to_str().unwrap()])
    };

    for (name, policy, is_accepted) in [("delete", "Delete", false), ("retain", "Retain", true)] {
        let output = apply(name, policy);
        if output.status.success() {
            claim_and_release(&sandbox, name);
        }
        assert!(directory.join("file").exists(), "{policy}");
        assert_eq!(output.status.success(), is_accepted, "{output:?}");
        let reason = "set persistentVolumeReclaimPolicy to Retain";
        assert_eq!(text(&output.stderr).contains(reason), !is_accepted, "{output:?}");
    }
    assert!(!apply("retain", "Delete").status.success());
}

/// Binds a claim to a volume, deletes it and waits until the controller manager has seen that.
fn claim_and_release(sandbox: &Sandbox, volume: &str) {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": volume},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": volume,
        },
    });
    let file = sandbox.0.path().join("claim.json");
    fs::write(&file, claim.to_string()).unwrap();
    let kubectl = |args: &[&str]| sandbox.output(&[&["run", "--", "kubectl"], args].concat());
    assert!(kubectl(&["create", "-f", file.to_str().unwrap()]).status.success());
    let bound = "--for=jsonpath={.status.phase}=Bound";
    let claim = format!("pvc/{volume}");
    assert!(kubectl(&["wait", bound, "--timeout=60s", &claim]).status.success());
    assert!(kubectl(&["delete", &claim]).status.success());
    let phase = || text(&kubectl(&["get", "pv", volume, "-o", "jsonpath={.status.phase}"]).stdout);
    eventually("the release of the volume", || {
        ["", "Released", "Failed"].contains(&phase().as_str())
    });
}

#[test]
fn only_the_user_has_access() {
    let sandbox = Sandbox::new();
    // Directories that existed before may be open.
    fs::create_dir_all(sandbox.directory()).unwrap();
    for directory in [sandbox.state().join("clusters"), sandbox.directory()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.ok(&["start", "--nodes", "1"]);

    let open = open_files(&sandbox.directory());
    assert_eq!(open, Vec::<PathBuf>::new());
    let umask = Command::new("sh").args(["-c", "umask"]).output().unwrap().stdout;
    assert_eq!(sandbox.ok(&["run", "--", "sh", "-c", "umask"]), text(&umask));

    // etcd accepts neither requests without TLS nor, past that, without a certificate.
    let etcd = sandbox.processes().into_iter().find(|(_, command)| command.contains("/bin/etcd "));
    let (_, command) = etcd.unwrap();
    let url = command.split_once("--listen-client-urls=").unwrap().1;
    let address = url.split_once(' ').unwrap().0.rsplit_once('/').unwrap().1;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /version HTTP/1.0\r\n\r\n").unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    assert!(!text(&response).contains("etcdserver"), "{}", text(&response));
    for argument in ["--client-cert-auth=true ", "--peer-client-cert-auth=true "] {
        assert!(command.contains(argument), "{command}");
    }
}

/// This directory and the directories and keys below it, as far as others have access to them.
fn open_files(path: &Path) -> Vec<PathBuf> {
    let metadata = path.symlink_metadata().unwrap();
    let is_secret = metadata.is_dir() || path.extension().is_some_and(|name| name == "key");
    let is_open = is_secret && metadata.permissions().mode() & 0o077 != 0;
    let mut open: Vec<PathBuf> = is_open.then(|| path.to_owned()).into_iter().collect();
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            open.extend(open_files(&entry.unwrap().path()));
        }
    }
    open
}

#[test]
fn processes_that_only_look_like_the_cluster_survive() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["start", "--nodes", "1"]);
    let config = sandbox.directory().join("kwokctl.yaml");
    let home = sandbox.directory().join("kwok/clusters/opctl");
    let etcd = home.join("bin/etcd");
    let forged = || {
        let mut command = Command::new("sleep");
        command.arg0(&etcd).arg("300");
        command
    };
    let mut commands = [Command::new("tail"), forged(), Command::new("sh"), forged()];
    commands[0].arg("-f").arg(&config);
    commands[2].args(["-c", "while :; do sleep 1; done", "kwokctl", "--config"]).arg(&config);
    // Only root can start a process of another user.
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        commands[3].uid(65_534);
    }
    let mut bystanders: Vec<Bystander> = commands.iter_mut().map(Bystander::new).collect();
    // After a restart of the machine, another process has the pid of a component.
    fs::write(home.join("pids/etcd.pid"), bystanders[0].0.id().to_string()).unwrap();

    let cat = ["run", "--", "cat", config.to_str().unwrap()];
    assert!(sandbox.ok(&cat).contains("KwokctlConfiguration"));
    sandbox.ok(&["stop"]);
    assert!(sandbox.ok(&cat).contains("KwokctlConfiguration"));
    sandbox.ok(&["start", "--nodes", "1"]);
    sandbox.ok(&["stop"]);

    for (bystander, command) in bystanders.iter_mut().zip(&commands) {
        assert!(bystander.is_alive(), "{command:?}");
    }
}

#[test]
fn commands_that_only_look_create_nothing() {
    let sandbox = Sandbox::new();
    let _ = fs::remove_dir_all(sandbox.state());
    assert_eq!(sandbox.code(&["status", "--name", "none"]), Some(1));
    assert_eq!(sandbox.code(&["logs", "etcd", "--name", "none"]), Some(1));
    sandbox.ok(&["logs", "--name", "none"]);
    sandbox.ok(&["stop", "--name", "none"]);
    assert_eq!(sandbox.code(&["run", "--no-start", "--name", "none", "--", "true"]), Some(1));
    assert!(!sandbox.state().exists());
}

#[test]
fn preferences_for_kubectl_do_not_affect_the_start() {
    let sandbox = Sandbox::new();
    let bin = sandbox.0.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let kubectl = sandbox.ok(&["run", "--", "sh", "-c", "command -v kubectl"]);
    // What a default of `--output` does to `get --raw`.
    let body = format!("[ \"$KUBERC\" = off ] || exit 1\nexec {} \"$@\"", kubectl.trim());
    script(&bin, "kubectl", &body);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = sandbox.cluster(&["start", "--nodes", "1"]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_exit_code_is_that_of_the_command_even_if_the_cluster_cannot_be_stopped() {
    let sandbox = Sandbox::new();
    let lock = sandbox.directory().join("lock");
    let command = format!("rm {0} && mkdir {0}; exit 7", lock.display());
    let output = sandbox.output(&["run", "--nodes", "1", "--", "sh", "-c", &command]);
    fs::remove_dir(&lock).unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(text(&output.stderr).contains("warning: cluster `opctl` is not stopped: cannot open"));

    // Another process has the lock: a signal ends the wait for it.
    let command = format!("flock {} sleep 300 > /dev/null 2>&1 & sleep 1; exit 5", lock.display());
    let mut run = sandbox.spawn(&["run", "--nodes", "1", "--", "sh", "-c", &command]);
    let holder = || {
        let processes = sandbox.processes();
        processes.into_iter().find(|(_, command)| command.starts_with("flock "))
    };
    eventually("the holder of the lock", || holder().is_some());
    eventually("the end of the command", || children(run.id()).is_empty());
    eventually("the end of opctl", || {
        let _ = Command::new("kill").args(["-TERM", &run.id().to_string()]).status();
        run.try_wait().unwrap().is_some()
    });
    assert_eq!(run.wait().unwrap().code(), Some(5));
    let (holder, _) = holder().unwrap();
    for child in [children_of(holder), vec![holder]].concat() {
        Command::new("kill").args(["-KILL", &child.to_string()]).status().unwrap();
    }
}

#[test]
fn a_quit_signal_stops_what_was_started() {
    let sandbox = Sandbox::new();
    let ready = sandbox.0.path().join("ready");
    let command =
        format!("trap 'exit 9' QUIT; touch {}; while :; do sleep 0.1; done", ready.display());
    let mut run = sandbox.spawn(&["run", "--nodes", "1", "--", "sh", "-c", &command]);
    eventually("the command", || ready.exists());
    send(&run, "-QUIT");
    assert_eq!(run.wait().unwrap().code(), Some(9));
    assert_eq!(sandbox.processes(), []);
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
    let command = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok();
    let commands = children_of(parent).into_iter().filter_map(command);
    commands.map(|command| command.replace('\0', " ")).collect()
}

fn children_of(parent: u32) -> Vec<u32> {
    let child = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent_of_process: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        (parent_of_process == parent).then_some(entry.file_name().to_str()?.parse().ok()?)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(child).collect()
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

    // Killed while a command runs: the cluster stays for that command, and the next one that is the last
    // stops it.
    let (ready, ended) = (sandbox.0.path().join("ready"), sandbox.0.path().join("ended"));
    let wait = format!(
        "touch {}; until test -e {}; do sleep 0.1; done; kubectl get nodes && touch {}",
        ready.display(),
        sandbox.0.path().join("released").display(),
        ended.display()
    );
    let mut run = sandbox.spawn(&["run", "--", "sh", "-c", &wait]);
    eventually("the command", || ready.exists());
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(sandbox.code(&["status"]), Some(0));
    assert_eq!(sandbox.code(&["run", "--no-start", "--", "true"]), Some(0));
    assert_eq!(sandbox.code(&["status"]), Some(0), "the cluster of the orphan was stopped");
    fs::write(sandbox.0.path().join("released"), "").unwrap();
    eventually("the end of the orphan", || ended.exists());
    eventually("the end of its shell", || !runs("until test"));
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
    let version = "[ \"$1\" = --version ] && echo kwokctl version v0.8.0 && exit";
    script(&bin, "kwokctl", &format!("{version}\necho no network; exit 3"));
    let output = bare(&sandbox).env("PATH", format!("{}:/nonexistent", bin.display())).output();
    let error = text(&output.unwrap().stderr);
    assert!(error.contains("kwokctl failed:\nno network"), "{error}");
    assert!(error.contains("hint: install Go"), "{error}");
    assert!(error.contains("with kwokctl, which can take minutes and verifies no"), "{error}");
    assert!(error.contains("kwokctl` 0.8.0"), "{error}");
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
