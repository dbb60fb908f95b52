//! Memcacheds, and whether they are as they should be.

use serde_json::{Value, json};

use crate::operator::cluster::{Cluster, condition};
use crate::operator::wait::eventually;

pub fn memcached(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "cache.example.com/v1alpha1",
        "kind": "Memcached",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// Waits until the Memcached, its Deployment and its pods agree that it has this size.
pub fn settled(cluster: &Cluster, name: &str, size: usize) -> Value {
    eventually(&format!("Memcached {name} of size {size}"), || {
        let memcached = cluster.get(&["memcached", name]);
        let deployment = cluster.get(&["deployment", name]);
        let pods = pods(cluster, name);
        let agree = is_settled(&memcached, size)
            && deployment["spec"]["replicas"] == json!(size)
            && deployment["metadata"]["ownerReferences"][0]["uid"] == memcached["metadata"]["uid"]
            && pods == size;
        match agree {
            true => Ok(memcached),
            false => Err(format!("{memcached}\n{deployment}\n{pods} pods")),
        }
    })
}

/// Whether there is nothing left to be done or told.
pub fn is_settled(memcached: &Value, size: usize) -> bool {
    let status = &memcached["status"];
    condition(memcached, "Ready") == "True"
        && condition(memcached, "Available") == "True"
        && condition(memcached, "Progressing") == "False"
        && condition(memcached, "Degraded") == "False"
        && status["observedGeneration"] == memcached["metadata"]["generation"]
        && status["replicas"] == json!(size)
        && status["readyReplicas"] == json!(size)
}

/// How many pods a Memcached has.
fn pods(cluster: &Cluster, name: &str) -> usize {
    let selector = format!("app.kubernetes.io/instance={name}");
    let pods = cluster.get(&["pods", "-l", &selector]);
    pods["items"].as_array().map_or(0, Vec::len)
}
