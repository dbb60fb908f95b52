//! What must not stop an operator.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::operator::cluster::Cluster;
use crate::operator::machine::Machine;
use crate::operator::memcached::{memcached, settled};
use crate::operator::wait::eventually;

/// The Deployment of the one that is gone is still there when the new one is made: it has to go before
/// the new one can have its own, and that is no fault of which to tell.
pub fn made_again_at_once(cluster: &Cluster) {
    let again = memcached("again", json!({ "size": 1 }));
    cluster.create(&again);
    let first = settled(cluster, "again", 1);
    cluster.ok(&["delete", "memcached", "again"]);
    cluster.create(&again);
    let second = settled(cluster, "again", 1);
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    let told = "involvedObject.name=again,reason=Degraded";
    assert_eq!(cluster.ok(&["get", "events", "--field-selector", told, "--output=name"]), "");
    cluster.ok(&["delete", "memcached", "again"]);
}

/// Kills the API server, brings it back, and has the operator at work again.
pub fn the_api_server_dies(machine: &Machine, cluster: &Cluster) {
    let (pid, words) = api_server(machine);
    kill_process(pid, Signal::KILL).unwrap();
    eventually("end of the API server", || {
        let runs = cluster.kubectl(&["get", "--raw", "/readyz"]).status.success();
        (!runs).then_some(()).ok_or_else(|| "it answers".to_owned())
    });

    start_as_a_daemon(&words);
    answers(cluster);
    cluster.create(&memcached("after-the-fault", json!({ "size": 2 })));
    settled(cluster, "after-the-fault", 2);
}

/// The API server's process and its command line.
pub fn api_server(machine: &Machine) -> (Pid, Vec<String>) {
    let is_server = |(_, words): &(i32, Vec<String>)| words[0].ends_with("/kube-apiserver");
    let (pid, words) = machine.processes().into_iter().find(is_server).unwrap();
    (Pid::from_raw(pid).unwrap(), words)
}

/// Waits for the API server.
pub fn answers(cluster: &Cluster) {
    eventually("API server", || {
        let output = cluster.kubectl(&["get", "--raw", "/readyz", "--request-timeout=5s"]);
        output.status.success().then_some(()).ok_or_else(|| format!("{output:?}"))
    });
}

/// Leaves the process to pid 1, which collects it when the cluster is stopped.
pub fn start_as_a_daemon(words: &[String]) {
    let mut shell = Command::new("sh");
    // A group of its own: it is not the terminal's to interrupt.
    shell.args(["-c", "\"$@\" >/dev/null 2>&1 &", "sh"]).args(words).process_group(0);
    assert!(shell.status().unwrap().success());
}
