//! The operator's own metrics, beside those of the runtime.

use opctl_runtime::Manager;
use opctl_runtime::prometheus_client::metrics::counter::Counter;
use opctl_runtime::prometheus_client::metrics::gauge::Gauge;

/// The metrics. Clones are the same metrics.
#[derive(Clone, Default)]
pub struct Metrics {
    pub jobs_started: Counter,
    pub suspended: Gauge,
}

impl Metrics {
    /// Metrics that `manager` serves at /metrics.
    pub fn register(manager: &Manager) -> Self {
        let metrics = Self::default();
        manager.register_metrics(|registry| {
            let jobs_started = metrics.jobs_started.clone();
            registry.register(
                "cronjob_jobs_started",
                "Jobs that were started",
                jobs_started,
            );
            let suspended = metrics.suspended.clone();
            registry.register(
                "cronjob_suspended",
                "CronJobs that are suspended",
                suspended,
            );
        });
        metrics
    }
}
