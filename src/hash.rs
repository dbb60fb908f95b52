//! The hash of a text, by which opctl recognizes what it wrote.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The SHA-256 of a text, in lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(String);

impl Hash {
    /// The hash of a text.
    pub fn of(text: impl AsRef<[u8]>) -> Self {
        Self::finish(Sha256::new_with_prefix(text))
    }

    /// The hash of what a hasher has read, part by part.
    pub fn finish(hasher: Sha256) -> Self {
        Self(base16ct::lower::encode_string(&hasher.finalize()))
    }
}

impl FromStr for Hash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if text.len() == 64 && text.chars().all(is_digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err("not 64 hexadecimal digits")
        }
    }
}

impl TryFrom<String> for Hash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
