//! Requests to the servers of a manager.

use std::time::Duration;

use axum::http::Request;
use kube::{Client, Config};
use tokio::time::timeout;

/// How long a server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A client of the server at `address`, with `http` or `https` as its scheme.
pub fn config(scheme: &str, address: &str) -> Config {
    let url = format!("{scheme}://{address}");
    Config::new(url.parse().expect("an address should be part of a URL"))
}

/// The status code of the answer; `None` without one.
pub async fn get(config: Config, path: &str) -> Option<u16> {
    let client = Client::try_from(config).expect("a URL should be enough for a client");
    let request = Request::get(path).body(Vec::new().into());
    let request = request.expect("a path should be enough for a request");
    let answer = timeout(ANSWER_TIMEOUT, client.send(request)).await.ok()?;
    Some(answer.ok()?.status().as_u16())
}

/// The status code of a probe's answer.
pub async fn probe(address: &str, path: &str) -> Option<u16> {
    get(config("http", address), path).await
}
