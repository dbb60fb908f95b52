//! Reconciles CronJobs.

use std::io;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Api, Client, ResourceExt};
use opctl_runtime::conditions::{self, ConditionUpdate, set_conditions};
use opctl_runtime::{Applier, Retry, Store, finalizer, soonest};

use crate::api::{ConcurrencyPolicy, CronJob, CronJobStatus};
use crate::clock::Clock;
use crate::jobs::{self, Jobs};
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::plan::{InvalidSchedule, Plan, READY, Step, last_schedule_time};

/// Keeps a deleted CronJob until its records are removed from the ledger.
const FINALIZER: &str = "batch.tutorial.kubebuilder.io/ledger";

/// What the reconciler works with. A unit test makes one of a few objects, a client that records
/// requests, and a clock of its own.
pub struct Context {
    pub cron_jobs: Store<CronJob>,
    pub jobs: Store<Job>,
    /// The metadata is enough to know that a ConfigMap exists.
    pub config_maps: Store<PartialObjectMeta<ConfigMap>>,
    pub applier: Applier,
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub ledger: Ledger,
    pub metrics: Metrics,
}

/// Why a CronJob cannot be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Terminal: the same schedule fails again.
    #[error(transparent)]
    InvalidSchedule(#[from] InvalidSchedule),

    /// The outside system cannot be reached.
    #[error("cannot write to the ledger: {0}")]
    Ledger(#[from] io::Error),

    /// The API server cannot be reached or refuses an object.
    #[error(transparent)]
    Write(#[from] opctl_runtime::Error),
}

/// Decides what follows an error: what only a change of the CronJob can mend waits for it, and the
/// rest is tried again.
pub fn error_policy(_: &CronJob, error: &finalizer::Error<Error>, _: &Context) -> Retry {
    match error {
        finalizer::Error::ApplyFailed(Error::InvalidSchedule(_)) => Retry::OnChange,
        _ => Retry::Backoff,
    }
}

/// Adds the finalizer to a new CronJob, and removes it from a deleted one after the cleanup.
pub async fn reconcile(
    cron_job: Arc<CronJob>,
    ctx: Arc<Context>,
) -> Result<Action, finalizer::Error<Error>> {
    let namespace = cron_job.namespace().unwrap_or_default();
    let cron_jobs = Api::<CronJob>::namespaced(ctx.client.clone(), &namespace);
    finalizer(&cron_jobs, FINALIZER, cron_job, async |event| match event {
        finalizer::Event::Apply(cron_job) => apply(&cron_job, &ctx).await,
        finalizer::Event::Cleanup(cron_job) => {
            ctx.ledger.remove(&cron_job).await?;
            Ok(Action::await_change())
        }
    })
    .await
}

async fn apply(cron_job: &CronJob, ctx: &Context) -> Result<Action, Error> {
    let jobs: Jobs = ctx.jobs.by_owner(cron_job).into_iter().collect();
    let has_environment = has_environment(cron_job, ctx);
    let plan = Plan::new(cron_job, &jobs, has_environment, ctx.clock.now());
    let condition = match &plan {
        Ok(plan) => plan.step.condition(),
        Err(error) => ConditionUpdate::new(READY, false, "InvalidSchedule", error.to_string()),
    };
    if let Ok(plan) = &plan
        && let Step::Start(time) = plan.step
    {
        start_job(cron_job, &jobs, time, ctx).await?;
    }
    delete_old_jobs(cron_job, &jobs, ctx).await?;
    write_status(cron_job, condition, ctx).await?;
    let next_run = plan?.next_run.map(|time| ctx.clock.until(time));
    Ok(soonest([next_run]))
}

fn has_environment(cron_job: &CronJob, ctx: &Context) -> bool {
    let name = cron_job.spec.environment_config_map.as_deref();
    let namespace = cron_job.metadata.namespace.as_deref();
    name.is_some_and(|name| ctx.config_maps.get(namespace, name).is_some())
}

async fn start_job(
    cron_job: &CronJob,
    jobs: &Jobs,
    time: Timestamp,
    ctx: &Context,
) -> Result<(), Error> {
    if cron_job.spec.concurrency_policy == ConcurrencyPolicy::Replace {
        for job in &jobs.active {
            ctx.applier.delete(cron_job, &**job, &ctx.jobs).await?;
        }
    }
    let job = jobs::job(cron_job, time);
    ctx.ledger.record(cron_job, &job.name_any()).await?;
    ctx.applier.create(cron_job, job, &ctx.jobs).await?;
    ctx.metrics.jobs_started.inc();
    Ok(())
}

async fn delete_old_jobs(cron_job: &CronJob, jobs: &Jobs, ctx: &Context) -> Result<(), Error> {
    for (jobs, limit) in [
        (
            &jobs.successful,
            cron_job.spec.successful_jobs_history_limit,
        ),
        (&jobs.failed, cron_job.spec.failed_jobs_history_limit),
    ] {
        let excess = jobs.len().saturating_sub(limit as usize);
        for job in &jobs[..excess] {
            ctx.applier.delete(cron_job, &**job, &ctx.jobs).await?;
        }
    }
    Ok(())
}

/// Reports the Jobs as they are now: the store has the Job that was just started.
async fn write_status(
    cron_job: &CronJob,
    condition: ConditionUpdate,
    ctx: &Context,
) -> Result<(), Error> {
    let jobs: Jobs = ctx.jobs.by_owner(cron_job).into_iter().collect();
    let previous = cron_job.status.iter().flat_map(|status| &status.conditions);
    let previous: Vec<_> = previous.cloned().collect();
    let generation = cron_job.metadata.generation;
    let status = CronJobStatus {
        active: jobs.references(),
        last_schedule_time: last_schedule_time(cron_job, &jobs).map(Time),
        conditions: set_conditions(&previous, generation, std::slice::from_ref(&condition)),
    };
    ctx.applier
        .write_status(cron_job, status, &ctx.cron_jobs)
        .await?;
    // One event when the reason changes, rather than one for each reconcile.
    let reported = conditions::find(&previous, READY).map(|condition| condition.reason.as_str());
    if reported != Some(&condition.reason) {
        let type_ = match condition.status {
            conditions::ConditionStatus::True => EventType::Normal,
            _ => EventType::Warning,
        };
        let events = ctx.applier.events();
        events
            .publish(cron_job, type_, &condition.reason, &condition.message)
            .await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
