//! What a cluster must never lose, and what it must not leave behind.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::json;

use super::sandbox::{Kubectl, OPCTL, Sandbox, eventually, text};

const COMPONENTS: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];

/// Each component is killed under writes, and started again. The others stay.
#[test]
fn nothing_that_was_acknowledged_is_lost_when_a_component_dies() {
    let sandbox = Sandbox::new();
    let kubeconfig = sandbox.ok(&["start", "--nodes", "1"]);
    let kubectl = sandbox.kubectl("opctl");
    let server = sandbox.status("opctl")["server"].clone();
    let writer = Writer::start(sandbox.kubectl("opctl"));
    for component in COMPONENTS {
        let so_far = writer.count();
        eventually("some writes", || writer.count() >= so_far + 5);
        let before = components(&sandbox);
        kill(&sandbox, component);
        let status = sandbox.status("opctl");
        assert_eq!(status["state"], "broken", "{status}");
        assert_eq!(status["reason"], json!(format!("missing processes: {component}")));

        let output = sandbox.output(&["start"]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stdout), kubeconfig);
        assert_eq!(sandbox.status("opctl")["server"], server, "{output:?}");
        let after = components(&sandbox);
        for (old, new) in before.iter().zip(&after) {
            assert_eq!(old == new, old.0 != component, "{component}: {before:?} {after:?}");
        }
    }
    let acknowledged = writer.acknowledged();

    let kept = kubectl.ok(&["get", "configmaps", "-o", "name"]);
    let is_lost = |name: &&String| !kept.lines().any(|line| line == format!("configmap/{name}"));
    assert_eq!(acknowledged.iter().filter(is_lost).collect::<Vec<_>>(), [""; 0]);
    assert!(acknowledged.len() > 20, "{acknowledged:?}");
    // It works as before: the deployment controller, the scheduler and kwok have to do their part.
    kubectl.ok(&["create", "deployment", "web", "--image=example.com/none"]);
    kubectl.ok(&["wait", "--for=condition=Available", "--timeout=60s", "deployment/web"]);
}

/// A client that creates ConfigMaps until it is asked for those that were acknowledged.
struct Writer {
    is_over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<String>>,
}

impl Writer {
    fn start(kubectl: Kubectl) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let count = Arc::<AtomicUsize>::default();
        let (stop, written) = (Arc::clone(&is_over), Arc::clone(&count));
        let thread = thread::spawn(move || {
            let names = (0..).map(|number| format!("written-{number}"));
            let names = names.take_while(|_| !stop.load(Ordering::Relaxed));
            let create = |name: &String| kubectl.output(&["create", "configmap", name]);
            let acknowledged = names.filter(|name| create(name).status.success());
            acknowledged.inspect(|_| _ = written.fetch_add(1, Ordering::Relaxed)).collect()
        });
        Self { is_over, count, thread }
    }

    /// How many were acknowledged so far.
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn acknowledged(self) -> Vec<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The names and process numbers of the components, by name.
fn components(sandbox: &Sandbox) -> Vec<(&'static str, u32)> {
    let processes = sandbox.processes();
    let pid = |component: &str| {
        let program = format!("/bin/{component} ");
        processes.iter().find(|(_, command)| command.contains(&program)).map(|(pid, _)| *pid)
    };
    COMPONENTS.into_iter().filter_map(|component| Some((component, pid(component)?))).collect()
}

fn kill(sandbox: &Sandbox, component: &str) {
    let components = components(sandbox);
    let (_, pid) = components.iter().find(|(name, _)| *name == component).unwrap();
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    eventually("the end of the process", || self::components(sandbox).len() < components.len());
}

