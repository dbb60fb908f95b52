//! An API server that goes away, and comes back.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::fleet::{self, Load};
use super::site::Site;
use crate::operator::cluster::Cluster;
use crate::operator::faults::{answers, api_server, start_as_a_daemon};
use crate::operator::machine::Machine;
use crate::operator::wait::eventually;

const MANY: usize = 200;

/// How long the API server is away.
const OUTAGE: Duration = Duration::from_secs(10);

/// Without an election: by design, a leader ends that cannot renew its lease for so long.
#[test]
fn five_outages_of_the_api_server_lose_nothing() {
    let machine = Machine::new();
    let site = Site::deployed(&machine);
    let cluster = &site.cluster;
    let mut manager = site.manager("manager-0", &[]);
    fleet::create(cluster, MANY);
    fleet::settled(cluster, MANY);
    let before = fleet::deployments(cluster);

    let load = Load::start(cluster, |cluster, step| fleet::swap(cluster, step, MANY - 2));
    for killed in [true, false, true, false, true] {
        let (pid, words) = api_server(&machine);
        kill_process(pid, if killed { Signal::KILL } else { Signal::STOP }).unwrap();
        sleep(OUTAGE);
        match killed {
            true => start_as_a_daemon(&words),
            false => kill_process(pid, Signal::CONT).unwrap(),
        }
        let begin = Instant::now();
        answers(cluster);
        let answered = begin.elapsed();
        sees_changes(cluster);
        let how = if killed { "killed" } else { "suspended" };
        let works = begin.elapsed();
        eprintln!(
            "{how}: the API server answers after {answered:.1?}, changes get through after {works:.1?}"
        );
        manager.process.assert_runs();
    }
    let steps = load.stop();
    eprintln!("{steps} pairs of Memcacheds were scaled meanwhile");

    fleet::settled(cluster, MANY);
    assert_eq!(fleet::deployments(cluster), before, "no Deployment was made anew");
    manager.process.assert_runs();
    let log = manager.process.log();
    assert!(!log.contains("panicked"), "{log}");
}

/// Scales the Memcached that the load leaves alone, and waits until the operator has seen that.
fn sees_changes(cluster: &Cluster) {
    let witness = fleet::name(MANY - 1);
    let size = cluster.get(&["memcached", &witness])["spec"]["size"].as_u64().unwrap();
    cluster.scale(&["memcached", &witness], 1 - size as usize);
    eventually("reaction to a change", || {
        let memcached = cluster.get(&["memcached", &witness]);
        let seen = &memcached["status"]["observedGeneration"];
        let is_seen = *seen == memcached["metadata"]["generation"];
        is_seen.then_some(()).ok_or_else(|| memcached.to_string())
    });
}
