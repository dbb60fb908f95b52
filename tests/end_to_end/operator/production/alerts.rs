//! Whether the alerts of a project fire in the outages that they are for, and only then.
//!
//! Each outage meets a manager of its own. The manager is scraped each second, and Prometheus' engine
//! evaluates the rules on that. A second counts as fifteen, so that the 15 minutes for which most alerts
//! wait are one: what the rules ask of rates, their ratio or whether there are any, stays the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use opctl_runtime::testing::{Fault, FaultProxy, Request, Rule};
use rustix::process::Signal;
use serde_json::json;

use super::site::{Account, Manager, Site};
use crate::operator::cluster::Cluster;
use crate::operator::machine::Machine;
use crate::operator::memcached::memcached;
use crate::operator::project::finished;
use crate::operator::wait::timed;

/// How many seconds a second counts.
const PACE: u32 = 15;

/// How long all is well before the outage, in scrapes.
const HEALTHY: u32 = 30;

/// How long the outage is observed, in scrapes: 30 minutes.
const OUTAGE: u32 = 120;

/// What an API server that does not work leads to: the leader ends, and what follows it cannot start.
const FAILING: &[&str] = &["NoLeader", "RequestsFailing", "StoreNotSynced"];

/// What happens to a manager.
enum Outage {
    Nothing,
    /// This becomes of all requests.
    Requests(Fault),
    /// This becomes of requests that write Deployments.
    Writes(Fault),
    /// Something is done to the cluster or the manager at the first scrape, and at each after it.
    Event(fn(&Cluster, &mut Manager, namespace: &str, scrape: u32)),
    /// It is not started again.
    Gone,
}

