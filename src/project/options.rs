//! The options of recipes. Their names in `PROJECT` are those of kubebuilder's deploy-image plugin,
//! which also stores the values as strings.

use serde::{Deserialize, Serialize};
use serde_yaml::Mapping;

use super::image;
use super::names::InvalidValue;
use crate::text::find_hidden;

/// The largest user ID that Kubernetes accepts.
const MAX_USER_ID: u32 = i32::MAX as u32;

/// The options of a recipe. Its `recipe.yaml` lists those that it supports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecipeOptions {
    /// The command that replaces the image's entrypoint: the program and its arguments, separated by
    /// commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_command: Option<String>,
    /// The port that the container listens on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_port: Option<String>,
    /// The container image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The user ID that the container runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<String>,
    /// Options of other versions of opctl.
    #[serde(flatten)]
    pub unknown: Mapping,
}

/// An option that is set.
#[derive(Debug, Clone, Copy)]
pub struct GivenOption<'a> {
    /// The name of the option in `PROJECT` and in `recipe.yaml`.
    pub name: &'static str,
    /// The value of the option.
    pub value: &'a str,
    /// The check of the value.
    pub check: fn(&str) -> Result<(), InvalidValue>,
}

/// The argument of an option, as clap displays it.
pub fn argument(name: &str) -> &str {
    match name {
        "containerCommand" => "--image-container-command <COMMAND>",
        "containerPort" => "--image-container-port <PORT>",
        "image" => "--image <IMAGE>",
        "runAsUser" => "--run-as-user <ID>",
        other => other,
    }
}

/// The flag of an option.
pub fn flag(name: &str) -> &str {
    super::flag_of(argument(name))
}

impl RecipeOptions {
    /// Whether no option is set.
    pub(super) fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// The options that are set.
    pub fn given(&self) -> impl Iterator<Item = GivenOption<'_>> {
        let Self { container_command, container_port, image, run_as_user, unknown: _ } = self;
        [
            ("containerCommand", container_command, command as fn(&str) -> _),
            ("containerPort", container_port, port),
            ("image", image, image::reference),
            ("runAsUser", run_as_user, user),
        ]
        .into_iter()
        .filter_map(|(name, value, check)| {
            value.as_deref().map(|value| GivenOption { name, value, check })
        })
    }

    /// The program and its arguments; empty for the image's entrypoint.
    pub fn command(&self) -> Vec<&str> {
        self.container_command.iter().flat_map(|command| command.split(',')).collect()
    }
}

fn command(text: &str) -> Result<(), InvalidValue> {
    if text.split(',').any(str::is_empty) {
        return Err(InvalidValue::new(
            "must be a program and its arguments, separated by commas, none of them empty",
        ));
    }
    match find_hidden(text) {
        None => Ok(()),
        Some(hidden) => {
            Err(InvalidValue::new(format!("must not contain {hidden}, which is invisible")))
        }
    }
}

fn port(text: &str) -> Result<(), InvalidValue> {
    number(text, 1, u32::from(u16::MAX)).map_err(InvalidValue::new)
}

fn user(text: &str) -> Result<(), InvalidValue> {
    number(text, 1, MAX_USER_ID).map_err(|range| {
        InvalidValue::new(format!(
            "{range}: the Pod Security level `restricted` rejects pods that run as root (0)"
        ))
    })
}

/// Accepts a number in its canonical form, which means the same in Rust and in YAML.
fn number(text: &str, min: u32, max: u32) -> Result<(), String> {
    match text.parse::<u32>() {
        Ok(number) if (min..=max).contains(&number) && number.to_string() == text => Ok(()),
        _ => Err(format!("must be a number from {min} to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for text in ["1", "80", "65535"] {
            assert_eq!(port(text), Ok(()), "{text}");
        }
        for text in ["0", "65536", "-1", "+80", "080", "80 ", "", "http"] {
            assert!(port(text).is_err(), "{text}");
        }
        assert!(user("0").is_err());
        assert_eq!(user("2147483647"), Ok(()));
        assert!(user("2147483648").is_err());
    }

    #[test]
    fn a_command_is_split_at_commas() {
        let options = RecipeOptions {
            container_command: Some("memcached,--memory-limit=64,-o,a b".to_owned()),
            ..RecipeOptions::default()
        };
        assert_eq!(options.command(), ["memcached", "--memory-limit=64", "-o", "a b"]);
        assert!(RecipeOptions::default().command().is_empty());
        for text in ["", ",", "a,,b", "a,", "a\0b", "a\u{202e}b"] {
            assert!(command(text).is_err(), "{text:?}");
        }
    }
}
