//! What a cluster must not do to the machine, its users and their commands.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::sandbox::{Bystander, Sandbox, children, children_of, eventually, script, send, text};

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

/// A program that used an earlier cluster may be waiting for its kubeconfig.
#[test]
fn the_kubeconfig_exists_only_when_the_policy_is_in_force() {
    let sandbox = Sandbox::new();
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "early"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/nonexistent"},
            "persistentVolumeReclaimPolicy": "Delete",
        },
    });
    let file = sandbox.0.path().join("volume.json");
    fs::write(&file, volume.to_string()).unwrap();

    let mut start = sandbox.spawn(&["start", "--nodes", "1"]);
    let kubeconfig = sandbox.directory().join("kubeconfig");
    eventually("the kubeconfig", || kubeconfig.exists());
    let mut create = Command::new(sandbox.kubectl_program());
    create.args(["create", "--validate=false", "-f"]).arg(file).env("KUBECONFIG", kubeconfig);
    let output = create.output().unwrap();
    assert!(start.wait().unwrap().success());
    let message = text(&output.stderr);
    assert!(message.contains("set persistentVolumeReclaimPolicy to Retain"), "{message}");
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
    let config = sandbox.directory().join("kwok.yaml");
    let etcd = sandbox.directory().join("bin/etcd");
    let forged = || {
        let mut command = Command::new("sleep");
        command.arg0(&etcd).arg("300");
        command
    };
    let mut commands = [Command::new("tail"), forged(), Command::new("sh"), forged()];
    commands[0].arg("-f").arg(&config);
    let argument = format!("--config={}", config.display());
    commands[2].args(["-c", "while :; do sleep 1; done"]).arg(&etcd).arg(argument);
    // Only root can start a process of another user.
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        commands[3].uid(65_534);
    }
    let mut bystanders: Vec<Bystander> = commands.iter_mut().map(Bystander::new).collect();

    let cat = ["run", "--", "cat", config.to_str().unwrap()];
    assert!(sandbox.ok(&cat).contains("kind: Stage"));
    sandbox.ok(&["stop"]);
    assert!(sandbox.ok(&cat).contains("kind: Stage"));
    sandbox.ok(&["start", "--nodes", "1"]);
    // The processes of a cluster are found without its directory.
    fs::rename(sandbox.state(), sandbox.0.path().join("removed")).unwrap();
    let is_component = |(_, command): &(u32, String)| command.contains("/components.kubeconfig");
    assert_eq!(sandbox.processes().iter().filter(|process| is_component(process)).count(), 3);
    sandbox.ok(&["stop"]);
    assert_eq!(sandbox.processes().iter().filter(|process| is_component(process)).count(), 0);

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
    // What a default of `--output` does to `get --raw`.
    let body =
        format!("[ \"$KUBERC\" = off ] || exit 1\nexec {} \"$@\"", sandbox.kubectl_program());
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
    eventually("the end of the command", || {
        !children(run.id()).iter().any(|command| command.starts_with("sh "))
    });
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

#[test]
fn what_a_killed_opctl_left_is_cleared() {
    let sandbox = Sandbox::new();
    let runs =
        |program: &str| sandbox.processes().iter().any(|(_, command)| command.contains(program));

    // Killed during a start: what runs by then goes on alone.
    let mut start = sandbox.spawn(&["start"]);
    eventually("the API server", || runs("/bin/kube-apiserver --etcd"));
    start.kill().unwrap();
    start.wait().unwrap();
    assert_eq!(sandbox.code(&["status"]), Some(1));
    sandbox.ok(&["stop"]);
    assert!(!runs("/clusters/opctl/bin/"));

    // Interrupted during a start: nothing is left.
    let mut start = sandbox.spawn(&["start"]);
    eventually("etcd", || runs("/bin/etcd --name"));
    send(&start, "-INT");
    assert_eq!(start.wait().unwrap().code(), Some(130));
    assert!(!runs("/clusters/opctl/bin/"));
    assert!(!sandbox.directory().exists());

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

/// The listening sockets of a process that others than this machine could reach.
pub fn reachable_from_outside(pid: u32) -> Vec<String> {
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
