//! Fills a store for as long as the process lives.

use std::time::Duration;

use backon::ExponentialBuilder;
use futures::StreamExt;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;

use super::Store;
use crate::object::Object;
use crate::without_managed_fields::{WithoutManagedFields, unwrapped};

/// How long a watch waits before it lists again, so that no API server can keep it busy with that.
const RELIST_DELAY: Duration = Duration::from_millis(250);

/// How many objects one request lists: an answer is in memory several times while it is read.
const PAGE_SIZE: u32 = 100;

impl<K: Object> Store<K> {
    /// Fills the store with the objects of one namespace, or of all, without an end. `synced`
    /// becomes true with the first complete list.
    pub(crate) async fn watch(
        self,
        namespace: Option<String>,
        api: Api<WithoutManagedFields<K>>,
        config: watcher::Config,
        synced: watch::Sender<bool>,
    ) {
        let mut events = watcher(api, config.page_size(PAGE_SIZE))
            .filter(|event| skip_expired(is_expired(event)))
            .backoff(backoff())
            .boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let is_listed = matches!(event, Event::InitDone);
                    self.take(&namespace, unwrapped(event));
                    if is_listed {
                        synced.send_replace(true);
                    }
                }
                Err(error) => self.log_error(&error),
            }
        }
    }

    fn log_error(&self, error: &watcher::Error) {
        let kind = K::kind(self.dyntype());
        if is_not_found(error) {
            warn!(%kind, "the API server does not know this kind: install its CRD (`make install` for the CRDs of this project)");
        } else {
            warn!(%kind, %error, "watch failed, trying again");
        }
    }
}

/// Whether the API server does not have the resource. It answers so to a list, and to a watch that
/// starts after the CRD was deleted.
fn is_not_found(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        if status.code == 404
    )
}

/// Whether the API server no longer knows what has changed since, as after a restart.
fn is_expired<K>(event: &watcher::Result<Event<K>>) -> bool {
    matches!(event, Err(watcher::Error::WatchError(status)) if status.code == 410)
}

/// Drops an event that says that the watch expired: the watcher lists again, and that is not a
/// failure to back off from.
async fn skip_expired(expired: bool) -> bool {
    if expired {
        sleep(RELIST_DELAY).await;
    }
    !expired
}

/// kube's own delays grow to a minute: where an API server was away for seconds, its operators
/// should not be away for longer. The jitter at most doubles a delay.
fn backoff() -> watcher::ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(800))
        .with_max_delay(Duration::from_millis(2500))
        .with_jitter()
        .without_max_times()
        .into()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::timeout;
    use tower::service_fn;

    use super::*;
    use crate::object::api;

    /// An API server with a ConfigMap more in each list, that does not know what changes.
    fn client() -> Client {
        let lists = AtomicUsize::new(0);
        let service = service_fn(move |request: Request<Body>| {
            let watches = request.uri().to_string().contains("watch=true");
            let answer = if watches {
                let status = json!({ "status": "Failure", "reason": "Expired", "code": 410 });
                json!({ "type": "ERROR", "object": status })
            } else {
                let count = lists.fetch_add(1, Ordering::Relaxed);
                let item = |number| {
                    let name = format!("x-{number}");
                    json!({ "metadata": { "name": name, "resourceVersion": "1" } })
                };
                let items: Vec<_> = (0..count).map(item).collect();
                json!({ "metadata": { "resourceVersion": "1" }, "items": items })
            };
            let answer = Response::new(Body::from(format!("{answer}\n").into_bytes()));
            async { Ok::<_, Infallible>(answer) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_watch_that_expires_lists_again_without_backoff() {
        let store = Store::<ConfigMap>::empty(());
        let (synced, _) = watch::channel(false);
        let config = watcher::Config::default();
        let watch = store
            .clone()
            .watch(None, api(&client(), None, &()), config, synced);
        assert!(
            timeout(2 * RELIST_DELAY, watch).await.is_err(),
            "it never ends"
        );
        assert!(!store.list().is_empty());
    }
}
