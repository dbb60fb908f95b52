//! Contents that are addressed by their digest.

use serde_json::{Value, json};

use crate::hash::Hash;

/// Media types of the image specification
/// (<https://github.com/opencontainers/image-spec/blob/v1.1.1/media-types.md>).
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// See [`INDEX`].
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// See [`INDEX`].
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// See [`INDEX`].
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// See [`INDEX`].
pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// What the name of an image stands for, also as Docker has it.
pub const IMAGES: [&str; 4] = [
    INDEX,
    MANIFEST,
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// Statements about what was built
/// (<https://github.com/in-toto/attestation/blob/v1.1.0/spec/v1/statement.md>).
pub const IN_TOTO: &str = "application/vnd.in-toto+json";

/// A document or a layer of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// What it is.
    pub media_type: &'static str,
    /// `sha256:` and the hash of the bytes.
    pub digest: String,
    /// The contents.
    pub bytes: Vec<u8>,
}

impl Blob {
    /// A blob with these contents.
    pub fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: digest(&bytes), bytes }
    }

    /// A blob with a JSON document. Its fields are in the order of `document`, so that the same document
    /// always has the same digest.
    pub fn json(media_type: &'static str, document: &Value) -> Self {
        Self::new(media_type, document.to_string().into_bytes())
    }

    /// How other documents refer to the blob
    /// (<https://github.com/opencontainers/image-spec/blob/v1.1.1/descriptor.md>).
    pub fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len() })
    }

    /// The hash of the contents in hexadecimal digits, without the name of the algorithm.
    pub fn hash(&self) -> &str {
        self.digest.trim_start_matches("sha256:")
    }
}

/// A list of manifests, by their descriptors.
pub fn index(manifests: &[Value]) -> Blob {
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    Blob::json(INDEX, &index)
}

/// `sha256:` and the hash of these bytes.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", Hash::of(bytes))
}
