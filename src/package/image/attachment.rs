//! Documents about an image, which registries keep as its referrers
//! (<https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#listing-referrers>).

use serde_json::{Map, Value, json};

use super::blob::{self, Blob};

/// A document about an image, in a manifest of its own that names the image.
#[derive(Debug)]
pub struct Attachment {
    /// The document.
    document: Blob,
    /// What a manifest has in place of the configuration of an image.
    config: Blob,
    annotations: Map<String, Value>,
    /// What names the document and its subject.
    pub manifest: Blob,
}

impl Attachment {
    /// A document about the image with the descriptor `subject`.
    pub fn new(document: Blob, subject: &Value, annotations: Map<String, Value>) -> Self {
        let config = Blob::new(blob::EMPTY, b"{}".to_vec());
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": blob::MANIFEST,
            "artifactType": document.media_type,
            "config": config.descriptor(),
            "layers": [document.descriptor()],
            "subject": subject,
        });
        if !annotations.is_empty() {
            manifest["annotations"] = annotations.clone().into();
        }
        Self { document, config, annotations, manifest: Blob::json(blob::MANIFEST, &manifest) }
    }

    /// What the manifest names.
    pub fn contents(&self) -> impl Iterator<Item = &Blob> {
        [&self.document, &self.config].into_iter()
    }

    /// The contents and the manifest.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.contents().chain([&self.manifest])
    }

    /// How a list of referrers has it.
    pub fn descriptor(&self) -> Value {
        let mut descriptor = self.manifest.descriptor();
        descriptor["artifactType"] = self.document.media_type.into();
        if !self.annotations.is_empty() {
            descriptor["annotations"] = self.annotations.clone().into();
        }
        descriptor
    }
}

/// The tag of the list of the referrers of an image, for registries that do not make it themselves.
pub fn tag(digest: &str) -> String {
    digest.replace(':', "-")
}
