//! The table of all generated files, `files.yaml` in a template set: their templates, their paths, what they
//! are rendered for, and who owns them.

use serde::{Deserialize, Serialize};

use crate::project::{Feature, License, Project};

/// Who owns a rendered file, which decides how it is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ownership {
    /// Depends on the model alone; users do not edit it, as its header says.
    Generated,
    /// Written once, then owned by the user; updates are merged with the user's edits.
    Scaffolded,
    /// Written by `make manifests` or cargo, from the user's code or as a copy. In a conflict the user's
    /// version stays.
    Derived,
}

/// What a template is rendered once for each of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RenderPer {
    /// The project: rendered once.
    #[default]
    Project,
    /// Each group.
    Group,
    /// Each group with a controller.
    ControllerGroup,
    /// Each version of each group.
    Version,
    /// Each kind: its storage version.
    Kind,
    /// Each kind, with the items of `spec.versions` of its CRD.
    Crd,
    /// Each kind with a controller: its storage version.
    Controller,
    /// Each further file of each controller: those in the directory `controller` of its recipe.
    ControllerPart,
    /// Each version of each kind.
    Resource,
    /// Each file of a tree of templates, which is copied as it is. `.in` at the end of a template's
    /// name goes: cargo packs no directory that has a `Cargo.toml`.
    Verbatim,
}

/// One row of the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The path of the file, separated by `/`, with fields of the context in braces.
    pub path: String,
    /// The name of the template; `{recipe}` stands for the recipe of the resource, `{part}` for a file of
    /// it. By default, it is the path below `project`.
    template: Option<String>,
    /// Who owns the file.
    pub ownership: Ownership,
    /// What the template is rendered for.
    #[serde(default)]
    pub per: RenderPer,
    /// The license of the projects that have the file, if it is not in all of them.
    license: Option<License>,
    /// The feature of the projects that have the file, if it is not in all of them.
    feature: Option<Feature>,
    /// The path of the file that it is a copy of, which has no template of its own.
    pub copy_of: Option<String>,
}

impl File {
    /// Whether a project has the file.
    pub fn is_in(&self, project: &Project) -> bool {
        self.license.is_none_or(|license| license == project.license())
            && self.feature.is_none_or(|feature| project.features().contains(&feature))
    }

    /// The name of the template; of a copy, its path before the fields are filled in.
    pub fn template(&self) -> String {
        match &self.template {
            Some(template) => template.clone(),
            None if self.copy_of.is_some() => self.path.clone(),
            None => format!("project/{}.tera", self.path),
        }
    }
}
