//! The documents of an image, which refer to each other by digests.

use serde_json::{Map, Value, json};

use super::blob::{self, Blob};
use super::compile::BINARY;
use super::layer::Layer;
use super::platform::Platform;
use super::source::Source;

/// The user and the group of the operator, which has no name in an image without `/etc/passwd`. It is that of
/// the Dockerfile and of distroless images (<https://github.com/GoogleContainerTools/distroless>).
const USER: &str = "65532:65532";

/// An image for one platform.
#[derive(Debug)]
pub struct PlatformImage {
    /// The platform.
    pub platform: Platform,
    /// How it is run.
    pub config: Blob,
    /// Its files.
    pub layers: Vec<Layer>,
    /// What it consists of.
    pub manifest: Blob,
}

impl PlatformImage {
    /// The image with these layers, the first of which is at the bottom.
    pub fn new(platform: Platform, layers: Vec<Layer>, source: &Source) -> Self {
        let config = config(platform, &layers, source);
        let descriptors: Vec<Value> = layers.iter().map(|layer| layer.blob.descriptor()).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": blob::MANIFEST,
            "config": config.descriptor(),
            "layers": descriptors,
            "annotations": source.annotations(),
        });
        Self { platform, config, layers, manifest: Blob::json(blob::MANIFEST, &manifest) }
    }

    /// What the manifest names.
    pub fn contents(&self) -> impl Iterator<Item = &Blob> {
        self.layers.iter().map(|layer| &layer.blob).chain([&self.config])
    }

    /// The contents and the manifest.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.contents().chain([&self.manifest])
    }

    fn descriptor(&self) -> Value {
        let mut descriptor = self.manifest.descriptor();
        let architecture = self.platform.architecture();
        descriptor["platform"] = json!({ "architecture": architecture, "os": "linux" });
        descriptor
    }
}

/// How an image is run (<https://github.com/opencontainers/image-spec/blob/v1.1.1/config.md>).
fn config(platform: Platform, layers: &[Layer], source: &Source) -> Blob {
    let created = source.created();
    let diff_ids: Vec<&String> = layers.iter().map(|layer| &layer.diff_id).collect();
    let step = json!({ "created": created, "created_by": "opctl image build" });
    let document = json!({
        "created": created,
        "architecture": platform.architecture(),
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": [format!("/{BINARY}")],
            "WorkingDir": "/",
            "Labels": source.annotations(),
        },
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
        "history": vec![step; layers.len()],
    });
    Blob::json(blob::CONFIG, &document)
}

/// The document that names the image of each platform.
pub fn index(images: &[PlatformImage], annotations: Map<String, Value>) -> Blob {
    let manifests: Vec<Value> = images.iter().map(PlatformImage::descriptor).collect();
    let index = json!({
        "schemaVersion": 2,
        "mediaType": blob::INDEX,
        "manifests": manifests,
        "annotations": annotations,
    });
    Blob::json(blob::INDEX, &index)
}
