//! Private keys of users, as cosign and openssl write them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crypto_secretbox::aead::Aead;
use crypto_secretbox::{KeyInit, Nonce, XSalsa20Poly1305};
use p256::SecretKey;
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::{DecodePrivateKey, EncodePublicKey};
use scrypt::Params;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::error::UserError;

/// The labels of keys in PEM: in PKCS#8, and as cosign encrypts them, now and before.
const PLAIN: &str = "PRIVATE KEY";
const ENCRYPTED: [&str; 2] = ["ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY"];
/// The costs of scrypt that cosign accepts; more would take very long.
const COSTS: [u64; 3] = [1 << 15, 1 << 16, 1 << 17];
const BLOCK_SIZE: u32 = 8;
const PARALLELISM: u32 = 1;

const NEW_KEY: &str = "make a key with `cosign generate-key-pair`, or with `openssl genpkey -algorithm EC \
                       -pkeyopt ec_paramgen_curve:P-256 -out FILE`";

/// A key on the curve P-256.
pub struct PrivateKey(SigningKey);

/// An encrypted key (<https://github.com/secure-systems-lab/go-securesystemslib/blob/v0.11.0/encrypted/encrypted.go>).
#[derive(Deserialize)]
struct Encrypted {
    kdf: Kdf,
    cipher: Cipher,
    ciphertext: String,
}

#[derive(Deserialize)]
struct Kdf {
    name: String,
    params: Costs,
    salt: String,
}

#[derive(Deserialize)]
struct Costs {
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
}

#[derive(Deserialize)]
struct Cipher {
    name: String,
    nonce: String,
}

impl PrivateKey {
    /// Reads a key from a file. `password` is asked for that of an encrypted one.
    ///
    /// # Errors
    /// A [`UserError`] if it is not a key on the curve P-256, or if the password is wrong.
    pub fn read(path: &Path, password: impl FnOnce() -> Result<String>) -> Result<Self> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let invalid = |problem: &str, hint: &str| {
            let problem = format!("{} {problem}", path.display());
            UserError::failure(problem).with_hint(hint)
        };
        let pem = pem::parse(text).map_err(|_| invalid("is not a private key in PEM", NEW_KEY))?;
        let decrypted = match pem.tag() {
            PLAIN => pem.contents().to_vec(),
            label if ENCRYPTED.contains(&label) => {
                let encrypted: Option<Encrypted> = serde_json::from_slice(pem.contents()).ok();
                let encrypted =
                    encrypted.ok_or_else(|| invalid("is not a key of cosign", NEW_KEY))?;
                let hint = "set COSIGN_PASSWORD to the password that the key was made with";
                encrypted
                    .decrypt(password()?.as_bytes())
                    .ok_or_else(|| invalid("cannot be decrypted: the password is wrong", hint))?
            }
            "EC PRIVATE KEY" | "EC PARAMETERS" => {
                let hint = format!(
                    "convert it with `openssl pkcs8 -topk8 -nocrypt -in {}`",
                    path.display()
                );
                return Err(invalid("is not in PKCS#8", &hint).into());
            }
            label => return Err(invalid(&format!("is not a private key: {label}"), NEW_KEY).into()),
        };
        let key = SecretKey::from_pkcs8_der(&decrypted);
        let key = key.map_err(|_| invalid("is not an ECDSA key on the curve P-256", NEW_KEY))?;
        Ok(Self(key.into()))
    }

    /// The signature of a message, in DER. It always is the same one (RFC 6979).
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signature: Signature = self.0.sign(message);
        signature.to_der().as_bytes().to_vec()
    }

    /// What finds the public key among others: its hash.
    ///
    /// # Errors
    /// If the key cannot be encoded.
    pub fn hint(&self) -> Result<String> {
        let public = self.0.verifying_key().to_public_key_der().context("the public key")?;
        Ok(BASE64_STANDARD.encode(Sha256::digest(public.as_bytes())))
    }
}

impl Encrypted {
    /// The key, if the password is right.
    fn decrypt(&self, password: &[u8]) -> Option<Vec<u8>> {
        let Costs { n, r, p } = self.kdf.params;
        let are_known = COSTS.contains(&n) && (r, p) == (BLOCK_SIZE, PARALLELISM);
        if self.kdf.name != "scrypt" || self.cipher.name != "nacl/secretbox" || !are_known {
            return None;
        }
        let decode = |text: &str| BASE64_STANDARD.decode(text).ok();
        let params = Params::new(n.trailing_zeros().try_into().ok()?, r, p).ok()?;
        let mut key = [0; 32];
        scrypt::scrypt(password, &decode(&self.kdf.salt)?, &params, &mut key).ok()?;
        let nonce: [u8; 24] = decode(&self.cipher.nonce)?.try_into().ok()?;
        let ciphertext = decode(&self.ciphertext)?;
        let cipher = XSalsa20Poly1305::new(&key.into());
        cipher.decrypt(&Nonce::from(nonce), &ciphertext[..]).ok()
    }
}
