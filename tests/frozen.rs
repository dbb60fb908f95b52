//! What the templates of releases render to, which no later opctl may change: it is the base of updates.
//! `SNAPSHOTS=overwrite cargo test --test frozen` writes it down for a new one, as `frozen/README.md` says.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use opctl::hash::Hash;
use opctl::project::options::RecipeOptions;
use opctl::project::{ApiRequest, Gvk, License, Project, Settings};
use opctl::render::{Renderer, TemplateSet};
use opctl::sync::read_templates;
use snapbox::{Assert, Data};

#[test]
fn releases_render_to_what_they_did() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let assert = Assert::new().action_env("SNAPSHOTS");
    let mut count = 0;
    // One from before the first release, which differs from all later ones.
    for frozen in ["frozen", "tests/frozen"] {
        for directory in directories(&root.join(frozen)) {
            let golden = directory.with_file_name(format!("{}.golden", name(&directory)));
            assert.eq(hashes(read_templates(&directory).unwrap()), Data::read_from(&golden, None));
            count += 1;
        }
    }
    assert!(count > 0);
}

fn directories(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
}

fn name(directory: &Path) -> &str {
    directory.file_name().unwrap().to_str().unwrap()
}

/// A line for each file of two projects: its hash, the project, and its path.
fn hashes(set: &'static TemplateSet) -> String {
    let mut lines = String::new();
    for (name, project) in [("plain", plain()), ("all", all(set))] {
        for (path, file) in Renderer::new(set).unwrap().render(&project).unwrap() {
            writeln!(lines, "{} {name} {path}", Hash::of(file.text.as_bytes())).unwrap();
        }
    }
    lines
}

/// A project without an API, and with other settings than the default ones.
fn plain() -> Project {
    let settings = Settings {
        license: Some(License::Mit),
        owner: Some("Example Authors".to_owned()),
        namespaced: Some(true),
        ..Settings::default()
    };
    Project::new("plain-operator".to_owned()).with_settings(settings).unwrap()
}

/// A project with a kind of each recipe, and a second version of one.
fn all(set: &TemplateSet) -> Project {
    let mut project = Project::new("all-operator".to_owned());
    for (recipe, kind) in set.recipes().unwrap().into_iter().zip('A'..='Z') {
        for version in ["v1", "v2"] {
            let gvk = Gvk::new("apps", version, format!("{kind}Kind"));
            let image = recipe.requires.contains(&"image".to_owned());
            let options = RecipeOptions {
                image: image.then(|| "example.com/image:1.0".to_owned()),
                ..RecipeOptions::default()
            };
            let mut api = project.check_api(ApiRequest { gvk, ..ApiRequest::default() }).unwrap();
            recipe.name.clone_into(&mut api.recipe);
            api.options = options;
            project = project.with_api(&api).unwrap();
            if kind != 'A' {
                break;
            }
        }
    }
    project
}
