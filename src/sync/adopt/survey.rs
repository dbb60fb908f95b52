//! Reads what the files of a project say of it.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_yaml::Value;

use super::LIMIT;
use crate::error::UserError;
use crate::project::names::{self, Module};
use crate::project::{self, Feature, Gvk, License, Settings};
use crate::sync::disk::Disk;
use crate::sync::lockfile::Lockfile;
use crate::sync::merge;

/// A kind, as its CRD defines it.
pub struct Definition {
    pub path: String,
    pub group: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    pub versions: Vec<String>,
}

pub struct Survey<'a> {
    pub disk: &'a Disk,
    pub lock: &'a Lockfile,
    pub files: BTreeSet<String>,
    pub unknown: Vec<String>,
}

impl Survey<'_> {
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let contents = self.disk.read(path)?.contents;
        Ok(contents.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Whether opctl wrote a file or, if nobody knows what it wrote, whether there is one.
    pub fn has(&self, path: &str) -> bool {
        match self.lock.paths().next() {
            Some(_) => self.lock.contains(path),
            None => self.files.contains(path),
        }
    }

    /// The kinds that the CRDs in a directory define.
    pub fn definitions(&mut self, directory: &str) -> Result<Vec<Definition>> {
        let mut definitions = Vec::new();
        for path in self.disk.files_in(directory)? {
            if !path.ends_with(".yaml") {
                continue;
            }
            let text = self.text(&path)?.unwrap_or_default();
            let value = LIMIT.parse(&text).unwrap_or_default();
            match definition(&path, &value) {
                Some(definition) => definitions.push(definition),
                None => {
                    self.unknown.push(format!("{path} is not a CRD that can be read: not recorded"))
                }
            }
        }
        Ok(definitions)
    }

    /// The domain: what remains of a group behind the name that files have.
    pub fn domain(&mut self, own: &[Definition]) -> Result<String, UserError> {
        let split = |definition: &Definition| {
            let kind = definition.kind.to_ascii_lowercase();
            let is_group = |group: &str| {
                let mut versions = definition.versions.iter();
                self.files.contains(&format!("config/rbac/{group}_{kind}_admin_role.yaml"))
                    || self.has(&format!("config/rbac/{group}_{kind}_admin_role.yaml"))
                    || versions.any(|version| {
                        self.files
                            .contains(&format!("config/samples/{group}_{version}_{kind}.yaml"))
                    })
            };
            let mut dots = definition.group.match_indices('.').map(|(dot, _)| dot);
            let dot = dots.find(|dot| is_group(&definition.group[..*dot]))?;
            Some(definition.group[dot + 1..].to_owned())
        };
        if let Some(domain) = own.iter().find_map(split) {
            return Ok(domain);
        }
        match own.first() {
            None => {
                let default = project::DEFAULT_DOMAIN;
                self.unknown.push(format!(
                    "no CRD says the domain: recorded as {default}; name another one with `--domain`"
                ));
                Ok(default.to_owned())
            }
            Some(first) => Err(UserError::failure(format!(
                "cannot tell which part of the API group `{}` is the domain of the project",
                first.group
            ))
            .with_hint("name the domain with `--domain`")),
        }
    }

    /// The settings of the project.
    pub fn settings(&self, default_name: &str) -> Result<Settings> {
        let cargo = self.text("Cargo.toml")?.unwrap_or_default();
        let value = |key: &str| {
            let lines = cargo.lines().skip_while(|line| line.trim() != "[package]");
            let mut values =
                lines.filter_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
            values.next().map(|value| value.trim().trim_matches('"').to_owned())
        };
        let name = value("name").filter(|name| names::project_name(name).is_ok());
        let license = match value("license").as_deref() {
            Some("Apache-2.0") => License::Apache2,
            Some("MIT") => License::Mit,
            _ => License::None,
        };
        let main = self.text("src/main.rs")?.unwrap_or_default();
        let owner =
            main.lines().find_map(|line| line.strip_prefix("// Copyright ").map(str::to_owned));
        let default_owner = format!("The {} Authors", name.as_deref().unwrap_or(default_name));
        let binding = self.text("config/rbac/role_binding.yaml")?.unwrap_or_default();
        let kustomization = self.text(project::FEATURES_FILE)?.unwrap_or_default();
        let mut features = project::listed(&kustomization).unwrap_or_default();
        for (feature, path) in [
            (Feature::Helm, "chart/Chart.yaml"),
            (Feature::Olm, "config/manifests/kustomization.yaml"),
        ] {
            features.extend(self.has(path).then_some(feature));
        }
        Ok(Settings {
            name,
            license: (!cargo.is_empty()).then_some(license),
            owner: owner.filter(|owner| *owner != default_owner && names::owner(owner).is_ok()),
            namespaced: Some(binding.contains("kind: RoleBinding\n")),
            features: Some(features),
            ..Settings::default()
        })
    }

    /// The image that is deployed by its digest.
    pub fn image(&self) -> Result<Option<project::image::PinnedImage>> {
        let text = self.text("config/manager/kustomization.yaml")?.unwrap_or_default();
        let value = LIMIT.parse(&text).unwrap_or_default();
        let image = value.get("images").and_then(|images| images.get(0));
        let field = |name: &str| image.and_then(|image| image.get(name)?.as_str());
        let (Some(name), Some(digest)) = (field("newName"), field("digest")) else {
            return Ok(None);
        };
        Ok(format!("{name}@{digest}").parse().ok())
    }

    /// The module of the group of a type, if its file is there.
    pub fn module(&self, gvk: &Gvk, api_group: &str) -> Result<Option<String>> {
        let file = format!("{}/{}.rs", gvk.version, Module::of_kind(&gvk.kind).file);
        let default = Module::of_group(&gvk.group).file;
        let of_group = |path: &String| {
            path.strip_prefix("src/api/")?.strip_suffix(&file)?.strip_suffix('/').map(str::to_owned)
        };
        let mut modules: Vec<String> = self.files.iter().filter_map(of_group).collect();
        modules.sort_by_key(|module| *module != default);
        for module in modules {
            let text = self.text(&format!("src/api/{module}/{file}"))?.unwrap_or_default();
            if text.contains(&format!("group = \"{api_group}\"")) {
                return Ok(Some(module));
            }
        }
        Ok(None)
    }

    /// Whether a text is what opctl wrote to a file, or what the file has.
    pub fn is_written(&self, path: &str, text: &str) -> Result<bool> {
        if self.lock.wrote(path, text) {
            return Ok(true);
        }
        let ours = self.disk.read(path)?.contents;
        Ok(ours.is_some_and(|ours| merge::same(&ours, text)))
    }
}

fn definition(path: &str, crd: &Value) -> Option<Definition> {
    let spec = crd.get("spec")?;
    let names = spec.get("names")?;
    let text = |value: &Value, field: &str| Some(value.get(field)?.as_str()?.to_owned());
    let versions = spec.get("versions")?.as_sequence()?.iter();
    Some(Definition {
        path: path.to_owned(),
        group: text(spec, "group")?,
        kind: text(names, "kind")?,
        plural: text(names, "plural")?,
        namespaced: text(spec, "scope")? == "Namespaced",
        versions: versions.filter_map(|version| text(version, "name")).collect(),
    })
}
