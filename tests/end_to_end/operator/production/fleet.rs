//! Many Memcacheds, and a load on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::operator::cluster::Cluster;
use crate::operator::memcached::{is_settled, memcached};
use crate::operator::wait::{PATIENCE, within};

/// Between two steps of a load: the built-in controllers are limited to 20 requests a second.
const PACE: Duration = Duration::from_millis(500);

pub fn name(number: usize) -> String {
    format!("many-{number}")
}

/// Creates that many Memcacheds, half of them with a pod.
pub fn create(cluster: &Cluster, count: usize) {
    let many: Vec<Value> =
        (0..count).map(|it| memcached(&name(it), json!({ "size": it % 2 }))).collect();
    cluster.create(&json!({ "apiVersion": "v1", "kind": "List", "items": many }));
}

/// Takes the pod of a Memcached and gives one to its neighbour; the number of pods stays about the
/// same. Nothing may come of it where the API server is away.
pub fn swap(cluster: &Cluster, step: usize, count: usize) {
    let pair = step * 2 % count;
    let turn = step * 2 / count % 2;
    for (number, size) in [(pair, 1 - turn), (pair + 1, turn)] {
        let _ = cluster.client().scale(&["memcached", &name(number)], size);
    }
}

/// Waits until every Memcached is settled at the size that it asks for, and shows that nothing was
/// made twice.
pub fn settled(cluster: &Cluster, count: usize) {
    let begin = Instant::now();
    // What has failed ten times in a row waits for five minutes.
    within(5 * PATIENCE, "Memcacheds that are settled", || {
        let memcacheds = items(cluster, "memcacheds");
        assert_eq!(memcacheds.len(), count);
        let size = |item: &Value| item["spec"]["size"].as_u64().unwrap() as usize;
        let unsettled: Vec<_> =
            memcacheds.iter().filter(|item| !is_settled(item, size(item))).collect();
        match unsettled.first() {
            None => Ok(()),
            Some(first) => Err(format!("{} are not, such as {first}", unsettled.len())),
        }
    });
    eprintln!("{count} Memcacheds settled within {:.1?}", begin.elapsed());
    is_made_once(cluster);
}

/// Every Memcached has one Deployment, and that one ReplicaSet: no template has changed.
fn is_made_once(cluster: &Cluster) {
    let memcacheds = items(cluster, "memcacheds");
    let deployments = items(cluster, "deployments");
    assert_eq!(owners(&deployments), uids(&memcacheds), "one Deployment of each Memcached");
    assert_eq!(
        owners(&items(cluster, "replicasets")),
        uids(&deployments),
        "one ReplicaSet of each Deployment"
    );
}

/// The uids of all Deployments by their names.
pub fn deployments(cluster: &Cluster) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pair = |it: &Value| (text(&it["metadata"]["name"]), text(&it["metadata"]["uid"]));
    items(cluster, "deployments").iter().map(pair).collect()
}

fn items(cluster: &Cluster, kind: &str) -> Vec<Value> {
    match cluster.get(&[kind])["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

fn uids(items: &[Value]) -> Vec<&str> {
    sorted(items.iter().map(|item| &item["metadata"]["uid"]))
}

fn owners(items: &[Value]) -> Vec<&str> {
    sorted(items.iter().map(|item| &item["metadata"]["ownerReferences"][0]["uid"]))
}

fn sorted<'a>(uids: impl Iterator<Item = &'a Value>) -> Vec<&'a str> {
    let mut uids: Vec<_> = uids.map(|uid| uid.as_str().unwrap_or_default()).collect();
    uids.sort_unstable();
    uids
}

/// What goes on in the background until it is stopped or dropped.
pub struct Load {
    stop: Arc<AtomicBool>,
    steps: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    pub fn start(cluster: &Cluster, step: impl Fn(&Cluster, usize) + Send + 'static) -> Self {
        let (stop, steps) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (cluster, ended, done) = (cluster.clone(), Arc::clone(&stop), Arc::clone(&steps));
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                step(&cluster, done.fetch_add(1, Ordering::Relaxed));
                sleep(PACE);
            }
        });
        Self { stop, steps, thread: Some(thread) }
    }

    /// Returns how many steps it has made.
    pub fn stop(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok(), "the load has failed");
        self.steps.load(Ordering::Relaxed)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