#[test]
fn alerts_fire_in_the_outages_that_they_are_for() {
    use Outage::{Event, Gone, Nothing, Requests, Writes};

    let slow = Duration::from_secs(12);
    let outages: [(&str, Outage, &[&str]); 13] = [
        ("well", Nothing, &[]),
        // A list that hangs is no failure until it is given up; that the stores are incomplete, shows.
        ("hangs", Requests(Fault::Hang), &["NoLeader", "StoreNotSynced"]),
        ("throttles", Requests(Fault::Status(429)), FAILING),
        ("overloaded", Requests(Fault::Status(503)), FAILING),
        ("unreachable", Requests(Fault::Disconnect), FAILING),
        (
            "forbids",
            Requests(Fault::Status(403)),
            &["NoLeader", "RequestsForbidden", "StoreNotSynced"],
        ),
        ("forbids-writes", Writes(Fault::Status(403)), &["ReconcileErrors", "RequestsForbidden"]),
        ("refuses", Writes(Fault::Status(422)), &["ReconcileErrors"]),
        ("slow", Writes(Fault::Delay(slow..slow * 2)), &["ReconcilesSlow"]),
        ("leaderless", Event(take_lease), &["NoLeader"]),
        ("panics", Event(|_, _, _, _| {}), &["ReconcilePanics"]),
        ("crashes", Event(kill), &["Restarting"]),
        ("gone", Gone, &["Down"]),
    ];

    let machine = Machine::new();
    let site = Site::deployed(&machine);
    let rules = site.config("prometheus/rules.yaml");
    let judge = timed("compilation of the judge", || build(&machine));
    let failures: Vec<String> = thread::scope(|scope| {
        let threads = outages.map(|(name, outage, expected)| {
            let (site, judge, rules) = (&site, &judge, &rules);
            scope.spawn(move || {
                let scrapes = observe(site, name, &outage);
                let path = site.machine.home().join(format!("{name}.scrapes"));
                fs::write(&path, scrapes).unwrap();
                let output = Command::new(judge).arg(rules).arg(&path).output().unwrap();
                let printed = finished("judge", output);
                eprintln!("{name}: {}", printed.replace('\n', ", "));
                let mut fired: BTreeSet<&str> = printed
                    .lines()
                    .filter_map(|line| line.split(' ').next()?.strip_prefix("MemcachedOperator"))
                    .collect();
                // A reconcile that was under way on a busy machine fails, too.
                if matches!(outage, Requests(_)) {
                    fired.remove("ReconcileErrors");
                }
                let expected = expected.iter().copied().collect();
                (fired != expected).then(|| format!("{name}: {fired:?}, not {expected:?}"))
            })
        });
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn writes_deployment(request: &Request) -> bool {
    request.method != "GET" && request.resource == "deployments"
}

/// Gives the lease to somebody who does not work.
fn take_lease(cluster: &Cluster, _: &mut Manager, namespace: &str, scrape: u32) {
    if scrape == 0 {
        let lease =
            json!({ "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": 3600 } });
        cluster.patch(&["lease", "memcached-operator", "-n", namespace], "merge", &lease);
    }
}

/// Each tenth second is its last.
fn kill(_: &Cluster, manager: &mut Manager, _: &str, scrape: u32) {
    if scrape % 10 == 8 {
        manager.send(Signal::KILL);
    }
}

/// What Prometheus would see, as the judge reads it.
fn observe(site: &Site, name: &str, outage: &Outage) -> String {
    let (cluster, namespace) = (&site.cluster, format!("outage-{name}"));
    cluster.ok(&["create", "namespace", &namespace]);
    let mut object = memcached("sample", json!({ "size": 1 }));
    object["metadata"]["namespace"] = json!(namespace);
    cluster.create(&object);

    let proxy = FaultProxy::for_kubeconfig(&cluster.kubeconfig);
    let account = Account { kubeconfig: proxy.kubeconfig().to_owned(), credential: String::new() };
    let args = [
        "--leader-elect",
        &format!("--leader-elect-namespace={namespace}"),
        &format!("--namespaces={namespace}"),
    ];
    let mut manager = site.manager_as(&account, name, &args);
    let mut lines = String::new();
    let mut injections = Vec::new();
    let begin = Instant::now();
    for scrape in 0..HEALTHY + OUTAGE {
        thread::sleep((begin + Duration::from_secs(scrape.into())) - Instant::now());
        if let Some(scrape) = scrape.checked_sub(HEALTHY) {
            match outage {
                Outage::Requests(fault) if scrape == 0 => {
                    injections.push(proxy.inject(Rule::new(fault.clone())));
                    // Watches under way end, too.
                    injections.push(proxy.inject(Rule::new(Fault::Cut(Duration::ZERO))));
                }
                Outage::Writes(fault) if scrape == 0 => {
                    let rule = Rule::new(fault.clone()).matching(writes_deployment);
                    injections.push(proxy.inject(rule));
                }
                Outage::Event(event) => event(cluster, &mut manager, &namespace, scrape),
                Outage::Gone if scrape == 0 => manager.send(Signal::KILL),
                _ => {}
            }
        }
        if scrape % 6 == 3 {
            let size = scrape as usize / 6 % 2;
            cluster.scale(&["memcached", "sample", "-n", &namespace], size);
        }
        let mut body = manager.try_scrape().ok();
        if name == "panics" && scrape > HEALTHY {
            body = body.map(|body| one_panic(&body));
        }
        let labels = json!({
            "job": "memcached-operator-controller-manager-metrics-service",
            "namespace": namespace,
            "pod": name,
        });
        let line = json!({ "time": scrape * PACE, "labels": labels, "body": body });
        lines += &format!("{line}\n");
        // The kubelet starts it again.
        if !manager.process.is_running() && !matches!(outage, Outage::Gone) {
            manager = site.start(&account, name, &args);
        }
    }
    lines
}

/// The operator has none: what it would look like.
fn one_panic(body: &str) -> String {
    let counted = |line: &str| match line.strip_prefix("controller_runtime_reconcile_panics_total")
    {
        Some(rest) => {
            format!("controller_runtime_reconcile_panics_total{}1\n", rest.trim_end_matches('0'))
        }
        None => format!("{line}\n"),
    };
    body.lines().map(counted).collect()
}

/// Compiles the evaluation of alerts.
fn build(machine: &Machine) -> PathBuf {
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alerts");
    let mut go = machine.command("go");
    go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/operator/alerts"));
    go.args(["build", "-o"]).arg(&binary).arg(".");
    finished("go build", go.output().unwrap());
    binary
}
