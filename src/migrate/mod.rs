//! A Go project of kubebuilder or operator-sdk as the beginning of one of opctl: `opctl init --from`.
//!
//! Its directory is only read. What follows from it is a model and files, which the engine writes as it
//! writes those of all commands.

mod files;
mod kinds;
mod layout;
mod rbac;
mod report;
mod samples;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::crd::{Crd, CrdSelector, OwnKind};
use crate::error::UserError;
use crate::project::{Feature, License, Project, Settings, names};
use crate::render::{Tree, extra_files, own_files};
use files::Files;
use kinds::Kinds;
use layout::GoProject;

/// The argument that names the directory, as clap displays it.
pub const ARGUMENT: &str = "--from <DIR>";

/// The limit for every file that is read.
const LIMIT: crate::yaml::Limit = crate::yaml::Limit { megabytes: 10 };

/// What a Go project becomes.
#[derive(Debug)]
pub struct Migration {
    /// The model.
    pub project: Project,
    /// The files that no model renders, or that differ from those that it does.
    pub files: Tree,
    /// What cannot be carried over, with what to do.
    pub to_do: Vec<String>,
}

/// A directory with a Go project.
#[derive(Debug)]
pub struct Source {
    files: Files,
    project: GoProject,
}

impl Source {
    /// Reads a Go project. `target` is the directory of the new one.
    ///
    /// # Errors
    /// A [`UserError`] if the directory contains no Go project that opctl can read, or if it contains the new
    /// one.
    pub fn open(directory: &Path, target: &Path) -> Result<Self> {
        let shown = directory.display().to_string();
        let root = directory.canonicalize().map_err(|error| {
            UserError::invalid_value(
                ARGUMENT,
                &shown,
                format!("cannot open the directory: {error}"),
            )
        })?;
        if target.canonicalize().is_ok_and(|target| target.starts_with(&root)) {
            let reason = "the new project would be written to it";
            return Err(UserError::invalid_value(ARGUMENT, &shown, reason)
                .with_hint("run the command in a new directory beside it")
                .into());
        }
        let files = Files::of(&root, &shown)?;
        let project = GoProject::parse(&files)?;
        Ok(Self { files, project })
    }

    /// The name of the project, or the valid one that is nearest to the directory's.
    pub fn name(&self) -> String {
        let named = self.project.project_name.clone();
        named.unwrap_or_else(|| names::project_name_of(&self.files.directory_name()))
    }

    /// The settings of the project, except for its name. They are those of `wanted` where it has one.
    pub fn settings(&self, wanted: Settings) -> Settings {
        let boilerplate = self.files.text("hack/boilerplate.go.txt").unwrap_or_default();
        let license = match boilerplate {
            text if text.contains("Apache License") => License::Apache2,
            text if text.contains("MIT License") => License::Mit,
            _ => License::None,
        };
        let default = self.project.default_kustomization(&self.files);
        let mut features = std::collections::BTreeSet::new();
        for (feature, is_used) in [
            (Feature::Grafana, self.project.has_plugin("grafana.kubebuilder.io")),
            (Feature::Helm, self.project.has_plugin("helm.kubebuilder.io")),
            (Feature::Olm, self.project.has_plugin("manifests.sdk.operatorframework.io")),
            (Feature::Prometheus, default.contains("../prometheus")),
            (Feature::NetworkPolicy, default.contains("../network-policy")),
        ] {
            features.extend(is_used.then_some(feature));
        }
        Settings {
            domain: wanted.domain.or_else(|| self.project.domain.clone()),
            license: wanted.license.or(Some(license)),
            owner: wanted.owner.or_else(|| owner(boilerplate)),
            namespaced: wanted.namespaced.or(Some(self.project.namespaced)),
            features: Some(features),
            ..wanted
        }
    }

    /// What becomes of the project. `base` is the new project without kinds.
    ///
    /// # Errors
    /// A [`UserError`] if a CRD is missing or invalid, or if opctl does not support a kind.
    pub fn migrate(&self, base: &Project) -> Result<Migration> {
        let kinds = Kinds::read(&self.project, &self.files, base)?;
        let (mut project, mut files, mut to_do) = (base.clone(), Tree::new(), kinds.to_do.clone());
        for own in &kinds.own {
            project = project.with_own_kind(&own.requests, own.controller)?;
            to_do.extend(own.kind.notes.iter().cloned());
        }
        for external in &kinds.external {
            let api = project.check_api(external.request.clone())?;
            project = project.with_api(&api)?;
            files.extend(extra_files(&project, &api, external.crd.as_ref())?);
        }
        let (mut samples, mut sample_paths) = (BTreeMap::new(), BTreeMap::new());
        for own in &kinds.own {
            let found = samples::of(&self.files, &own.kind);
            for (version, sample) in &found {
                let key = (own.kind.group.clone(), own.kind.kind.clone(), version.clone());
                sample_paths.insert(sample.path.clone(), key);
            }
            samples.insert((&own.kind.group, &own.kind.kind), found);
        }
        for own in &kinds.own {
            let found = &samples[&(&own.kind.group, &own.kind.kind)];
            let texts = found.iter().map(|(version, s)| (version.clone(), s.text.clone()));
            files.extend(own_files(&project, &own.kind, &texts.collect())?);
        }
        let rules = rbac::rules(&self.files);
        files.extend(rbac::controllers(&project, &rules)?);
        let report = report::Report {
            source: self,
            project: &project,
            kinds: &kinds,
            samples: &sample_paths,
            rules: &rules,
            to_do: &to_do,
        };
        files.extend(report.files());
        Ok(Migration { project, files, to_do })
    }
}

/// The copyright holder of a header such as `Copyright 2026 The Authors.`.
fn owner(boilerplate: &str) -> Option<String> {
    let line = boilerplate.lines().find_map(|line| line.trim().strip_prefix("Copyright "))?;
    let owner = line.trim_start_matches("(c)").trim_start();
    // controller-gen fills in the year.
    let owner = owner.strip_prefix("YEAR").unwrap_or(owner);
    let owner = owner.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-').trim();
    let owner = owner.trim_end_matches('.');
    names::owner(owner).is_ok().then(|| owner.to_owned()).filter(|owner| !owner.is_empty())
}

/// A kind that a Go project defines.
#[derive(Debug)]
struct OwnApi {
    kind: OwnKind,
    requests: Vec<crate::project::ApiRequest>,
    controller: bool,
    /// The path of its CRD.
    path: String,
}

/// A kind of Kubernetes or of another project that a Go project reconciles.
#[derive(Debug)]
struct ExternalApi {
    request: crate::project::ApiRequest,
    crd: Option<Crd>,
}

/// Selects a kind by its full group.
fn selector<'a>(group: &'a str, kind: &'a str) -> CrdSelector<'a> {
    CrdSelector { group: Some(group), version: None, kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_the_copyright_holder() {
        for (header, expected) in [
            (
                "/*\nCopyright 2026 The Kubernetes authors.\n\nLicensed",
                Some("The Kubernetes authors"),
            ),
            ("Copyright YEAR The Authors", Some("The Authors")),
            ("Copyright 2020-2026 Example, Inc.", Some("Example, Inc")),
            ("/*\nCopyright 2026.\n", None),
            ("", None),
        ] {
            assert_eq!(owner(header).as_deref(), expected, "{header}");
        }
    }
}
