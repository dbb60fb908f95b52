//! Requests that fail.

use std::time::Duration;

use opctl_runtime::testing::{Fault, FaultProxy, Injection, Request, Rule};

use super::fleet::{self, Load};
use super::site::{Account, Site};
use super::writes::writes;
use crate::operator::machine::Machine;
use crate::operator::wait::{eventually, timed};

const MANY: usize = 200;

/// How long a watch lasts before its connection is dropped.
const WATCH: Duration = Duration::from_secs(8);

#[test]
fn every_fourth_request_may_fail() {
    let machine = Machine::new();
    let site = Site::deployed(&machine);
    let cluster = &site.cluster;

    let account = site.account("manager-0");
    let proxy = FaultProxy::for_kubeconfig(&account.kubeconfig);
    let account = Account { kubeconfig: proxy.kubeconfig().to_owned(), ..account };
    let writes_only = |request: &Request| request.method != "GET";
    let faults = [
        Rule::new(Fault::Status(429)).probability(0.05),
        Rule::new(Fault::Status(500)).probability(0.08),
        Rule::new(Fault::Status(409)).matching(writes_only).probability(0.1),
        Rule::new(Fault::ReplaceAnswer(504)).matching(writes_only).probability(0.02),
        Rule::new(Fault::Disconnect).probability(0.03),
        Rule::new(Fault::LoseAnswer).probability(0.03),
        Rule::new(Fault::Cut(WATCH)),
    ]
    .map(|rule| proxy.inject(rule));
    let mut manager = site.manager_as(&account, "manager-0", &[]);

    timed("creation of all under faults", || {
        fleet::create(cluster, MANY);
        fleet::settled(cluster, MANY);
    });
    let before = fleet::deployments(cluster);
    let load = Load::start(cluster, |cluster, step| fleet::swap(cluster, step, MANY));
    let known = writes(cluster, &manager).len();
    eventually("work under load", || match writes(cluster, &manager).len() - known {
        count if count >= MANY => Ok(()),
        count => Err(format!("{count} writes")),
    });
    load.stop();
    fleet::settled(cluster, MANY);
    assert_eq!(fleet::deployments(cluster), before, "no Deployment was made anew");
    manager.process.assert_runs();

    let counts = faults.each_ref().map(Injection::count);
    let retries = manager.metric("workqueue_retries_total");
    let errors = manager.metric("controller_runtime_reconcile_errors_total");
    eprintln!("{counts:?} faults, {retries} retries, {errors} errors");
    assert!(counts.iter().all(|count| *count > 0), "each fault should happen: {counts:?}");
    assert!(retries > 0.0 && errors > 0.0);
    assert_eq!(manager.metric("controller_runtime_reconcile_panics_total"), 0.0);
    let log = manager.process.log();
    assert!(!log.contains("panicked"), "{log}");
}