#[test]
fn a_stopped_cluster_has_its_data_until_it_is_deleted() {
    let sandbox = Sandbox::new();
    let kubeconfig = sandbox.ok(&["start", "--nodes", "2"]);
    let server = sandbox.status("opctl")["server"].clone();
    let get = ["--", "kubectl", "get", "configmap", "kept", "-o", "name"];
    sandbox.kubectl("opctl").ok(&["create", "configmap", "kept"]);

    let stopped = sandbox.output(&["stop"]);
    assert!(text(&stopped.stderr).contains("keeps its data, until `opctl cluster delete"));
    assert_eq!(sandbox.processes(), []);
    assert!(!fs::exists(kubeconfig.trim()).unwrap(), "the kubeconfig of a stopped cluster");
    let status = sandbox.status("opctl");
    assert_eq!(status["state"], "stopped", "{status}");
    assert_eq!(sandbox.code(&[&["run", "--no-start"], &get[..]].concat()), Some(1));
    assert!(sandbox.ok(&["list"]).starts_with("opctl  stopped "), "{}", sandbox.ok(&["list"]));

    // A command starts it, and stops it again.
    assert_eq!(sandbox.ok(&[&["run"], &get[..]].concat()), "configmap/kept\n");
    assert_eq!(sandbox.processes(), []);
    assert_eq!(sandbox.status("opctl")["state"], "stopped");

    // It has its port, but not if that belongs to another program by now.
    assert_eq!(sandbox.ok(&["start"]), kubeconfig);
    assert_eq!(sandbox.status("opctl")["server"], server);
    sandbox.ok(&["stop"]);
    let address = server.as_str().unwrap().trim_start_matches("https://");
    let other = std::net::TcpListener::bind(address).unwrap();
    sandbox.ok(&["start"]);
    assert_ne!(sandbox.status("opctl")["server"], server);
    drop(other);
    assert_eq!(sandbox.ok(&[&["run"], &get[..]].concat()), "configmap/kept\n");
    assert_eq!(sandbox.status("opctl")["state"], "running", "a command does not stop it");
    let nodes = ["run", "--", "kubectl", "get", "nodes", "-o", "name"];
    assert_eq!(sandbox.ok(&nodes).lines().count(), 2);

    // Without its record, the data could be those of a failed start.
    let record = sandbox.directory().join("cluster.json");
    let text_of_record = fs::read_to_string(&record).unwrap();
    sandbox.ok(&["stop"]);
    fs::write(&record, "{}").unwrap();
    let refused = sandbox.output(&["start"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("run `opctl cluster delete --name opctl` if you do not")
    );
    let listed = sandbox.output(&["list"]);
    assert!(listed.status.success() && text(&listed.stderr).starts_with("warning: cannot read"));
    fs::write(&record, text_of_record).unwrap();
    assert_eq!(sandbox.status("opctl")["state"], "stopped");

    sandbox.ok(&["delete"]);
    assert!(!sandbox.directory().exists());
    assert_eq!(sandbox.ok(&["list", "-o", "json"]), "[]\n");
    sandbox.ok(&["delete"]);
}

#[test]
fn a_temporary_cluster_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let run = |script: &str| sandbox.output(&["run", "--nodes", "1", "--", "sh", "-c", script]);
    assert_eq!(run("kubectl create configmap lost; exit 3").status.code(), Some(3));
    assert_eq!(sandbox.processes(), []);
    assert!(!sandbox.directory().exists());

    // All components die under the command: the next one finds the data, and the last one deletes them.
    let nested = format!(
        "kubectl create configmap kept && pkill -9 -f '^{}/bin/' && \
         {OPCTL} cluster run -- kubectl get configmap kept -o name",
        sandbox.directory().display()
    );
    let output = run(&nested);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).ends_with("configmap/kept\n"), "{output:?}");
    assert!(!sandbox.directory().exists());

    // One that nobody ended, because its opctl was killed: the next command begins anew.
    run("kubectl create configmap lost && kill -9 $PPID");
    assert_eq!(sandbox.status("opctl")["state"], "running");
    let output = run("kubectl get configmaps -o name");
    assert_eq!(text(&output.stdout), "configmap/kube-root-ca.crt\n", "{output:?}");
    assert!(!sandbox.directory().exists());
}

#[test]
fn a_name_that_never_ran_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    for command in [&["start"][..], &["run", "--", "true"]] {
        let mut command = sandbox.cluster(command);
        command.env("PATH", "/nonexistent").env_remove("OPCTL_CLUSTER_ASSETS");
        command.env("OPCTL_CACHE_DIR", sandbox.0.path().join("cache"));
        assert_eq!(command.output().unwrap().status.code(), Some(1));
        assert!(!sandbox.directory().exists());
    }
}

/// A directory that only its owner may read looks like an empty one.
#[test]
fn assets_that_cannot_be_read_are_named() {
    const NOBODY: u32 = 65_534;
    let sandbox = Sandbox::new();
    let assets = sandbox.0.path().join("assets");
    let start = || {
        let mut command = sandbox.cluster(&["start"]);
        command.env("OPCTL_CLUSTER_ASSETS", &assets).env("PATH", "/nonexistent");
        command.env("OPCTL_CACHE_DIR", sandbox.0.path().join("cache"));
        // Root may read everything.
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(NOBODY).env("OPCTL_STATE_DIR", sandbox.0.path().join("nobody"));
        }
        text(&command.output().unwrap().stderr)
    };
    fs::set_permissions(sandbox.0.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(start().contains("assets` of OPCTL_CLUSTER_ASSETS: No such file"), "{}", start());
    fs::create_dir(&assets).unwrap();
    fs::set_permissions(&assets, fs::Permissions::from_mode(0o000)).unwrap();
    assert!(start().contains("assets` of OPCTL_CLUSTER_ASSETS: Permission denied"), "{}", start());
    fs::set_permissions(&assets, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(start().contains("error: missing programs of the control plane"), "{}", start());
}
