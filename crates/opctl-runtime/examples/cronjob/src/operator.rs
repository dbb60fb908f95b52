//! The operator: a controller and what runs beside it.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use opctl_runtime::{Controller, Index, Manager};
use tokio::time::interval;
use tracing::info;

use crate::api::CronJob;
use crate::clock::Clock;
use crate::controller::{Context, error_policy, reconcile};
use crate::ledger::Ledger;
use crate::metrics::Metrics;

/// Starts the operator on `manager`, which tests connect to a cluster of their own.
pub fn start(manager: &Manager, ledger: Ledger, clock: impl Clock) {
    let controller = Controller::new(manager);
    let metrics = Metrics::register(manager);

    // The pod receives no traffic, and a rollout stops, while the ledger is missing.
    let checked = ledger.clone();
    manager.add_readiness_check("ledger", move || checked.check());

    // An index answers "which CronJobs are suspended" without looking at all of them.
    let by_suspend = controller
        .store()
        .index(|cron_job: &CronJob| [cron_job.spec.suspend]);
    let report = report_suspended(by_suspend, metrics.clone());
    manager.spawn_on_leader("the report of suspended CronJobs", report);

    let context = Context {
        cron_jobs: controller.store(),
        // A Job that changes reconciles the CronJob that owns it.
        jobs: controller.owns(),
        // A ConfigMap that changes reconciles all CronJobs that name it.
        config_maps: controller.refers_to(|cron_job: &CronJob| {
            let name = cron_job.spec.environment_config_map.as_deref();
            let reference = |name| {
                let namespace = cron_job.namespace().unwrap_or_default();
                ObjectRef::new(name).within(&namespace)
            };
            name.map(reference)
        }),
        applier: controller.applier(),
        client: manager.client(),
        clock: Arc::new(clock),
        ledger,
        metrics,
    };
    controller.run_with(reconcile, error_policy, context);
}

/// Runs in one process only, the leader: two would report the same CronJobs.
async fn report_suspended(by_suspend: Index<CronJob, bool>, metrics: Metrics) {
    let mut ticks = interval(Duration::from_secs(10));
    loop {
        ticks.tick().await;
        let suspended = by_suspend.get(&true).len() as i64;
        if metrics.suspended.set(suspended) != suspended {
            info!("{suspended} CronJobs are suspended");
        }
    }
}
