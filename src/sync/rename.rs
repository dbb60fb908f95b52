//! A new name for a kind or a group, in the files of a project.
//!
//! What opctl renders has the new name anyway. In the user's files, a Rust path is renamed if it leads to
//! what is renamed: the types and modules of the kind, or the modules of the group.

pub(super) mod paths;

use crate::project::Project;
use crate::project::names::Module;
use paths::Pattern;

/// A renaming.
#[derive(Debug, Clone)]
pub struct Rename {
    /// The names in `PROJECT.lock` of what is renamed, with the new ones.
    subjects: Vec<(String, String)>,
    patterns: Vec<Pattern>,
    /// The old names, by which a person finds what is left.
    words: Vec<String>,
}

impl Rename {
    /// Renames a kind.
    pub fn kind(project: &Project, group: &str, old: &str, new: &str) -> Self {
        let Some(first) = project.versions(group, old).next() else { return Self::nothing() };
        let (group_module, label) = (project.module(first).ident, project.group_label(first));
        let (old_module, new_module) = (Module::of_kind(old).ident, Module::of_kind(new).ident);
        let mut subjects = Vec::new();
        let mut patterns =
            vec![Pattern::new(&["controller", &group_module, &old_module], &new_module)];
        for resource in project.versions(group, old) {
            let version = resource.version.as_str();
            subjects.push((format!("{label}/{version}/{old}"), format!("{label}/{version}/{new}")));
            patterns.push(Pattern::new(&["api", &group_module, version, &old_module], &new_module));
            for suffix in ["", "Spec", "Status"] {
                let (old, new) = (format!("{old}{suffix}"), format!("{new}{suffix}"));
                patterns.push(Pattern::new(&["api", &group_module, version, &old], &new));
                patterns
                    .push(Pattern::new(&["api", &group_module, version, &old_module, &old], &new));
            }
        }
        let words = ["", "Spec", "Status"].map(|suffix| format!("{old}{suffix}")).to_vec();
        Self { subjects, patterns, words }
    }

    /// Renames a group. `renamed` is the project in which it has the new name.
    pub fn group(project: &Project, renamed: &Project, old: &str, new: &str) -> Self {
        let own = |project: &Project, group: &str| {
            let resources = project.resources.iter();
            let own = resources.filter(|r| r.api.is_some() && r.group == group);
            own.cloned().collect::<Vec<_>>()
        };
        let (before, after) = (own(project, old), own(renamed, new));
        let (Some(first), Some(first_after)) = (before.first(), after.first()) else {
            return Self::nothing();
        };
        let (old_module, new_module) =
            (project.module(first).ident, renamed.module(first_after).ident);
        let (old_label, new_label) = (project.group_label(first), renamed.group_label(first_after));
        let mut subjects = vec![(old_label.clone(), new_label.clone())];
        for resource in &before {
            let (version, kind) = (&resource.version, &resource.kind);
            for end in [version.clone(), format!("{version}/{kind}")] {
                subjects.push((format!("{old_label}/{end}"), format!("{new_label}/{end}")));
            }
        }
        let pattern = |parent: &str| Pattern::new(&[parent, &old_module], &new_module);
        let patterns = vec![pattern("api"), pattern("controller")];
        Self { subjects, patterns, words: vec![format!("{old}.{}", project.domain)] }
    }

    /// Of what a project does not have, nothing is renamed.
    fn nothing() -> Self {
        Self { subjects: Vec::new(), patterns: Vec::new(), words: Vec::new() }
    }

    /// The new name of a subject.
    pub(super) fn subject<'a>(&'a self, subject: &'a str) -> &'a str {
        let renamed = self.subjects.iter().find(|(old, _)| old == subject);
        renamed.map_or(subject, |(_, new)| new)
    }

    /// The text of a file with the new name.
    pub(super) fn rewrite(&self, path: &str, text: &str) -> String {
        match path.ends_with(".rs") {
            true => paths::rewrite(path, text, &self.patterns),
            false => text.to_owned(),
        }
    }

    /// The old names: lines that still have one after the renaming are for a person to decide.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}
