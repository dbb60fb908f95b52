//! Signatures that cosign verifies (<https://github.com/sigstore/protobuf-specs/blob/v0.5.1/protos/sigstore_bundle.proto>).

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::attachment::Attachment;
use super::blob::{self, Blob};
use super::key::PrivateKey;
use super::layout::{self, Document};
use super::push;
use super::registry::{Purpose, Registry};
use super::sbom::SPDX;
use super::statement::statement;

/// What cosign states by a signature: that somebody has signed.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";

/// The type of a bundle: a signature, and what verifies it.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The type of a statement that is a bill of materials
/// (<https://github.com/in-toto/attestation/blob/v1.1.0/spec/predicates/spdx.md>).
const BILL_OF_MATERIALS: &str = "https://spdx.dev/Document";

/// What was signed.
#[derive(Debug)]
pub struct Signed {
    /// The name of the image with its digest.
    pub image: String,
    /// The types of the statements.
    pub statements: Vec<String>,
}

/// What is said about an image.
struct Statement {
    predicate_type: String,
    text: String,
}

/// Signs an image that a registry has, and the documents about it in the directory that it was built to, if that has
/// the image. Those of the registry are not signed: others may have written them. The signatures are stored in the
/// registry, as referrers of the image. Signing it again changes nothing.
///
/// # Errors
/// A [`UserError`](crate::error::UserError) that says what the registry has refused. If a document in the directory
/// was changed.
pub fn sign(
    name: &str,
    key: &PrivateKey,
    directory: &Path,
    report: &dyn Fn(String),
) -> Result<Signed> {
    let registry = Registry::connect(name, Purpose::Sign, report)?;
    let (digest, subject) = registry.run(registry.describe())?;
    let image = json!({ "digest": { "sha256": digest.trim_start_matches("sha256:") } });
    let mut statements = vec![Statement::new(&image, SIGNED, &json!({}))];
    for document in layout::documents(directory, &digest)?.unwrap_or_default() {
        statements.extend(Statement::of(&image, &document)?);
    }
    let signatures: Result<Vec<Attachment>> =
        statements.iter().map(|statement| statement.sign(key, &subject)).collect();
    registry.run(push::attach(&registry, &digest, &signatures?))?;
    let statements = statements.into_iter().map(|statement| statement.predicate_type).collect();
    Ok(Signed { image: registry.pinned(&digest), statements })
}

impl Statement {
    fn new(image: &Value, predicate_type: &str, predicate: &Value) -> Self {
        let text = statement(image, predicate_type, predicate).to_string();
        Self { predicate_type: predicate_type.to_owned(), text }
    }

    /// The statement that a document makes about an image, if it is one.
    fn of(image: &Value, document: &Document) -> Result<Option<Self>> {
        let bytes = &document.bytes;
        let parse = || serde_json::from_slice::<Value>(bytes).context("an invalid document");
        Ok(match document.media_type.as_str() {
            SPDX => Some(Self::new(image, BILL_OF_MATERIALS, &parse()?)),
            blob::IN_TOTO => {
                let predicate_type = parse()?["predicateType"].as_str().map(str::to_owned);
                Some(Self {
                    predicate_type: predicate_type.context("a statement without a type")?,
                    text: String::from_utf8(bytes.clone())?,
                })
            }
            _ => None,
        })
    }

    /// The signature, as a referrer of the image with the descriptor `subject`.
    fn sign(&self, key: &PrivateKey, subject: &Value) -> Result<Attachment> {
        let annotations =
            [("content", "dsse-envelope"), ("predicateType", self.predicate_type.as_str())];
        let annotations =
            annotations.map(|(name, value)| (format!("dev.sigstore.bundle.{name}"), value.into()));
        let bundle = bundle(&self.text, key)?;
        Ok(Attachment::new(bundle, subject, Map::from_iter(annotations)))
    }
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
