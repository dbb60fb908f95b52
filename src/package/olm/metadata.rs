//! The metadata of a bundle: `metadata/annotations.yaml`, and the Dockerfile with the same labels.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::MARK;
use crate::error::UserError;
use crate::project::{LAYOUT, VERSION};
use crate::text::one_line;

/// The package of a bundle.
pub const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
/// Its channels, separated by commas.
pub const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
/// The channel that a package is installed from unless its user names another one.
pub const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";
/// The format of a bundle.
pub const MEDIATYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
/// The directory of the manifests.
pub const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
/// The directory of the metadata.
pub const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";

/// The directory of the tests.
const TEST_CONFIG: &str = "operators.operatorframework.io.test.config.v1";
/// The channel of an operator that is not stable yet.
const FIRST_CHANNEL: &str = "candidate";

/// The annotations of a bundle, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotations {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Annotations {
    /// Parses an `annotations.yaml`.
    ///
    /// # Errors
    /// If it is not YAML, or if a value is no string.
    pub fn parse(text: &str) -> Result<Self, UserError> {
        let invalid = |error: String| {
            UserError::failure(format!("invalid annotations.yaml: {}", one_line(&error)))
        };
        // A number of YAML would be read as a string, but not by OLM.
        let value: serde_json::Value =
            serde_yaml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        serde_json::from_value(value).map_err(|error| invalid(error.to_string()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty()
    }

    /// The value of an annotation.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }

    /// These annotations for a bundle. Those of others stay, and the channels if no others are given.
    pub fn update(
        &mut self,
        package: &str,
        channels: Option<&str>,
        default_channel: Option<&str>,
        has_tests: bool,
    ) {
        let mut set = |name: &str, value: &str| {
            self.annotations.insert(name.to_owned(), value.to_owned());
        };
        set(MEDIATYPE, "registry+v1");
        set(MANIFESTS, "manifests/");
        set(METADATA, "metadata/");
        set(PACKAGE, package);
        if let Some(channels) = channels {
            set(CHANNELS, channels);
        }
        if let Some(channel) = default_channel {
            set(DEFAULT_CHANNEL, channel);
        }
        set("operators.operatorframework.io.metrics.mediatype.v1", "metrics+v1");
        set("operators.operatorframework.io.metrics.builder", &format!("opctl-v{VERSION}"));
        set("operators.operatorframework.io.metrics.project_layout", LAYOUT);
        if has_tests {
            set("operators.operatorframework.io.test.mediatype.v1", "scorecard+v1");
            set(TEST_CONFIG, "tests/scorecard/");
        }
        self.annotations.entry(CHANNELS.to_owned()).or_insert_with(|| FIRST_CHANNEL.to_owned());
    }

    /// The text of `annotations.yaml`.
    ///
    /// # Errors
    /// None: the values are strings.
    pub fn to_yaml(&self) -> Result<String> {
        Ok(format!("{MARK}{}", serde_saphyr::to_string(self)?))
    }

    /// The Dockerfile of the bundle in a directory, from which the image is built.
    pub fn dockerfile(&self, directory: &str) -> String {
        let mut text = format!("{MARK}FROM scratch\n\n");
        for (name, value) in &self.annotations {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+@".contains(c);
            let value = match value.chars().all(is_plain) && !value.is_empty() {
                true => value.clone(),
                false => format!("{value:?}"),
            };
            text.push_str(&format!("LABEL {name}={value}\n"));
        }
        text.push('\n');
        let mut copied = vec!["manifests", "metadata"];
        copied.extend(self.annotations.contains_key(TEST_CONFIG).then_some("tests/scorecard"));
        for part in copied {
            text.push_str(&format!("COPY {directory}/{part} /{part}/\n"));
        }
        text
    }
}
