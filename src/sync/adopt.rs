//! Makes a lost `PROJECT` again from the files of a project: the CRDs say which kinds there are, the names of
//! files where a group ends and the domain begins, and what opctl has rendered says which recipe it was.

mod survey;

use std::collections::BTreeSet;

use anyhow::Result;
use serde_yaml::Value;

use super::disk::Disk;
use super::lockfile::Lockfile;
use crate::project::names::Module;
use crate::project::options::RecipeOptions;
use crate::project::{
    ApiRequest, EXTERNAL_RECIPE, ExternalType, Gvk, NO_RECIPE, Origin, Project, Settings, builtin,
};
use crate::render::{Renderer, TemplateSet};
use crate::yaml::Limit;
use survey::{Definition, Survey};

/// The maximum size of a manifest.
const LIMIT: Limit = Limit { megabytes: 10 };

/// The files that every project has, whatever a user has deleted since.
const TRACES: [&str; 3] =
    ["src/bin/manifests.rs", "config/default/kustomization.yaml", "src/api/mod.rs"];

/// What the files of a project say of its model.
#[derive(Debug)]
pub struct Adopted {
    /// The model.
    pub project: Project,
    /// What could not be recognized, and what that means.
    pub unknown: Vec<String>,
}

/// Whether opctl has written the files of a directory.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn is_project(disk: &Disk, lock: &Lockfile) -> Result<bool> {
    if lock.paths().next().is_some() {
        return Ok(true);
    }
    for path in TRACES {
        if disk.read(path)?.contents.is_none() {
            return Ok(false);
        }
    }
    // One without types and controllers is what `init` writes anyway.
    let files = disk.files(&BTreeSet::from(["src"]))?;
    let is_module =
        |path: &String| ["src/api/mod.rs", "src/controller/mod.rs"].contains(&path.as_str());
    let is_code =
        |path: &&String| path.starts_with("src/api/") || path.starts_with("src/controller/");
    Ok(files.iter().filter(is_code).any(|path| !is_module(path)))
}

/// Recognizes the model of a project. `settings` are what the user says of it.
///
/// # Errors
/// A [`UserError`] if the domain cannot be told; another error if a file cannot be read.
pub(super) fn adopt(
    disk: &Disk,
    lock: &Lockfile,
    settings: &Settings,
    default_name: &str,
) -> Result<Adopted> {
    let files = disk.files(&BTreeSet::from(["src", "config", "chart", "tests"]))?;
    let mut survey = Survey { disk, lock, files: files.into_iter().collect(), unknown: Vec::new() };
    let own = survey.definitions("config/crd/bases")?;
    let domain = match &settings.domain {
        Some(domain) => domain.clone(),
        None => survey.domain(&own)?,
    };
    let found = survey.settings(default_name)?;
    let name = settings.name.clone().or(found.name).unwrap_or_else(|| default_name.to_owned());
    let mut project = Project::new(name).with_settings(Settings {
        name: None,
        domain: Some(domain.clone()),
        license: settings.license.or(found.license),
        owner: settings.owner.clone().or(found.owner),
        namespaced: settings.namespaced.or(found.namespaced),
        features: found.features,
    })?;
    if let Some(image) = survey.image()? {
        project = project.with_image(Some(image))?;
    }
    for definition in own {
        let Some(group) = definition.group.strip_suffix(&format!(".{domain}")) else {
            survey
                .unknown
                .push(format!("{} is not in the domain {domain}: not recorded", definition.path));
            continue;
        };
        for version in &definition.versions {
            let request = ApiRequest {
                gvk: Gvk::new(group, version, &definition.kind),
                plural: Some(definition.plural.clone()),
                namespaced: Some(definition.namespaced),
                ..ApiRequest::default()
            };
            project = survey.with_api(project, request, &definition)?;
        }
    }
    for definition in survey.definitions("tests/crds")? {
        let Some((group, domain)) = definition.group.split_once('.') else { continue };
        for version in &definition.versions {
            let request = ApiRequest {
                gvk: Gvk::new(group, version, &definition.kind),
                external: Some(ExternalType {
                    origin: Origin::Crd,
                    domain: domain.to_owned(),
                    plural: definition.plural.clone(),
                    namespaced: definition.namespaced,
                }),
                ..ApiRequest::default()
            };
            let types = survey.module(&request.gvk, &definition.group)?;
            if types.is_some() {
                project = survey.with_api(project, request, &definition)?;
            }
        }
    }
    project = survey.with_core_types(project)?;
    survey.compare(&project)?;
    Ok(Adopted { project, unknown: survey.unknown })
}

