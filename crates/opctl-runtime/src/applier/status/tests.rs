//! Statuses that are gathered, without an API server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{Request, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::client::Body;
use kube::{Client, CustomResource};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{BoxError, service_fn};

use super::*;
use crate::Identity;
use crate::conditions::{ConditionUpdate, set_conditions};
use crate::store::Event;
use crate::testing::{Requests, recording_client_with};

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Site",
    status = "SiteStatus"
)]
struct SiteSpec {}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
struct SiteStatus {
    pages: u32,
    conditions: Vec<Condition>,
}

struct Fixture {
    applier: Applier,
    store: Store<Site>,
    requests: Requests,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A site of ten pages that is not progressing.
fn fixture() -> Fixture {
    fixture_with(&[])
}

/// As [`fixture`], with conditions that other controllers have written.
fn fixture_with(others: &[Condition]) -> Fixture {
    let mut site = Site::new("docs", SiteSpec {});
    site.metadata.uid = Some("1".to_owned());
    site.metadata.resource_version = Some("1".to_owned());
    let mut status = status(&SiteStatus::default(), 10, false);
    status.conditions[0].last_transition_time.0 = Default::default();
    status.conditions.splice(0..0, others.iter().cloned());
    site.status = Some(status);
    let (client, requests) = recording_client_with([site.clone()]);
    fixture_of(site, client, requests)
}

fn fixture_of(site: Site, client: Client, requests: Requests) -> Fixture {
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let applier = Applier::new(Identity::new("test", "1.0.0"), client);
    Fixture {
        applier: applier.with_tasks(tasks.clone(), stop.clone()),
        store: Store::from_iter([site]),
        requests,
        tasks,
        stop,
    }
}

fn status(previous: &SiteStatus, pages: u32, progressing: bool) -> SiteStatus {
    let update = ConditionUpdate::new("Progressing", progressing, "Because", "");
    SiteStatus {
        pages,
        conditions: set_conditions(&previous.conditions, None, &[update]),
    }
}

impl Fixture {
    fn site(&self) -> Arc<Site> {
        self.store.list().remove(0)
    }

    /// Writes the status that a reconcile makes of the one before; nothing of it is significant.
    async fn gather(&self, pages: u32, progressing: bool) {
        let site = self.site();
        let previous = site.status.clone().unwrap_or_default();
        let status = status(&previous, pages, progressing);
        let written = self
            .applier
            .debounce_status(&*site, status, &self.store, |_, _| false);
        written.await.unwrap();
    }

    /// What is written when the process stops.
    async fn stop(self) -> Vec<String> {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let requests = self.requests.take();
        let pages = requests
            .iter()
            .map(|request| format!("{request}: {}", request.body["status"]["pages"]));
        pages.collect()
    }
}

#[tokio::test]
async fn the_last_of_many_statuses_is_written_once_and_seen_at_once() {
    let fixture = fixture();
    for pages in [11, 12, 13] {
        fixture.gather(pages, false).await;
        assert_eq!(fixture.site().status.clone().unwrap().pages, pages);
    }
    assert!(fixture.requests.take().is_empty());
    assert_eq!(fixture.stop().await, ["PATCH sites/docs/status: 13"]);
}

#[tokio::test]
async fn what_is_over_before_it_is_written_is_not_written() {
    let fixture = fixture();
    let before = fixture.site();
    fixture.gather(10, true).await;
    fixture.gather(10, false).await;
    // With the transition time of before.
    assert_eq!(fixture.site().status, before.status);
    assert!(fixture.stop().await.is_empty());
}

#[tokio::test]
async fn a_significant_status_takes_the_place_of_a_pending_one() {
    let fixture = fixture();
    fixture.gather(11, false).await;
    let site = fixture.site();
    let status = SiteStatus {
        pages: 12,
        ..site.status.clone().unwrap()
    };
    let written = fixture
        .applier
        .debounce_status(&*site, status, &fixture.store, |_, _| true);
    written.await.unwrap();
    assert_eq!(fixture.stop().await, ["PATCH sites/docs/status: 12"]);
}

/// An API server that takes so long to do what it is asked for first. Returns what it has done.
fn slow_server(delay: Duration) -> (Fixture, Arc<Mutex<Vec<Value>>>) {
    let (done, count) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(AtomicU64::new(0)));
    let log = Arc::clone(&done);
    let service = service_fn(move |request: Request<Body>| {
        let (log, number) = (Arc::clone(&log), count.fetch_add(1, Ordering::Relaxed));
        async move {
            let body = request.into_body().collect_bytes().await?;
            if number == 0 {
                sleep(delay).await;
            }
            let mut site: Value = serde_json::from_slice(&body)?;
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push(site["status"]["pages"].clone());
            site["metadata"]["resourceVersion"] = json!((log.len() + 1).to_string());
            site["spec"] = json!({});
            Ok::<_, BoxError>(Response::new(Body::from(site.to_string().into_bytes())))
        }
    });
    let before = fixture();
    let site = (*before.site()).clone();
    let fixture = fixture_of(site, Client::new(service, "default"), before.requests);
    (fixture, done)
}

