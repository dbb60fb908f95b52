//! Every recipe that there is: its project is clean, its operator permitted exactly what it uses, and
//! what it makes admitted where the strictest Pod Security is enforced.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use opctl::project::options::{RecipeOptions, flag};
use opctl::project::{ApiRequest, Gvk, Project as Model};
use opctl::render::recipes::Recipe;
use opctl::render::{Renderer, TemplateSet, Tree};
use serde_json::json;

use crate::operator::cluster::Cluster;
use crate::operator::machine::Machine;
use crate::operator::project::Project;
use crate::operator::projects::accepts;
use crate::operator::wait::{eventually, timed};

/// The values of options that a recipe requires.
const VALUES: [(&str, &str); 1] = [("image", "nginxinc/nginx-unprivileged:1.29.4-alpine")];

const EXACTLY: &str = "the operator is permitted exactly what it uses";

#[test]
fn every_recipe_is_permitted_exactly_what_it_uses() {
    let machine = Machine::new();
    // Started here, it stays for the rest.
    let cluster = Cluster::start(&machine, "rbac-audit-here");
    for recipe in recipes() {
        let project = Project::init(&machine, &format!("{}-operator", recipe.name), &[]);
        project.api(&api(&recipe));
        is_permitted_what_it_uses(&cluster, &project);
    }
}

/// With a recipe that no line of Rust here knows, and with a controller of somebody else's kind.
#[test]
fn all_recipes_are_clean_together_and_their_pods_are_restricted() {
    let machine = Machine::new();
    let project = Project::init(&machine, "all-operator", &[]);
    for recipe in recipes() {
        project.api(&api(&recipe));
    }
    project.api("--group batch --version v1 --kind Job --resource=false");
    greet(&project);
    let before = project.snapshot();
    for target in ["lint", "manifests"] {
        project.make(target);
        project.assert_unchanged(&before, &format!("make {target}"));
    }

    let operator = project.run();
    let cluster = Cluster::running(&machine, "opctl");
    enforce(&cluster, "default");
    project.make("sample");
    for recipe in recipes() {
        let sample = format!("{}-sample", kind(&recipe).to_lowercase());
        eventually(&format!("children of {sample}"), || ready(&cluster, &recipe, &sample));
    }
    drop(operator);
}

/// The recipe of tests/recipes is one. Its code is linted with that of the others, above.
#[test]
fn a_recipe_is_nothing_but_files() {
    let machine = Machine::new();
    let project = Project::init(&machine, "greeting-operator", &[]);
    greet(&project);
    let cluster = Cluster::start(&machine, "rbac-audit-here");
    is_permitted_what_it_uses(&cluster, &project);
}

/// Adds a kind with the recipe of tests/recipes.
fn greet(project: &Project) {
    let mut sources = BTreeMap::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    collect(&root.join("templates"), "", &mut sources);
    collect(&root.join("tests/recipes"), "recipes/", &mut sources);
    let set: &'static TemplateSet = Box::leak(Box::new(TemplateSet::new(sources)));
    for (path, text) in tree(set, &project.read("PROJECT")) {
        project.write(&path, &text);
    }
}

/// What `opctl create api --group web --version v1 --kind Greeting` would make with the set.
fn tree(set: &'static TemplateSet, project: &str) -> Vec<(String, String)> {
    let model = Model::parse(project).unwrap();
    let gvk = Gvk::new("web", "v1", "Greeting");
    let recipe = set.choose_recipe(None, &gvk.kind, &RecipeOptions::default()).unwrap().name;
    assert_eq!(recipe, "greeting");
    let mut api = model.check_api(ApiRequest { gvk, ..ApiRequest::default() }).unwrap();
    api.recipe = recipe;
    let model = model.with_api(&api).unwrap();
    let tree: Tree = Renderer::new(set).unwrap().render(&model).unwrap();
    tree.into_iter().map(|(path, file)| (path, file.text.into_owned())).collect()
}

fn collect(folder: &Path, prefix: &str, sources: &mut BTreeMap<String, &'static str>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            collect(&path, &format!("{name}/"), sources);
        } else {
            sources.insert(name, fs::read_to_string(path).unwrap().leak());
        }
    }
}

/// Those that `opctl create api --list-recipes` names.
pub fn recipes() -> Vec<Recipe> {
    TemplateSet::current().recipes().unwrap()
}

/// The kind that a user takes the recipe for.
fn kind(recipe: &Recipe) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let from_name = || recipe.name.split('-').map(capital).collect();
    recipe.kinds.first().cloned().unwrap_or_else(from_name)
}

fn api(recipe: &Recipe) -> String {
    format!("--group apps --version v1 --kind {} {}", kind(recipe), flags(recipe))
}

/// What makes `create api` take a recipe.
pub fn flags(recipe: &Recipe) -> String {
    let mut flags = format!("--recipe {}", recipe.name);
    for name in &recipe.requires {
        let (_, value) = VALUES.into_iter().find(|(known, _)| known == name).unwrap();
        flags.push_str(&format!(" {} {value}", flag(name)));
    }
    flags
}

/// `make rbac-audit` runs the tests, as `make test` would. The API server takes the manifests and the sample where the
/// strictest Pod Security is enforced.
fn is_permitted_what_it_uses(cluster: &Cluster, project: &Project) {
    let before = project.snapshot();
    // What another operator has used is not used by this one.
    File::create(&cluster.audit_log).unwrap();
    let printed =
        timed(&format!("make rbac-audit in {}", project.name()), || project.make("rbac-audit"));
    assert!(printed.contains(EXACTLY), "{printed}");
    project.assert_unchanged(&before, "make rbac-audit");
    let namespace = format!("{}-system", project.name());
    cluster.ok(&["create", "namespace", &namespace]);
    enforce(cluster, &namespace);
    accepts(cluster, project, "config/default");
    project.make_on(cluster, "install");
    enforce(cluster, "default");
    accepts(cluster, project, "config/samples");
}

/// Lets a namespace admit restricted pods only.
fn enforce(cluster: &Cluster, namespace: &str) {
    let label = "pod-security.kubernetes.io/enforce=restricted";
    cluster.ok(&["label", "--overwrite", "namespace", namespace, label]);
    let root = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "root", "namespace": namespace },
        "spec": { "containers": [{ "name": "root", "image": "root" }] },
    });
    let refusal = cluster.refusal(&root);
    assert!(refusal.contains("violates PodSecurity"), "{refusal}");
}

/// Whether the sample has all pods that it asks for, if its recipe makes any.
fn ready(cluster: &Cluster, recipe: &Recipe, sample: &str) -> Result<(), String> {
    let makes = |what: &str| recipe.rules.iter().any(|rule| rule.resource == what);
    for resource in ["deployments", "statefulsets"].into_iter().filter(|what| makes(what)) {
        let list = cluster.get(&[resource]);
        let items = list["items"].as_array().into_iter().flatten();
        let mut own = items.filter(|item| item["metadata"]["ownerReferences"][0]["name"] == sample);
        let is_ready = own.next().is_some_and(|item| {
            item["spec"]["replicas"] != 0
                && item["status"]["readyReplicas"] == item["spec"]["replicas"]
        });
        if !is_ready {
            return Err(list.to_string());
        }
    }
    let object = cluster.get(&[&kind(recipe), sample]);
    let is_observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    is_observed.then_some(()).ok_or_else(|| object.to_string())
}
