//! Pushes images to registries and finds their digests there
//! (<https://github.com/opencontainers/distribution-spec>).

use std::fmt::Display;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use docker_credential::{CredentialRetrievalError, DockerCredential};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use tokio::runtime::Builder;

use super::attachment::{self, Attachment};
use super::blob::{self, Blob};
use crate::error::UserError;

/// How often a request is sent that fails for a reason that may pass.
const ATTEMPTS: u32 = 4;
/// The time before the second attempt, which doubles with each further one.
const DELAY: Duration = Duration::from_millis(500);
/// How long a registry may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a registry may be silent.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The key of Docker Hub in the files with credentials.
const DOCKER_HUB: (&str, &str) = ("index.docker.io", "https://index.docker.io/v1/");

/// Pushes what the registry does not have: first the contents, so that what is interrupted can be pushed again,
/// then the documents that name them, the last of which gets the tag. Returns the number of bytes of the contents
/// that were sent.
///
/// # Errors
/// A [`UserError`] that says what the registry, or the file with the credentials, has refused.
pub fn push(
    reference: &str,
    contents: &[&Blob],
    manifests: &[&Blob],
    root: &Blob,
    attachment: &Attachment,
) -> Result<usize> {
    let image: Reference = reference.parse().context("the name of the image")?;
    let registry = image.resolve_registry().to_owned();
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot push")?;
    let push = async {
        let client = client(&registry);
        let auth = credentials(&registry)?;
        client.auth(&image, &auth, RegistryOperation::Push).await.map_err(Failure::Registry)?;
        let mut sent = 0;
        for blob in contents {
            sent += retry(async || push_blob(&client, &image, blob).await).await?;
        }
        for manifest in manifests.iter().copied().chain([&attachment.manifest]) {
            // The name of a manifest without a tag is its digest.
            let by_digest = tagged(&image, &manifest.digest);
            retry(async || push_manifest(&client, &by_digest, manifest).await).await?;
        }
        retry(async || push_manifest(&client, &image, root).await).await?;
        list_referrer(&client, &image, root, attachment).await?;
        Ok(sent)
    };
    let hint = "run the command again when it is resolved: what was sent is not sent twice";
    let action = format!("cannot push to {registry}");
    runtime
        .block_on(push)
        .map_err(|failure: Failure| failure.explain(&registry, &action, hint).into())
}

/// An image by its digest, such as `example.com/box@sha256:...`. One that has a digest stays as it is.
///
/// # Errors
/// A [`UserError`] that says what the registry, or the file with the credentials, has refused.
pub fn pinned(name: &str) -> Result<String> {
    let image: Reference =
        name.parse().with_context(|| format!("`{name}` is not the name of an image"))?;
    if image.digest().is_some() {
        return Ok(name.to_owned());
    }
    let registry = image.resolve_registry().to_owned();
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot connect")?;
    let find = async {
        let client = client(&registry);
        let auth = credentials(&registry)?;
        retry(async || client.fetch_manifest_digest(&image, &auth).await).await
    };
    let action = format!("cannot find the digest of {name}");
    let hint = "push the image first, or use its tag";
    let digest =
        runtime.block_on(find).map_err(|f: Failure| f.explain(&registry, &action, hint))?;
    Ok(format!("{}/{}@{digest}", image.registry(), image.repository()))
}

/// Why an image was not pushed.
enum Failure {
    Registry(OciDistributionError),
    Credentials(String),
}

impl Failure {
    fn explain(self, registry: &str, action: &str, hint: &str) -> UserError {
        let login = format!("log in with `docker login {registry}` or `podman login {registry}`");
        let failure = |problem: &dyn Display| UserError::failure(format!("{action}: {problem}"));
        match self {
            Self::Credentials(problem) => failure(&problem).with_hint(login),
            Self::Registry(
                OciDistributionError::UnauthorizedError { .. }
                | OciDistributionError::AuthenticationFailure(_)
                | OciDistributionError::ServerError { code: 401 | 403, .. },
            ) => failure(&"it refuses the credentials").with_hint(login),
            Self::Registry(error) => failure(&describe(&error)).with_hint(hint),
        }
    }
}

/// An error with its causes, without the address that is a part of some.
fn describe(error: &OciDistributionError) -> String {
    match error {
        OciDistributionError::RequestError(error) => {
            let mut causes = vec![];
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                causes.push(error.to_string());
                cause = error.source();
            }
            match causes.pop() {
                Some(root) => root,
                None => error.to_string(),
            }
        }
        OciDistributionError::ServerError { code, message, .. } => {
            format!("it answers with {code} {}", message.trim())
        }
        error => error.to_string(),
    }
}

