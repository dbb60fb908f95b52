//! References to container images, as container runtimes parse them
//! (<https://github.com/distribution/reference>).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::names::InvalidValue;

/// The maximum length of the name of an image, including the registry.
const MAX_NAME: usize = 255;
/// The maximum length of a tag.
const MAX_TAG: usize = 128;
/// The number of hexadecimal digits of a SHA-256 digest.
const SHA256_DIGITS: usize = 64;

/// Checks a reference of the form `[registry[:port]/]name[:tag][@digest]`.
pub fn reference(text: &str) -> Result<(), InvalidValue> {
    match find_error(text) {
        None => Ok(()),
        Some(reason) => Err(InvalidValue {
            reason: format!("{reason}; the format is `[registry[:port]/]name[:tag][@digest]`"),
            suggestion: Some(text.trim().to_ascii_lowercase())
                .filter(|near| !near.is_empty() && near != text && find_error(near).is_none()),
        }),
    }
}

/// The name and the tag of an image without a digest.
pub fn split_tag(text: &str) -> (&str, Option<&str>) {
    // A colon after the last slash begins a tag; one before it, the registry's port.
    let path = text.rfind('/').map_or(0, |slash| slash + 1);
    match text[path..].split_once(':') {
        Some((last, tag)) => (&text[..path + last.len()], Some(tag)),
        None => (text, None),
    }
}

/// An image by its contents, which nobody can replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PinnedImage {
    /// The name with its registry, without a tag.
    pub name: String,
    /// The algorithm and the hash of its manifest.
    pub digest: String,
}

/// `<name>@<digest>`.
impl fmt::Display for PinnedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.digest)
    }
}

impl FromStr for PinnedImage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        reference(text).map_err(|invalid| invalid.reason)?;
        let Some((tagged, digest)) = text.split_once('@') else {
            return Err(
                "it has no digest: the format is `[registry[:port]/]name[:tag]@digest`".to_owned()
            );
        };
        let (name, _) = split_tag(tagged);
        Ok(Self { name: name.to_owned(), digest: digest.to_owned() })
    }
}

impl TryFrom<String> for PinnedImage {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|reason| format!("invalid image '{text}': {reason}"))
    }
}

impl From<PinnedImage> for String {
    fn from(image: PinnedImage) -> Self {
        image.to_string()
    }
}

fn find_error(text: &str) -> Option<String> {
    let (text, digest) = match text.split_once('@') {
        Some((text, digest)) => (text, Some(digest)),
        None => (text, None),
    };
    let (name, tag) = split_tag(text);
    let (registry, name_alone) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (Some(first), rest),
        _ => (None, name),
    };
    if name.len() > MAX_NAME {
        return Some(format!("the name must be at most {MAX_NAME} characters, not {}", name.len()));
    }
    if let Some(registry) = registry.filter(|registry| !is_host_and_port(registry)) {
        return Some(format!("`{registry}` is not a registry"));
    }
    if name_alone.is_empty() {
        return Some("the name is empty".to_owned());
    }
    if let Some(part) = name_alone.split('/').find(|part| !is_component(part)) {
        return Some(format!(
            "`{part}` is not a part of a name: lower-case letters and digits, with `.`, `_`, `__` or dashes \
             between them"
        ));
    }
    if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
        return Some(format!("`{tag}` is not a tag"));
    }
    if let Some(digest) = digest.filter(|digest| !is_digest(digest)) {
        return Some(format!(
            "`{digest}` is not a digest: `sha256:` and {SHA256_DIGITS} hexadecimal digits"
        ));
    }
    None
}

/// The part before the first slash is a registry if it cannot be a part of a name.
fn is_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':'])
}

fn is_host_and_port(registry: &str) -> bool {
    let (host, port) = match registry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (registry, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_address = |host: &str| {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        address.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let is_label = |label: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        label.bytes().all(inner)
            && label.starts_with(|c: char| c.is_ascii_alphanumeric())
            && label.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    port.is_none_or(is_port) && (is_address(host) || host.split('.').all(is_label))
}

fn is_component(part: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let between = |c: char| !is_word(c);
    let separators = part.split(is_word).filter(|separator| !separator.is_empty());
    part.starts_with(is_word)
        && !part.ends_with(between)
        && separators.into_iter().all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|b| b == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || b == b'.' || b == b'-')
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return false;
    };
    let is_hex = hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let length = match algorithm {
        "sha256" => SHA256_DIGITS,
        "sha512" => 2 * SHA256_DIGITS,
        _ => return false, // container runtimes support no other
    };
    is_hex && hex.len() == length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_references_are_accepted() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for image in [
            "nginx",
            "nginx:1.29",
            "library/nginx",
            "localhost/nginx",
            "localhost:5000/a/b:1",
            "registry.example.com:443/x",
            "Registry.Example.com/x",
            "[::1]:5000/x:latest",
            "a.b/c__d/e--f.g_h:V1.0-rc_1",
            &format!("nginx@{digest}"),
            &format!("localhost:5000/nginx:1@{digest}"),
        ] {
            assert_eq!(reference(image), Ok(()), "{image}");
        }
    }

    #[test]
    fn invalid_references_are_refused() {
        let long = "x".repeat(256);
        for image in [
            "",
            " nginx",
            "Nginx",
            "nginx:",
            "nginx:a b",
            "nginx@sha256:12",
            "nginx@",
            "a//b",
            "/a",
            "a/",
            "a_-b",
            "a___b",
            "-a",
            "https://example.com/x",
            "example.com:0/x",
            "example.com:99999/x",
            "-.example.com/x",
            "nginx:1:2",
            "nginx\"; panic!()",
            "<$ resource $>",
            &long,
        ] {
            assert!(reference(image).is_err(), "{image}");
        }
    }

    #[test]
    fn error_names_the_part_and_suggests_a_valid_reference() {
        let invalid = reference("ghcr.io/Org/app").unwrap_err();
        assert!(invalid.reason.contains("`Org` is not a part of a name"), "{}", invalid.reason);
        assert_eq!(invalid.suggestion.as_deref(), Some("ghcr.io/org/app"));
        assert_eq!(reference("a b").unwrap_err().suggestion, None);
    }

    #[test]
    fn a_pinned_image_has_a_digest_and_no_tag() {
        let digest = format!("sha256:{}", "0".repeat(SHA256_DIGITS));
        for name in ["op", "localhost:5000/a/op"] {
            let pinned: PinnedImage = format!("{name}:v1@{digest}").parse().unwrap();
            assert_eq!(pinned.to_string(), format!("{name}@{digest}"));
            assert!(name.parse::<PinnedImage>().unwrap_err().contains("no digest"));
        }
        assert!(format!("Op@{digest}").parse::<PinnedImage>().is_err());
    }
}
