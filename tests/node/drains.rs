//! A node that is drained, as before an update of its system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use crate::cluster::{Cluster, condition, text};
use crate::site::{Site, all_settled, pods};
use crate::wait::eventually;

const DATABASE: &str = "postgrescluster-sample";

/// Evicts what may be evicted, until it is done or the time is up. Returns what kubectl said.
pub fn drain(cluster: &Cluster, timeout: &str) -> String {
    let timeout = format!("--timeout={timeout}");
    let drain = ["drain", "node", "--ignore-daemonsets", "--delete-emptydir-data", &timeout];
    text(&cluster.kubectl(&drain).stderr)
}

pub fn uncordon(cluster: &Cluster) {
    cluster.ok(&["uncordon", "node"]);
}

/// There is no other node: what was evicted waits, and so the budget lets one instance of a database go.
pub fn are_stopped_by_the_budget(site: &Site) {
    let cluster = site.cluster;
    let is_drained = AtomicBool::new(false);
    let ready = || {
        let pods = pods(cluster, DATABASE);
        pods.iter().filter(|pod| condition(pod, "Ready") == "True").count()
    };
    eventually("instances that are ready", || match ready() {
        3 => Ok(()),
        ready => Err(ready.to_string()),
    });
    let selector = format!("app.kubernetes.io/instance={DATABASE}");
    eventually("a budget that lets one go", || {
        let budgets = cluster.get(&["poddisruptionbudgets", "-l", &selector]);
        match budgets["items"][0]["status"]["disruptionsAllowed"].as_u64() {
            Some(1) => Ok(()),
            allowed => Err(format!("{allowed:?}")),
        }
    });
    let fewest = thread::scope(|scope| {
        let fewest = scope.spawn(|| {
            let mut fewest = usize::MAX;
            while !is_drained.load(Ordering::Relaxed) {
                fewest = fewest.min(ready());
            }
            fewest
        });
        let said = drain(cluster, "10s");
        is_drained.store(true, Ordering::Relaxed);
        assert!(said.contains("would violate the pod's disruption budget"), "{said}");
        fewest.join().unwrap()
    });
    assert_eq!(fewest, 2, "instances are ready at every moment of a drain");
    let is_pending = |pod: &Value| pod["status"]["phase"] == "Pending";
    for instance in ["memcached-sample", "webserver-sample", "site-sample"] {
        let pods = pods(cluster, instance);
        assert!(pods.iter().all(is_pending), "{instance} should be evicted");
    }
    uncordon(cluster);
    all_settled(cluster);
}
