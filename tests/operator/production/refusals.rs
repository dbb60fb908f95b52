//! Requests that fail.

use std::process::Command;

use super::fleet::{self, Load};
use super::proxy::{Fate, Proxy};
use super::site::Site;
use super::writes::writes;
use crate::background::Background;
use crate::cluster::free_port;
use crate::machine::Machine;
use crate::project::get;
use crate::wait::{eventually, timed};

const MANY: usize = 200;

#[test]
fn every_fourth_request_may_fail() {
    let machine = Machine::new();
    let site = Site::deployed(&machine);
    let cluster = &site.cluster;

    // Speaks TLS, and has the rights of the operator.
    let account = site.account("manager-0");
    let port = free_port();
    let mut kubectl = Command::new(&cluster.kubectl);
    kubectl.env("KUBECONFIG", &account.kubeconfig).args([
        "proxy",
        "--accept-hosts=.*",
        &format!("--port={port}"),
    ]);
    let mut upstream =
        Background::start("kubectl proxy", kubectl, machine.home().join("proxy.log"));
    eventually("kubectl proxy", || {
        upstream.assert_runs();
        get(port, "/readyz")
    });
    let proxy = Proxy::start(port);
    let account = site.behind(account, proxy.port);
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

    let fates = proxy.fates();
    let retries = manager.metric("workqueue_retries_total");
    let errors = manager.metric("controller_runtime_reconcile_errors_total");
    eprintln!("{fates:?}, {retries} retries, {errors} errors");
    for fate in [
        Fate::Passed,
        Fate::Failed,
        Fate::Conflict,
        Fate::Lost,
        Fate::Unanswered,
        Fate::Throttled,
        Fate::Cut,
    ] {
        assert!(fates.contains_key(&fate), "no request was {fate:?}");
    }
    assert!(retries > 0.0 && errors > 0.0);
    assert_eq!(manager.metric("controller_runtime_reconcile_panics_total"), 0.0);
    let log = manager.process.log();
    assert!(!log.contains("panicked"), "{log}");
}
