//! Random operations on all samples, with clients at work: no status is untrue, nothing is stuck, and no
//! acknowledged write is lost.

use std::collections::BTreeSet;
use std::env;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::{Client, Postgres, memcached_keeps, page};
use crate::cluster::{Cluster, condition};
use crate::drains::{drain, uncordon};
use crate::node::kill;
use crate::random::Random;
use crate::servers::service;
use crate::site::{KINDS, Kind, Site, all_settled, pods};
use crate::wait::{eventually, timed};

/// How many operations of which storm belong to every run of the tests: there is one of each among them.
const SLICE: usize = 12;
const SEED: u64 = 64443;

/// How many operations there are until all has to settle.
const OPERATIONS: usize = 12;

/// The storm of every run.
pub fn short(site: &Site) {
    breaks(site, SEED, |operations, _| operations == SLICE);
}

/// One of as many minutes as `OPCTL_STORM` says, with the numbers of `OPCTL_SEED`.
pub fn long(site: &Site) {
    let duration = Duration::from_secs(60 * number("OPCTL_STORM").unwrap_or(30));
    let seed = number("OPCTL_SEED").unwrap_or(SEED);
    breaks(site, seed, |_, time| time > duration);
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

fn breaks(site: &Site, seed: u64, is_over: impl Fn(usize, Duration) -> bool) {
    let clients = Clients::start(site);
    let mut storm = Storm { site, random: Random::new(seed) };
    let (begin, mut count, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    while !is_over(count, begin.elapsed()) {
        let operation = storm.operate();
        count += 1;
        eprintln!("{:5.1?}: {operation}", begin.elapsed());
        sleep(Duration::from_millis(storm.random.below(3000) as u64));
        if count % OPERATIONS == 0 {
            slowest = slowest.max(storm.settle());
        }
    }
    slowest = slowest.max(storm.settle());
    let time = begin.elapsed();
    eprintln!("{count} operations in {time:.0?}, seed {seed}; settled after {slowest:.1?} at most");
    clients.stop(site);
}

struct Storm<'a> {
    site: &'a Site<'a>,
    random: Random,
}

impl Storm<'_> {
    /// Returns what it has done.
    fn operate(&mut self) -> String {
        let cluster = self.site.cluster;
        let kind = &KINDS[self.random.below(KINDS.len())];
        let (size, revision) = (1 + self.random.below(3), kind.revisions[self.random.below(2)]);
        match self.random.below(20) {
            0..5 => self.set(kind, kind.size, &json!(size)),
            5..9 => self.set(kind, kind.revision, &json!(revision)),
            9..11 => self.set_missing(kind),
            11..14 => self.kill(kind),
            14..17 => self.delete_pod(kind),
            17 => {
                drain(cluster, "5s");
                uncordon(cluster);
                "drain".to_owned()
            }
            number => {
                let service = ["kubelet", "containerd"][number % 2];
                self.site.node.kill_service(service);
                format!("restart {service}")
            }
        }
    }

    fn set(&self, kind: &Kind, field: &str, value: &Value) -> String {
        self.site.cluster.patch(&[&kind.object()], "merge", &json!({ "spec": { field: value } }));
        format!("{} {field}: {value}", kind.sample())
    }

    /// A database gets its version back before anything else happens: its primary would get the missing one
    /// where it goes meanwhile, and its StatefulSet then waits for replicas, which wait for the primary.
    fn set_missing(&self, kind: &Kind) -> String {
        let is_database = kind.revision == "version";
        if is_database {
            self.settle();
        }
        let operation = self.set(kind, kind.revision, &json!(kind.missing));
        if is_database {
            eventually("report of a missing image", || {
                let object = self.site.cluster.get(&[&kind.object()]);
                let is_reported = condition(&object, "Degraded") == "True";
                is_reported.then_some(()).ok_or_else(|| object["status"].to_string())
            });
            self.settle();
        }
        operation
    }

    /// A process in a pod.
    fn kill(&mut self, kind: &Kind) -> String {
        let processes = self.pod(kind).map(|pod| self.site.node.processes_of(&pod));
        let mut processes = processes.unwrap_or_default();
        if processes.is_empty() {
            return format!("no process of {}", kind.sample());
        }
        let (pid, words) = processes.swap_remove(self.random.below(processes.len()));
        kill(pid);
        let words: String = words.join(" ").chars().take(40).collect();
        format!("kill `{words}` of {}", kind.sample())
    }

    fn delete_pod(&mut self, kind: &Kind) -> String {
        let Some(pod) = self.pod(kind) else { return format!("no pod of {}", kind.sample()) };
        let name = pod["metadata"]["name"].as_str().unwrap();
        // It may be gone by now.
        let _ = self.site.cluster.client().delete(&["pod", name]);
        format!("delete pod {name}")
    }

    fn pod(&mut self, kind: &Kind) -> Option<Value> {
        let mut pods = pods(self.site.cluster, &kind.sample());
        (!pods.is_empty()).then(|| pods.swap_remove(self.random.below(pods.len())))
    }

    /// Mends what was broken on purpose, and waits until all is well. Returns how long that took.
    fn settle(&self) -> Duration {
        let begin = Instant::now();
        for kind in &KINDS {
            self.set(kind, kind.revision, &json!(kind.revisions[0]));
        }
        timed("all to settle", || all_settled(self.site.cluster));
        begin.elapsed()
    }
}

