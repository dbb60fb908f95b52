//! Every version of every object that the API server has published, in the order of its writes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::operator::cluster::Cluster;
use crate::operator::everything::KINDS;

/// What the operator and the built-in controllers make in the namespace `default`.
const CHILDREN: [&str; 5] = [
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/replicasets",
    "/apis/apps/v1/namespaces/default/statefulsets",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/pods",
];

/// A version of an object, or its deletion.
pub struct Event {
    pub at: Instant,
    pub is_deletion: bool,
    pub object: Value,
}

impl Event {
    /// The resource version, which is etcd's revision.
    fn revision(&self) -> u64 {
        text(&self.object["metadata"]["resourceVersion"]).parse().expect("a resource version")
    }
}

/// Watches from now on.
pub struct Recorder {
    watches: Vec<Child>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    pub fn start(cluster: &Cluster) -> Self {
        let paths = KINDS.iter().map(|kind| kind.path("default"));
        let paths = paths.chain(CHILDREN.map(str::to_owned));
        let events = Arc::default();
        let watches = paths.map(|path| watch(cluster, &path, &events)).collect();
        Self { watches, events }
    }

    /// Looks at what has been published so far.
    pub fn peek<T>(&self, look: impl FnOnce(&[Event]) -> T) -> T {
        look(&self.events.lock().unwrap())
    }

    /// All that has been published.
    ///
    /// Each kind comes by a process of its own, and one may be slower than another: the resource versions
    /// say what the operator knew when it wrote a status, which the times of arrival do not. They are
    /// comparable across kinds because all are in one etcd.
    pub fn stop(mut self) -> Vec<Event> {
        for watch in &mut self.watches {
            let ended = watch.try_wait().unwrap();
            assert!(ended.is_none(), "a watch has ended: {ended:?}");
        }
        let mut events = std::mem::take(&mut *self.events.lock().unwrap());
        events.sort_by_key(Event::revision);
        // What came later was written later: a time never goes back.
        let mut latest = None;
        for event in &mut events {
            event.at = latest.map_or(event.at, |latest| event.at.max(latest));
            latest = Some(event.at);
        }
        events
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for watch in &mut self.watches {
            let _ = watch.kill();
            let _ = watch.wait();
        }
    }
}

fn watch(cluster: &Cluster, path: &str, events: &Arc<Mutex<Vec<Event>>>) -> Child {
    let mut kubectl = Command::new(&cluster.kubectl);
    kubectl.env("KUBECONFIG", &cluster.kubeconfig).stdout(Stdio::piped());
    let watch = kubectl.args(["get", "--raw", &format!("{path}?watch=true")]).spawn();
    let mut watch = watch.unwrap();
    let (lines, events) = (BufReader::new(watch.stdout.take().unwrap()), Arc::clone(events));
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            let at = Instant::now();
            let mut event: Value = serde_json::from_str(&line).unwrap();
            assert_ne!(event["type"], "ERROR", "{event}");
            let is_deletion = event["type"] == "DELETED";
            let object = event["object"].take();
            events.lock().unwrap().push(Event { at, is_deletion, object });
        }
    });
    watch
}

/// The objects that exist at a moment, by their uids.
#[derive(Default)]
pub struct World(BTreeMap<String, Value>);

impl World {
    /// Takes an event in. Returns the uid of the custom resource that it is about, or whose child it
    /// is about.
    pub fn take(&mut self, event: &Event) -> String {
        let uid = text(&event.object["metadata"]["uid"]).to_owned();
        let mut root = uid.clone();
        let mut object = Some(&event.object);
        while let Some(owner) = object.and_then(controller) {
            root = owner.to_owned();
            object = self.0.get(owner);
        }
        match event.is_deletion {
            true => self.0.remove(&uid),
            false => self.0.insert(uid, event.object.clone()),
        };
        root
    }

    /// All custom resources.
    pub fn custom(&self) -> impl Iterator<Item = &Value> {
        let is_custom = |object: &&Value| KINDS.iter().any(|kind| object["kind"] == kind.name);
        self.0.values().filter(is_custom)
    }

    pub fn get(&self, uid: &str) -> Option<&Value> {
        self.0.get(uid)
    }

    /// Whether the pods are as a custom resource specifies them.
    pub fn has_pods(&self, custom: &Value) -> bool {
        let pods = self.pods(custom);
        let mut active = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.len() == size(custom)
            && active.clone().count() == pods.len()
            && active.all(|pod| is_ready(pod) && runs(&pod["spec"], custom))
            && (custom["kind"] != "WebServer" || self.children(uid(custom), "Service").count() == 1)
    }

    pub fn pods<'a>(&'a self, custom: &'a Value) -> Vec<&'a Value> {
        self.descendants(uid(custom), "Pod")
    }

    /// Whether the controller of the pods reports that they are as a custom resource specifies them.
    pub fn is_reported(&self, custom: &Value) -> bool {
        let deployments = self.children(uid(custom), "Deployment");
        let mut workloads = deployments.chain(self.children(uid(custom), "StatefulSet"));
        let Some(workload) = workloads.next() else {
            return false;
        };
        let (status, size) = (&workload["status"], size(custom));
        let counts = ["replicas", "updatedReplicas", "availableReplicas"];
        status["observedGeneration"] == workload["metadata"]["generation"]
            && workload["spec"]["replicas"] == size
            && counts.iter().all(|count| status[count].as_u64().unwrap_or(0) == size as u64)
            && runs(&workload["spec"]["template"]["spec"], custom)
            && (custom["kind"] != "WebServer" || self.children(uid(custom), "Service").count() == 1)
    }

    fn children<'a>(&'a self, owner: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let objects = self.0.values();
        objects.filter(move |it| it["kind"] == kind && controller(it) == Some(owner))
    }

    fn descendants<'a>(&'a self, root: &'a str, kind: &'a str) -> Vec<&'a Value> {
        let children = self.0.values().filter(|it| controller(it) == Some(root));
        children
            .flat_map(|child| match child["kind"] == kind {
                true => vec![child],
                false => self.descendants(uid(child), kind),
            })
            .collect()
    }
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The uid of the controller of an object.
fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut controllers = owners.filter(|owner| owner["controller"] == true);
    controllers.next()?["uid"].as_str()
}

/// How many pods a custom resource asks for.
fn size(custom: &Value) -> usize {
    let spec = &custom["spec"];
    let size = spec["size"].as_u64().or(spec["replicas"].as_u64());
    size.unwrap_or_default() as usize
}

/// Whether a pod is of the image or the version of a custom resource.
fn runs(pod: &Value, custom: &Value) -> bool {
    let image = text(&pod["containers"][0]["image"]);
    let spec = &custom["spec"];
    image == text(&spec["image"])
        || spec["version"].as_str().is_some_and(|version| image.contains(version))
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
