//! Renders a model to a tree of files. Pure: without side effects, and the same model always yields the
//! same tree.

mod context;
mod dependencies;
mod extra_files;
pub mod files;
mod frozen;
mod job;
pub mod lock;
pub mod recipes;
pub mod rustfmt;
pub mod templates;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Serialize;
use tera::{Context, Delimiters, Kwargs, State, Tera};

use crate::error::UserError;
use crate::project::{INSTALL, Project, names};
use crate::text::rust_literal;
use context::{GroupContext, ProjectContext, ResourceContext};
use dependencies::Dependency;
pub use extra_files::{controllers, extra_files, extra_paths, own_files};
use files::{File, Ownership, RenderPer};
use job::{Job, Subject};
use recipes::Recipe;
pub use templates::TemplateSet;

/// The files of a project by path, separated by `/`.
pub type Tree = BTreeMap<String, RenderedFile>;

/// A rendered file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// The text of the file. What is copied verbatim, such as the runtime, stays where opctl embeds it.
    pub text: Cow<'static, str>,
    /// Who owns the file.
    pub ownership: Ownership,
    /// What it is rendered for: `project`, a group, a version such as `cache/v1`, or a type such as
    /// `cache/v1/Memcached`.
    pub subject: String,
    /// The name of the template; empty for files that no model renders.
    pub template: String,
    /// The path of the file that it is a copy of.
    pub copy_of: Option<String>,
}

impl RenderedFile {
    /// A file that no model renders, which belongs to a type or to the project.
    pub fn extra(text: String, subject: String) -> Self {
        Self {
            text: text.into(),
            ownership: Ownership::Scaffolded,
            subject,
            template: String::new(),
            copy_of: None,
        }
    }

    /// Whether the file is a script, which needs the executable bit.
    pub fn is_executable(&self) -> bool {
        self.text.starts_with("#!")
    }
}

/// The path of the lock file, which cargo updates.
pub(crate) const LOCK: &str = "Cargo.lock";

/// Its template.
const LOCK_TEMPLATE: &str = "project/Cargo.lock.tera";

/// The directory of the runtime, a crate that is copied as it is.
pub(crate) const RUNTIME: &str = "runtime/";

/// Renders models with one template set. Templates are parsed on first use.
pub struct Renderer {
    set: &'static TemplateSet,
    files: Vec<File>,
    tera: Tera,
}

impl Renderer {
    /// A renderer for a template set.
    ///
    /// # Errors
    /// If the set has no valid table of files, or if tera rejects the delimiters.
    pub fn new(set: &'static TemplateSet) -> Result<Self> {
        let mut tera = Tera::new();
        tera.set_delimiters(Delimiters {
            block_start: "<%".into(),
            block_end: "%>".into(),
            variable_start: "<$".into(),
            variable_end: "$>".into(),
            comment_start: "<#".into(),
            comment_end: "#>".into(),
        })?;
        tera.autoescape_on(Vec::<&str>::new());
        tera.register_filter("yaml", |text: &str, _: Kwargs, _: &State<'_>| yaml(text));
        tera.register_filter("rust", |text: &str, _: Kwargs, _: &State<'_>| rust_literal(text));
        tera.register_filter("sort_lines", |text: &str, _: Kwargs, _: &State<'_>| sort_lines(text));
        Ok(Self { set, files: set.files()?, tera })
    }

    /// Renders all files of a model.
    ///
    /// # Errors
    /// A [`UserError`] if two resources would share a file, or if the name of a file is too long;
    /// another error if a template is invalid.
    pub fn render(&mut self, project: &Project) -> Result<Tree> {
        let recipes = self.recipes(project)?;
        let dependencies = dependencies::merge(recipes.values())?;
        let resources = context::resources(project);
        let groups = context::groups(&resources);
        let jobs = job::all(self.set, &self.files, project, &resources, &groups)?;
        let (copies, jobs): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.copy_of.is_some());
        let parsed = jobs.iter().filter(|job| job.per != RenderPer::Verbatim);
        self.parse(parsed.map(|job| job.template.as_str()))?;
        if jobs.iter().any(|job| job.per == RenderPer::Crd) {
            let parts: Vec<String> =
                resources.iter().filter(|r| r.has_api()).map(crd_version_template).collect();
            self.parse(parts.iter().map(String::as_str))?;
        }
        self.set_globals(project, &resources, &groups, &recipes, &dependencies)?;

        let mut tree = Tree::new();
        for job in &jobs {
            let mut text = self.run(job, &resources)?;
            if job.path == LOCK {
                text = lock::complete(self.source(&job.template)?, &text, &dependencies)?.into();
            }
            let file = RenderedFile {
                text,
                ownership: job.ownership,
                subject: job.subject.name(),
                template: job.template.clone(),
                copy_of: None,
            };
            tree.insert(job.path.clone(), file);
        }
        for Job { ownership, template, path, copy_of, subject, .. } in copies {
            let original = copy_of.as_ref().and_then(|original| tree.get(original));
            let text =
                original.with_context(|| format!("{path} is a copy of nothing"))?.text.clone();
            let subject = subject.name();
            tree.insert(path, RenderedFile { text, ownership, subject, template, copy_of });
        }
        Ok(tree)
    }

    /// The recipes of a project by name, after a check of their options.
    fn recipes(&self, project: &Project) -> Result<BTreeMap<String, Recipe>> {
        let mut recipes = BTreeMap::new();
        for resource in &project.resources {
            let invalid = |error: UserError| {
                UserError::failure(format!("invalid PROJECT: {}: {error}", resource.gvk()))
            };
            let name = project.recipe(resource);
            if !recipes.contains_key(name) {
                let recipe = self.set.find_recipe(name)?.ok_or_else(|| {
                    invalid(UserError::failure(format!("unknown recipe `{name}`")))
                })?;
                recipes.insert(name.to_owned(), recipe);
            }
            if let Some(options) = project.options(resource) {
                recipes[name].check_options(options, &[]).map_err(invalid)?;
            }
        }
        Ok(recipes)
    }

    fn set_globals(
        &mut self,
        project: &Project,
        resources: &[ResourceContext],
        groups: &[GroupContext],
        recipes: &BTreeMap<String, Recipe>,
        dependencies: &[Dependency],
    ) -> Result<()> {
        let kinds: Vec<&ResourceContext> = groups.iter().flat_map(|group| &group.kinds).collect();
        let controllers: Vec<&ResourceContext> =
            groups.iter().flat_map(|group| &group.controllers).collect();
        let rules = controllers
            .iter()
            .flat_map(|owner| recipes[&owner.recipe].rules.iter().map(|rule| (*owner, rule)));
        let rules = recipes::merge(rules);
        let related_images = recipes::related_images(
            controllers.iter().map(|owner| (*owner, &recipes[&owner.recipe])),
        );

        let project = ProjectContext::new(project);
        let header = project.header("//");
        let globals = Globals {
            header: if header.is_empty() { header } else { format!("{header}\n") },
            header_hash: project.header("#"),
            project,
            opctl: OpctlContext { install: INSTALL },
            resources,
            groups,
            kinds,
            controllers,
            rules,
            related_images,
            dependencies,
        };
        *self.tera.global_context() = Context::from_serialize(&globals)?;
        Ok(())
    }

    /// Parses the templates that are used for the first time.
    fn parse<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        let mut new = BTreeMap::new();
        for name in names.filter(|name| !self.tera.contains_template(name)) {
            let source = self.source(name)?;
            let is_lock = name == LOCK_TEMPLATE;
            new.insert(name, if is_lock { lock::project_package(source)? } else { source });
        }
        if !new.is_empty() {
            self.tera.add_raw_templates(new).context("in a template")?;
        }
        Ok(())
    }

    fn source(&self, name: &str) -> Result<&'static str> {
        self.set.source(name).with_context(|| format!("no template `{name}`"))
    }