/// Those that use the samples.
struct Clients {
    web: Client,
    cache: Client,
    writer: Client,
    reader: Client,
    /// What the database has acknowledged.
    acknowledged: Arc<Mutex<BTreeSet<usize>>>,
    postgres: Postgres,
}

impl Clients {
    fn start(site: &Site) -> Self {
        let cluster = site.cluster;
        let (address, port) = service(cluster);
        // kube-proxy takes a second to see that pods are ready.
        eventually("page", || page(&address, port));
        let web = Client::start(Duration::from_millis(5), move || page(&address, port).map(drop));

        let (own, mut number) = (cluster.clone(), 0);
        let cache = Client::start(Duration::from_millis(100), move || {
            number += 1;
            let address = address_of_cache(&own, number)?;
            memcached_keeps(&address, 11211, &number.to_string())
        });

        let object = cluster.get(&[&KINDS[2].object()]);
        let postgres =
            Postgres::of(&object, cluster, site.node.client("/usr/lib/postgresql/17/bin/psql"));
        let table = "create table if not exists storm (n int)";
        eventually("table", || postgres.query(&postgres.primary, table));
        eventually("read", || postgres.query(&postgres.all, "select"));
        let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
        let (own, rows, mut number) = (postgres.clone(), acknowledged.clone(), 0);
        let writer = Client::start(Duration::from_millis(20), move || {
            number += 1;
            let insert = format!("insert into storm values ({number})");
            own.query(&own.primary, &insert)?;
            rows.lock().unwrap().insert(number);
            Ok(())
        });
        let own = postgres.clone();
        let reader = Client::start(Duration::from_millis(200), move || {
            own.query(&own.all, "select count(*) from storm").map(drop)
        });
        Self { web, cache, writer, reader, acknowledged, postgres }
    }

    /// Prints what they have seen, and looks whether everything is there that was acknowledged.
    fn stop(self, site: &Site) {
        let clients = [
            ("the web server", self.web),
            ("memcached", self.cache),
            ("the database", self.writer),
            ("its instances", self.reader),
        ];
        for (what, client) in clients {
            let figures = client.stop();
            eprintln!(
                "{what}: {} of {} requests failed, {:.1?} without an answer at most: {:#?}",
                figures.failed, figures.requests, figures.outage, figures.failures
            );
            assert!(figures.failed < figures.requests, "{what} should answer");
        }
        let acknowledged = self.acknowledged.lock().unwrap();
        for pod in pods(site.cluster, &KINDS[2].sample()) {
            let address = pod["status"]["podIP"].as_str().unwrap();
            eventually("rows that were acknowledged", || {
                let rows = self.postgres.query(address, "select n from storm")?;
                let rows: BTreeSet<usize> = rows.lines().map(|row| row.parse().unwrap()).collect();
                let lost: Vec<_> = acknowledged.difference(&rows).collect();
                lost.is_empty().then_some(()).ok_or_else(|| format!("lost: {lost:?}"))
            });
        }
        eprintln!("{} acknowledged writes, none lost", acknowledged.len());
    }
}

/// One of the ready servers, which clients of a cache choose themselves.
fn address_of_cache(cluster: &Cluster, number: usize) -> Result<String, String> {
    let mut pods = pods(cluster, &KINDS[0].sample());
    pods.retain(|pod| condition(pod, "Ready") == "True");
    let pod = pods.get(number % pods.len().max(1)).ok_or("no server is ready")?;
    Ok(pod["status"]["podIP"].as_str().unwrap_or_default().to_owned())
}
