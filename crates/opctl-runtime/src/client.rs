//! The clients: every request is counted, and none writes without the lease.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::http::{Method, Request, Response};
use kube::client::{Body, Client};
use kube::config::Config;
use tokio_rustls::rustls::crypto::ring;
use tower::service_fn;

use crate::leader::LeaderState;
use crate::metrics::Metrics;

/// Without a byte for this long a connection is dead: that of a watch, which ends by itself before.
const READ_TIMEOUT: Duration = Duration::from_secs(310);

/// How long it may take to connect, and to send.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that notices when the API server is gone. In a pod it also follows a new certificate
/// authority of the cluster: kube reads the file once a minute.
pub(crate) fn connect(mut config: Config) -> kube::Result<Client> {
    // Another crate of the operator may bring a second provider, and rustls then panics unless one is
    // chosen. An error says that the operator has chosen one already.
    let _ = ring::default_provider().install_default();
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.write_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // Else the time that a connection was idle counts, too.
    config.reset_reader_on_write = true;
    Client::try_from(config)
}

/// Counts the requests to `host`. Those that the client repeats by itself count as one.
pub(crate) fn counted(client: Client, metrics: Arc<Metrics>, host: String) -> Client {
    layer(client, move |client, request| {
        let (metrics, host) = (Arc::clone(&metrics), host.clone());
        async move {
            let method = request.method().clone();
            let answer = client.send(request).await;
            let code = answer.as_ref().ok().map(|answer| answer.status());
            metrics.count_request(
                &host,
                method.as_str(),
                code.as_ref().map(|code| code.as_str()),
            );
            answer
        }
    })
}

/// Lets nothing but reads pass unless this process is the leader. That is looked at whenever the
/// request makes progress, so a process that was stopped for a while, and has lost its lease meanwhile,
/// hardly sends what it was about to.
///
/// # Caveats
/// It is a fence of this process, not of the API server. What the connection has taken over already
/// is sent, and a request is not taken back that arrives late. The clock is tokio's, which stands still
/// (`CLOCK_MONOTONIC`) while the whole machine is suspended: until the next renewal fails, a process
/// that wakes up believes in a lease that has expired. What must not be written twice needs a
/// resource version or a name that only one of two writes can take.
pub(crate) fn fenced(client: Client, leader: LeaderState) -> Client {
    layer(client, move |client, request| {
        let leader = leader.clone();
        async move {
            let writes = request.method() != Method::GET;
            let mut answer = pin!(client.send(request));
            poll_fn(|context| {
                if writes && !leader.is_held() {
                    let error = io::Error::other("this process is not the leader");
                    return Poll::Ready(Err(kube::Error::Service(error.into())));
                }
                answer.as_mut().poll(context)
            })
            .await
        }
    })
}

fn layer<F, A>(client: Client, send: F) -> Client
where
    F: Fn(Client, Request<Body>) -> A + Send + 'static,
    A: Future<Output = kube::Result<Response<Body>>> + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request| send(client.clone(), request));
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;

    use super::*;

    /// A client of an API server that takes everything.
    fn client() -> Client {
        let service = service_fn(async |_: Request<Body>| {
            let object = br#"{"metadata": {"name": "x"}}"#.to_vec();
            Ok::<_, Infallible>(Response::new(Body::from(object)))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn only_the_leader_writes_but_all_read() {
        for (leader, may_write) in [
            (LeaderState::default(), false),
            (LeaderState::without_election(), true),
        ] {
            let api: Api<ConfigMap> = Api::default_namespaced(fenced(client(), leader));
            assert!(api.get("x").await.is_ok());
            let (params, object) = (PostParams::default(), ConfigMap::default());
            assert_eq!(api.create(&params, &object).await.is_ok(), may_write);
        }
    }

    #[tokio::test]
    async fn requests_are_counted_by_their_answers() {
        let metrics = Arc::new(Metrics::for_tests());
        let client = counted(client(), Arc::clone(&metrics), "server".to_owned());
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        assert!(api.get("x").await.is_ok());
        let line = r#"rest_client_requests_total{code="200",method="GET",host="server"} 1"#;
        assert!(metrics.encode().unwrap().contains(line));
    }
}