    fn run(&self, job: &Job<'_>, resources: &[ResourceContext]) -> Result<Cow<'static, str>> {
        if job.per == RenderPer::Verbatim {
            return Ok(self.source(&job.template)?.into());
        }
        let mut context = job.subject.context();
        if let (RenderPer::Crd, Subject::Resource(storage)) = (job.per, job.subject) {
            context.insert("versions", &self.crd_versions(storage, resources)?);
        }
        let text = self.render_one(&job.template, &context)?;
        let text = match job.path.as_str() {
            path if path.ends_with(".rs") => rustfmt::tidy(&text),
            _ => text,
        };
        Ok(text.into())
    }

    fn render_one(&self, template: &str, context: &Context) -> Result<String> {
        self.tera.render(template, context).with_context(|| format!("in the template `{template}`"))
    }

    /// The versions of a kind in the order of its CRD.
    fn crd_versions(
        &self,
        storage: &ResourceContext,
        resources: &[ResourceContext],
    ) -> Result<Vec<CrdVersionContext>> {
        let same_kind = |r: &&ResourceContext| {
            r.has_api() && r.group == storage.group && r.kind == storage.kind
        };
        let mut versions = Vec::new();
        for resource in resources.iter().filter(same_kind) {
            let context = Subject::Resource(resource).context();
            let yaml = self.render_one(&crd_version_template(resource), &context)?;
            let stored = resource.is_storage();
            versions.push(CrdVersionContext { name: resource.version.clone(), stored, yaml });
        }
        // The order in which the generated project's `make manifests` merges them.
        versions.sort_by(|a, b| {
            b.stored.cmp(&a.stored).then_with(|| rustfmt::by_module(&a.name, &b.name))
        });
        Ok(versions)
    }
}

/// The global variables of templates.
#[derive(Serialize)]
struct Globals<'a> {
    project: ProjectContext,
    opctl: OpctlContext,
    header: String,
    header_hash: String,
    resources: &'a [ResourceContext],
    groups: &'a [GroupContext],
    kinds: Vec<&'a ResourceContext>,
    controllers: Vec<&'a ResourceContext>,
    rules: Vec<recipes::PolicyRule>,
    related_images: Vec<recipes::RelatedImage>,
    dependencies: &'a [Dependency],
}

/// opctl itself.
#[derive(Serialize)]
struct OpctlContext {
    /// The command that installs it.
    install: &'static str,
}

/// One item of a CRD's `spec.versions`.
#[derive(Serialize)]
struct CrdVersionContext {
    name: String,
    stored: bool,
    yaml: String,
}

fn crd_version_template(resource: &ResourceContext) -> String {
    format!("recipes/{}/crd_version.yaml.tera", resource.recipe)
}

/// A string as a YAML scalar, quoted only if a reader could parse it as another type. serde-saphyr writes
/// it, because it also writes the YAML files of the generated project; names are never folded.
fn yaml(text: &str) -> tera::TeraResult<String> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: names::MAX_SUBDOMAIN };
    let scalar = serde_saphyr::to_string_with_options(&text, options)
        .map_err(|error| tera::Error::message(error.to_string()))?;
    Ok(scalar.trim_end_matches('\n').to_owned())
}

/// The lines that are not empty, in alphabetical order.
fn sort_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines.join("\n")
}
