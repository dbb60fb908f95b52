//! Statuses beside what is real: every one that is untrue for longer than it takes to look is a lie.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{Cluster, condition};

/// How long a status may lag behind: the slowest of the kubelet, a controller and the operator.
const LAG: Duration = Duration::from_secs(3);
const INTERVAL: Duration = Duration::from_millis(300);

/// Looks at the objects in the background.
pub struct Truth {
    done: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Truth {
    /// Looks at objects of these kinds, each of which owns a Deployment.
    pub fn about(cluster: &Cluster, kinds: &[&str]) -> Self {
        let (cluster, done) = (cluster.clone(), Arc::new(AtomicBool::new(false)));
        let resources = format!("{},deployments,pods", kinds.join(","));
        let is_done = done.clone();
        let thread = thread::spawn(move || {
            let mut lies = Lies::default();
            while !is_done.load(Ordering::Relaxed) {
                let objects = cluster.get(&[&resources]);
                lies.take_in(judge(objects["items"].as_array().unwrap_or(&Vec::new())));
                sleep(INTERVAL);
            }
            lies.take_in(BTreeMap::new());
            lies.told
        });
        Self { done, thread }
    }

    /// Fails the test if there was a lie.
    pub fn assert_told(self) {
        self.done.store(true, Ordering::Relaxed);
        let lies = self.thread.join().unwrap();
        assert!(lies.is_empty(), "statuses were not true:\n{}", lies.join("\n"));
    }
}

#[derive(Default)]
struct Lies {
    /// What is untrue since when, and what there was to see.
    current: BTreeMap<String, (Instant, String)>,
    told: Vec<String>,
}

impl Lies {
    fn take_in(&mut self, untrue: BTreeMap<String, String>) {
        let told = &mut self.told;
        self.current.retain(|what, (since, seen)| {
            let goes_on = untrue.contains_key(what);
            if !goes_on && since.elapsed() > LAG {
                told.push(format!("{what}, for {:.1?}: {seen}", since.elapsed()));
            }
            goes_on
        });
        for (what, seen) in untrue {
            self.current.entry(what).or_insert((Instant::now(), seen));
        }
    }
}

/// What is not true, and what there was to see.
fn judge(objects: &[Value]) -> BTreeMap<String, String> {
    let of_kind = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
    let mut lies = BTreeMap::new();
    for object in objects.iter().filter(|it| it["status"]["observedGeneration"].is_i64()) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let uid = &object["metadata"]["uid"];
        let owned = |it: &&Value| it["metadata"]["ownerReferences"][0]["uid"] == *uid;
        let Some(deployment) = of_kind("Deployment").find(owned) else { continue };
        let instance = |it: &&Value| it["metadata"]["labels"]["app.kubernetes.io/instance"] == name;
        // Those that go count no more: the Deployment's controller does not wait for them.
        let stays = |it: &&Value| it["metadata"]["deletionTimestamp"].is_null();
        let pods: Vec<&Value> = of_kind("Pod").filter(instance).filter(stays).collect();
        let conditions = &object["status"]["conditions"];
        let mut lie = |what: &str, seen: String| {
            let kind = object["kind"].as_str().unwrap();
            lies.insert(format!("{kind} {name}: {what}"), format!("{seen}; {conditions}"));
        };

        let is_available = condition(deployment, "Available");
        if condition(object, "Available") != is_available {
            lie("Available is not that of the Deployment", is_available.to_owned());
        }
        let failure = pods.iter().find_map(|pod| failure(pod));
        match (condition(object, "Degraded"), &failure) {
            ("True", None) => lie("Degraded, though no pod fails", String::new()),
            ("True", Some(reason)) if !told_with(conditions, reason) => {
                lie("the reason is not told", reason.clone());
            }
            ("False", Some(reason)) => lie("not Degraded, though a pod fails", reason.clone()),
            _ => {}
        }
        let ready = pods.iter().filter(|pod| condition(pod, "Ready") == "True").count();
        let is_complete = deployment["spec"]["replicas"] == ready && pods.len() == ready;
        if (condition(object, "Ready") == "True") != is_complete {
            lie("Ready is wrong", format!("{ready} of {} pods are ready", pods.len()));
        }
    }
    lies
}

/// Why a container of a pod waits, unless it is only being created.
fn failure(pod: &Value) -> Option<String> {
    let statuses = pod["status"]["containerStatuses"].as_array()?;
    let waiting = |status: &Value| status["state"]["waiting"]["reason"].as_str().map(str::to_owned);
    statuses.iter().filter_map(waiting).find(|reason| reason != "ContainerCreating")
}

/// Whether Degraded has the reason. A failing pull has two in turn.
fn told_with(conditions: &Value, reason: &str) -> bool {
    let degraded = conditions.as_array().into_iter().flatten();
    let mut degraded = degraded.filter(|condition| condition["type"] == "Degraded");
    let pull = ["ErrImagePull", "ImagePullBackOff"];
    degraded
        .next()
        .and_then(|it| it["reason"].as_str())
        .is_some_and(|told| told == reason || (pull.contains(&told) && pull.contains(&reason)))
}
