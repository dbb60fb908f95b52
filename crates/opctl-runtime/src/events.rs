//! Kubernetes events: `kubectl describe` shows them below the object that they are about.
//!
//! kube's `Recorder` has no limits, and keeps every event whole for as long as it can repeat: with 200
//! objects that was 0.9 of 5.6 MB of heap. A repetition keeps the first note, too. Here a hash decides
//! whether an event repeats, the note counts, and an object has no more events than client-go allows.

mod history;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams, Request};
use kube::runtime::events::EventType;
use kube::{Api, Client, Resource};
use serde_json::json;
use tokio::time::timeout;
use tracing::{debug, warn};

use self::history::{History, Series};
use crate::{Identity, client};

/// How long publishing may hold up the reconcile that publishes.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the name of an object may be (RFC 1123, `DNS1123SubdomainMaxLength` of apimachinery).
const MAX_NAME: usize = 253;

/// Publishes events, in the limits of client-go: an object has 25 events of a type at once and then one
/// each 5 minutes; the same event again within 6 minutes is counted; and the tenth note of one reason
/// within 10 minutes stands for all that follow, as "(combined from similar events)". What exceeds that
/// is dropped. Clones share what they know of events.
///
/// # Example
/// ```no_run
/// use k8s_openapi::api::batch::v1::CronJob;
/// use kube::runtime::events::EventType;
/// use opctl_runtime::{EventRecorder, Manager};
///
/// async fn skipped(events: &EventRecorder, cron_job: &CronJob) {
///     let note = "the previous job is still running";
///     events.publish(cron_job, EventType::Warning, "JobSkipped", note).await;
/// }
/// ```
///
/// # Caveats
/// The operator needs the permission to create and patch `events.events.k8s.io`.
#[derive(Clone)]
pub struct EventRecorder {
    client: Client,
    controller: &'static str,
    /// The pod, or whatever else runs this process.
    instance: String,
    history: Arc<Mutex<History>>,
}

impl EventRecorder {
    /// A recorder that reports in the name of the operator.
    pub fn new(client: Client, identity: Identity) -> Self {
        let name = identity.name();
        Self {
            client,
            controller: name,
            instance: std::env::var("POD_NAME").unwrap_or_else(|_| name.to_owned()),
            history: Arc::new(Mutex::new(History::new(Instant::now()))),
        }
    }

    /// Publishes an event about `object`. `reason` is one UpperCamelCase word for programs, `note` a
    /// sentence for people, of which the API server takes 1,024 bytes. What cannot be published is
    /// logged: no reconcile should fail for it.
    pub async fn publish<K: Resource<DynamicType: Default>>(
        &self,
        object: &K,
        type_: EventType,
        reason: &str,
        note: &str,
    ) {
        let regarding = object.object_ref(&K::DynamicType::default());
        self.publish_about(regarding, type_, reason, note).await;
    }

    /// As [`EventRecorder::publish`], about any object.
    pub async fn publish_about(
        &self,
        regarding: ObjectReference,
        type_: EventType,
        reason: &str,
        note: &str,
    ) {
        let now = Instant::now();
        let observed = self.history().observe(&regarding, type_, reason, note, now);
        let Some(publication) = observed else {
            debug!(reason, note, "dropping an event: the object has too many");
            return;
        };
        let send = async {
            if let Some(series) = publication.series {
                match self.repeat(&regarding, &series).await {
                    Err(kube::Error::Api(answer)) if answer.is_not_found() => {} // it has expired
                    repeated => return repeated,
                }
            }
            if publication.is_combined {
                let note = format!("(combined from similar events): {note}");
                self.create(regarding, type_, reason, &note).await
            } else {
                self.create(regarding, type_, reason, note).await
            }
        };
        match timeout(PUBLISH_TIMEOUT, send).await {
            Ok(Ok(series)) => self
                .history()
                .insert(publication.key, series, Instant::now()),
            Ok(Err(error)) => warn!(%error, "cannot publish an event"),
            Err(_) => warn!("cannot publish an event within {PUBLISH_TIMEOUT:?}"),
        }
    }

