//! The files to render for a model.

use std::collections::BTreeMap;

use tera::Context;

use super::context::{GroupContext, ResourceContext, VersionContext};
use super::files::{File, Ownership, RenderPer};
use super::templates::TemplateSet;
use crate::error::UserError;
use crate::project::Project;

/// The maximum length of a file name on Linux and macOS, in bytes.
const MAX_FILE_NAME: usize = 255;

/// A file to render.
pub struct Job<'a> {
    /// Who owns the file.
    pub ownership: Ownership,
    /// What the template is rendered for.
    pub per: RenderPer,
    /// The name of the template.
    pub template: String,
    /// The path of the file.
    pub path: String,
    /// The path of the file that it is a copy of.
    pub copy_of: Option<String>,
    /// What the file is rendered for.
    pub subject: Subject<'a>,
}

/// What a file is rendered for.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    Project(&'a Project),
    Group(&'a GroupContext),
    Version(&'a GroupContext, &'a VersionContext),
    Resource(&'a ResourceContext),
}

/// All files of a project; `files` is the table of the set.
///
/// # Errors
/// If two files would have the same path, or if the name of a file is too long.
pub fn all<'a>(
    set: &TemplateSet,
    files: &[File],
    project: &'a Project,
    resources: &'a [ResourceContext],
    groups: &'a [GroupContext],
) -> Result<Vec<Job<'a>>, UserError> {
    let files = files.iter().filter(|file| file.is_in(project));
    let jobs = files.flat_map(|file| {
        let subjects = subjects(file.per, project, resources, groups).into_iter();
        subjects.flat_map(move |subject| subject.jobs(file, set))
    });
    let jobs: Vec<Job<'a>> = jobs.collect();
    let mut owner_of: BTreeMap<&str, &Job<'_>> = BTreeMap::new();
    for job in &jobs {
        let title = job.subject.title();
        check_file_names(&job.path).map_err(|reason| {
            UserError::usage(format!("{title} {reason}"))
                .with_hint("use a shorter group, version, kind or plural")
        })?;
        if let Some(other) = owner_of.insert(&job.path, job) {
            return Err(UserError::usage(format!(
                "{} and {title} would share the file {}",
                other.subject.title(),
                job.path
            ))
            .with_hint("use another group or kind"));
        }
    }
    Ok(jobs)
}

/// Checks the lengths of the names in a path.
///
/// # Errors
/// A phrase about the name that is too long.
pub fn check_file_names(path: &str) -> Result<(), String> {
    match path.split('/').find(|name| name.len() > MAX_FILE_NAME) {
        None => Ok(()),
        Some(name) => Err(format!(
            "needs a file name of {} bytes, and the limit is {MAX_FILE_NAME}: {name}",
            name.len()
        )),
    }
}

fn subjects<'a>(
    per: RenderPer,
    project: &'a Project,
    resources: &'a [ResourceContext],
    groups: &'a [GroupContext],
) -> Vec<Subject<'a>> {
    let filtered = |keep: fn(&&ResourceContext) -> bool| {
        resources.iter().filter(keep).map(Subject::Resource).collect()
    };
    match per {
        RenderPer::Project | RenderPer::Verbatim => vec![Subject::Project(project)],
        RenderPer::Group => {
            groups.iter().filter(|g| !g.versions.is_empty()).map(Subject::Group).collect()
        }
        RenderPer::ControllerGroup => {
            groups.iter().filter(|g| !g.controllers.is_empty()).map(Subject::Group).collect()
        }
        RenderPer::Version => groups
            .iter()
            .flat_map(|g| g.versions.iter().map(move |v| Subject::Version(g, v)))
            .collect(),
        RenderPer::Kind | RenderPer::Crd => filtered(|r| r.is_storage()),
        RenderPer::Controller | RenderPer::ControllerPart => filtered(|r| r.controller),
        RenderPer::Resource => filtered(|r| r.has_api()),
    }
}

impl<'a> Subject<'a> {
    fn jobs(self, file: &File, set: &TemplateSet) -> Vec<Job<'a>> {
        let mut template = file.template();
        if let Self::Resource(resource) = self {
            template = template.replace("{recipe}", &resource.recipe);
        }
        let path = self.path(&file.path);
        let copy_of = file.copy_of.as_deref().map(|pattern| self.path(pattern));
        let job = |template, path| Job {
            ownership: file.ownership,
            per: file.per,
            template,
            path,
            copy_of: copy_of.clone(),
            subject: self,
        };
        let Some((before, after)) = template.split_once("{part}") else {
            return vec![job(template, path)];
        };
        let part = |name: &str| {
            let part = name.strip_prefix(before)?.strip_suffix(after)?;
            let part = part.strip_suffix(".in").unwrap_or(part);
            let path = path.replace("{part}", part);
            Some(job(name.to_owned(), path))
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
            Self::Project(project) => set("{project}", &project.project_name),
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

    /// The variables of the template, in addition to the global ones.
    pub fn context(self) -> Context {
        let mut context = Context::new();
        match self {
            Self::Project(_) => {}
            Self::Group(group) => context.insert("group", group),
            Self::Version(group, version) => {
                context.insert("group", group);
                context.insert("version", version);
            }
            Self::Resource(resource) => context.insert("resource", resource),
        }
        context
    }

    /// The name of the subject in `PROJECT.lock`, without blanks.
    pub fn name(self) -> String {
        match self {
            Self::Project(_) => "project".to_owned(),
            Self::Group(group) => group.label.clone(),
            Self::Version(group, version) => format!("{}/{}", group.label, version.name),
            Self::Resource(r) => r.name(),
        }
    }

    fn title(self) -> String {
        match self {
            Self::Project(_) => "the project".to_owned(),
            Self::Group(group) => format!("the group {}", group.name),
            Self::Version(group, version) => format!("the version {}/{}", group.name, version.name),
            Self::Resource(resource) => resource.title(),
        }
    }
}
