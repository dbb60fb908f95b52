//! The clients: every attempt of a request is counted, and none writes without the lease.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::http::{Method, Request, Response, StatusCode};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, Client};
use kube::config::Config;
use tokio_rustls::rustls::crypto::ring;
use tower::retry::RetryLayer;
use tower::util::option_layer;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

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

/// A service that sends requests to a cluster.
pub(crate) trait Sends:
    Service<Request<Body>, Response = Response<Body>, Error = BoxError, Future: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S> Sends for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = BoxError, Future: Send + 'static>
        + Clone
        + Send
        + 'static
{
}

/// What sends and counts requests. Each client of it is a queue and a task that a request goes through.
pub(crate) struct Counted<S> {
    service: S,
    namespace: String,
}

/// What sends requests to the cluster. Each attempt is counted: kube repeats what the API server answers with
/// 429, 503 or 504, up to 15 times, so that is done here, above the count.
pub(crate) fn connect_counted(
    mut config: Config,
    metrics: Arc<Metrics>,
) -> kube::Result<Counted<impl Sends>> {
    let (host, retries) = (host(&config), config.default_retry);
    config.default_retry = false;
    let client = connect(config)?;
    let retry = retries.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    Ok(Counted {
        namespace: client.default_namespace().to_owned(),
        service: option_layer(retry).layer(counting(client, metrics, host)),
    })
}

/// What sends requests to `host` by that client.
pub(crate) fn counted(client: Client, metrics: Arc<Metrics>, host: String) -> Counted<impl Sends> {
    Counted {
        namespace: client.default_namespace().to_owned(),
        service: counting(client, metrics, host),
    }
}

impl<S: Sends> Counted<S> {
    /// A client that sends whatever it is asked to.
    pub fn client(&self) -> Client {
        Client::new(self.service.clone(), self.namespace.clone())
    }

    /// A client that lets nothing but reads pass unless this process is the leader. That is looked at whenever the
    /// request makes progress, so a process that was stopped for a while, and has lost its lease meanwhile,
    /// hardly sends what it was about to.
    ///
    /// # Caveats
    /// It is a fence of this process, not of the API server. What the connection has taken over already
    /// is sent, and a request is not taken back that arrives late. The clock is tokio's, which stands still
    /// (`CLOCK_MONOTONIC`) while the whole machine is suspended: until the next renewal fails, a process
    /// that wakes up believes in a lease that has expired. What must not be written twice needs a
    /// resource version or a name that only one of two writes can take.
    pub fn fenced(&self, leader: LeaderState) -> Client {
        let service = self.service.clone();
        let fenced = service_fn(move |request: Request<Body>| {
            let (service, leader) = (service.clone(), leader.clone());
            async move {
                let writes = request.method() != Method::GET;
                let mut answer = pin!(service.oneshot(request));
                poll_fn(|context| {
                    if writes && !leader.is_held() {
                        let error = io::Error::other("this process is not the leader");
                        return Poll::Ready(Err(error.into()));
                    }
                    answer.as_mut().poll(context)
                })
                .await
            }
        });
        Client::new(fenced, self.namespace.clone())
    }
}

/// Sends a request, and returns the answer as it is.
pub(crate) async fn answer(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> kube::Result<String> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    client.request_text(request).await
}

/// The label `host` of client-go's request metrics.
fn host(config: &Config) -> String {
    let authority = config.cluster_url.authority();
    authority.map(ToString::to_string).unwrap_or_default()
}

/// Counts the requests to `host`, and measures how long they wait for an answer.
fn counting(client: Client, metrics: Arc<Metrics>, host: String) -> impl Sends {
    let host: Arc<str> = host.into();
    service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let attempt = Attempt {
            metrics: Arc::clone(&metrics),
            host: Arc::clone(&host),
            method: request.method().clone(),
            start: Instant::now(),
            code: None,
        };
        async move {
            let mut attempt = attempt;
            let answer = client.send(request).await;
            attempt.code = answer.as_ref().ok().map(Response::status);
            answer.map_err(BoxError::from)
        }
    })
}

/// Is counted when it goes: also where nobody waits for the answer any more, as when a reconcile takes
/// too long.
struct Attempt {
    metrics: Arc<Metrics>,
    host: Arc<str>,
    method: Method,
    start: Instant,
    code: Option<StatusCode>,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let code = self.code.as_ref().map(StatusCode::as_str);
        let took = self.start.elapsed();
        self.metrics
            .count_request(&self.host, self.method.as_str(), code, took);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::spawn;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;
    use tokio::time::timeout;

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
            let metrics = Arc::new(Metrics::for_tests());
            let fenced = counted(client(), metrics, String::new()).fenced(leader);
            let api: Api<ConfigMap> = Api::default_namespaced(fenced);
            assert!(api.get("x").await.is_ok());
            let (params, object) = (PostParams::default(), ConfigMap::default());
            assert_eq!(api.create(&params, &object).await.is_ok(), may_write);
        }
    }

    #[tokio::test]
    async fn requests_are_counted_by_their_answers() {
        let metrics = Arc::new(Metrics::for_tests());
        let counted = counted(client(), Arc::clone(&metrics), "server".to_owned());
        let api: Api<ConfigMap> = Api::default_namespaced(counted.client());
        assert!(api.get("x").await.is_ok());
        let line = r#"rest_client_requests_total{code="200",method="GET",host="server"} 1"#;
        assert!(metrics.encode().unwrap().contains(line));
    }

    #[tokio::test]
    async fn a_request_that_hangs_is_counted_when_it_is_dropped() {
        let service =
            service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let metrics = Arc::new(Metrics::for_tests());
        let client = Client::new(service, "default");
        let counted = counted(client, Arc::clone(&metrics), "server".to_owned());
        let api: Api<ConfigMap> = Api::default_namespaced(counted.client());
        let limit = Duration::from_millis(50);
        assert!(timeout(limit, api.get("x")).await.is_err());
        let text = metrics.encode().unwrap();
        for line in [
            r#"rest_client_requests_total{code="<error>",method="GET",host="server"} 1"#,
            r#"rest_client_request_duration_seconds_bucket{le="0.025",verb="GET",host="server"} 0"#,
            r#"rest_client_request_duration_seconds_count{verb="GET",host="server"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    /// An API server that sheds load twice before it answers.
    fn shedding() -> Config {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = [
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 28\r\n\r\n{\"metadata\": {\"name\": \"x\"}} ",
        ];
        spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            for answer in answers {
                // A request without a body comes in one piece.
                assert!(connection.read(&mut [0; 4096]).unwrap() > 0);
                connection.write_all(answer.as_bytes()).unwrap();
            }
        });
        Config::new(url.parse().unwrap())
    }

    #[tokio::test]
    async fn what_the_client_repeats_by_itself_is_counted() {
        let metrics = Arc::new(Metrics::for_tests());
        let counted = connect_counted(shedding(), Arc::clone(&metrics)).unwrap();
        let api: Api<ConfigMap> = Api::default_namespaced(counted.client());
        assert!(api.get("x").await.is_ok());
        let text = metrics.encode().unwrap();
        for code in [429, 503, 200] {
            let sample = format!("code=\"{code}\",method=\"GET\"");
            assert!(text.contains(&sample), "{sample} is not in\n{text}");
        }
    }
}
