//! What opctl itself asks of the API server of a cluster, as its administrator. A start asks again and again, and a
//! process of kubectl for each question would take the time of the processors that start the cluster.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::{Certificate, Identity, RequestBuilder};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::Cluster;
use super::components;
use super::exec::ticking;
use super::ports::Ports;
use crate::http;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the API server of a cluster.
pub struct ApiServer {
    runtime: Runtime,
    client: reqwest::Client,
    url: String,
}

/// What the API server answers.
pub struct Answer {
    /// Whether it has done what it was asked for.
    pub is_success: bool,
    /// The body.
    pub text: String,
}

impl ApiServer {
    /// The API server of a cluster that has certificates, which may not run.
    ///
    /// # Errors
    /// If the certificates cannot be read.
    pub fn new(cluster: &Cluster, ports: &Ports) -> Result<Self> {
        let files = cluster.certificates();
        let read = |file| fs::read(file).with_context(|| format!("cannot read `{file:?}`"));
        let identity = [read(&files.certificate)?, read(&files.key)?].concat();
        // No proxy of the user leads to this machine.
        let client = http::client()
            .no_proxy()
            .tls_certs_only([Certificate::from_pem(&read(&files.ca)?)?])
            .identity(Identity::from_pem(&identity)?)
            .timeout(TIMEOUT);
        Ok(Self {
            runtime: http::runtime()?,
            client: client.build().context("cannot start an HTTP client")?,
            url: components::server(ports),
        })
    }

    /// The response to a GET request, or `None` if the request fails.
    ///
    /// # Errors
    /// Those of `tick`, which is called meanwhile.
    pub fn get(&self, path: &str, tick: impl Fn() -> Result<()>) -> Result<Option<String>> {
        let answer = self.send(self.client.get(self.url(path)), tick)?;
        Ok(answer.filter(|answer| answer.is_success).map(|answer| answer.text))
    }

    /// The answer to a POST request, or `None` if there is none.
    ///
    /// # Errors
    /// As those of [`ApiServer::get`].
    pub fn post(
        &self,
        path: &str,
        object: &Value,
        tick: impl Fn() -> Result<()>,
    ) -> Result<Option<Answer>> {
        self.send(self.client.post(self.url(path)).json(object), tick)
    }

    fn send(
        &self,
        request: RequestBuilder,
        tick: impl Fn() -> Result<()>,
    ) -> Result<Option<Answer>> {
        let answer = async {
            let response = request.send().await?;
            let is_success = response.status().is_success();
            Ok::<_, reqwest::Error>(Answer { is_success, text: response.text().await? })
        };
        Ok(self.runtime.block_on(ticking(answer, tick))?.ok())
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}
