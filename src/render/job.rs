//! What there is to render.

use std::collections::BTreeMap;

use tera::Context;

use super::context::{Group, Resource, Version};
use super::files::{File, For};
use super::templates::Set;
use crate::error::Refusal;
use crate::project::License;

/// The longest name of a file that Linux and macOS take, in bytes.
const FILE_NAME: usize = 255;

/// A file that is to be rendered.
pub struct Job<'a> {
    /// Its row in the table.
    pub file: &'static File,
    /// The name of the template.
    pub template: String,
    /// Where the file goes.
    pub path: String,
    /// What it is about.
    pub subject: Subject<'a>,
}

/// What a file is rendered for.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    Project,
    Group(&'a Group),
    Version(&'a Group, &'a Version),
    Resource(&'a Resource),
}

/// All files of a project.
///
/// # Errors
/// If two of them have one path, or if a name is too long for a file.
pub fn all<'a>(
    set: &Set,
    license: License,
    resources: &'a [Resource],
    groups: &'a [Group],
) -> Result<Vec<Job<'a>>, Refusal> {
    let jobs_of = |file: &'static File| {
        let subjects = subjects(file, license, resources, groups).into_iter();
        subjects.flat_map(move |subject| subject.jobs(file, set))
    };
    let jobs: Vec<Job<'a>> = set.files().iter().flat_map(jobs_of).collect();
    let mut owner_of: BTreeMap<&str, &Job<'_>> = BTreeMap::new();
    for job in &jobs {
        let title = job.subject.title();
        if let Some(name) = job.path.split('/').find(|name| name.len() > FILE_NAME) {
            return Err(Refusal::usage(format!(
                "{title} would need a file name of {} bytes, and {FILE_NAME} is the limit: {name}",
                name.len()
            ))
            .hint("use a shorter group, version, kind or plural"));
        }
        if let Some(other) = owner_of.insert(&job.path, job) {
            return Err(Refusal::usage(format!(
                "{} and {title} would both be the file {}",
                other.subject.title(),
                job.path
            ))
            .hint("use another group or another kind"));
        }
    }
    Ok(jobs)
}

fn subjects<'a>(
    file: &File,
    license: License,
    resources: &'a [Resource],
    groups: &'a [Group],
) -> Vec<Subject<'a>> {
    let of = |keep: fn(&&Resource) -> bool| {
        resources.iter().filter(keep).map(Subject::Resource).collect()
    };
    match file.for_each {
        For::Project => vec![Subject::Project],
        For::License(wanted) if wanted == license => vec![Subject::Project],
        For::License(_) => Vec::new(),
        For::Group => {
            groups.iter().filter(|g| !g.versions.is_empty()).map(Subject::Group).collect()
        }
        For::ControllerGroup => {
            groups.iter().filter(|g| !g.controllers.is_empty()).map(Subject::Group).collect()
        }
        For::Version => groups
            .iter()
            .flat_map(|g| g.versions.iter().map(move |v| Subject::Version(g, v)))
            .collect(),
        For::Kind | For::Crd => of(|r| r.is_storage()),
        For::Controller | For::ControllerPart => of(|r| r.controller),
        For::Resource => of(|r| r.has_api()),
    }
}

impl<'a> Subject<'a> {
    fn jobs(self, file: &'static File, set: &Set) -> Vec<Job<'a>> {
        let template = match self {
            Self::Resource(r) => file.template.replace("{recipe}", &r.recipe),
            _ => file.template.to_owned(),
        };
        let path = self.path(file.path);
        let Some((before, after)) = template.split_once("{part}") else {
            return vec![Job { file, template, path, subject: self }];
        };
        let part = |name: &str| {
            let part = name.strip_prefix(before)?.strip_suffix(after)?;
            let path = path.replace("{part}", part);
            Some(Job { file, template: name.to_owned(), path, subject: self })
        };
        set.names().filter_map(part).collect()
    }

    fn path(self, pattern: &str) -> String {
        let mut path = pattern.to_owned();
        let mut set = |field: &str, value: &str| {
            if path.contains(field) {
                path = path.replace(field, value);
            }
        };
        match self {
            Self::Project => {}
            Self::Group(group) => set("{group_file}", &group.file),
            Self::Version(group, version) => {
                set("{group_file}", &group.file);
                set("{version}", &version.name);
            }
            Self::Resource(r) => {
                set("{group_file}", &r.group_file);
                set("{kind_file}", &r.kind_file);
                set("{group}", &r.group);
                set("{api_group}", &r.api_group);
                set("{version}", &r.version);
                set("{kind_lower}", &r.kind_lower);
                set("{plural}", &r.plural);
            }
        }
        path
    }

    /// What the template sees beside what every template sees.
    pub fn context(self) -> Context {
        let mut context = Context::new();
        match self {
            Self::Project => {}
            Self::Group(group) => context.insert("group", group),
            Self::Version(group, version) => {
                context.insert("group", group);
                context.insert("version", version);
            }
            Self::Resource(resource) => context.insert("resource", resource),
        }
        context
    }

    fn title(self) -> String {
        match self {
            Self::Project => "the project".to_owned(),
            Self::Group(group) => format!("the group {}", group.name),
            Self::Version(group, version) => format!("the version {}/{}", group.name, version.name),
            Self::Resource(resource) => resource.title(),
        }
    }
}
