//! Objects whose pods cannot run: each says so within seconds, with the reason and the pod, and goes on
//! saying it.

use serde_json::{Value, json};

use crate::cluster::{Cluster, condition};
use crate::site::{MISSING, pods};
use crate::wait::{eventually, timed};

pub const CRASHING: &str = "docker.io/library/crashing:1";
pub const EMPTY: &str = "docker.io/library/empty:1";

/// A namespace in which no pod can be created.
const FULL: &str = "full";

pub fn are_reported(cluster: &Cluster) {
    let object = |name: &str, kind: &str, group: &str, namespace: &str, image: &str| {
        let field = if kind == "WebServer" { "replicas" } else { "size" };
        cluster.create(&json!({
            "apiVersion": format!("{group}.example.com/v1"),
            "kind": kind,
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "image": image, field: 1 },
        }));
    };
    cluster.ok(&["create", "namespace", FULL]);
    cluster.ok(&["create", "quota", "pods", "--hard=pods=0", "-n", FULL]);
    object("crashing", "Memcached", "cache", "default", CRASHING);
    object("missing", "WebServer", "web", "default", MISSING);
    object("empty", "Memcached", "cache", "default", EMPTY);
    // Its user is no number: the kubelet cannot know that it is not root.
    object("rootless", "Site", "ops", "default", "docker.io/library/memcached:1");
    object("full", "WebServer", "web", FULL, "docker.io/library/nginx:1");
    let reported = |object: &str, namespace: &str, reasons: &[&str], part: &str| {
        timed(&format!("report of {object}"), || {
            eventually(&format!("report of {object}"), || {
                let object = cluster.get(&[object, "-n", namespace]);
                let degraded = degraded(&object);
                let message = degraded["message"].as_str().unwrap_or_default();
                let is_reported = condition(&object, "Degraded") == "True"
                    && degraded["reason"].as_str().is_some_and(|it| reasons.contains(&it))
                    && message.contains(part);
                is_reported.then_some(()).ok_or_else(|| object["status"].to_string())
            });
        });
    };
    reported("webserver/full", FULL, &["ReplicaFailure"], "exceeded quota: pods");
    let part = "container main of pod rootless-";
    reported("site/rootless", "default", &["CreateContainerConfigError"], part);
    let part = "container nginx of pod missing-";
    reported("webserver/missing", "default", &["ErrImagePull", "ImagePullBackOff"], part);
    let part = "container memcached of pod empty-";
    reported("memcached/empty", "default", &["RunContainerError", "CrashLoopBackOff"], part);
    let part = "CrashLoopBackOff: out of luck";
    reported("memcached/crashing", "default", &["CrashLoopBackOff"], part);
    stays_degraded(cluster);
    for object in ["memcached/crashing", "webserver/missing", "memcached/empty", "site/rootless"] {
        cluster.ok(&["delete", object]);
    }
    cluster.ok(&["delete", "namespace", FULL, "--wait=false"]);
}

/// The time of the last change of the crashing one.
fn since(cluster: &Cluster) -> String {
    let object = cluster.get(&["memcached", "crashing"]);
    assert_eq!(condition(&object, "Degraded"), "True");
    degraded(&object)["lastTransitionTime"].to_string()
}

fn degraded(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut degraded = conditions.filter(|condition| condition["type"] == "Degraded");
    degraded.next().cloned().unwrap_or_default()
}

/// A container that runs for a while between two crashes is no better for it.
fn stays_degraded(cluster: &Cluster) {
    let begin = since(cluster);
    eventually("container that has run between two crashes", || {
        let pod = pods(cluster, "crashing").remove(0);
        let status = &pod["status"]["containerStatuses"][0];
        let is_waiting = status["state"]["waiting"].is_object();
        let has_run = status["restartCount"].as_u64() > Some(1) && is_waiting;
        has_run.then_some(()).ok_or_else(|| status.to_string())
    });
    assert_eq!(since(cluster), begin, "it was not degraded between two crashes");
}
