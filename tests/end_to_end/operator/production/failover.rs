//! Two managers: one works, and the other takes its place when it is killed, told to stop or frozen.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::fleet::{self, Load};
use super::site::{Manager, Site};
use super::writes::{assert_nothing_new, assert_one_after_the_other, writes};
use crate::operator::cluster::Cluster;
use crate::operator::machine::Machine;
use crate::operator::memcached::memcached;
use crate::operator::wait::{eventually, within};

/// The lease's 15 s, up to 2 s until its last change is seen, up to 2 s until the next attempt.
const EXPIRY: Duration = Duration::from_secs(20);

/// The 2 s until the next attempt, and what is under way.
const HANDOVER: Duration = Duration::from_secs(3);

/// Shows that the leader works before anything happens to it.
const ENOUGH: usize = 30;

const ELECT: &[&str] = &["--leader-elect"];

#[test]
fn of_two_managers_one_writes() {
    let machine = Machine::new();
    let site = Site::deployed(&machine);
    let cluster = &site.cluster;
    let first = site.manager("manager-0", ELECT);
    site.led_by(&first);
    let load = Load::start(cluster, grow);

    let (mut killed, second) = replaced(&site, first, "manager-1", Signal::KILL, EXPIRY);
    killed.process.wait();
    assert_one_after_the_other(cluster, &killed, &second);

    let (mut told, third) = replaced(&site, second, "manager-2", Signal::TERM, HANDOVER);
    assert_eq!(told.process.wait().code(), Some(0));
    assert_one_after_the_other(cluster, &told, &third);

    let (mut frozen, fourth) = replaced(&site, third, "manager-3", Signal::STOP, EXPIRY);
    // It still believes to lead when it wakes, and has changes to react to.
    frozen.send(Signal::CONT);
    assert_eq!(frozen.process.wait().code(), Some(1), "it has lost its lease");
    assert_nothing_new(cluster, &frozen, &fourth);

    fleet::settled(cluster, load.stop());
}

/// Sends the signal to the leader, which is at work, and has a standby take over within the limit.
/// Returns the one that was the leader and the one that is.
fn replaced(
    site: &Site,
    leader: Manager,
    name: &str,
    signal: Signal,
    limit: Duration,
) -> (Manager, Manager) {
    let cluster = &site.cluster;
    let transitions = site.led_by(&leader);
    let next = site.manager(name, ELECT);
    eventually("standby", || {
        let log = next.process.log();
        log.contains("another manager is the leader").then_some(()).ok_or(log)
    });
    eventually("work of the leader", || has_written(cluster, &leader, ENOUGH));

    let begin = Instant::now();
    leader.send(signal);
    within(limit, "write of the other manager", || has_written(cluster, &next, 1));
    eprintln!("after {signal:?} the other one writes within {:.1?}", begin.elapsed());
    assert_eq!(site.led_by(&next), transitions + 1);
    (leader, next)
}

/// Creates a Memcached and scales one that is there.
fn grow(cluster: &Cluster, step: usize) {
    cluster.create(&memcached(&fleet::name(step), json!({ "size": step % 2 })));
    cluster.scale(&["memcached", &fleet::name(step / 2)], (step / 2 + 1) % 2);
}

fn has_written(cluster: &Cluster, manager: &Manager, at_least: usize) -> Result<(), String> {
    match writes(cluster, manager).len() {
        count if count >= at_least => Ok(()),
        count => Err(format!("{count} writes of {}", manager.name)),
    }
}
