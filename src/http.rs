//! What all clients of HTTP servers share.

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// A builder of clients that use the proxies of the environment and the certificates of the system.
pub fn client() -> reqwest::ClientBuilder {
    install_tls();
    reqwest::Client::builder().user_agent(concat!("opctl/", env!("CARGO_PKG_VERSION")))
}

/// Chooses the implementation of TLS. Another one may be installed already, which does as well.
pub fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A runtime for requests, on the thread that waits for them.
///
/// # Errors
/// If the system has no file descriptors left.
pub fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start an HTTP client")
}
