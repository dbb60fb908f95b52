//! What a user tells a recipe. The names in `PROJECT` are those of kubebuilder's deploy-image
//! plugin, whose values are strings, too.

use serde::{Deserialize, Serialize};
use serde_yaml::Mapping;

use super::image;
use super::names::InvalidValue;

/// The largest id of a user that Kubernetes takes.
const MAX_USER_ID: u32 = i32::MAX as u32;

/// The options of a recipe. Which of them a recipe takes is said in its `recipe.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecipeOptions {
    /// What to run in place of the image's own command: the program and its arguments, with commas
    /// between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_command: Option<String>,
    /// The port that the container listens on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_port: Option<String>,
    /// The image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The id of the user that the container runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<String>,
    /// What is not known here.
    #[serde(flatten)]
    pub unknown: Mapping,
}

/// An option that a user has given.
#[derive(Debug, Clone, Copy)]
pub struct GivenOption<'a> {
    /// Its name in `PROJECT` and in `recipe.yaml`.
    pub name: &'static str,
    /// Its value.
    pub value: &'a str,
    check: fn(&str) -> Result<(), InvalidValue>,
}

/// The flag of an option.
pub fn flag(name: &str) -> &str {
    match name {
        "containerCommand" => "--image-container-command",
        "containerPort" => "--image-container-port",
        "image" => "--image",
        "runAsUser" => "--run-as-user",
        other => other,
    }
}

impl RecipeOptions {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Those that are given, by their names.
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

    /// The program and its arguments; empty for the image's own.
    pub fn command(&self) -> Vec<&str> {
        self.container_command.iter().flat_map(|command| command.split(',')).collect()
    }
}

impl GivenOption<'_> {
    /// Whether the value is one.
    pub fn check(&self) -> Result<(), InvalidValue> {
        (self.check)(self.value)
    }
}

fn command(text: &str) -> Result<(), InvalidValue> {
    if text.split(',').any(str::is_empty) {
        return Err(InvalidValue::new(
            "a command is a program and its arguments with commas between them, none of them empty",
        ));
    }
    match text.contains('\0') {
        true => Err(InvalidValue::new("no argument can contain a NUL character")),
        false => Ok(()),
    }
}

fn port(text: &str) -> Result<(), InvalidValue> {
    number(text, 1, u32::from(u16::MAX))
        .map_err(|range| InvalidValue::new(format!("a port is {range}")))
}

fn user(text: &str) -> Result<(), InvalidValue> {
    number(text, 1, MAX_USER_ID).map_err(|range| {
        InvalidValue::new(format!(
            "the id of a user is {range}: Pod Security's level `restricted` admits no pods of root's, which is 0"
        ))
    })
}

/// A number as everybody writes it, so that it is the same in Rust and in YAML.
fn number(text: &str, min: u32, max: u32) -> Result<(), String> {
    match text.parse::<u32>() {
        Ok(number) if (min..=max).contains(&number) && number.to_string() == text => Ok(()),
        _ => Err(format!("a number from {min} to {max}")),
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
        for text in ["", ",", "a,,b", "a,", "a\0b"] {
            assert!(command(text).is_err(), "{text:?}");
        }
    }
}
