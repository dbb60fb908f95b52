//! A repository of a registry (<https://github.com/opencontainers/distribution-spec>).

mod login;
mod retry;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::config::Os;
use oci_client::errors::OciDistributionError;
use oci_client::manifest::ImageIndexEntry;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::attachment::{self, Attachment};
use super::blob::{self, Blob};
use super::failure::Failure;
use crate::http;

/// How long a registry may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a registry may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What somebody wants of a registry.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    /// To find out the digest of an image.
    Find,
    /// To read the contents of an image.
    Pull,
    /// To write.
    Push,
    /// To write about what is there.
    Sign,
}

impl Purpose {
    fn actions(self) -> &'static str {
        match self {
            Self::Find | Self::Pull => "pull",
            Self::Push | Self::Sign => "pull,push",
        }
    }

    fn action(self, image: &Reference) -> String {
        match self {
            Self::Find => format!("cannot find the digest of {image}"),
            Self::Pull => format!("cannot pull {image}"),
            Self::Push => format!("cannot push to {}", image.resolve_registry()),
            Self::Sign => format!("cannot sign {image}"),
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Find => "push the image first, or use its tag",
            Self::Pull => {
                "push the image first; `--use-http` and `--skip-tls-verify` are for registries of your own"
            }
            Self::Push => {
                "run the command again when it is resolved: what was sent is not sent twice"
            }
            Self::Sign => "push the image first, and run the command again when it is resolved",
        }
    }
}

/// How a registry is reached, if not in the usual way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transport {
    /// Without encryption.
    pub is_http: bool,
    /// With any certificate.
    pub skips_verification: bool,
}

/// A repository, with the credentials of the user.
pub struct Registry<'a> {
    client: Client,
    /// An image in the repository.
    image: Reference,
    transport: Transport,
    purpose: Purpose,
    auth: RegistryAuth,
    /// What a single request is authorized with.
    access: RegistryAuth,
    /// For what the client of registries cannot do.
    http: reqwest::Client,
    runtime: Runtime,
    report: &'a dyn Fn(String),
    answer_timeout: Duration,
}

impl<'a> Registry<'a> {
    /// Logs in to the registry of an image. `report` is told what takes long.
    ///
    /// # Errors
    /// A [`UserError`](crate::error::UserError) that says what the registry, or the file with the credentials,
    /// has refused.
    pub fn connect(name: &str, purpose: Purpose, report: &'a dyn Fn(String)) -> Result<Self> {
        Self::connect_by(Transport::default(), ANSWER_TIMEOUT, name, purpose, report)
    }

    /// Logs in to the registry of an image, of which the contents are read.
    ///
    /// # Errors
    /// As [`Registry::connect`].
    pub fn pull(name: &str, transport: Transport, report: &'a dyn Fn(String)) -> Result<Self> {
        Self::connect_by(transport, ANSWER_TIMEOUT, name, Purpose::Pull, report)
    }

    fn connect_by(
        mut transport: Transport,
        answer_timeout: Duration,
        name: &str,
        purpose: Purpose,
        report: &'a dyn Fn(String),
    ) -> Result<Self> {
        let image: Reference =
            name.parse().with_context(|| format!("`{name}` is not the name of an image"))?;
        transport.is_http |= is_loopback(image.resolve_registry());
        let mut registry = Self {
            client: client(transport),
            image,
            transport,
            purpose,
            auth: RegistryAuth::Anonymous,
            access: RegistryAuth::Anonymous,
            http: login::client(transport)?,
            runtime: http::runtime()?,
            report,
            answer_timeout,
        };
        (registry.auth, registry.access) = registry.run(registry.log_in())?;
        Ok(registry)
    }

    /// Waits for what needs the registry.
    ///
    /// # Errors
    /// A [`UserError`](crate::error::UserError) that says what the registry has refused.
    pub fn run<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T> {
        self.runtime.block_on(work).map_err(|failure| {
            let action = self.purpose.action(&self.image);
            failure.explain(self.image.resolve_registry(), &action, self.purpose.hint()).into()
        })
    }

