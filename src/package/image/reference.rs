//! The name of an image.

use std::fmt;
use std::str::FromStr;

use crate::project::image;

/// The tag of an image that is given none.
const DEFAULT_TAG: &str = "latest";

/// The name of an image that is built: `[registry[:port]/]name[:tag]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    name: String,
    tag: String,
}

impl Reference {
    /// The tag.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The image by its contents, which nobody can replace, as `name@digest`.
    pub fn pinned(&self, digest: &str) -> String {
        format!("{}@{digest}", self.name)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.tag)
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        image::reference(text).map_err(|invalid| invalid.reason)?;
        if text.contains('@') {
            return Err("an image has its digest from its contents: omit it".to_owned());
        }
        let (name, tag) = image::split_tag(text);
        Ok(Self { name: name.to_owned(), tag: tag.unwrap_or(DEFAULT_TAG).to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_tag_are_told_from_a_port() {
        for (text, name, tag) in [
            ("controller", "controller", "latest"),
            ("controller:v1", "controller", "v1"),
            ("localhost:5000/a/b", "localhost:5000/a/b", "latest"),
            ("localhost:5000/a/b:1.2", "localhost:5000/a/b", "1.2"),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!((reference.name.as_str(), reference.tag()), (name, tag));
            assert_eq!(reference.pinned("sha256:00"), format!("{name}@sha256:00"));
        }
        assert!(format!("a@sha256:{}", "0".repeat(64)).parse::<Reference>().is_err());
        assert!("A".parse::<Reference>().is_err());
    }
}
