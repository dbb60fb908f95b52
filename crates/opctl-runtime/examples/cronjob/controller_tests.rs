use std::convert::Infallible;
use std::sync::Mutex;

use axum::http::{Request, Response};
use kube::client::Body;
use opctl_runtime::{Error as WriteError, Identity};
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::api::tests::cron_job;
use crate::clock::manual::ManualClock;

/// The requests that an API server got: method, the last parts of the path, and body.
type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// A client of an API server that takes every write, and the requests that it got.
fn recording_client(cron_job: &CronJob) -> (Client, Requests) {
    let requests = Requests::default();
    let (log, cron_job) = (Arc::clone(&requests), json!(cron_job));
    let service = service_fn(move |request: Request<Body>| {
        let (log, mut answer) = (Arc::clone(&log), cron_job.clone());
        async move {
            let path = request.uri().path().rsplit('/');
            let place: Vec<_> = path.take_while(|part| *part != "default").collect();
            let place = place.into_iter().rev().collect::<Vec<_>>().join("/");
            let place = format!("{} {place}", request.method());
            let body = request.into_body().collect_bytes().await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            if place.ends_with("/status") {
                answer["status"] = body["status"].clone();
            } else if place.starts_with("POST") {
                answer = body.clone();
            } else if place.starts_with("DELETE") {
                answer = json!({ "kind": "Status", "status": "Success" });
            }
            // A store takes in what is newer than what it has.
            let version = log.lock().unwrap().len() + 1;
            answer["metadata"]["resourceVersion"] = json!(version.to_string());
            log.lock().unwrap().push((place, body));
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::new(answer))
        }
    });
    (Client::new(service, "default"), requests)
}

/// The operator with one CronJob.
struct Fixture {
    ctx: Arc<Context>,
    clock: ManualClock,
    requests: Requests,
}

impl Fixture {
    fn new(test: &str, cron_job: &CronJob, jobs: Vec<Job>) -> Self {
        let (client, requests) = recording_client(cron_job);
        let clock = ManualClock::default();
        clock.set("2026-01-01T10:05:30Z".parse().unwrap());
        let identity = Identity::new("cronjob-operator", "1.0.0");
        let context = Context {
            cron_jobs: Store::from_iter([cron_job.clone()]),
            jobs: Store::from_iter(jobs),
            config_maps: Store::from_iter([]),
            applier: Applier::new(identity, client.clone()),
            client,
            clock: Arc::new(clock.clone()),
            ledger: Ledger::empty(test),
            metrics: Metrics::default(),
        };
        Self {
            ctx: Arc::new(context),
            clock,
            requests,
        }
    }

    /// Reconciles the CronJob as the store has it.
    async fn reconcile(&self) -> Result<Action, finalizer::Error<Error>> {
        let cron_job = self.ctx.cron_jobs.get(Some("default"), "backup").unwrap();
        reconcile(cron_job, Arc::clone(&self.ctx)).await
    }

    /// The writes, without events.
    fn writes(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let places = requests.iter().map(|(place, _)| place.clone());
        places.filter(|place| !place.contains("events")).collect()
    }

    /// The body of the latest request of that kind.
    fn body(&self, place: &str) -> Value {
        let requests = self.requests.lock().unwrap();
        let request = requests.iter().rfind(|request| request.0 == place);
        request.expect("a request of that kind").1.clone()
    }
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
    let fixture = Fixture::new("due", &cron_job, vec![]);
    let expected = name(&cron_job, 5);

    let action = fixture.reconcile().await.unwrap();
    let soon = fixture.ctx.clock.until(Timestamp::UNIX_EPOCH);
    assert_eq!(action, Action::requeue(soon));
    assert_eq!(
        fixture.writes(),
        ["POST jobs", "PATCH cronjobs/backup/status"]
    );
    assert_eq!(fixture.body("POST jobs")["metadata"]["name"], expected);
    let status = &fixture.body("PATCH cronjobs/backup/status")["status"];
    assert_eq!(status["lastScheduleTime"], "2026-01-01T10:05:00Z");
    assert_eq!(status["active"][0]["name"], expected);
    assert_eq!(status["conditions"][0]["status"], "True");
    assert_eq!(fixture.ctx.ledger.jobs(&cron_job), [expected]);
    assert_eq!(fixture.ctx.metrics.jobs_started.get(), 1);