    async fn create(
        &self,
        regarding: ObjectReference,
        type_: EventType,
        reason: &str,
        note: &str,
    ) -> kube::Result<Series> {
        let now = Timestamp::now();
        let object = regarding.name.as_deref().unwrap_or_default();
        let name = self.event_name(object, now);
        let events = self.events(&regarding);
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(truncate(note).to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            reporting_controller: Some(self.controller.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(name_of(type_).to_owned()),
            ..Event::default()
        };
        let event = serde_json::to_vec(&event).map_err(kube::Error::SerdeError)?;
        let request = Request::new(events.resource_url()).create(&PostParams::default(), event);
        client::answer(&self.client, request).await?;
        Ok(Series {
            event: name,
            count: 1,
        })
    }

    async fn repeat(&self, regarding: &ObjectReference, series: &Series) -> kube::Result<Series> {
        let count = series.count + 1;
        let last = MicroTime(Timestamp::now());
        let patch = json!({ "series": { "count": count, "lastObservedTime": last } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let events = self.events(regarding);
        let request = Request::new(events.resource_url()).patch(&series.event, &params, &patch);
        client::answer(&self.client, request).await?;
        Ok(Series {
            event: series.event.clone(),
            count,
        })
    }

    /// As client-go names events, unless that is no valid name: RBAC has objects such as `system:node`,
    /// and the suffix makes long names too long.
    fn event_name(&self, object: &str, time: Timestamp) -> String {
        let suffix = format!(".{:x}", time.as_nanosecond());
        let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let prefix = if object.is_empty() || !object.chars().all(is_valid) {
            self.controller
        } else {
            object
        };
        let prefix = &prefix[..prefix.len().min(MAX_NAME - suffix.len())];
        // What a cut may have left at the end.
        format!("{}{suffix}", prefix.trim_end_matches(['-', '.']))
    }

    /// Where the events of an object are: those of a cluster-scoped one are in `default`.
    fn events(&self, regarding: &ObjectReference) -> Api<Event> {
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        Api::namespaced(self.client.clone(), namespace)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name_of(type_: EventType) -> &'static str {
    match type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

/// The API server takes notes of up to 1,024 bytes.
fn truncate(note: &str) -> &str {
    &note[..note.floor_char_boundary(1024)]
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::http::{Request, Response, StatusCode};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use serde_json::Value;
    use tower::service_fn;

    use super::*;

    /// What an API server is sent: the methods and what they say.
    type Sent = Arc<Mutex<Vec<(String, Value)>>>;

    /// The API server answers repetitions with `code`, and takes everything else.
    fn recorder(code: StatusCode) -> (EventRecorder, Sent) {
        let sent = Sent::default();
        let log = Arc::clone(&sent);
        let service = service_fn(move |request: Request<Body>| {
            let log = Arc::clone(&log);
            async move {
                let method = request.method().to_string();
                let body = request.into_body().collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap();
                let code = match method.as_str() {
                    "PATCH" => code,
                    _ => StatusCode::CREATED,
                };
                log.lock().unwrap().push((method, body));
                // Of an event the metadata and the time, of an error the reason.
                let answer = json!({ "metadata": {}, "eventTime": null, "reason": "NotFound" });
                let answer = Response::builder().status(code).body(answer.to_string());
                Ok::<_, Infallible>(answer.unwrap().map(|body| Body::from(body.into_bytes())))
            }
        });
        let identity = Identity::new("test", "1.0.0");
        (
            EventRecorder::new(Client::new(service, "default"), identity),
            sent,
        )
    }

    fn object(uid: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("x".to_owned());
        object.metadata.uid = Some(uid.to_owned());
        object
    }

    #[tokio::test]
    async fn the_same_event_again_is_counted() {
        let (recorder, sent) = recorder(StatusCode::OK);
        publish_three(&recorder).await;
        let sent = sent.lock().unwrap();
        assert_eq!(methods(&sent), ["POST", "PATCH", "PATCH"]);
        assert_eq!(sent[0].1["type"], "Normal");
        assert_eq!(sent[2].1["series"]["count"], 3);
    }

    #[tokio::test]
    async fn an_expired_event_is_published_again() {
        let (recorder, sent) = recorder(StatusCode::NOT_FOUND);
        publish_three(&recorder).await;
        let sent = sent.lock().unwrap();
        assert_eq!(methods(&sent), ["POST", "PATCH", "POST", "PATCH", "POST"]);
    }

    async fn publish_three(recorder: &EventRecorder) {
        for _ in 0..3 {
            recorder
                .publish(&object("1"), EventType::Normal, "Created", "created it")
                .await;
        }
    }

    fn methods(sent: &[(String, Value)]) -> Vec<&str> {
        sent.iter().map(|(method, _)| method.as_str()).collect()
    }

    #[tokio::test]
    async fn what_differs_is_another_event() {
        let (recorder, sent) = recorder(StatusCode::OK);
        for (uid, type_, reason, note) in [
            ("1", EventType::Normal, "Updated", "replicas 1 -> 2"),
            ("2", EventType::Normal, "Updated", "replicas 1 -> 2"),
            ("1", EventType::Warning, "Updated", "replicas 1 -> 2"),
            ("1", EventType::Normal, "Created", "replicas 1 -> 2"),
            ("1", EventType::Normal, "Updated", "replicas 1 -> 3"),
        ] {
            recorder.publish(&object(uid), type_, reason, note).await;
        }
        let sent = sent.lock().unwrap();
        assert!(sent.iter().all(|(method, _)| method == "POST"));
    }

    #[tokio::test]
    async fn notes_that_differ_again_and_again_become_one_event() {
        let (recorder, sent) = recorder(StatusCode::OK);
        for replicas in 0..20 {
            let note = format!("replicas {replicas} -> 3");
            let object = object("1");
            recorder
                .publish(&object, EventType::Normal, "Updated", &note)
                .await;
        }
        let sent = sent.lock().unwrap();
        let created: Vec<_> = sent.iter().filter(|(method, _)| method == "POST").collect();
        assert_eq!(created.len(), 10);
        let note = "(combined from similar events): replicas 9 -> 3";
        assert_eq!(created[9].1["note"], note);
        assert_eq!(sent[19].1["series"]["count"], 11);
    }

    #[tokio::test]
    async fn an_object_has_25_events_at_once() {
        let (recorder, sent) = recorder(StatusCode::OK);
        for uid in ["1", "2"] {
            for _ in 0..100 {
                recorder
                    .publish(&object(uid), EventType::Normal, "Updated", "replicas")
                    .await;
            }
        }
        assert_eq!(sent.lock().unwrap().len(), 2 * 25);
    }

    #[tokio::test]
    async fn events_have_names_that_the_api_server_takes() {
        for name in [
            "x".to_owned(),
            "x".repeat(253),
            format!("{}.{}", "x".repeat(235), "y".repeat(17)),
            "system:node".to_owned(),
        ] {
            let (recorder, sent) = recorder(StatusCode::OK);
            let mut object = object("1");
            object.metadata.name = Some(name.clone());
            recorder
                .publish(&object, EventType::Normal, "Created", "created it")
                .await;
            let event = &sent.lock().unwrap()[0].1;
            assert_eq!(event["regarding"]["name"], name);
            let name = event["metadata"]["name"].as_str().unwrap();
            assert!(name.len() <= 253, "{name} has {} bytes", name.len());
            let labels = name.split('.');
            let is_valid = |label: &str| {
                let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
                label.starts_with(is_alphanumeric)
                    && label.ends_with(is_alphanumeric)
                    && label.chars().all(|c| is_alphanumeric(c) || c == '-')
            };
            assert!(labels.clone().all(is_valid), "{name}");
        }
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        assert_eq!(truncate("a note"), "a note");
        assert_eq!(truncate(&"é".repeat(1000)).len(), 1024);
        assert_eq!(truncate(&format!("x{}", "é".repeat(1000))).len(), 1023);
    }
}
