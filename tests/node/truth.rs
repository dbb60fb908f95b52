//! Statuses beside what is real: every one that is untrue for longer than it takes to look is a lie.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::Cluster;
use crate::site::KINDS;
use crate::verdict::{UNTOLD, lies_of};

/// How long a status may lag behind: the slowest of the kubelet, a controller and the operator. And for how
/// many looks, which take their time on a busy machine.
const LAG: Duration = Duration::from_secs(3);
const LOOKS: usize = 6;
const INTERVAL: Duration = Duration::from_millis(300);

/// For how long an operator lets pods become available before it asks them why they do not.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks at the objects in the background.
pub struct Truth {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Truth {
    pub fn about(cluster: &Cluster) -> Self {
        let (cluster, done) = (cluster.clone(), Arc::new(AtomicBool::new(false)));
        let kinds: Vec<_> = KINDS.iter().map(|kind| kind.plural).collect();
        let resources = format!(
            "{},deployments,statefulsets,pods,persistentvolumeclaims,jobs",
            kinds.join(",")
        );
        let is_done = done.clone();
        let thread = thread::spawn(move || {
            let mut lies = Lies::default();
            while !is_done.load(Ordering::Relaxed) {
                let objects = cluster.get(&[&resources, "--all-namespaces"]);
                lies.take_in(judge(objects["items"].as_array().unwrap_or(&Vec::new())));
                sleep(INTERVAL);
            }
            lies.take_in(BTreeMap::new());
            lies.told
        });
        Self { done, thread: Some(thread) }
    }

    /// Fails the test if there was a lie.
    pub fn assert_told(mut self) {
        let lies = self.stop();
        assert!(lies.is_empty(), "statuses were not true:\n{}", lies.join("\n"));
    }

    fn stop(&mut self) -> Vec<String> {
        self.done.store(true, Ordering::Relaxed);
        self.thread.take().map_or_else(Vec::new, |thread| thread.join().unwrap())
    }
}

impl Drop for Truth {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Default)]
struct Lies {
    current: BTreeMap<String, Lie>,
    told: Vec<String>,
}

/// What is untrue.
struct Lie {
    since: Instant,
    looks: usize,
    /// What there was to see at first.
    seen: String,
}

impl Lies {
    fn take_in(&mut self, untrue: BTreeMap<String, String>) {
        let told = &mut self.told;
        self.current.retain(|what, lie| {
            lie.looks += 1;
            let goes_on = untrue.contains_key(what);
            let lag = if what.ends_with(UNTOLD) { PATIENCE + LAG } else { LAG };
            if !goes_on && lie.since.elapsed() > lag && lie.looks > LOOKS {
                let lie = format!("{what}, for {:.1?}: {}", lie.since.elapsed(), lie.seen);
                eprintln!("LIE: {lie}");
                told.push(lie);
            }
            goes_on
        });
        for (what, seen) in untrue {
            let lie = || Lie { since: Instant::now(), looks: 0, seen };
            self.current.entry(what).or_insert_with(lie);
        }
    }
}

/// What is not true, and what there was to see.
fn judge(objects: &[Value]) -> BTreeMap<String, String> {
    // Nobody tells anything while there is no operator, as while its node is drained.
    let is_manager = |it: &&Value| {
        it["kind"] == "Deployment"
            && it["metadata"]["labels"]["control-plane"] == "controller-manager"
    };
    let mut managers = objects.iter().filter(is_manager);
    if !managers.any(|it| it["status"]["readyReplicas"].as_u64() > Some(0)) {
        return BTreeMap::new();
    }
    let mut lies = BTreeMap::new();
    for object in objects.iter().filter(|it| it["status"]["observedGeneration"].is_i64()) {
        let Some(kind) = KINDS.iter().find(|kind| object["kind"] == kind.name) else { continue };
        let name = object["metadata"]["name"].as_str().unwrap();
        for (what, seen) in lies_of(object, objects) {
            let conditions = &object["status"]["conditions"];
            lies.insert(format!("{} {name}: {what}", kind.name), format!("{seen}; {conditions}"));
        }
    }
    lies
}
