//! What is to be done for a CronJob: a decision without side effects.

use croner::Cron;
use croner::errors::CronError;
use k8s_openapi::jiff::{Timestamp, tz::TimeZone};
use opctl_runtime::conditions::ConditionUpdate;

use crate::api::{ConcurrencyPolicy, CronJob};
use crate::jobs::Jobs;

/// The condition that says whether Jobs start when they are due.
pub const READY: &str = "Ready";

/// A schedule that cannot be understood. Only a change of the CronJob can mend it.
#[derive(Debug, thiserror::Error)]
#[error("invalid schedule '{schedule}': {source}")]
pub struct InvalidSchedule {
    schedule: String,
    source: CronError,
}

/// What is to be done now, and when to look again.
#[derive(Debug, PartialEq)]
pub struct Plan {
    pub step: Step,
    pub next_run: Option<Timestamp>,
}

/// What is to be done for the run that is due.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// No run is due.
    Wait,
    /// Start the Job of the run that was due at this time.
    Start(Timestamp),
    /// Start nothing, as desired.
    Suspend,
    /// Start nothing, although a run is due or could be.
    Hold {
        reason: &'static str,
        message: String,
    },
}

impl Plan {
    /// Decides by what is known at the time `now`. Of several runs that were missed, as while the
    /// operator was down, the latest counts.
    pub fn new(
        cron_job: &CronJob,
        jobs: &Jobs,
        has_environment: bool,
        now: Timestamp,
    ) -> Result<Self, InvalidSchedule> {
        let (previous_run, next_run) =
            runs(&cron_job.spec.schedule, now).map_err(|source| InvalidSchedule {
                schedule: cron_job.spec.schedule.clone(),
                source,
            })?;
        let since = last_schedule_time(cron_job, jobs).or_else(|| creation(cron_job));
        let due = previous_run.filter(|run| Some(*run) > since);
        let step = step(cron_job, jobs, has_environment, due, now);
        let next_run = Some(next_run).filter(|_| step != Step::Suspend);
        Ok(Self { step, next_run })
    }
}

impl Step {
    /// The condition that reports the step.
    pub fn condition(&self) -> ConditionUpdate {
        let (ready, reason, message) = match self {
            Self::Wait | Self::Start(_) => (true, "Scheduled", "Jobs start when they are due"),
            Self::Suspend => (
                false,
                "Suspended",
                "no Jobs start while spec.suspend is true",
            ),
            Self::Hold { reason, message } => (false, *reason, message.as_str()),
        };
        ConditionUpdate::new(READY, ready, reason, message.to_owned())
    }
}

/// The time for which the latest Job was scheduled. The status remembers it when the history limits
/// have removed the Job.
pub fn last_schedule_time(cron_job: &CronJob, jobs: &Jobs) -> Option<Timestamp> {
    let status = cron_job.status.as_ref();
    let recorded = status.and_then(|status| status.last_schedule_time.as_ref());
    jobs.latest.max(recorded.map(|time| time.0))
}

fn creation(cron_job: &CronJob) -> Option<Timestamp> {
    let time = cron_job.metadata.creation_timestamp.as_ref();
    time.map(|time| time.0)
}

/// The latest run until `now`, and the first one after it.
fn runs(schedule: &str, now: Timestamp) -> Result<(Option<Timestamp>, Timestamp), CronError> {
    let (schedule, now): (Cron, _) = (schedule.parse()?, now.to_zoned(TimeZone::UTC));
    let previous = schedule.find_previous_occurrence(&now, true).ok();
    let next = schedule.find_next_occurrence(&now, false)?;
    Ok((previous.map(|run| run.timestamp()), next.timestamp()))
}

