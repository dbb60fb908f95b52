//! A node of its own, with its control plane: containers run, probes probe, Services reach pods. It is a
//! machine in namespaces, whose network is its own, so that nothing of the host is changed or left.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use tempfile::TempDir;

use crate::cache::cached;
use crate::cluster::{Cluster, text};
use crate::debian;
use crate::images::PAUSE;
use crate::machine::processes;
use crate::programs::programs;
use crate::wait::{eventually, timed};

/// What the machine has beside Kubernetes, and clients that are not installed here.
const PACKAGES: [&str; 11] = [
    "bash",
    "containerd",
    "containernetworking-plugins",
    "coreutils",
    "iproute2",
    "mount",
    "nftables",
    "openssl",
    "postgresql-client-17",
    "runc",
    "util-linux",
];

pub struct Node {
    directory: TempDir,
    machine: Child,
    kubectl: PathBuf,
}

impl Node {
    /// A node that is ready. `images` writes the archives of images to the directory that it is given.
    pub fn start(images: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let archives = directory.path().join("shared/images");
        fs::create_dir_all(&archives).unwrap();
        PAUSE.write(&["localhost/pause:1".to_owned()], &archives);
        images(&archives);

        timed("start of the node", || {
            let mut machine = machine(directory.path());
            let mut machine = machine.stdin(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            let output = machine.stdout.as_mut().unwrap();
            BufReader::new(output).read_line(&mut line).unwrap();
            let kubectl = programs().join("kubectl");
            let node = Self { directory, machine, kubectl };
            assert_eq!(line, "ready\n", "the machine should start");
            node.inside(|cluster| eventually("ready node", || is_ready(cluster)));
            node
        })
    }

    /// Runs the closure where the node's network is: connections and commands reach pods and Services.
    pub fn inside<T: Send>(&self, run: impl FnOnce(&Cluster) -> T + Send) -> T {
        let kubeconfig = self.directory.path().join("shared/admin.kubeconfig");
        let cluster = Cluster::new(self.kubectl.clone(), kubeconfig, PathBuf::new());
        self.entered(|| run(&cluster)).unwrap_or_else(|panic| {
            let what = ["get", "pods,events", "--all-namespaces"];
            let seen = self.entered(|| text(&cluster.kubectl(&what).stdout));
            eprintln!("{}", seen.unwrap_or_default());
            std::panic::resume_unwind(panic)
        })
    }

    /// Commands of a program of the machine.
    pub fn client(&self, program: &'static str) -> impl Fn() -> Command + use<> {
        let tree = tree();
        move || {
            let mut command = Command::new("chroot");
            command.arg(&tree).arg(program);
            command
        }
    }

    /// Kills a service of the machine, which starts it again.
    pub fn kill_service(&self, program: &str) {
        let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let own = network(&self.machine.id().to_string());
        let is_service = |(pid, words): &(i32, Vec<String>)| {
            words.first().is_some_and(|word| word == program) && network(&pid.to_string()) == own
        };
        // It may just be started after the last kill.
        eventually(&format!("running {program}"), || {
            let killed: Vec<_> =
                processes().into_iter().filter(is_service).map(|it| kill(it.0)).collect();
            (killed == [true]).then_some(()).ok_or_else(|| format!("{killed:?}"))
        });
    }

    /// The processes in a pod that are of its containers.
    pub fn processes_of(&self, pod: &Value) -> Vec<(i32, Vec<String>)> {
        let uid = format!("/pod{}/", pod["metadata"]["uid"].as_str().unwrap());
        let is_of_pod = |(pid, words): &(i32, Vec<String>)| {
            let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            groups.contains(&uid) && !words.is_empty() && !words.ends_with(&PAUSE.words())
        };
        processes().into_iter().filter(is_of_pod).collect()
    }

    /// Runs the closure in a thread of its own: none comes back from another network.
    fn entered<T: Send>(&self, run: impl FnOnce() -> T + Send) -> thread::Result<T> {
        let network = File::open(format!("/proc/{}/ns/net", self.machine.id())).unwrap();
        let enter = move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind).unwrap();
            run()
        };
        thread::scope(|scope| scope.spawn(enter).join())
    }
}

/// Whether the process was there to be killed.
pub fn kill(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// The files of the machine.
fn tree() -> PathBuf {
    cached("machine", &[&PACKAGES.join(" ")], |path| debian::tree(path, &PACKAGES, ""))
}

/// The command that is a machine until its standard input ends.
fn machine(directory: &Path) -> Command {
    // The network's namespace is that of this process.
    let mut machine = Command::new("unshare");
    machine.arg("--net").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/machine.sh"));
    machine.args([tree(), programs()]).arg(directory);
    machine.stdout(Stdio::piped()).process_group(0);
    machine
}

/// What there is of the machine of this process: groups of processes, and the kubelet, which ends last.
fn traces(id: u32) -> Vec<String> {
    let name = format!("opctl-node-{id}");
    let processes = processes().into_iter().filter(|(_, words)| words.concat().contains(&name));
    let processes = processes.map(|(pid, words)| format!("{pid}: {}", words.join(" ")));
    let groups = fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path());
    let groups = groups.chain([PathBuf::from("/sys/fs/cgroup")]).map(|group| group.join(&name));
    let groups = groups.filter(|group| group.exists()).map(|group| group.display().to_string());
    processes.chain(groups).collect()
}

/// Nothing of a machine outlives it, even if nobody could clean up: the next one does.
pub fn a_killed_machine_leaves_nothing() {
    let mut node = Node::start(|_| ());
    let id = node.machine.id();
    assert!(traces(id).len() > 1, "{:?}", traces(id));
    node.machine.kill().unwrap();
    drop(node);
    let groups = |trace: &String| trace.starts_with("/sys/fs/cgroup");
    eventually("end of all processes", || match traces(id) {
        left if left.iter().all(groups) => Ok(()),
        left => Err(format!("{left:?}")),
    });

    let directory = tempfile::tempdir().unwrap();
    let status = machine(directory.path()).stdin(Stdio::null()).status().unwrap();
    assert!(status.success());
    assert_eq!(traces(id), Vec::<String>::new());
}

impl Drop for Node {
    fn drop(&mut self) {
        if thread::panicking() {
            let logs = std::env::temp_dir().join(format!("opctl-node-{}", self.machine.id()));
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(self.directory.path().join("shared/logs")).arg(&logs);
            let _ = copy.status();
            eprintln!("the node's logs are kept: {}", logs.display());
        }
        // The machine is gone when its standard input ends, and all that it was made of.
        drop(self.machine.stdin.take());
        let ended = timed("end of the node", || self.machine.wait()).unwrap();
        // Unless it was killed, it has cleaned up.
        if ended.signal().is_none() && !thread::panicking() {
            assert!(ended.success(), "{ended}");
            assert_eq!(traces(self.machine.id()), Vec::<String>::new(), "left behind");
        }
    }
}

fn is_ready(cluster: &Cluster) -> Result<(), String> {
    let account = cluster.get(&["serviceaccount", "default"]);
    let node = cluster.get(&["node", "node"]);
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|it| it["type"] == "Ready" && it["status"] == "True");
    match !account.is_null() && ready.next().is_some() {
        true => Ok(()),
        false => Err(node["status"]["conditions"].to_string()),
    }
}
