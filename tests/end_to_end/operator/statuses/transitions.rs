//! What users, nodes and other controllers do to objects, at random.

use std::thread::sleep;
use std::time::Duration;

use kube::api::Patch;
use serde_json::{Value, json};

use crate::operator::cluster::Cluster;
use crate::operator::everything::{KINDS, Kind};
use crate::operator::random::Random;

/// Between two transitions: the built-in controllers are limited to 20 requests a second.
const PACE: Duration = Duration::from_millis(250);

/// How many objects of a kind there are.
const OBJECTS: usize = 3;

/// The largest size.
const SIZE: usize = 5;

/// The kinds that have pods.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.name != "Thing")
}

pub struct Transitions<'a> {
    cluster: &'a Cluster,
    random: Random,
}

impl<'a> Transitions<'a> {
    pub fn new(cluster: &'a Cluster, seed: u64) -> Self {
        Self { cluster, random: Random::new(seed) }
    }

    /// Makes that many of them, and has all pods ready again in the end.
    pub fn make(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
            sleep(PACE);
        }
        for kind in kinds() {
            for number in 0..OBJECTS {
                self.set_ready(&name(kind, number), "True");
            }
        }
    }

    fn next(&mut self) {
        let kinds: Vec<_> = kinds().collect();
        let kind = kinds[self.random.below(kinds.len())];
        let name = name(kind, self.random.below(OBJECTS));
        let (size, revision) = (self.random.below(SIZE + 1), self.random.below(3));
        let what = format!("{}/{name}", kind.plural);
        let object = kind.object(&name, size, revision);
        if self.cluster.get(&[&what]).is_null() {
            return self.cluster.create(&object);
        }
        match self.random.below(20) {
            0..7 => {
                self.cluster.patch(&[&what], "merge", &json!({ "spec": kind.spec(size, revision) }))
            }
            7..12 => self.set_ready(&name, "False"),
            12..15 => self.set_ready(&name, "True"),
            15..17 => self.delete_pod(&name),
            17 => {
                let children = "deployments,statefulsets,services";
                let selector = format!("app.kubernetes.io/instance={name}");
                self.cluster.ok(&["delete", children, "--selector", &selector, "--wait=false"]);
            }
            18 => drop(self.cluster.ok(&["delete", &what])),
            _ => {
                self.cluster.ok(&["delete", &what]);
                self.cluster.create(&object);
            }
        }
    }

    /// As a kubelet reports it, of one pod that is not ready or of all that are not.
    fn set_ready(&mut self, name: &str, status: &str) {
        let pods = self.pods(name);
        let pods = match (status, pods.len()) {
            (_, 0) => return,
            ("True", _) => pods,
            (_, count) => vec![pods[self.random.below(count)].clone()],
        };
        let conditions = [json!({ "type": "Ready", "status": status })];
        let patch = json!({ "status": { "conditions": conditions } });
        for pod in pods {
            let status = [&*pod, "--subresource=status"];
            // It may be gone by now.
            let _ = self.cluster.client().patch(&status, &Patch::Strategic(&patch));
        }
    }

    fn delete_pod(&mut self, name: &str) {
        let pods = self.pods(name);
        if !pods.is_empty() {
            let pod = &pods[self.random.below(pods.len())];
            let _ = self.cluster.client().delete(&[pod]);
        }
    }

    /// Those that run: kwok starts no pod that has a status already.
    fn pods(&self, name: &str) -> Vec<String> {
        let selector = format!("app.kubernetes.io/instance={name}");
        let running = "--field-selector=status.phase=Running";
        let pods = self.cluster.get(&["pods", "--selector", &selector, running]);
        let pods = pods["items"].as_array().into_iter().flatten();
        let name = |pod: &Value| format!("pod/{}", pod["metadata"]["name"].as_str().unwrap());
        pods.map(name).collect()
    }
}

fn name(kind: &Kind, number: usize) -> String {
    format!("{}-{number}", kind.name.to_lowercase())
}
