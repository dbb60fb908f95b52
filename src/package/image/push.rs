//! Pushes images to registries and finds their digests there.

use anyhow::Result;
use oci_client::Reference;

use super::attachment::Attachment;
use super::blob::Blob;
use super::document::PlatformImage;
use super::failure::Failure;
use super::registry::{Purpose, Registry};

/// Pushes what the registry does not have: first the contents, then the documents that name them, so that what is
/// interrupted can be pushed again, and the tag last: what it names is complete. Returns the number of bytes of the
/// contents that were sent.
///
/// # Errors
/// What the registry has refused.
pub async fn push(
    registry: &Registry<'_>,
    images: &[PlatformImage],
    root: &Blob,
    attachments: &[Attachment],
) -> Result<usize, Failure> {
    if registry.is_complete(root, attachments).await? {
        return Ok(0);
    }
    let mut sent = 0;
    for blob in images.iter().flat_map(PlatformImage::contents) {
        sent += registry.push_blob(blob).await?;
    }
    let manifests = images.iter().map(|image| &image.manifest);
    for manifest in manifests.filter(|manifest| *manifest != root).chain([root]) {
        registry.push_manifest(manifest).await?;
    }
    sent += attach(registry, &root.digest, attachments).await?;
    let tag = registry.image().tag().unwrap_or_default();
    registry.push_manifest_as(tag, root).await?;
    Ok(sent)
}

/// Pushes attachments of an image. Returns the number of bytes of the contents that were sent.
///
/// # Errors
/// What the registry has refused.
pub async fn attach(
    registry: &Registry<'_>,
    digest: &str,
    attachments: &[Attachment],
) -> Result<usize, Failure> {
    let mut sent = 0;
    for attachment in attachments {
        for blob in attachment.contents() {
            sent += registry.push_blob(blob).await?;
        }
        registry.push_manifest(&attachment.manifest).await?;
    }
    registry.list_referrers(digest, attachments).await?;
    Ok(sent)
}

/// An image by its digest, such as `example.com/box@sha256:...`. One that has a digest stays as it is.
///
/// # Errors
/// A [`UserError`](crate::error::UserError) that says what the registry, or the file with the credentials, has
/// refused.
pub fn pinned(name: &str) -> Result<String> {
    if name.parse::<Reference>().is_ok_and(|image| image.digest().is_some()) {
        return Ok(name.to_owned());
    }
    let registry = Registry::connect(name, Purpose::Find, &|_| {})?;
    let digest = registry.run(registry.digest())?;
    Ok(registry.pinned(&digest))
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
}
