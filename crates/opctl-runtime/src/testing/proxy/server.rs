//! Takes requests, and passes on what no fault keeps.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net;

use axum::body::{Body, to_bytes};
use axum::http::{self, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::super::Request;
use super::fault::Fault;
use super::injection::Injections;
use super::stream;

/// Serves until it is dropped.
pub(super) async fn serve(listener: net::TcpListener, client: Client, injections: Injections) {
    let listener = TcpListener::from_std(listener).expect("a listener should be ready for tokio");
    loop {
        // An error is that of one connection.
        if let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(answer(connection, client.clone(), injections.clone()));
        }
    }
}

async fn answer(connection: TcpStream, client: Client, injections: Injections) {
    // A delay is for faults to make; without this it is a delay less exact.
    let _ = connection.set_nodelay(true);
    let service = service_fn(|request| pass(request, client.clone(), injections.clone()));
    let http = http1::Builder::new();
    // A connection that breaks is what this is about.
    let _ = http
        .serve_connection(TokioIo::new(connection), service)
        .await;
}

/// The answer to a request. With an error, the connection ends.
async fn pass(
    request: http::Request<Incoming>,
    client: Client,
    injections: Injections,
) -> io::Result<Response<Body>> {
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(Body::new(body), usize::MAX).await;
    let body = body.map_err(io::Error::other)?;
    let request = Request::new(
        parts.method.as_str(),
        parts.uri.path(),
        parts.uri.query().unwrap_or_default(),
        serde_json::from_slice(&body).unwrap_or(Value::Null),
    );
    let fault = injections.decide(&request);
    match &fault {
        Some(Fault::Status(code)) => return status(*code),
        Some(Fault::Hang) => match pending::<Infallible>().await {},
        Some(Fault::Disconnect) => return Err(io::Error::other("the request is lost")),
        Some(Fault::Delay(range)) => sleep(injections.pick(range)).await,
        _ => {}
    }

    parts.headers.remove(header::HOST); // the proxy's own
    let upstream = http::Request::from_parts(parts, kube::client::Body::from(body));
    let answer = client.send(upstream).await.map_err(io::Error::other)?;
    let (mut parts, body) = answer.into_parts();
    let body = Body::new(body);
    if matches!(fault, Some(Fault::LoseAnswer | Fault::ReplaceAnswer(_))) {
        // The API server has done it all once its answer is complete.
        let _ = to_bytes(body, usize::MAX).await;
        return match fault {
            Some(Fault::ReplaceAnswer(code)) => status(code),
            _ => Err(io::Error::other("the answer is lost")),
        };
    }
    if request.verb() != "watch" || !parts.status.is_success() {
        return Ok(Response::from_parts(parts, body));
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    let events = stream::pass(body, request, injections);
    Ok(Response::from_parts(parts, Body::from_stream(events)))
}

/// An answer as the API server gives it.
fn status(code: u16) -> io::Result<Response<Body>> {
    let code = StatusCode::from_u16(code).map_err(io::Error::other)?;
    let reason = code.canonical_reason().unwrap_or_default();
    let reason = match code {
        StatusCode::CONFLICT => "Conflict".to_owned(),
        StatusCode::GONE => "Expired".to_owned(),
        StatusCode::INTERNAL_SERVER_ERROR => "InternalError".to_owned(),
        StatusCode::GATEWAY_TIMEOUT => "Timeout".to_owned(),
        _ => reason.replace(' ', ""),
    };
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "injected by a test",
        "reason": reason,
        "code": code.as_u16(),
    });
    let mut answer = Response::builder().status(code);
    if matches!(
        code,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        answer = answer.header(header::RETRY_AFTER, "1");
    }
    let answer = answer.header(header::CONTENT_TYPE, "application/json");
    let answer = answer.body(Body::from(status.to_string()));
    answer.map_err(io::Error::other)
}