#[tokio::test(start_paused = true)]
async fn a_significant_status_is_written_after_a_pending_one_that_is_under_way() {
    let (fixture, done) = slow_server(Duration::from_secs(2));
    fixture.gather(11, false).await;
    sleep(STATUS_BATCH_WINDOW + Duration::from_secs(1)).await;
    let site = fixture.site();
    let status = SiteStatus {
        pages: 12,
        ..site.status.clone().unwrap()
    };
    let written = fixture.applier.write_status(&*site, status, &fixture.store);
    written.await.unwrap();
    sleep(2 * STATUS_BATCH_WINDOW).await;
    assert_eq!(*done.lock().unwrap(), [11, 12]);
    assert_eq!(fixture.site().status.clone().unwrap().pages, 12);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_while_it_is_written_is_written_back() {
    let (fixture, done) = slow_server(Duration::from_secs(2));
    fixture.gather(11, false).await;
    sleep(STATUS_BATCH_WINDOW + Duration::from_secs(1)).await;
    fixture.gather(10, false).await;
    sleep(2 * STATUS_BATCH_WINDOW).await;
    assert_eq!(*done.lock().unwrap(), [11, 10]);
    assert_eq!(fixture.site().status.clone().unwrap().pages, 10);
}

#[tokio::test]
async fn the_status_of_a_deleted_object_is_dropped() {
    let fixture = fixture();
    fixture.gather(11, false).await;
    let mut site = (*fixture.site()).clone();
    site.metadata.resource_version = Some("2".to_owned());
    fixture.store.take(&None, Event::Deleted(site));
    assert!(fixture.stop().await.is_empty());
}

#[tokio::test]
async fn without_a_generation_nothing_tells_that_the_spec_is_the_same() {
    let mut site = (*fixture().site()).clone();
    let status = site.status.clone();
    let is_result = |before: &Site, after: &Site| {
        let status = to_raw_value(&status).unwrap();
        is_status_of::<Site>(before.metadata.clone(), status)(after)
    };
    assert!(!is_result(&site, &site));
    site.metadata.generation = Some(1);
    assert!(is_result(&site, &site));
    let mut changed = site.clone();
    changed.metadata.generation = Some(2);
    assert!(!is_result(&site, &changed));
}

#[tokio::test]
async fn a_condition_of_another_controller_is_neither_written_nor_a_difference() {
    let paused = ConditionUpdate::new("Paused", true, "Because", "");
    let others = set_conditions(&[], Some(1), &[paused]);
    let fixture = fixture_with(&others);
    let site = fixture.site();
    let previous = site.status.clone().unwrap();
    for pages in [10, 11] {
        let status = status(&previous, pages, false);
        let written = fixture.applier.write_status(&*site, status, &fixture.store);
        written.await.unwrap();
    }
    fixture.gather(10, false).await;
    let requests = fixture.requests.take();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let status = &requests[0].body["status"];
    assert_eq!(status["pages"], 11);
    let types = status["conditions"].as_array().unwrap().iter();
    assert!(types.map(|it| &it["type"]).eq(["Progressing"]), "{status}");
}
