//! What an operator costs the API server.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::operator::audit::Audit;
use crate::operator::cluster::Cluster;
use crate::operator::memcached::{is_settled, memcached, settled};
use crate::operator::wait::{PATIENCE, within};

/// How many Memcacheds there are. Half of them have a pod: the built-in controllers are limited to
/// 20 requests a second.
const MANY: usize = 200;

/// How long the operator is watched to send nothing.
const SILENCE: Duration = Duration::from_secs(20);

/// The requests for a new Memcached: its Deployment, the event about it, and two changes of the
/// status: as soon as it is known, and when its pods are ready.
const CREATION: usize = 4;

pub fn of_one_and_of_many(cluster: &Cluster) {
    let name = |number: usize| format!("many-{number}");
    let size = |number: usize| number % 2;
    let many: Vec<Value> =
        (0..MANY).map(|it| memcached(&name(it), json!({ "size": size(it) }))).collect();

    let (begin, audit) = (Instant::now(), Audit::begin(cluster));
    cluster.create(&json!({ "apiVersion": "v1", "kind": "List", "items": many }));
    within(3 * PATIENCE, "Memcacheds that are settled", || {
        let list = cluster.get(&["memcacheds"]);
        let items = list["items"].as_array().unwrap();
        let size = |item: &Value| item["spec"]["size"].as_u64().unwrap() as usize;
        assert_eq!(items.len(), MANY);
        match items.iter().find(|item| !is_settled(item, size(item))) {
            None => Ok(()),
            Some(unsettled) => Err(unsettled.to_string()),
        }
    });
    let requests = audit.requests().len();
    eprintln!("{MANY} Memcacheds settled in {:.1?}, {requests} requests", begin.elapsed());
    // Where the machine is slow, a pod more can become ready between two writes.
    assert!(requests < MANY * (CREATION + 1), "{requests} requests: {:#?}", audit.requests());

    let audit = Audit::begin(cluster);
    sleep(SILENCE);
    assert_eq!(audit.writes(), Vec::<String>::new(), "with nothing to do");

    let audit = Audit::begin(cluster);
    cluster.create(&memcached("one-more", json!({ "size": 3 })));
    settled(cluster, "one-more", 3);
    let requests = audit.requests();
    eprintln!("requests for one Memcached: {requests:#?}");
    assert!(requests.contains(&"patch deployments/ one-more".to_owned()), "{requests:#?}");
    assert!(requests.len() <= CREATION, "{requests:#?}");
}
