//! The HTTP servers for probes and metrics.

mod auth;
mod listen;
mod tls;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use kube::Client;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use self::auth::Authorizer;
use self::listen::listen;
use crate::manager::Manager;
use crate::metrics::Metrics;
use crate::options::Endpoint;

/// How many connections a server has at a time. There is a scraper or two; nobody else is to take
/// the memory that the controllers need. The oldest gives way to a new one: a probe lasts milliseconds,
/// and connections that send nothing keep none out.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may take for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// /healthz fails when a task has ended or stalled that should not; /readyz until the stores are
/// synced, and while a check of the operator's own fails. A standby is ready, too.
pub(crate) async fn serve_probes(manager: Manager, endpoint: Endpoint) -> Result<()> {
    let alive = manager.clone();
    let healthz = move || async move {
        match alive.failing_checks() {
            failing if failing.is_empty() => (StatusCode::OK, "ok".to_owned()),
            failing => (StatusCode::INTERNAL_SERVER_ERROR, failing.join("\n")),
        }
    };
    let readyz = move || async move {
        match manager.failing_readiness_checks() {
            failing if failing.is_empty() => (StatusCode::OK, "ok".to_owned()),
            failing => (StatusCode::SERVICE_UNAVAILABLE, failing.join("\n")),
        }
    };
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz));
    serve("probes", &endpoint, None, routes).await
}

/// /metrics in the OpenMetrics text format, for clients that RBAC authorizes to get it.
pub(crate) async fn serve_metrics(
    manager: Manager,
    client: Client,
    endpoint: Endpoint,
) -> Result<()> {
    let options = manager.options();
    let (authorizer, tls) = if options.metrics_secure {
        let tls = tls::acceptor(options.metrics_cert_path.as_deref());
        let tls = tls.context("cannot serve metrics")?;
        (Some(Arc::new(Authorizer::new(client))), Some(tls))
    } else {
        (None, None)
    };
    let metrics = Arc::clone(manager.metrics());
    let scrape = async move |headers: HeaderMap| match &authorizer {
        Some(authorizer) => match authorizer.check(&headers).await {
            Ok(()) => page(&metrics),
            Err(status) => status.into_response(),
        },
        None => page(&metrics),
    };
    let routes = Router::new().route(auth::PATH, get(scrape));
    serve("metrics", &endpoint, tls, routes).await
}

fn page(metrics: &Metrics) -> Response {
    match metrics.encode() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn serve(
    what: &'static str,
    endpoint: &Endpoint,
    tls: Option<TlsAcceptor>,
    routes: Router,
) -> Result<()> {
    let listener = listen(endpoint)
        .await
        .with_context(|| format!("cannot serve {what} at {endpoint}"))?;
    info!(address = %listener.local_addr()?, encrypted = tls.is_some(), "serving {what}");
    accept(listener, what, tls, routes).await
}

async fn accept(
    listener: TcpListener,
    what: &'static str,
    tls: Option<TlsAcceptor>,
    routes: Router,
) -> Result<()> {
    let mut connections: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept a connection for {what}");
                sleep(Duration::from_secs(1)).await; // until files are closed, if there were too many
                continue;
            }
        };
        let (tls, routes) = (tls.clone(), routes.clone());
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= MAX_CONNECTIONS
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let connection = tokio::spawn(async move {
            if let Err(error) = answer(stream, tls, routes).await {
                debug!(%error, "a connection for {what} failed");
            }
        });
        connections.push_back(connection.abort_handle());
    }
}

async fn answer(stream: TcpStream, tls: Option<TlsAcceptor>, routes: Router) -> Result<()> {
    match tls {
        Some(tls) => {
            let stream = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await??;
            connection(TokioIo::new(stream), routes).await
        }
        None => connection(TokioIo::new(stream), routes).await,
    }
}

/// Answers until the client closes the connection or has not sent a request for 30 s.
async fn connection(io: impl Read + Write + Unpin, routes: Router) -> Result<()> {
    let service = TowerToHyperService::new(routes);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new());
    Ok(http.serve_connection(io, service).await?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use tokio::task::spawn_blocking;

    use super::{MAX_CONNECTIONS, Router, TcpListener, accept, get};

    #[tokio::test]
    async fn connections_that_send_nothing_keep_no_probe_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/healthz", get(async || "ok"));
        tokio::spawn(accept(listener, "probes", None, routes));
        let answer = spawn_blocking(move || {
            let connect = || TcpStream::connect(address).unwrap();
            let _idle: Vec<_> = (0..2 * MAX_CONNECTIONS).map(|_| connect()).collect();
            let mut probe = connect();
            probe
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            probe.write_all(request).unwrap();
            let mut answer = String::new();
            probe
                .read_to_string(&mut answer)
                .expect("there should be an answer");
            answer
        });
        let answer = answer.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
