//! Random `PROJECT` files.

use std::collections::BTreeSet;

use opctl::crd::{Crd, CrdSelector};
use opctl::project::{ApiRequest, Gvk, Project};
use opctl::render::{Renderer, TemplateSet};
use serde_yaml::Value;

use super::crds::{crds, project};
use super::sandbox::{self, Sandbox};
use super::sweep::{BINARY, assert_formatted, assert_harmless, assert_usable, reason, sweep};

/// The `PROJECT` files to begin with: with APIs of all origins, recipes, settings and unknown fields.
fn projects() -> Vec<String> {
    let gvk = |group: &str, version: &str, kind: &str| Gvk::new(group, version, kind);
    let mut project = project();
    let mut all = vec![project.to_text().unwrap()];
    for gvk in [
        gvk("cache", "v1alpha1", "Memcached"),
        gvk("cache", "v1", "Memcached"),
        gvk("web", "v1", "Shop"),
    ] {
        let request = ApiRequest { gvk, ..ApiRequest::default() };
        project = project.with_api(&project.check_api(request).unwrap()).unwrap();
    }
    let request = ApiRequest { gvk: gvk("apps", "v1", "Deployment"), ..ApiRequest::default() };
    let request = request.for_core_type().unwrap().unwrap();
    project = project.with_api(&project.check_api(request).unwrap()).unwrap();
    all.push(project.to_text().unwrap());
    let crd = Crd::read("", &crds()[0], CrdSelector::default()).unwrap();
    let api = project.check_api(crd.request(ApiRequest::default())).unwrap();
    let text = project.with_api(&api).unwrap().to_text().unwrap();
    let options = "recipe: image\n      options: {image: nginx, containerCommand: 'sh,-c', containerPort: '80', runAsUser: '1'}";
    let text =
        text.replace("license: apache2", "license: mit\n    owner: Zoë & Co\n    theirs: {a: [1]}");
    all.push(format!("{}theirs: [a, {{b: 1.5}}]\n", text.replacen("recipe: none", options, 1)));
    all
}

#[test]
fn random_projects_are_refused_or_preserved() {
    let seeds = projects();
    for seed in &seeds {
        assert_usable(&Project::parse(seed).unwrap());
    }
    let mut renderer = Renderer::new(TemplateSet::current()).unwrap();
    let mut sources = BTreeSet::new();
    sweep(&seeds, |text, case| {
        let project = Project::parse(text).map_err(reason)?;
        assert_preserved(text, &project.to_text().unwrap());
        assert_eq!(Project::parse(&project.to_text().unwrap()).unwrap(), project);
        let gvk = Gvk::new("next", "v1", "Next");
        let api = project.check_api(ApiRequest { gvk, ..ApiRequest::default() }).map_err(reason)?;
        let new = project.with_api(&api).map_err(reason)?;
        if case % BINARY == 0 {
            let tree = renderer.render(&new).map_err(reason)?;
            assert_harmless(&tree);
            let is_source = |path: &String| {
                let is_own = path.starts_with("src/api/") || path.starts_with("src/controller/");
                // rustfmt would look for the modules of a `mod.rs`.
                is_own && path.ends_with(".rs") && !path.ends_with("/mod.rs")
            };
            let own = tree.into_iter().filter(|(path, _)| is_source(path));
            sources.extend(own.map(|(_, file)| file.text.into_owned()));
            // A file of the project is there already, so the command may stop at a conflict.
            let sandbox = Sandbox::new();
            sandbox.write("PROJECT", text);
            let outside = sandbox.surroundings();
            let arguments =
                ["create", "api", "--group", "next", "--version", "v1", "--kind", "Next"];
            let output = sandbox.opctl(&arguments);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!stderr.contains(sandbox::is_hidden), "{stderr:?}");
            assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{stderr}");
            assert_eq!(sandbox.surroundings(), outside);
            if output.status.success() {
                assert_usable(&Project::parse(&sandbox.read("PROJECT")).unwrap());
            } else {
                assert_eq!(sandbox.read("PROJECT"), text);
            }
        }
        assert_usable(&new);
        Ok(())
    });
    assert_formatted(&sources);
}

/// Asserts that a text has all values of another one, except for those that are defaults.
fn assert_preserved(before: &str, after: &str) {
    fn missing(before: &Value, after: Option<&Value>) -> Option<Value> {
        match (before, after) {
            (Value::Mapping(fields), Some(after)) => {
                fields.iter().find_map(|(key, value)| missing(value, after.get(key)))
            }
            (Value::Sequence(items), Some(Value::Sequence(after)))
                if items.len() == after.len() =>
            {
                items.iter().zip(after).find_map(|(value, after)| missing(value, Some(after)))
            }
            (before, Some(after)) if before == after => None,
            (Value::Null, _) | (Value::Bool(false), None) => None,
            (Value::String(text), None) if text.is_empty() => None,
            (Value::Sequence(items), None) if items.is_empty() => None,
            (Value::Mapping(fields), None) => {
                fields.values().find_map(|value| missing(value, None))
            }
            (before, _) => Some(before.clone()),
        }
    }
    let parse = |text: &str| serde_yaml::from_str::<Value>(text).unwrap();
    let missing = missing(&parse(before), Some(&parse(after)));
    assert_eq!(missing, None, "{before}\n{after}");
}