impl Survey<'_> {
    /// The project with a kind, its controller and its recipe. What is invalid is not recorded.
    fn with_api(
        &mut self,
        project: Project,
        request: ApiRequest,
        definition: &Definition,
    ) -> Result<Project> {
        let gvk = request.gvk.clone();
        let module = self.module(&gvk, &definition.group)?;
        if module.is_none() {
            self.unknown.push(format!("no Rust type of {gvk} in src/api"));
        }
        let request = ApiRequest { module, ..request };
        match self.recorded(&project, request) {
            Ok(project) => Ok(project),
            Err(error) => {
                self.unknown.push(format!("{}: {error}: not recorded", definition.path));
                Ok(project)
            }
        }
    }

    fn recorded(&mut self, project: &Project, request: ApiRequest) -> Result<Project> {
        let is_external = request.external.is_some();
        let gvk = request.gvk.clone();
        let mut checked = project.check_api(request)?;
        let module = match checked.request().module.clone() {
            Some(module) => module,
            None => Module::of_group(&gvk.group).file,
        };
        let controller = format!("src/controller/{module}/{}.rs", Module::of_kind(&gvk.kind).file);
        checked.create_controller = self.has(&controller) && !checked.has_controller();
        if is_external {
            return Ok(project.with_api(&checked)?);
        }
        let types =
            format!("src/api/{module}/{}/{}.rs", gvk.version, Module::of_kind(&gvk.kind).file);
        let code =
            self.text(&controller)?.unwrap_or_default() + &self.text(&types)?.unwrap_or_default();
        let set = TemplateSet::current();
        let mut best = (0, NO_RECIPE.to_owned(), RecipeOptions::default());
        for recipe in set.recipes()?.into_iter().filter(|recipe| recipe.name != EXTERNAL_RECIPE) {
            let options = options(&code);
            let needs_image = recipe.requires.iter().any(|option| option == "image");
            if needs_image && options.image.is_none() {
                continue;
            }
            let options = if needs_image { options } else { RecipeOptions::default() };
            recipe.name.clone_into(&mut checked.recipe);
            checked.options.clone_from(&options);
            let Ok(candidate) = project.with_api(&checked) else { continue };
            let Ok(tree) = Renderer::new(set)?.render(&candidate) else { continue };
            let mut score = 0;
            for (path, file) in &tree {
                let is_of_recipe = file.template.starts_with(&format!("recipes/{}/", recipe.name))
                    && file.subject.ends_with(&format!("{}/{}", gvk.version, gvk.kind));
                score += usize::from(is_of_recipe && self.is_written(path, &file.text)?);
            }
            if score > best.0 {
                best = (score, recipe.name, options);
            }
        }
        if best.0 == 0 {
            self.unknown.push(format!(
                "no recipe renders the files of {gvk} as they are: recorded as `{NO_RECIPE}`"
            ));
        }
        (_, checked.recipe, checked.options) = best;
        Ok(project.with_api(&checked)?)
    }

    /// The project with the controllers of core types: the objects of their tests name the types.
    fn with_core_types(&mut self, mut project: Project) -> Result<Project> {
        for path in self.disk.files_in("tests/objects")? {
            let value = LIMIT.parse(&self.text(&path)?.unwrap_or_default()).unwrap_or_default();
            let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
            let (group, version) = match field("apiVersion").split_once('/') {
                Some(parts) => parts,
                None => (builtin::CORE, field("apiVersion")),
            };
            let gvk = Gvk::new(group, version, field("kind"));
            let request = ApiRequest { gvk, ..ApiRequest::default() };
            let Ok(Some(mut request)) = request.for_core_type() else { continue };
            // Files of the test are named after the module, as those of the controller are.
            let name = path.strip_prefix("tests/objects/").unwrap_or(&path);
            let end = format!("_{}.yaml", Module::of_kind(&request.gvk.kind).file);
            request.module = name.strip_suffix(&end).map(str::to_owned);
            match self.recorded(&project, request) {
                Ok(new) => project = new,
                Err(error) => self.unknown.push(format!("{path}: {error}: not recorded")),
            }
        }
        Ok(project)
    }

    /// Compares what the model renders with what opctl wrote.
    fn compare(&mut self, project: &Project) -> Result<()> {
        let tree = Renderer::new(TemplateSet::current())?.render(project)?;
        let mut others = 0;
        for (path, file) in &tree {
            others += usize::from(!self.is_written(path, &file.text)?);
        }
        if others > 0 {
            self.unknown.push(format!(
                "{others} of {} files are neither what opctl wrote nor what it would write: compare them with `opctl diff`",
                tree.len()
            ));
        }
        Ok(())
    }
}

/// The options of a recipe with an image, from the constants of its controller and the defaults of its types.
fn options(code: &str) -> RecipeOptions {
    let constant = |start: &str| {
        let value = code.lines().find_map(|line| line.trim().strip_prefix(start));
        value.map(|value| value.trim_end_matches([';', ',']).trim().to_owned())
    };
    let words = |list: String| {
        let words = list.split_once("= ")?.1.trim_matches(['[', ']']).to_owned();
        let words: Vec<String> =
            words.split("\", \"").map(|word| word.trim_matches('"').to_owned()).collect();
        Some(words.join(","))
    };
    let port = code.split_once("fn default_container_port() -> i32 {");
    let port = port.and_then(|(_, body)| body.split('}').next());
    RecipeOptions {
        image: constant("const IMAGE: &str =").map(|image| image.trim_matches('"').to_owned()),
        container_command: constant("const COMMAND: [&str;").and_then(words),
        container_port: port.map(|port| port.trim().to_owned()),
        run_as_user: constant("const USER: i64 ="),
        ..RecipeOptions::default()
    }
}
