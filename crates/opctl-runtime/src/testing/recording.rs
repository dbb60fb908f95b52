//! A client without an API server, for unit tests.

mod objects;

use std::convert::Infallible;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http;
use kube::client::Body;
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::Value;
use tower::service_fn;

use self::objects::Objects;
use super::Request;

/// A client that sends nothing: it records each request, and answers as an API server without objects
/// would. What is created through it exists from then on.
///
/// Together with [`Store::from_iter`](crate::Store) and [`Applier::new`](crate::Applier::new) it tests a
/// reconciler in memory, within microseconds.
///
/// # Example
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
/// use kube::ResourceExt;
/// use opctl_runtime::testing::recording_client;
/// use opctl_runtime::{Applier, Identity, Result, Store};
///
/// struct Context {
///     config_maps: Store<ConfigMap>,
///     applier: Applier,
/// }
///
/// async fn reconcile(namespace: &Namespace, ctx: &Context) -> Result<()> {
///     let mut desired = ConfigMap::default();
///     desired.metadata.name = Some("settings".to_owned());
///     desired.metadata.namespace = Some(namespace.name_any());
///     ctx.applier.apply(namespace, desired, &ctx.config_maps).await?;
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let (client, requests) = recording_client();
/// let ctx = Context {
///     config_maps: Store::from_iter([]),
///     applier: Applier::new(Identity::new("settings-operator", "1.0.0"), client),
/// };
/// let mut namespace = Namespace::default();
/// namespace.metadata.name = Some("default".to_owned());
/// namespace.metadata.uid = Some("1".to_owned());
///
/// reconcile(&namespace, &ctx).await?;
/// let request = &requests.take()[0];
/// assert_eq!(request.to_string(), "PATCH configmaps/settings");
/// assert_eq!(request.namespace.as_deref(), Some("default"));
/// assert_eq!(request.body["metadata"]["ownerReferences"][0]["name"], "default");
/// assert_eq!(requests.take_events()[0].body["reason"], "Created");
///
/// reconcile(&namespace, &ctx).await?;
/// assert!(requests.take().is_empty(), "nothing has changed");
/// # Ok(())
/// # }
/// ```
///
/// # Caveats
/// It validates nothing, sets no defaults, runs no controllers and reports no changes to watches. A
/// field of an applied object replaces that of before, whoever owned it; a strategic merge patch
/// replaces lists. Whether the API server agrees, a test with an [`Operator`](super::Operator) shows.
pub fn recording_client() -> (Client, Requests) {
    let requests = Requests(Arc::default());
    let server = requests.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    (Client::new(service, "default"), requests)
}

/// As [`recording_client`], where these objects exist: an object has to, for its status to be written.
///
/// # Example
/// ```
/// use kube::CustomResource;
/// use opctl_runtime::testing::recording_client_with;
/// use opctl_runtime::{Applier, Identity, Result, Store};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
/// struct SiteSpec {}
///
/// #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
/// struct SiteStatus {
///     pages: u32,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let mut site = Site::new("docs", SiteSpec {});
/// site.metadata.namespace = Some("default".to_owned());
/// let (client, requests) = recording_client_with([site.clone()]);
/// let sites = Store::from_iter([site.clone()]);
/// let applier = Applier::new(Identity::new("site-operator", "1.0.0"), client);
///
/// applier.write_status(&site, SiteStatus { pages: 3 }, &sites).await?;
/// let request = &requests.take()[0];
/// assert_eq!(request.to_string(), "PATCH sites/docs/status");
/// assert_eq!(request.body["status"]["pages"], 3);
/// # Ok(())
/// # }
/// ```
pub fn recording_client_with<K>(objects: impl IntoIterator<Item = K>) -> (Client, Requests)
where
    K: Resource<DynamicType: Default> + Serialize,
{
    let (client, requests) = recording_client();
    for object in objects {
        requests.insert(&object);
    }
    (client, requests)
}

/// The requests of a [`recording_client`]. Clones are the same.
#[derive(Debug, Clone)]
pub struct Requests(Arc<Mutex<Recording>>);

#[derive(Debug, Default)]
struct Recording {
    objects: Objects,
    requests: Vec<Request>,
    events: Vec<Request>,
}

impl Requests {
    /// The requests since the last call, but for events.
    pub fn take(&self) -> Vec<Request> {
        mem::take(&mut self.recording().requests)
    }

    /// The events since the last call.
    pub fn take_events(&self) -> Vec<Request> {
        mem::take(&mut self.recording().events)
    }

    /// Makes the object exist, in place of one of the same name.
    ///
    /// # Panics
    /// The object cannot be serialized.
    pub fn insert<K: Resource<DynamicType: Default> + Serialize>(&self, object: &K) {
        let collection = K::url_path(
            &K::DynamicType::default(),
            object.meta().namespace.as_deref(),
        );
        let name = object.meta().name.as_deref().unwrap_or_default();
        let object = serde_json::to_value(object).expect("an object should be serializable");
        self.recording()
            .objects
            .insert(format!("{collection}/{name}"), object);
    }

    async fn answer(&self, request: http::Request<Body>) -> http::Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap_or_default();
        let content_type = parts.headers.get(http::header::CONTENT_TYPE);
        let content_type = content_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let request = Request::new(
            parts.method.as_str(),
            parts.uri.path(),
            parts.uri.query().unwrap_or_default(),
            serde_json::from_slice(&body).unwrap_or(Value::Null),
        );
        let mut recording = self.recording();
        let (code, answer) = recording.objects.answer(&request, content_type);
        let recorded = if request.resource == "events" {
            &mut recording.events
        } else {
            &mut recording.requests
        };
        recorded.push(request);
        let mut response = http::Response::new(Body::from(answer.to_string().into_bytes()));
        *response.status_mut() = code;
        response
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
