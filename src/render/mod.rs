//! From a model to the tree of files that it stands for. Pure: no effect, and the same model gives
//! the same tree.

mod context;
mod extra_files;
pub mod files;
mod job;
pub mod lock;
pub mod recipes;
pub mod rustfmt;
pub mod templates;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Serialize;
use tera::{Context, Delimiters, Kwargs, State, Tera};

use crate::error::UserError;
use crate::project::{Project, names};
use context::{GroupContext, ProjectContext, ResourceContext};
pub use extra_files::extra_files;
use files::{Ownership, RenderPer};
use job::{Job, Subject};
use recipes::Recipe;
pub use templates::TemplateSet;

/// The files of a project by their path, with `/` between the parts.
pub type Tree = BTreeMap<String, RenderedFile>;

/// One generated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// Its text.
    pub text: String,
    /// Whose it is.
    pub ownership: Ownership,
}

impl RenderedFile {
    /// Whether the file is a script.
    pub fn is_executable(&self) -> bool {
        self.text.starts_with("#!")
    }
}

const LOCK: &str = "Cargo.lock";

/// Renders models with one template set. Templates are parsed when they are first used.
pub struct Renderer {
    set: &'static TemplateSet,
    tera: Tera,
}

impl Renderer {
    /// A renderer of a template set.
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
        tera.register_filter("rust", |text: &str, _: Kwargs, _: &State<'_>| rust(text));
        Ok(Self { set, tera })
    }

    /// The tree that a model stands for.
    ///
    /// # Errors
    /// A [`UserError`] if two resources would be the same file, or if a name is too long for a file;
    /// otherwise an error in a template.
    pub fn render(&mut self, project: &Project) -> Result<Tree> {
        let recipes = self.recipes(project)?;
        let resources = context::resources(project);
        let groups = context::groups(&resources);
        let jobs = job::all(self.set, project.license(), &resources, &groups)?;
        self.parse(jobs.iter().map(|job| job.template.as_str()))?;
        if jobs.iter().any(|job| job.file.per == RenderPer::Crd) {
            let parts: Vec<String> =
                resources.iter().filter(|r| r.has_api()).map(crd_version_template).collect();
            self.parse(parts.iter().map(String::as_str))?;
        }
        self.set_globals(project, &resources, &groups, &recipes)?;

        let mut tree = Tree::new();
        for job in &jobs {
            let text = self.run(job, &resources)?;
            if job.path == LOCK {
                check_package(&text, &project.project_name)?;
            }
            tree.insert(job.path.clone(), RenderedFile { text, ownership: job.file.ownership });
        }
        Ok(tree)
    }

    /// The recipes of a project by their names, each told what it needs.
    fn recipes(&self, project: &Project) -> Result<BTreeMap<String, Recipe>> {
        let mut recipes = BTreeMap::new();
        for resource in &project.resources {
            let damaged = |error: UserError| {
                UserError::failure(format!("PROJECT is damaged: {}: {error}", resource.gvk()))
            };
            let name = project.recipe(resource);
            if !recipes.contains_key(name) {
                let recipe = self.set.find_recipe(name)?.ok_or_else(|| {
                    damaged(UserError::failure(format!("there is no recipe `{name}`")))
                })?;
                recipes.insert(name.to_owned(), recipe);
            }
            if let Some(options) = project.options(resource) {
                recipes[name].check_options(options, &[]).map_err(damaged)?;
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
    ) -> Result<()> {
        let kinds: Vec<&ResourceContext> = groups.iter().flat_map(|group| &group.kinds).collect();
        let controllers: Vec<&ResourceContext> =
            groups.iter().flat_map(|group| &group.controllers).collect();
        let rules = controllers
            .iter()
            .flat_map(|owner| recipes[&owner.recipe].rules.iter().map(|rule| (*owner, rule)));
        let rules = recipes::merge(rules);

        let seen = ProjectContext::new(project);
        let header = seen.header("//");
        let globals = Globals {
            header: if header.is_empty() { header } else { format!("{header}\n") },
            header_hash: seen.header("#"),
            project: seen,
            resources,
            groups,
            kinds,
            controllers,
            rules,
        };
        *self.tera.global_context() = Context::from_serialize(&globals)?;
        Ok(())
    }

    /// Parses the templates that were not used before.
    fn parse<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        let mut new = BTreeMap::new();
        for name in names.filter(|name| !self.tera.contains_template(name)) {
            new.insert(
                name,
                self.set.source(name).with_context(|| format!("there is no template `{name}`"))?,
            );
        }
        if !new.is_empty() {
            self.tera.add_raw_templates(new).context("in a template")?;
        }
        Ok(())
    }

    fn run(&self, job: &Job<'_>, resources: &[ResourceContext]) -> Result<String> {
        let mut context = job.subject.context();
        if let (RenderPer::Crd, Subject::Resource(storage)) = (job.file.per, job.subject) {
            context.insert("versions", &self.crd_versions(storage, resources)?);
        }
        let text = self.render_one(&job.template, &context)?;
        Ok(match job.path.as_str() {
            LOCK => lock::sorted(&text),
            path if path.ends_with(".rs") => rustfmt::tidy(&text),
            _ => text,
        })
    }

    fn render_one(&self, template: &str, context: &Context) -> Result<String> {
        self.tera.render(template, context).with_context(|| format!("in the template `{template}`"))
    }

    /// The versions of a kind as its CRD lists them.
    fn crd_versions(
        &self,
        storage: &ResourceContext,
        resources: &[ResourceContext],
    ) -> Result<Vec<CrdVersionContext>> {
        let same = |r: &&ResourceContext| {
            r.has_api() && r.group == storage.group && r.kind == storage.kind
        };
        let mut versions = Vec::new();
        for resource in resources.iter().filter(same) {
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

/// cargo tells packages of one name apart by writing the lock file in another way.
fn check_package(lock: &str, name: &str) -> Result<(), UserError> {
    match lock::names(lock).filter(|package| *package == name).count() {
        0 | 1 => Ok(()),
        _ => Err(UserError::usage(format!(
            "the project name `{name}` is that of a package which the project needs"
        ))
        .with_hint("choose another name with `--project-name`")),
    }
}

/// What every template sees.
#[derive(Serialize)]
struct Globals<'a> {
    project: ProjectContext,
    header: String,
    header_hash: String,
    resources: &'a [ResourceContext],
    groups: &'a [GroupContext],
    kinds: Vec<&'a ResourceContext>,
    controllers: Vec<&'a ResourceContext>,
    rules: Vec<recipes::PolicyRule>,
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

/// A string as a YAML scalar, quoted only where a reader could take it for something else. It is what
/// serde-saphyr writes, because that is what writes YAML in the generated project, where no name is folded.
fn yaml(text: &str) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: names::MAX_SUBDOMAIN };
    let scalar = serde_saphyr::to_string_with_options(&text, options).unwrap_or_default();
    scalar.trim_end_matches('\n').to_owned()
}

/// A string as a Rust literal in ASCII, which is as wide as it is long.
fn rust(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '\'' => c.to_string(),
        _ => c.escape_default().to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}
