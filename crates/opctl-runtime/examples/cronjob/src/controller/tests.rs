use opctl_runtime::Error as WriteError;
use opctl_runtime::testing::{Request, Requests, recording_client_with};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::IDENTITY;
use crate::api::tests::cron_job;
use crate::clock::ManualClock;

/// The operator with one CronJob.
struct Fixture {
    ctx: Arc<Context>,
    clock: ManualClock,
    requests: Requests,
    _directory: TempDir,
}

impl Fixture {
    fn new(cron_job: &CronJob, jobs: Vec<Job>) -> Self {
        let (client, requests) = recording_client_with([cron_job.clone()]);
        jobs.iter().for_each(|job| requests.insert(job));
        let clock = ManualClock::default();
        clock.set("2026-01-01T10:05:30Z".parse().unwrap());
        let (ledger, directory) = Ledger::empty();
        let context = Context {
            cron_jobs: Store::from_iter([cron_job.clone()]),
            jobs: Store::from_iter(jobs),
            config_maps: Store::from_iter([]),
            applier: Applier::new(IDENTITY, client.clone()),
            client,
            clock: Arc::new(clock.clone()),
            ledger,
            metrics: Metrics::default(),
        };
        Self {
            ctx: Arc::new(context),
            clock,
            requests,
            _directory: directory,
        }
    }

    /// Reconciles the CronJob as the store has it.
    async fn reconcile(&self) -> Result<Action, finalizer::Error<Error>> {
        let cron_job = self.ctx.cron_jobs.get(Some("default"), "backup").unwrap();
        reconcile(cron_job, Arc::clone(&self.ctx)).await
    }
}

/// The requests as `PATCH cronjobs/backup/status`.
fn shown(requests: &[Request]) -> Vec<String> {
    requests.iter().map(ToString::to_string).collect()
}

/// The Job of the run at 10:`minute`, with a condition if it has finished.
fn job(cron_job: &CronJob, minute: u8, condition: Option<&str>) -> Job {
    let time = format!("2026-01-01T10:{minute:02}:00Z").parse().unwrap();
    let mut job = jobs::job(cron_job, time);
    job.metadata.namespace = Some("default".to_owned());
    job.metadata.uid = Some(minute.to_string());
    job.metadata.owner_references =
        kube::Resource::controller_owner_ref(cron_job, &()).map(|owner| vec![owner]);
    let condition = condition.map(|type_| json!({ "type": type_, "status": "True" }));
    let status = json!({ "conditions": condition.into_iter().collect::<Vec<_>>() });
    job.status = serde_json::from_value(status).unwrap();
    job
}

fn name(cron_job: &CronJob, minute: u8) -> String {
    job(cron_job, minute, None).name_any()
}

#[tokio::test]
async fn a_due_job_starts_once_with_its_status_in_the_same_reconcile() {
    let cron_job = cron_job(json!({}));
    let fixture = Fixture::new(&cron_job, vec![]);
    let expected = name(&cron_job, 5);

    let action = fixture.reconcile().await.unwrap();
    let soon = fixture.ctx.clock.until(Timestamp::UNIX_EPOCH);
    assert_eq!(action, Action::requeue(soon));
    let requests = fixture.requests.take();
    let expected_requests = ["POST jobs", "PATCH cronjobs/backup/status"];
    assert_eq!(shown(&requests), expected_requests);
    assert_eq!(requests[0].body["metadata"]["name"], expected);
    let status = &requests[1].body["status"];
    assert_eq!(status["lastScheduleTime"], "2026-01-01T10:05:00Z");
    assert_eq!(status["active"][0]["name"], expected);
    assert_eq!(status["conditions"][0]["status"], "True");
    assert_eq!(fixture.ctx.ledger.jobs(&cron_job), [expected]);

    // The stores know what was written, although no watch has reported it.
    fixture.reconcile().await.unwrap();
    assert!(fixture.requests.take().is_empty());
    fixture.clock.set("2026-01-01T10:06:00Z".parse().unwrap());
    fixture.reconcile().await.unwrap();
    let requests = fixture.requests.take();
    assert_eq!(requests[0].body["metadata"]["name"], name(&cron_job, 6));
    assert_eq!(fixture.ctx.metrics.jobs_started.get(), 2);
}

