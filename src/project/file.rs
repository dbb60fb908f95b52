//! Reads and writes `PROJECT`.

use serde_yaml::{Mapping, Value};

use super::{FORMAT, INSTALL, LAYOUT, Project, Resource, VERSION};
use crate::error::UserError;
use crate::text::one_line;
use crate::yaml::{self, Limit};

/// The maximum size of the file, enough for thousands of APIs.
const LIMIT: Limit = Limit { megabytes: 1 };

impl Project {
    /// Parses and checks the text of `PROJECT`.
    ///
    /// # Errors
    /// If the text is not a valid `PROJECT`, or if another tool or a newer opctl wrote it.
    pub fn parse(text: &str) -> Result<Self, UserError> {
        let value = LIMIT.parse(text).map_err(|reason| {
            invalid_project(reason).with_hint(
                "correct the file, or restore it, for example with `git checkout PROJECT`",
            )
        })?;
        let Value::Mapping(fields) = &value else {
            return Err(invalid_project("not a mapping").with_hint(
                "correct the file, or restore it, for example with `git checkout PROJECT`",
            ));
        };
        check_origin(fields)?;
        yaml::check_json(&value, yaml::MAX_INTEGER)
            .map_err(|reason| invalid_project(reason).with_hint("write it as a string"))?;
        let project: Self = serde_yaml::from_value(value)
            .map_err(|error| invalid_project(one_line(&error.to_string())))?;
        project.check()?;
        Ok(project)
    }

    /// The text of `PROJECT`, which depends on the model alone.
    pub fn to_text(&self) -> anyhow::Result<String> {
        // serde_yaml writes `on`, `yes` and dates without quotes, which YAML 1.1 does not read as strings.
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        Ok(serde_saphyr::to_string_with_options(self, options)?)
    }

    /// The model itself, if the next command will read it from `PROJECT` as it is.
    ///
    /// # Errors
    /// If the text of the model is invalid or says something else.
    pub(super) fn verified(self) -> Result<Self, UserError> {
        let invalid = |reason: String| {
            UserError::failure(format!("the change would make PROJECT invalid: {reason}"))
        };
        let text = self.to_text().map_err(|error| invalid(error.to_string()))?;
        match Self::parse(&text) {
            Ok(project) if project == self => Ok(self),
            Ok(_) => Err(invalid("its text would not be what was requested".to_owned())),
            Err(error) => Err(invalid(error.to_string())),
        }
    }

    /// Sorts all lists, so that the text does not depend on the order of the commands.
    pub(super) fn normalise(&mut self) {
        let by_version = |a: &str, b: &str| {
            super::ApiVersion::parse(a).ok().cmp(&super::ApiVersion::parse(b).ok())
        };
        self.normalise_modules();
        self.resources.sort_by(|a, b| {
            let kinds = (&a.group, &a.domain, &a.kind).cmp(&(&b.group, &b.domain, &b.kind));
            kinds.then_with(|| by_version(&a.version, &b.version))
        });
        let choices = &mut self.plugins.opctl.resources;
        choices.sort_by(|a, b| {
            let kinds = (&a.group, &a.domain, &a.kind).cmp(&(&b.group, &b.domain, &b.kind));
            kinds.then_with(|| by_version(&a.version, &b.version))
        });

        // A kind has one controller, which uses the storage version: only that one has the flag.
        let kinds: Vec<(String, String)> = {
            let with_controller = |r: &&Resource| r.controller && r.api.is_some();
            self.resources
                .iter()
                .filter(with_controller)
                .map(|r| (r.group.clone(), r.kind.clone()))
                .collect()
        };
        for (group, kind) in kinds {
            let Some(storage) = self.storage(&group, &kind).map(|r| r.version.clone()) else {
                continue;
            };
            let is_own = |r: &&mut Resource| r.api.is_some() && r.group == group && r.kind == kind;
            for r in self.resources.iter_mut().filter(is_own) {
                r.controller = r.version == storage;
            }
        }
    }
}

/// An error in a field of `PROJECT`, which is given by its path.
pub(super) fn invalid_field(path: &str, value: &str, reason: &str) -> UserError {
    let value = one_line(value);
    UserError::failure(format!("invalid value '{value}' for '{path}' in PROJECT: {reason}"))
}

/// An error in `PROJECT`.
pub(crate) fn invalid_project(reason: impl std::fmt::Display) -> UserError {
    UserError::failure(format!("invalid PROJECT: {reason}"))
}

/// Refuses the `PROJECT` of another tool.
fn check_origin(fields: &Mapping) -> Result<(), UserError> {
    let layout: Vec<&str> = match fields.get("layout") {
        Some(Value::Sequence(entries)) => entries.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(entry)) => vec![entry],
        _ => Vec::new(),
    };
    if !layout.contains(&LAYOUT) {
        let tool = if layout.iter().any(|entry| entry.starts_with("go.")) {
            "kubebuilder for Go".to_owned()
        } else if layout.is_empty() {
            "another tool (no `layout`)".to_owned()
        } else {
            format!("another tool (layout `{}`)", one_line(&layout.join(", ")))
        };
        return Err(UserError::failure(format!("PROJECT was created by {tool}")).with_hint(
            "opctl works only on projects that `opctl init` created: run it in another directory",
        ));
    }
    if let Some(Value::String(version)) = fields.get("cliVersion") {
        check_version(version)?;
    }
    match fields.get("version") {
        Some(Value::String(version)) if version == FORMAT => Ok(()),
        Some(Value::Number(version)) if version.to_string() == FORMAT => {
            Err(invalid_project(format!("`version` is the number {FORMAT}, not a string"))
                .with_hint(format!("write `version: \"{FORMAT}\"`")))
        }
        Some(version) => {
            let version = serde_yaml::to_string(version).unwrap_or_default();
            Err(UserError::failure(format!(
                "unsupported version {} of PROJECT: opctl {VERSION} supports \"{FORMAT}\"",
                one_line(version.trim())
            ))
            .with_hint(format!("update opctl: `{INSTALL}`")))
        }
        None => Err(invalid_project("missing field `version`")
            .with_hint(format!("write `version: \"{FORMAT}\"`"))),
    }
}

/// Refuses projects of a newer opctl, because this one does not have its templates.
fn check_version(version: &str) -> Result<(), UserError> {
    let parse = |version: &str| semver::Version::parse(version).ok();
    match (parse(version), parse(VERSION)) {
        (Some(theirs), Some(ours)) if theirs <= ours => Ok(()),
        (Some(_), _) => Err(UserError::failure(format!(
            "the project requires opctl {version} or newer, and this is opctl {VERSION}"
        ))
        .with_hint(format!("update opctl: `{INSTALL}`"))),
        (None, _) => {
            let error = invalid_field("cliVersion", version, "must be a version such as `0.1.0`");
            Err(error.with_hint("set it to the version of opctl that created the project"))
        }
    }
}