    // The stores know what was written, although no watch has reported it.
    fixture.reconcile().await.unwrap();
    assert_eq!(fixture.writes().len(), 2);
    fixture.clock.set("2026-01-01T10:06:00Z".parse().unwrap());
    fixture.reconcile().await.unwrap();
    assert_eq!(
        fixture.body("POST jobs")["metadata"]["name"],
        name(&cron_job, 6)
    );
    assert_eq!(fixture.ctx.metrics.jobs_started.get(), 2);
}

#[tokio::test]
async fn replace_deletes_the_active_job_before_the_next_starts() {
    let cron_job = cron_job(json!({ "concurrencyPolicy": "Replace" }));
    let jobs = vec![job(&cron_job, 3, Some("Complete")), job(&cron_job, 4, None)];
    let fixture = Fixture::new("replace", &cron_job, jobs);
    fixture.reconcile().await.unwrap();
    let delete = format!("DELETE jobs/{}", name(&cron_job, 4));
    assert_eq!(fixture.writes()[..2], [delete, "POST jobs".to_owned()]);
}

#[tokio::test]
async fn forbid_reports_why_a_due_job_waits() {
    let cron_job = cron_job(json!({ "concurrencyPolicy": "Forbid" }));
    let fixture = Fixture::new("forbid", &cron_job, vec![job(&cron_job, 4, None)]);
    fixture.reconcile().await.unwrap();
    fixture.reconcile().await.unwrap();
    assert_eq!(fixture.writes(), ["PATCH cronjobs/backup/status"]);
    let event = fixture.body("POST events");
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("JobAlreadyActive"))
    );
    assert_eq!(fixture.requests.lock().unwrap().len(), 2, "one event");
}

#[tokio::test]
async fn the_oldest_jobs_beyond_the_history_limits_are_deleted() {
    let limits = json!({
        "suspend": true,
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 0,
    });
    let cron_job = cron_job(limits);
    let jobs = [
        (4, "Complete"),
        (1, "Failed"),
        (3, "Complete"),
        (2, "Complete"),
    ];
    let jobs = jobs.map(|(minute, condition)| job(&cron_job, minute, Some(condition)));
    let fixture = Fixture::new("history", &cron_job, jobs.into());
    let action = fixture.reconcile().await.unwrap();
    assert_eq!(action, Action::await_change(), "suspended");
    let deleted = [2, 3, 1].map(|minute| format!("DELETE jobs/{}", name(&cron_job, minute)));
    assert_eq!(fixture.writes()[..3], deleted);
}

#[tokio::test]
async fn a_deleted_cron_job_is_removed_from_the_ledger_before_its_finalizer() {
    let mut cron_job = cron_job(json!({}));
    cron_job.metadata.deletion_timestamp = cron_job.metadata.creation_timestamp.clone();
    let fixture = Fixture::new("deleted", &cron_job, vec![]);
    fixture.ctx.ledger.record(&cron_job, "a").await.unwrap();
    fixture.reconcile().await.unwrap();
    assert!(fixture.ctx.ledger.jobs(&cron_job).is_empty());
    assert_eq!(fixture.writes(), ["PATCH cronjobs/backup"]);
    assert_eq!(fixture.body("PATCH cronjobs/backup")[1]["op"], "remove");
}

#[tokio::test]
async fn an_invalid_schedule_is_reported_and_not_tried_again() {
    let cron_job = cron_job(json!({ "schedule": "every day" }));
    let fixture = Fixture::new("invalid", &cron_job, vec![]);
    let error = fixture.reconcile().await.unwrap_err();
    let policy = |error| error_policy(&cron_job, error, &fixture.ctx);
    assert_eq!(policy(&error), Retry::OnChange);
    let status = &fixture.body("PATCH cronjobs/backup/status")["status"];
    assert_eq!(status["conditions"][0]["reason"], "InvalidSchedule");

    let refused = WriteError::Kube(kube::Error::TlsRequired);
    let refused = finalizer::Error::ApplyFailed(Error::Write(refused));
    assert_eq!(policy(&refused), Retry::Backoff);
}
