//! From a model to the tree of files that it stands for. Pure: no effect, and the same model gives
//! the same tree.

pub mod attach;
mod context;
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

use crate::error::Refusal;
use crate::project::{Project, names};
use context::{Group, Resource};
use files::{Class, For};
use job::{Job, Subject};
use recipes::Recipe;
pub use templates::Set;

/// The files of a project by their path, with `/` between the parts.
pub type Tree = BTreeMap<String, Rendered>;

/// One generated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Its text.
    pub text: String,
    /// Whose it is.
    pub class: Class,
}

impl Rendered {
    /// Whether the file is a script.
    pub fn is_executable(&self) -> bool {
        self.text.starts_with("#!")
    }
}

const LOCK: &str = "Cargo.lock";

/// Renders models with one template set. Templates are parsed when they are first used.
pub struct Renderer {
    set: &'static Set,
    tera: Tera,
}

impl Renderer {
    /// A renderer of a template set.
    pub fn new(set: &'static Set) -> Result<Self> {
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
    /// A [`Refusal`] if two resources would be the same file, or if a name is too long for a file;
    /// otherwise an error in a template.
    pub fn render(&mut self, project: &Project) -> Result<Tree> {
        let recipes = self.recipes(project)?;
        let resources = context::resources(project);
        let groups = context::groups(&resources);
        let jobs = job::all(self.set, project.license(), &resources, &groups)?;
        self.parse(jobs.iter().map(|job| job.template.as_str()))?;
        if jobs.iter().any(|job| job.file.for_each == For::Crd) {
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
            tree.insert(job.path.clone(), Rendered { text, class: job.file.class });
        }
        Ok(tree)
    }

    /// The recipes of a project by their names, each told what it needs.
    fn recipes(&self, project: &Project) -> Result<BTreeMap<String, Recipe>> {
        let mut recipes = BTreeMap::new();
        for resource in &project.resources {
            let damaged = |refusal: Refusal| {
                Refusal::failure(format!("PROJECT is damaged: {}: {refusal}", resource.title()))
            };
            let name = project.recipe(resource);
            if !recipes.contains_key(name) {
                let recipe = self.set.find_recipe(name)?.ok_or_else(|| {
                    damaged(Refusal::failure(format!("there is no recipe `{name}`")))
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
        resources: &[Resource],
        groups: &[Group],
        recipes: &BTreeMap<String, Recipe>,
    ) -> Result<()> {
        let kinds: Vec<&Resource> = groups.iter().flat_map(|group| &group.kinds).collect();
        let controllers: Vec<&Resource> =
            groups.iter().flat_map(|group| &group.controllers).collect();
        let rules = controllers
            .iter()
            .flat_map(|owner| recipes[&owner.recipe].rules.iter().map(|rule| (*owner, rule)));
        let rules = recipes::merge(rules);

        let seen = context::Project::new(project);
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

    fn run(&self, job: &Job<'_>, resources: &[Resource]) -> Result<String> {
        let mut context = job.subject.context();
        if let (For::Crd, Subject::Resource(storage)) = (job.file.for_each, job.subject) {
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
    fn crd_versions(&self, storage: &Resource, resources: &[Resource]) -> Result<Vec<CrdVersion>> {
        let same =
            |r: &&Resource| r.has_api() && r.group == storage.group && r.kind == storage.kind;
        let mut versions = Vec::new();
        for resource in resources.iter().filter(same) {
            let context = Subject::Resource(resource).context();
            let yaml = self.render_one(&crd_version_template(resource), &context)?;
            let stored = resource.is_storage();
            versions.push(CrdVersion { name: resource.version.clone(), stored, yaml });
        }
        // The order in which the generated project's `make manifests` merges them.
        versions.sort_by(|a, b| {
            b.stored.cmp(&a.stored).then_with(|| rustfmt::by_module(&a.name, &b.name))
        });
        Ok(versions)
    }
}

/// cargo tells packages of one name apart by writing the lock file in another way.
fn check_package(lock: &str, name: &str) -> Result<(), Refusal> {
    match lock::names(lock).filter(|package| *package == name).count() {
        0 | 1 => Ok(()),
        _ => Err(Refusal::usage(format!(
            "the project name `{name}` is that of a package which the project needs"
        ))
        .hint("choose another name with `--project-name`")),
    }
}

/// What every template sees.
#[derive(Serialize)]
struct Globals<'a> {
    project: context::Project,
    header: String,
    header_hash: String,
    resources: &'a [Resource],
    groups: &'a [Group],
    kinds: Vec<&'a Resource>,
    controllers: Vec<&'a Resource>,
    rules: Vec<recipes::PolicyRule>,
}

/// One item of a CRD's `spec.versions`.
#[derive(Serialize)]
struct CrdVersion {
    name: String,
    stored: bool,
    yaml: String,
}

fn crd_version_template(resource: &Resource) -> String {
    format!("recipes/{}/crd_version.yaml.tera", resource.recipe)
}

/// A string as a YAML scalar, quoted only where a reader could take it for something else. It is what
/// serde-saphyr writes, because that is what writes YAML in the generated project, where no name is folded.
fn yaml(text: &str) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: names::SUBDOMAIN };
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