    /// The image that the name stands for.
    pub fn image(&self) -> &Reference {
        &self.image
    }

    /// The name of the image with a digest.
    pub fn pinned(&self, digest: &str) -> String {
        format!("{}/{}@{digest}", self.image.registry(), self.image.repository())
    }

    /// Sends contents that the registry does not have. Returns how many bytes were sent.
    pub async fn push_blob(&self, blob: &Blob) -> Result<usize, Failure> {
        let size = blob.bytes.len();
        let what = format!("sending {} ({:.1} MB)", blob.digest, size as f64 / 1e6);
        self.request(&what, size, async || {
            // A registry need not tell of a repository that is new.
            if self.client.blob_exists(&self.image, &blob.digest).await.unwrap_or(false) {
                return Ok(0);
            }
            match self.client.push_blob(&self.image, blob.bytes.clone(), &blob.digest).await {
                // Some registries do not tell where they have stored it.
                Err(error @ OciDistributionError::RegistryNoLocationError) => {
                    let is_stored = self.client.blob_exists(&self.image, &blob.digest).await?;
                    is_stored.then_some(size).ok_or(error)
                }
                result => result.map(|_| size),
            }
        })
        .await
    }

    /// Stores a manifest by its digest.
    pub async fn push_manifest(&self, manifest: &Blob) -> Result<(), Failure> {
        // The name of a manifest without a tag is its digest.
        self.push_manifest_as(&manifest.digest, manifest).await
    }

    /// Stores a manifest with a tag.
    pub async fn push_manifest_as(&self, tag: &str, manifest: &Blob) -> Result<(), Failure> {
        let media_type = manifest.media_type.parse();
        let media_type = media_type.map_err(|_| OciDistributionError::GenericError(None))?;
        let (registry, repository) = (self.image.registry(), self.image.repository());
        let name = Reference::with_tag(registry.to_owned(), repository.to_owned(), tag.to_owned());
        self.request(&format!("sending {tag}"), manifest.bytes.len(), async || {
            let bytes = manifest.bytes.clone();
            self.client.push_manifest_raw(&name, bytes, Clone::clone(&media_type)).await
        })
        .await?;
        Ok(())
    }

    /// Whether the tag already names an image with all of its attachments: it is written last.
    ///
    /// # Errors
    /// If the registry is overloaded. Other errors mean that there is no image.
    pub async fn is_complete(
        &self,
        image: &Blob,
        attachments: &[Attachment],
    ) -> Result<bool, Failure> {
        let has_attachments = async || {
            let listed = self.referrers(&image.digest).await?;
            Ok(attachments.iter().all(|attachment| is_listed(attachment, &listed)))
        };
        let is_complete = match self.digest().await {
            Ok(digest) if digest == image.digest => has_attachments().await,
            other => other.map(|_| false),
        };
        is_complete.or_else(|failure| if failure.may_pass() { Err(failure) } else { Ok(false) })
    }

    /// Adds attachments to the list of the referrers of an image, where the registry has not done it.
    pub async fn list_referrers(
        &self,
        digest: &str,
        attachments: &[Attachment],
    ) -> Result<(), Failure> {
        let listed = self.referrers(digest).await?;
        let mut missing = attachments.iter().filter(|it| !is_listed(it, &listed)).peekable();
        if missing.peek().is_none() {
            return Ok(());
        }
        let descriptors = listed.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
        let mut descriptors: Vec<Value> = descriptors.map_err(OciDistributionError::from)?;
        descriptors.extend(missing.map(Attachment::descriptor));
        self.push_manifest_as(&attachment::tag(digest), &blob::index(&descriptors)).await
    }

