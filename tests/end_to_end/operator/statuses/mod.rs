//! What tools take an object for: never for one that is as specified while it is not, and not for long
//! for one that is on its way once it has arrived.

mod history;
mod judge;
mod kstatus;
mod transitions;

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use self::history::Recorder;
use self::judge::Judgement;
use self::kstatus::{Kstatus, Verdict};
use self::transitions::Transitions;
use crate::operator::cluster::{Cluster, condition};
use crate::operator::everything::{Everything, KINDS, Kind};
use crate::operator::machine::Machine;
use crate::operator::wait::{eventually, timed, within};

/// How many transitions there are where nothing else is asked for.
const TRANSITIONS: usize = 40;

/// For what the operator reports at once.
const SECONDS: Duration = Duration::from_secs(20);

/// `STATUS_TRANSITIONS` and `STATUS_SEED` choose others.
#[test]
fn tools_see_an_object_as_it_is() {
    let machine = Machine::new();
    let kstatus = Kstatus::build();
    let everything = Everything::installed(&machine);
    let cluster = &everything.cluster;
    is_in_progress_without_an_operator(cluster, &kstatus);
    let mut operator = everything.start();

    let (count, seed) = (number("STATUS_TRANSITIONS", TRANSITIONS), number("STATUS_SEED", 1));
    eprintln!("{count} transitions, seed {seed}");
    let recorder = Recorder::start(cluster);
    timed("the transitions", || Transitions::new(cluster, seed as u64).make(count));
    eventually("objects as specified", || {
        recorder.peek(|history| Judgement::assert_settled(history, &kstatus))
    });
    let history = recorder.stop();
    let judgement = timed("the judgement", || Judgement::of(&history, &kstatus));
    eprintln!("{judgement:#?}");
    assert!(judgement.violations.is_empty(), "{} violations", judgement.violations.len());

    charts_do_not_select_pods(cluster);
    reports_pods_that_cannot_be_created(cluster, &kstatus);
    reports_a_refused_change(cluster, &kstatus);
    reports_a_crash_loop(cluster, &kstatus);
    operator.assert_runs();
    let log = operator.log();
    assert!(!log.contains("panicked"), "{log}");
    drop(operator);
    knows_a_crash_loop_from_the_start(&everything);
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |number| number.parse().expect("a number"))
}

fn memcached() -> &'static Kind {
    &KINDS[0]
}

fn postgres() -> &'static Kind {
    &KINDS[2]
}

fn is_in_progress_without_an_operator(cluster: &Cluster, kstatus: &Kstatus) {
    for kind in &KINDS {
        cluster.create(&kind.object("early", 1, 1));
        let object = cluster.get(&[kind.plural, "early"]);
        assert_eq!(kstatus.judge(&[&object]), [Verdict::InProgress], "{object}");
        cluster.ok(&["delete", kind.plural, "early"]);
    }
}

/// Pods that the API server does not take may pass by themselves: the operator is on its way, and says
/// what is in it.
fn reports_pods_that_cannot_be_created(cluster: &Cluster, kstatus: &Kstatus) {
    cluster.create(&memcached().object("full", 4, 1));
    let get = || cluster.get(&[memcached().plural, "full"]);
    is_current(kstatus, get);
    cluster.ok(&["create", "quota", "pods", "--hard=pods=0"]);
    let size = |size: usize| {
        let patch = json!({ "spec": { "size": size } });
        cluster.patch(&["memcached/full"], "merge", &patch);
    };
    size(5);
    within(SECONDS, "report of an exceeded quota", || {
        let object = get();
        let is_reported = condition(&object, "Degraded") == "True"
            && condition(&object, "Available") == "True"
            && message(&object, "Ready").contains("exceeded quota: pods")
            && kstatus.judge(&[&object]) == [Verdict::InProgress];
        is_reported.then_some(()).ok_or_else(|| object.to_string())
    });
    cluster.ok(&["delete", "quota", "pods"]);
    // Without waiting for the next attempt of the built-in controller.
    size(4);
    is_current(kstatus, get);
}

/// A chart that is called as the kind, with a release that is called as the object, has Services that
/// select what has both names in lower case.
fn charts_do_not_select_pods(cluster: &Cluster) {
    let pods = cluster.get(&["pods"]);
    let pods = pods["items"].as_array().into_iter().flatten();
    let names: BTreeSet<_> =
        pods.map(|pod| pod["metadata"]["labels"]["app.kubernetes.io/name"].to_string()).collect();
    eprintln!("names of the pods: {names:?}");
    assert!(names.len() > 1, "pods of several kinds");
    for kind in &KINDS {
        assert!(!names.contains(&json!(kind.name.to_lowercase()).to_string()));
    }
}

/// What would lose data needs somebody who decides.
fn reports_a_refused_change(cluster: &Cluster, kstatus: &Kstatus) {
    let get = || cluster.get(&[postgres().plural, "refused"]);
    cluster.create(&postgres().object("refused", 1, 1));
    is_current(kstatus, get);
    let storage = |size: &str| {
        let patch = json!({ "spec": { "storage": { "size": size } } });
        cluster.patch(&["postgrescluster/refused"], "merge", &patch);
    };
    storage("2Gi");
    within(SECONDS, "report of a refused change", || {
        let object = get();
        let is_reported = condition(&object, "Stalled") == "True"
            && kstatus.judge(&[&object]) == [Verdict::Failed];
        is_reported.then_some(()).ok_or_else(|| object.to_string())
    });
    storage("1Gi");
    is_current(kstatus, get);
}

/// Only pods tell it within minutes.
fn reports_a_crash_loop(cluster: &Cluster, kstatus: &Kstatus) {
    cluster.create(&memcached().object("crashing", 1, 1));
    is_current(kstatus, || cluster.get(&[memcached().plural, "crashing"]));
    let pods = "app.kubernetes.io/instance=crashing";
    cluster.ok(&["label", "pods", "--selector", pods, "opctl/pods=crash"]);
    eventually("report of a crash loop", || {
        let (degraded, list) = (degraded(cluster), cluster.get(&["pods", "--selector", pods]));
        let is_reported = degraded["status"] == "True" && degraded["reason"] == "CrashLoopBackOff";
        // From then on also while the container runs for a moment.
        let restarts = &list["items"][0]["status"]["containerStatuses"][0]["restartCount"];
        let is_known = is_reported && restarts.as_u64() > Some(1);
        is_known.then_some(()).ok_or_else(|| format!("{degraded}, {restarts} restarts"))
    });
}

/// It would be a lie for as long as the pods are not looked at, and another event afterwards.
fn knows_a_crash_loop_from_the_start(everything: &Everything) {
    let before = degraded(&everything.cluster);
    let mut operator = everything.start();
    sleep(Duration::from_secs(3)); // for the first reconcile
    let after = degraded(&everything.cluster);
    for field in ["status", "lastTransitionTime"] {
        assert_eq!(after[field], before[field], "{after}");
    }
    operator.assert_runs();
}

fn degraded(cluster: &Cluster) -> Value {
    find(&cluster.get(&[memcached().plural, "crashing"]), "Degraded").cloned().unwrap_or_default()
}

fn is_current(kstatus: &Kstatus, get: impl Fn() -> Value) {
    eventually("object as specified", || {
        let object = get();
        let is_current = kstatus.judge(&[&object]) == [Verdict::Current];
        is_current.then_some(()).ok_or_else(|| object.to_string())
    });
}

fn message<'a>(object: &'a Value, type_: &str) -> &'a str {
    find(object, type_).and_then(|condition| condition["message"].as_str()).unwrap_or_default()
}

fn find<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == type_)
}
