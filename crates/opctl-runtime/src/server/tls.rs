//! The certificate of a server: from files that may change at any time, or self-signed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tracing::{info, warn};

/// How often the files are read. A secret's volume swaps a link to a directory: watching the files for
/// changes would miss that.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Accepts connections with tls.crt and tls.key of `directory`, which are read again when they change,
/// or with a self-signed certificate.
///
/// # Errors
/// The files cannot be read or hold no certificate with its key.
pub(super) fn acceptor(directory: Option<&Path>) -> Result<TlsAcceptor> {
    let current = match directory {
        Some(directory) => {
            let files = Files::read(directory)?;
            let current = Arc::new(Current(RwLock::new(Arc::new(files.parse()?))));
            tokio::spawn(Arc::clone(&current).follow(directory.to_owned(), files));
            current
        }
        None => Arc::new(Current(RwLock::new(Arc::new(self_signed()?)))),
    };
    // The provider is named, because a second one among the dependencies would make rustls panic.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(current);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}

impl Current {
    async fn follow(self: Arc<Self>, directory: PathBuf, mut files: Files) {
        loop {
            sleep(POLL_INTERVAL).await;
            match self.reload(&directory, &mut files) {
                Ok(true) => info!(directory = %directory.display(), "loaded a new certificate"),
                Ok(false) => {}
                // One of the two files may be new already and the other one not yet.
                Err(error) => warn!("keeping the old certificate: {error:#}"),
            }
        }
    }

    /// Whether there was a new certificate.
    fn reload(&self, directory: &Path, files: &mut Files) -> Result<bool> {
        let new = Files::read(directory)?;
        if new == *files {
            return Ok(false);
        }
        let certificate = Arc::new(new.parse()?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certificate;
        *files = new;
        Ok(true)
    }
}

/// A certificate with its chain, and its key, as PEM.
#[derive(PartialEq, Eq)]
struct Files {
    certificates: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    fn read(directory: &Path) -> Result<Self> {
        let read = |name: &str| {
            let file = directory.join(name);
            fs::read(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        Ok(Self {
            certificates: read("tls.crt")?,
            key: read("tls.key")?,
        })
    }

    fn parse(&self) -> Result<CertifiedKey> {
        let chain = CertificateDer::pem_slice_iter(&self.certificates)
            .collect::<Result<Vec<_>, _>>()
            .context("tls.crt holds no certificate")?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).context("tls.key holds no key")?;
        certified(chain, key)
    }
}

fn self_signed() -> Result<CertifiedKey> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    certified(vec![made.cert.into()], made.signing_key.into())
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey> {
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .context("the certificate and the key do not belong together")
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::Request;
    use axum::routing::get;
    use kube::client::Body;
    use tokio::net::TcpListener;

    use super::super::accept;
    use super::*;
    use crate::client::connect;

    /// Writes a new certificate with its key, which are returned as PEM.
    fn renew(directory: &Path) -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        fs::write(directory.join("tls.crt"), &certificate).unwrap();
        fs::write(directory.join("tls.key"), &key).unwrap();
        (certificate, key)
    }

    #[test]
    fn a_new_certificate_is_taken_in_once_its_key_is_there() {
        let directory = std::env::temp_dir().join(format!("tls-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (_, old_key) = renew(&directory);
        let mut files = Files::read(&directory).unwrap();
        let current = Current(RwLock::new(Arc::new(files.parse().unwrap())));
        assert!(!current.reload(&directory, &mut files).unwrap());

        let (_, key) = renew(&directory);
        fs::write(directory.join("tls.key"), old_key).unwrap();
        assert!(current.reload(&directory, &mut files).is_err());
        fs::write(directory.join("tls.key"), key).unwrap();
        assert!(current.reload(&directory, &mut files).unwrap());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[tokio::test]
    #[ignore = "it takes longer than a minute: so often the client reads the file"]
    async fn the_client_of_a_manager_follows_a_new_authority_of_the_api_server() {
        let directory = std::env::temp_dir().join(format!("ca-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let authority = directory.join("ca.crt");
        let (certificate, _) = renew(&directory);
        fs::write(&authority, certificate).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = acceptor(Some(&directory)).unwrap();
        let routes = Router::new().route("/version", get(async || "ok"));
        tokio::spawn(accept(listener, "the test", Some(tls), routes));

        let url = format!("https://localhost:{}", address.port());
        let mut config = kube::Config::new(url.parse().unwrap());
        config.root_cert_file = Some(authority.clone());
        // Each has no connection before its first request.
        let clients = [(); 3].map(|()| connect(config.clone()).unwrap());
        let is_answered = async |client: usize| {
            let request = Request::get("/version").body(Body::empty()).unwrap();
            let answer = clients[client].send(request).await;
            answer.is_ok_and(|answer| answer.status() == 200)
        };
        assert!(is_answered(0).await);
        let (certificate, _) = renew(&directory);
        fs::write(&authority, certificate).unwrap();
        sleep(2 * POLL_INTERVAL).await;
        assert!(!is_answered(1).await, "it still knows the old authority");
        sleep(Duration::from_secs(60)).await;
        assert!(is_answered(2).await);
        fs::remove_dir_all(&directory).unwrap();
    }
}