    async fn referrers(&self, digest: &str) -> Result<Vec<ImageIndexEntry>, Failure> {
        let subject = self.image.clone_with_digest(digest.to_owned());
        let what = format!("finding what refers to {digest}");
        let list = async || self.client.pull_referrers(&subject, None).await;
        Ok(self.request(&what, 0, list).await?.manifests)
    }

    /// The digest of the image.
    pub async fn digest(&self) -> Result<String, Failure> {
        self.request(&format!("finding {}", self.image), 0, async || {
            self.client.fetch_manifest_digest(&self.image, &self.auth).await
        })
        .await
    }

    /// The layers of the image.
    pub async fn layers(&self) -> Result<Vec<Vec<u8>>, Failure> {
        let what = format!("finding {}", self.image);
        let (manifest, _) = self
            .request(&what, 0, async || {
                self.client.pull_image_manifest(&self.image, &self.auth).await
            })
            .await?;
        let mut layers = Vec::new();
        for layer in &manifest.layers {
            let size = usize::try_from(layer.size).unwrap_or_default();
            let what = format!("receiving {} ({:.1} MB)", layer.digest, size as f64 / 1e6);
            let pull = async || {
                let mut bytes = Vec::new();
                self.client.pull_blob(&self.image, layer, &mut bytes).await?;
                Ok::<_, OciDistributionError>(bytes)
            };
            layers.push(self.request(&what, size, pull).await?);
        }
        Ok(layers)
    }

    /// The digest of the image, and how other documents refer to it.
    pub async fn describe(&self) -> Result<(String, Value), Failure> {
        let what = format!("finding {}", self.image);
        self.request(&what, 0, async || {
            let image = &self.image;
            let (manifest, digest) =
                self.client.pull_manifest_raw(image, &self.auth, &blob::IMAGES).await?;
            let document: Value = serde_json::from_slice(&manifest)?;
            // The specification only recommends it.
            let media_type = document["mediaType"].as_str().unwrap_or(blob::MANIFEST);
            let descriptor =
                json!({ "mediaType": media_type, "digest": digest, "size": manifest.len() });
            Ok::<_, OciDistributionError>((digest, descriptor))
        })
        .await
    }
}

fn is_listed(attachment: &Attachment, list: &[ImageIndexEntry]) -> bool {
    list.iter().any(|referrer| referrer.digest == attachment.manifest.digest)
}

fn client(transport: Transport) -> Client {
    http::install_tls();
    Client::new(ClientConfig {
        protocol: if transport.is_http { ClientProtocol::Http } else { ClientProtocol::Https },
        accept_invalid_certificates: transport.skips_verification,
        platform_resolver: Some(Box::new(any_platform)),
        // Registries disagree about the size of chunks, and the contents are in memory.
        use_monolithic_push: true,
        connect_timeout: Some(CONNECT_TIMEOUT),
        // Its timeout would also be that of sending contents.
        read_timeout: None,
        user_agent: concat!("opctl/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    })
}

/// The first image of an index: files such as manifests are the same for every platform. Attestations are no images.
fn any_platform(images: &[ImageIndexEntry]) -> Option<String> {
    let unknown = Os::from("unknown");
    let is_image = |image: &&ImageIndexEntry| {
        image.platform.as_ref().is_none_or(|platform| platform.os != unknown)
    };
    images.iter().find(is_image).map(|image| image.digest.clone())
}

/// Whether a registry is on this machine. Only there nobody can read what is not encrypted.
fn is_loopback(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn registry_that_does_not_answer_is_not_waited_for_forever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("{}/box", listener.local_addr().unwrap());
        let timeout = Duration::from_millis(1200);
        let reports = RefCell::new(Vec::new());
        let report = |text| reports.borrow_mut().push(text);
        let registry =
            Registry::connect_by(Transport::default(), timeout, &name, Purpose::Push, &report);
        let error = registry.err().unwrap().to_string();
        assert!(error.ends_with(": it has not answered for 1s 200ms"), "{error}");
        assert_eq!(*reports.borrow(), ["logging in"], "after a second");
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
