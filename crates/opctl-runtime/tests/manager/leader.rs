//! Of several managers one leads.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use opctl_runtime::testing::{Operator, eventually, free_address};
use tokio::time::sleep;

use crate::cluster::{example, operator};
use crate::http::probe;
use crate::program::{self, BLOCK, LEASE_DURATION};

/// What a lease says of its holder.
async fn lease(operator: &Operator, name: &str) -> Option<LeaseSpec> {
    let leases: Api<Lease> = Api::namespaced(operator.client.clone(), &operator.namespace);
    leases.get(name).await.ok()?.spec
}

async fn holder(operator: &Operator, name: &str) -> Option<String> {
    let holder = lease(operator, name).await?.holder_identity?;
    Some(holder).filter(|holder| !holder.is_empty())
}

/// Of a process that takes part in the election, and serves nothing.
fn flags(operator: &Operator) -> [&str; 5] {
    [
        "--leader-elect",
        "--leader-elect-namespace",
        &operator.namespace,
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ]
}

#[tokio::test]
async fn a_standby_takes_over_from_a_leader_that_is_stopped() {
    let operator = operator(|_| {}).await;
    let flags = flags(&operator);
    let leader = async || holder(&operator, "configmaps").await;
    let mut first = example(&operator, &flags);
    let old = eventually("a leader", leader).await;
    let _second = example(&operator, &flags);

    assert!(first.stop().await.success());
    eventually("another leader", async || {
        leader().await.filter(|leader| *leader != old)
    })
    .await;
}

#[tokio::test]
async fn a_task_of_the_leader_runs_in_no_standby() {
    let operator = operator(|_| {}).await;
    let marks: Api<ConfigMap> = Api::namespaced(operator.client.clone(), &operator.namespace);
    let mark = async |name: &str| marks.get(&format!("led-{name}")).await.ok();
    let probes = free_address();
    let mut first = program::start(&operator, "first", "0");
    eventually("the task of the leader", async || mark("first").await).await;

    let _second = program::start(&operator, "second", &probes);
    eventually("a standby that is ready", async || {
        probe(&probes, "/readyz").await.filter(|code| *code == 200)
    })
    .await;
    sleep(LEASE_DURATION).await;
    assert!(mark("second").await.is_none(), "the first one leads");

    assert!(first.stop().await.success());
    eventually("the task of the new leader", async || mark("second").await).await;
}

#[tokio::test]
async fn a_manager_whose_stores_are_not_complete_leaves_the_lease_to_others() {
    let operator = operator(|_| {}).await;
    let marks: Api<ConfigMap> = Api::namespaced(operator.client.clone(), &operator.namespace);
    let probes = free_address();
    let mut broken = program::start_with_missing_kind(&operator, "broken", &probes);
    eventually("its probes", async || probe(&probes, "/healthz").await).await;
    sleep(LEASE_DURATION).await;
    assert_eq!(holder(&operator, program::NAME).await, None);
    assert_ne!(probe(&probes, "/readyz").await, Some(200));

    let _healthy = program::start(&operator, "healthy", "0");
    eventually("a leader", async || marks.get("led-healthy").await.ok()).await;
    assert!(broken.is_running(), "it has not waited for its stores");
    let ended = async || (!broken.is_running()).then_some(());
    eventually("the end of what cannot start", ended).await;
}

/// Creates the ConfigMap whose reconcile blocks the thread.
async fn create_blocking(objects: &Api<ConfigMap>) {
    let mut object = ConfigMap::default();
    object.metadata.name = Some("blocking".to_owned());
    object.metadata.labels = Some([(BLOCK.to_owned(), String::new())].into());
    let created = objects.create(&PostParams::default(), &object).await;
    created.expect("a ConfigMap should be created");
}

/// Whether its reconcile has left that annotation.
async fn has(objects: &Api<ConfigMap>, annotation: &str) -> Option<()> {
    let object = objects.get("blocking").await.ok()?;
    object.annotations().contains_key(annotation).then_some(())
}

#[tokio::test]
async fn a_second_signal_ends_a_process_that_blocks() {
    let operator = operator(|_| {}).await;
    let mut manager = program::start(&operator, "first", "0");
    let objects: Api<ConfigMap> = Api::namespaced(operator.client.clone(), &operator.namespace);
    create_blocking(&objects).await;
    eventually("the beginning", async || has(&objects, "begin").await).await;
    manager.terminate();
    sleep(Duration::from_secs(1)).await;
    let second = Instant::now();
    assert!(!manager.stop().await.success());
    assert!(second.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn the_lease_has_the_name_that_a_flag_gives_it() {
    let operator = operator(|_| {}).await;
    let flags = [&flags(&operator)[..], &["--leader-election-id=other"]].concat();
    let _manager = example(&operator, &flags);
    eventually("a leader", async || holder(&operator, "other").await).await;
}

#[tokio::test]
async fn a_reconcile_that_blocks_its_thread_stops_neither_leases_nor_probes() {
    let operator = operator(|_| {}).await;
    let probes = free_address();
    let mut manager = program::start(&operator, "first", &probes);
    let first = eventually("a leader", async || holder(&operator, program::NAME).await).await;
    let _standby = program::start(&operator, "second", "0");

    let objects: Api<ConfigMap> = Api::namespaced(operator.client.clone(), &operator.namespace);
    create_blocking(&objects).await;
    let has = async |annotation: &str| has(&objects, annotation).await;
    eventually("the beginning", async || has("begin").await).await;

    let (begin, mut renewals) = (Instant::now(), BTreeSet::new());
    while has("end").await.is_none() {
        assert_eq!(probe(&probes, "/healthz").await, Some(200));
        let lease = lease(&operator, program::NAME).await;
        let lease = lease.expect("the lease should be there");
        assert_eq!(lease.holder_identity.as_ref(), Some(&first));
        renewals.insert(lease.renew_time.map(|time| time.0));
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "the reconcile should end"
        );
        sleep(Duration::from_millis(100)).await;
    }
    assert!(
        begin.elapsed() > LEASE_DURATION,
        "it has blocked for {:?}",
        begin.elapsed()
    );
    assert!(renewals.len() > 3, "{renewals:?}");
    assert!(manager.is_running());
}