#[tokio::test]
async fn replace_deletes_the_active_job_before_the_next_starts() {
    let cron_job = cron_job(json!({ "concurrencyPolicy": "Replace" }));
    let jobs = vec![job(&cron_job, 3, Some("Complete")), job(&cron_job, 4, None)];
    let fixture = Fixture::new(&cron_job, jobs);
    fixture.reconcile().await.unwrap();
    let delete = format!("DELETE jobs/{}", name(&cron_job, 4));
    let requests = shown(&fixture.requests.take());
    assert_eq!(requests[..2], [delete, "POST jobs".to_owned()]);
}

#[tokio::test]
async fn forbid_reports_once_why_a_due_job_waits() {
    let cron_job = cron_job(json!({ "concurrencyPolicy": "Forbid" }));
    let fixture = Fixture::new(&cron_job, vec![job(&cron_job, 4, None)]);
    fixture.reconcile().await.unwrap();
    fixture.reconcile().await.unwrap();
    let requests = shown(&fixture.requests.take());
    assert_eq!(requests, ["PATCH cronjobs/backup/status"]);
    let events = fixture.requests.take_events();
    assert_eq!(shown(&events), ["POST events"]);
    assert_eq!(events[0].body["type"], "Warning");
    assert_eq!(events[0].body["reason"], "JobAlreadyActive");
}

#[tokio::test]
async fn the_oldest_jobs_beyond_the_history_limits_are_deleted() {
    let cron_job = cron_job(json!({
        "suspend": true,
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 0,
    }));
    let finished = |minute, condition| job(&cron_job, minute, Some(condition));
    let jobs = vec![
        finished(4, "Complete"),
        finished(1, "Failed"),
        finished(3, "Complete"),
        finished(2, "Complete"),
    ];
    let fixture = Fixture::new(&cron_job, jobs);
    let action = fixture.reconcile().await.unwrap();
    assert_eq!(action, Action::await_change(), "suspended");
    let deleted = [2, 3, 1].map(|minute| format!("DELETE jobs/{}", name(&cron_job, minute)));
    assert_eq!(shown(&fixture.requests.take())[..3], deleted);
}

#[tokio::test]
async fn a_deleted_cron_job_is_removed_from_the_ledger_before_its_finalizer() {
    let mut cron_job = cron_job(json!({}));
    cron_job.metadata.deletion_timestamp = cron_job.metadata.creation_timestamp.clone();
    let fixture = Fixture::new(&cron_job, vec![]);
    fixture.ctx.ledger.record(&cron_job, "a").await.unwrap();
    fixture.reconcile().await.unwrap();
    assert!(fixture.ctx.ledger.jobs(&cron_job).is_empty());
    let requests = fixture.requests.take();
    assert_eq!(shown(&requests), ["PATCH cronjobs/backup"]);
    assert_eq!(requests[0].body[1]["op"], "remove");
}

#[tokio::test]
async fn an_invalid_schedule_is_reported_and_not_tried_again() {
    let cron_job = cron_job(json!({ "schedule": "every day" }));
    let fixture = Fixture::new(&cron_job, vec![]);
    let error = fixture.reconcile().await.unwrap_err();
    let policy = |error| error_policy(&cron_job, error, &fixture.ctx);
    assert_eq!(policy(&error), Retry::OnChange);
    let status = &fixture.requests.take()[0].body["status"];
    assert_eq!(status["conditions"][0]["reason"], "InvalidSchedule");

    let refused = WriteError::Kube(kube::Error::TlsRequired);
    let refused = finalizer::Error::ApplyFailed(Error::Write(refused));
    assert_eq!(policy(&refused), Retry::Backoff);
}
