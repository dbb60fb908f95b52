//! Signatures that cosign verifies (<https://github.com/sigstore/protobuf-specs/blob/v0.5.1/protos/sigstore_bundle.proto>).

use anyhow::Result;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, json};

use super::attachment::Attachment;
use super::blob::{self, Blob};
use super::key::PrivateKey;
use super::push;
use super::registry::{Purpose, Registry};
use super::statement::statement;

/// What cosign states by a signature: that somebody has signed.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";

/// The type of a bundle: a signature, and what verifies it.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Signs an image that a registry has, and stores the signature there, as a referrer of the image. Signing it again
/// changes nothing. Returns the name of the image with its digest.
///
/// # Errors
/// A [`UserError`](crate::error::UserError) that says what the registry has refused.
pub fn sign(name: &str, key: &PrivateKey, report: &dyn Fn(String)) -> Result<String> {
    let registry = Registry::connect(name, Purpose::Sign, report)?;
    let (digest, subject) = registry.run(registry.describe())?;
    let hash = digest.trim_start_matches("sha256:");
    let signed = json!({ "digest": { "sha256": hash } });
    let statement = statement(&signed, SIGNED, &json!({})).to_string();
    let bundle = bundle(&statement, key)?;
    let annotations = [("content", "dsse-envelope"), ("predicateType", SIGNED)];
    let annotations =
        annotations.map(|(name, value)| (format!("dev.sigstore.bundle.{name}"), value.into()));
    let signature = Attachment::new(bundle, &subject, Map::from_iter(annotations));
    registry.run(push::attach(&registry, &digest, &[signature]))?;
    Ok(registry.pinned(&digest))
}

/// A statement with its signature.
fn bundle(statement: &str, key: &PrivateKey) -> Result<Blob> {
    let signature = key.sign(&encode(blob::IN_TOTO, statement));
    let bundle = json!({
        "mediaType": BUNDLE,
        "verificationMaterial": { "publicKey": { "hint": key.hint()? } },
        "dsseEnvelope": {
            "payload": BASE64_STANDARD.encode(statement),
            "payloadType": blob::IN_TOTO,
            "signatures": [{ "sig": BASE64_STANDARD.encode(signature) }],
        },
    });
    Ok(Blob::json(BUNDLE, &bundle))
}

/// What is signed of a text (<https://github.com/secure-systems-lab/dsse/blob/v1.0.2/protocol.md>).
fn encode(payload_type: &str, payload: &str) -> Vec<u8> {
    let (type_length, length) = (payload_type.len(), payload.len());
    format!("DSSEv1 {type_length} {payload_type} {length} {payload}").into_bytes()
}
