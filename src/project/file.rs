//! Reading and writing `PROJECT`.

use serde_yaml::{Mapping, Value};

use super::{FORMAT, LAYOUT, Project, Resource, VERSION};
use crate::error::UserError;

impl Project {
    /// Reads and checks a `PROJECT`.
    pub fn parse(text: &str) -> Result<Self, UserError> {
        let value: Value = serde_yaml::from_str(text).map_err(|error| {
            refuse(format!("not YAML: {error}"))
                .with_hint("restore the file, for example with `git checkout PROJECT`")
        })?;
        let Value::Mapping(fields) = &value else {
            return Err(refuse("no mapping of fields")
                .with_hint("restore the file, for example with `git checkout PROJECT`"));
        };
        check_origin(fields)?;
        let project: Self =
            serde_yaml::from_value(value).map_err(|error| refuse(error.to_string()))?;
        project.check()?;
        Ok(project)
    }

    /// The text of `PROJECT`: a function of the model.
    pub fn to_text(&self) -> anyhow::Result<String> {
        // serde_yaml leaves `on`, `yes` and dates bare, which other readers take for no strings.
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        Ok(serde_saphyr::to_string_with_options(self, options)?)
    }

    /// Brings what has no order of its own into the one order that does not tell how it came to be.
    pub(super) fn normalise(&mut self) {
        fn key<'a>(group: &'a str, kind: &'a str, version: &'a str) -> impl Ord + use<'a> {
            (group, kind, super::ApiVersion::parse(version).ok())
        }
        self.resources.sort_by(|a, b| {
            key(&a.group, &a.kind, &a.version).cmp(&key(&b.group, &b.kind, &b.version))
        });
        let choices = &mut self.plugins.opctl.resources;
        choices.sort_by(|a, b| {
            key(&a.group, &a.kind, &a.version).cmp(&key(&b.group, &b.kind, &b.version))
        });

        // A kind has one controller. It works with the storage version, so the flag is kept there.
        let kinds: Vec<(String, String)> = {
            let with_controller = |r: &&Resource| r.controller;
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
            for r in self.resources.iter_mut().filter(|r| r.group == group && r.kind == kind) {
                r.controller = r.version == storage;
            }
        }
    }
}

fn refuse(what: impl AsRef<str>) -> UserError {
    UserError::failure(format!("PROJECT is damaged: {}", what.as_ref()))
}

/// Says whose `PROJECT` this is, if it is not ours.
fn check_origin(fields: &Mapping) -> Result<(), UserError> {
    let layout: Vec<&str> = match fields.get("layout") {
        Some(Value::Sequence(entries)) => entries.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(entry)) => vec![entry],
        _ => Vec::new(),
    };
    if !layout.contains(&LAYOUT) {
        let made_by = if layout.iter().any(|entry| entry.starts_with("go.")) {
            "kubebuilder for Go".to_owned()
        } else if layout.is_empty() {
            "another tool: it has no `layout`".to_owned()
        } else {
            format!("another tool: its layout is `{}`", layout.join(", "))
        };
        return Err(UserError::failure(format!("this PROJECT was made by {made_by}")).with_hint(
            "opctl works on projects that `opctl init` made: run it in a folder of its own",
        ));
    }
    if let Some(Value::String(made_by)) = fields.get("cliVersion") {
        check_version(made_by)?;
    }
    match fields.get("version") {
        Some(Value::String(version)) if version == FORMAT => Ok(()),
        Some(Value::Number(version)) if version.to_string() == FORMAT => {
            Err(refuse(format!("`version` is the number {FORMAT}"))
                .with_hint(format!("write `version: \"{FORMAT}\"`")))
        }
        Some(version) => {
            let version = serde_yaml::to_string(version).unwrap_or_default();
            Err(UserError::failure(format!(
                "PROJECT has the format version {}, opctl {VERSION} reads \"{FORMAT}\"",
                version.trim()
            ))
            .with_hint("update opctl: `cargo install opctl`"))
        }
        None => {
            Err(refuse("it has no `version`").with_hint(format!("write `version: \"{FORMAT}\"`")))
        }
    }
}

/// Refuses the projects of a newer opctl: its templates are not known here.
fn check_version(made_by: &str) -> Result<(), UserError> {
    let parse = |version: &str| semver::Version::parse(version).ok();
    match (parse(made_by), parse(VERSION)) {
        (Some(theirs), Some(ours)) if theirs <= ours => Ok(()),
        (Some(_), _) => Err(UserError::failure(format!(
            "this project was made by opctl {made_by}, this is opctl {VERSION}"
        ))
        .with_hint("update opctl: `cargo install opctl`")),
        (None, _) => Err(refuse(format!("`cliVersion` is `{made_by}`, which is no version"))
            .with_hint(format!(
                "write the version of opctl that made the project, such as `cliVersion: {VERSION}`"
            ))),
    }
}