fn step(
    cron_job: &CronJob,
    jobs: &Jobs,
    has_environment: bool,
    due: Option<Timestamp>,
    now: Timestamp,
) -> Step {
    let spec = &cron_job.spec;
    let hold = |reason, message| Step::Hold { reason, message };
    if spec.suspend {
        return Step::Suspend;
    }
    if let Some(name) = spec
        .environment_config_map
        .as_ref()
        .filter(|_| !has_environment)
    {
        return hold(
            "EnvironmentMissing",
            format!("ConfigMap {name} does not exist"),
        );
    }
    let Some(run) = due else {
        return Step::Wait;
    };
    let deadline = spec.starting_deadline_seconds.map(i64::from);
    if deadline.is_some_and(|deadline| now.duration_since(run).as_secs() > deadline) {
        return hold(
            "DeadlineExceeded",
            format!("the run of {run} missed its deadline"),
        );
    }
    if spec.concurrency_policy == ConcurrencyPolicy::Forbid && !jobs.active.is_empty() {
        return hold(
            "JobAlreadyActive",
            "the Job of an earlier run is active".to_owned(),
        );
    }
    Step::Start(run)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::api::tests::cron_job;
    use crate::jobs::job;

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    fn plan_with(spec: Value, jobs: &Jobs, now: &str) -> Plan {
        Plan::new(&cron_job(spec), jobs, false, at(now)).unwrap()
    }

    fn plan(spec: Value, now: &str) -> Plan {
        plan_with(spec, &Jobs::default(), now)
    }

    /// An active Job of the run at `time`.
    fn active(time: &str) -> Jobs {
        let job = job(&cron_job(json!({})), at(time));
        [Arc::new(job)].into_iter().collect()
    }

    fn reason(plan: &Plan) -> String {
        plan.step.condition().reason.into_owned()
    }

    #[test]
    fn the_next_run_follows_the_schedule() {
        let hourly = plan(json!({ "schedule": "30 * * * *" }), "10:00:00.5");
        assert_eq!(hourly.step, Step::Wait, "created after the run of 09:30");
        assert_eq!(hourly.next_run, Some(at("10:30:00")));
        let due = plan(json!({ "schedule": "30 * * * *" }), "10:30:00.5");
        assert_eq!(due.step, Step::Start(at("10:30:00")));
        assert_eq!(due.next_run, Some(at("11:30:00")));
    }

    #[test]
    fn the_latest_of_the_missed_runs_starts() {
        let step = plan(json!({}), "23:59:30").step;
        assert_eq!(step, Step::Start(at("23:59:00")));
    }

    #[test]
    fn a_run_starts_once() {
        let step = plan_with(json!({}), &active("10:01:00"), "10:01:59").step;
        assert_eq!(step, Step::Wait);
        let step = plan_with(json!({}), &active("10:01:00"), "10:02:00").step;
        assert_eq!(step, Step::Start(at("10:02:00")));
    }

    #[test]
    fn the_status_remembers_the_runs_of_deleted_jobs() {
        let mut cron_job = cron_job(json!({}));
        let status = json!({ "lastScheduleTime": "2026-01-01T10:01:00Z" });
        cron_job.status = serde_json::from_value(status).unwrap();
        let plan = Plan::new(&cron_job, &Jobs::default(), false, at("10:01:30"));
        assert_eq!(plan.unwrap().step, Step::Wait);
    }

    #[test]
    fn a_run_that_misses_its_deadline_is_skipped() {
        let hourly = json!({ "schedule": "0 * * * *", "startingDeadlineSeconds": 60 });
        let late = plan(hourly.clone(), "11:01:01");
        assert_eq!(reason(&late), "DeadlineExceeded");
        assert_eq!(late.next_run, Some(at("12:00:00")));
        assert_eq!(plan(hourly, "11:01:00").step, Step::Start(at("11:00:00")));
    }

    #[test]
    fn forbid_waits_for_the_active_job() {
        let (forbid, jobs) = (json!({ "concurrencyPolicy": "Forbid" }), active("10:01:00"));
        let held = plan_with(forbid.clone(), &jobs, "10:02:00");
        assert_eq!(reason(&held), "JobAlreadyActive");
        assert_eq!(plan(forbid, "10:02:00").step, Step::Start(at("10:02:00")));
    }

    #[test]
    fn a_suspended_cron_job_waits_for_a_change() {
        let plan = plan(json!({ "suspend": true }), "10:02:00");
        let suspended = Plan {
            step: Step::Suspend,
            next_run: None,
        };
        assert_eq!(plan, suspended);
    }

    #[test]
    fn no_job_starts_without_its_environment() {
        let spec = json!({ "environmentConfigMap": "settings" });
        assert_eq!(
            reason(&plan(spec.clone(), "10:01:00")),
            "EnvironmentMissing"
        );
        let found = Plan::new(&cron_job(spec), &Jobs::default(), true, at("10:01:00"));
        assert_eq!(found.unwrap().step, Step::Start(at("10:01:00")));
    }

    #[test]
    fn a_schedule_without_runs_is_invalid() {
        for schedule in ["every day", "0 0 30 2 *", "61 * * * *", ""] {
            let cron_job = cron_job(json!({ "schedule": schedule }));
            let plan = Plan::new(&cron_job, &Jobs::default(), false, at("10:00:00"));
            let error = plan.expect_err("an invalid schedule").to_string();
            assert!(error.starts_with(&format!("invalid schedule '{schedule}': ")));
        }
    }
}