fn client(registry: &str) -> Client {
    // Another one may be installed already, which does as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let protocol = if is_loopback(registry) { ClientProtocol::Http } else { ClientProtocol::Https };
    Client::new(ClientConfig {
        protocol,
        // Registries disagree about the size of chunks, and the contents are in memory.
        use_monolithic_push: true,
        connect_timeout: Some(CONNECT_TIMEOUT),
        read_timeout: Some(READ_TIMEOUT),
        user_agent: concat!("opctl/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    })
}

/// Whether a registry is on this machine. Only there nobody can read what is not encrypted.
fn is_loopback(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The credentials that the user has for a registry, as docker and podman keep them.
fn credentials(registry: &str) -> Result<RegistryAuth, Failure> {
    let server = if registry == DOCKER_HUB.0 { DOCKER_HUB.1 } else { registry };
    let stores = [docker_credential::get_credential, docker_credential::get_podman_credential];
    for store in stores {
        match store(server) {
            Ok(DockerCredential::UsernamePassword(user, password)) => {
                return Ok(RegistryAuth::Basic(user, password));
            }
            Ok(DockerCredential::IdentityToken(_)) => {
                let problem = "its credentials are an identity token, which opctl cannot use";
                return Err(Failure::Credentials(problem.to_owned()));
            }
            Err(
                CredentialRetrievalError::NoCredentialConfigured
                | CredentialRetrievalError::ConfigNotFound
                | CredentialRetrievalError::ConfigReadError,
            ) => {}
            Err(error) => return Err(Failure::Credentials(error.to_string())),
        }
    }
    Ok(RegistryAuth::Anonymous)
}

/// Sends a blob that the registry does not have. Returns how many bytes were sent.
async fn push_blob(
    client: &Client,
    image: &Reference,
    blob: &Blob,
) -> Result<usize, OciDistributionError> {
    // A registry need not tell of a repository that is new.
    if client.blob_exists(image, &blob.digest).await.unwrap_or(false) {
        return Ok(0);
    }
    match client.push_blob(image, blob.bytes.clone(), &blob.digest).await {
        // Some registries do not tell where they have stored it.
        Err(error @ OciDistributionError::RegistryNoLocationError) => {
            let is_stored = client.blob_exists(image, &blob.digest).await?;
            is_stored.then_some(blob.bytes.len()).ok_or(error)
        }
        result => result.map(|_| blob.bytes.len()),
    }
}

async fn push_manifest(
    client: &Client,
    image: &Reference,
    manifest: &Blob,
) -> Result<(), OciDistributionError> {
    let media_type = manifest.media_type.parse();
    let media_type = media_type.map_err(|_| OciDistributionError::GenericError(None))?;
    client.push_manifest_raw(image, manifest.bytes.clone(), media_type).await?;
    Ok(())
}

/// Adds an attachment to the list of the referrers of an image, where the registry has not done it.
async fn list_referrer(
    client: &Client,
    image: &Reference,
    root: &Blob,
    attachment: &Attachment,
) -> Result<(), Failure> {
    let subject = image.clone_with_digest(root.digest.clone());
    let listed = retry(async || client.pull_referrers(&subject, None).await).await?.manifests;
    if listed.iter().any(|referrer| referrer.digest == attachment.manifest.digest) {
        return Ok(());
    }
    let listed = listed.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
    let mut descriptors = listed.map_err(|error| Failure::Registry(error.into()))?;
    descriptors.push(attachment.descriptor());
    let (list, tag) = (blob::index(&descriptors), attachment::tag(root));
    retry(async || push_manifest(client, &tagged(image, &tag), &list).await).await
}

/// The same repository with another tag.
fn tagged(image: &Reference, tag: &str) -> Reference {
    Reference::with_tag(image.registry().to_owned(), image.repository().to_owned(), tag.to_owned())
}

/// Repeats what fails for a reason that may pass.
async fn retry<T>(
    attempt: impl AsyncFn() -> Result<T, OciDistributionError>,
) -> Result<T, Failure> {
    let mut delay = DELAY;
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(error) if may_pass(&error) => tokio::time::sleep(delay).await,
            result => return result.map_err(Failure::Registry),
        }
        delay *= 2;
    }
    attempt().await.map_err(Failure::Registry)
}

fn may_pass(error: &OciDistributionError) -> bool {
    match error {
        OciDistributionError::RequestError(_) => true,
        OciDistributionError::ServerError { code, .. } => *code == 429 || *code >= 500,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A registry with one image.
    fn registry(digest: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 4096];
                let size = stream.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..size]).into_owned();
                let is_known =
                    request.contains(" /v2/box/manifests/1 ") || request.contains(" /v2/ ");
                let status = if is_known { "200 OK" } else { "404 Not Found" };
                let headers = format!("Docker-Content-Digest: {digest}\r\nContent-Length: 0");
                let answer = format!("HTTP/1.1 {status}\r\n{headers}\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    #[test]
    fn registry_knows_the_digest_of_an_image() {
        const DIGEST: &str =
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let registry = registry(DIGEST);
        let by_digest = format!("{registry}/box@{DIGEST}");
        assert_eq!(pinned(&format!("{registry}/box:1")).unwrap(), by_digest);
        assert_eq!(pinned(&by_digest).unwrap(), by_digest);
        let error = pinned(&format!("{registry}/box:2")).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("cannot find the digest of {registry}/box:2: ")),
            "{error}"
        );
        assert!(pinned("Not an image").is_err());
    }

    #[test]
    fn only_registries_on_this_machine_are_not_encrypted() {
        for (registry, expected) in [
            ("localhost:5000", true),
            ("localhost", true),
            ("127.0.0.1:5000", true),
            ("[::1]:5000", true),
            ("localhost.example.com", false),
            ("10.0.0.1:5000", false),
            ("index.docker.io", false),
        ] {
            assert_eq!(is_loopback(registry), expected, "{registry}");
        }
    }
}
