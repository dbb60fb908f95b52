//! Updates from templates that really differ. [`crate::operator`] shows that the result works.

pub mod edits;
pub mod old;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use opctl::project::{Feature, Project};
use opctl::render::TemplateSet;
use opctl::sync::{Codemods, PlanOptions, Workspace, read_templates};
use tempfile::TempDir;

use edits::{EDITS, Edit};

/// A directory with a project.
struct Place {
    _home: TempDir,
    project: PathBuf,
}

impl Place {
    /// A project of this opctl.
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("my-operator");
        fs::create_dir(&project).unwrap();
        let place = Self { _home: home, project };
        place.opctl("init --domain example.com");
        place.opctl("create api --group cache --version v1alpha1 --kind Memcached");
        place
    }

    /// The same one as the old opctl has made it.
    fn old() -> Self {
        let place = Self::new();
        old::make_old(&place.project);
        place
    }

    fn opctl(&self, args: &str) {
        let mut opctl = Command::new(env!("CARGO_BIN_EXE_opctl"));
        opctl.args(args.split(' ')).current_dir(&self.project);
        assert!(opctl.output().unwrap().status.success(), "opctl {args}");
    }

    fn update(&self) -> Output {
        let mut opctl = Command::new(env!("CARGO_BIN_EXE_opctl"));
        opctl.args(["update", "--no-check", "--templates"]).arg(old::templates());
        opctl.current_dir(&self.project).output().unwrap()
    }

    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut directories = vec![self.project.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let name = path.strip_prefix(&self.project).unwrap().to_owned();
                    files.insert(name, fs::read_to_string(path).unwrap());
                }
            }
        }
        files
    }
}

#[test]
fn a_project_without_edits_becomes_what_is_made_today() {
    let (old, new) = (Place::old(), Place::new());
    let output = old.update();
    assert!(output.status.success(), "{output:?}");
    let (updated, expected) = (old.files(), new.files());
    for path in updated.keys().chain(expected.keys()) {
        assert!(updated.get(path) == expected.get(path), "{}", path.display());
    }
}

#[test]
fn an_update_to_earlier_templates_and_back_keeps_edits() {
    let place = Place::new();
    let path = place.project.join("src/controller/cache/memcached.rs");
    fs::write(&path, fs::read_to_string(&path).unwrap() + "// mine\n").unwrap();
    let before = place.files();

    let target = read_templates(&old::templates()).unwrap();
    let workspace = Workspace::open(&place.project).unwrap();
    let project = workspace.project().unwrap();
    let new = project.with_version(old::VERSION).unwrap();
    let options = PlanOptions::default();
    let plan = workspace.plan_update(project, TemplateSet::current(), &new, target, &options);
    let plan = plan.unwrap();
    assert_eq!(plan.conflicts().next(), None);
    workspace.apply(&plan).unwrap();
    drop(workspace);

    let (earlier, expected) = (place.files(), Place::old().files());
    let edited = Path::new("src/controller/cache/memcached.rs");
    let is_same = |path: &Path| path != edited && path != Path::new("PROJECT.lock");
    for path in earlier.keys().chain(expected.keys()).filter(|path| is_same(path)) {
        assert!(earlier.get(path) == expected.get(path), "{}", path.display());
    }
    assert!(earlier[edited].ends_with("// mine\n"), "{}", earlier[edited]);
    let output = place.update();
    assert!(output.status.success(), "{output:?}");
    assert!(place.files() == before);
}

#[test]
fn each_edit_stays_without_a_conflict() {
    let new = Place::new().files();
    let base = Place::old().files();
    let check = |edit: &Edit| {
        let place = Place::old();
        (edit.make)(&place.project);
        let edited = place.files();
        let output = place.update();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {printed}", edit.name);
        assert_eq!(lost(&base, &edited, &place.files()), Vec::<String>::new(), "{}", edit.name);
        conflicts_in_git(&base, &edited, &new)
    };
    let by_git: usize = thread::scope(|scope| {
        let edits = EDITS.each_ref().map(|edit| scope.spawn(move || check(edit)));
        edits.into_iter().map(|edit| usize::from(edit.join().unwrap())).sum()
    });
    eprintln!("git would have conflicts in {by_git} of {} projects", EDITS.len());
    assert!(by_git > 0);
}

#[test]
fn all_edits_stay_together_without_a_conflict() {
    let place = Place::old();
    let base = place.files();
    for edit in &EDITS {
        (edit.make)(&place.project);
    }
    let edited = place.files();

    let output = place.update();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = place.files();
    assert_eq!(lost(&base, &edited, &files), Vec::<String>::new());
    // What was chosen by hand belongs to the model.
    let project = Project::parse(&files[Path::new("PROJECT")]).unwrap();
    assert_eq!(Vec::from_iter(project.features()), [&Feature::Prometheus]);
}

/// What an edit did that is not in the updated files: lines that it added, and files that it deleted.
fn lost(
    base: &BTreeMap<PathBuf, String>,
    edited: &BTreeMap<PathBuf, String>,
    updated: &BTreeMap<PathBuf, String>,
) -> Vec<String> {
    let has = |line: &String| {
        // The comment after a part of config/default is opctl's.
        let line = match line.split_once("  #") {
            Some((item, _)) if item.starts_with("- ../") => item.trim_end(),
            _ => line,
        };
        updated.values().any(|text| text.lines().any(|other| other == line))
    };
    let lines = added(&adapted(base), &adapted(edited)).into_iter().filter(|line| !has(line));
    let deleted = base.keys().filter(|path| !edited.contains_key(*path));
    let recreated = deleted.filter(|path| updated.contains_key(*path));
    lines.chain(recreated.map(|path| path.display().to_string())).collect()
}

/// The files with the names of today's runtime.
fn adapted(files: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
    let codemods = Codemods::between(old::VERSION, env!("CARGO_PKG_VERSION"));
    let adapt = |(path, text): (&PathBuf, &String)| {
        (path.clone(), codemods.rewrite(path.to_str().unwrap(), text))
    };
    files.iter().map(adapt).collect()
}

#[test]
fn code_that_calls_the_runtime_is_adapted_and_reported() {
    let place = Place::old();
    let edit = |name| EDITS.iter().find(|edit| edit.name == name).unwrap();
    for name in ["a second child", "a module"] {
        (edit(name).make)(&place.project);
    }
    let controller = "src/controller/cache/memcached.rs";
    let module = "src/controller/cache/memcached/settings.rs";

    let output = place.update();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let adapted = |path: &str, change: &str| format!("       adapt {path}: {change}\n");
    let store = "`Cache<$kind, $owner>` is now `Store<$kind>`";
    for change in [
        adapted(controller, store),
        adapted(controller, "`.field_manager` is now `.applier`"),
        adapted(module, store),
        adapted(module, "`.owned_by($owner)` is now `.by_owner($owner)`"),
        format!("       merge {module}\n"),
    ] {
        assert!(printed.contains(&change), "{change}{printed}");
    }
    let files = place.files();
    let text = |path: &str| &files[Path::new(path)];
    assert!(text(controller).contains("    services: Store<Service>,\n"));
    assert!(text(module).contains("    config_maps: Store<ConfigMap>,\n    applier: Applier,\n"));
}

/// The lines that no file had before, but for those of Rust: an edit may be a format.
fn added(base: &BTreeMap<PathBuf, String>, edited: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let is_rust = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
    let is_format = edited.contains_key(Path::new("rustfmt.toml"));
    let old: Vec<&str> = base.values().flat_map(|text| text.lines()).collect();
    let files = edited.iter().filter(|(path, _)| !(is_format && is_rust(path)));
    let lines = files.flat_map(|(_, text)| text.lines());
    lines.filter(|line| !old.contains(line)).map(str::to_owned).collect()
}

/// Whether `git merge`, with which kubebuilder's `alpha update` merges, would find a conflict.
fn conflicts_in_git(
    base: &BTreeMap<PathBuf, String>,
    ours: &BTreeMap<PathBuf, String>,
    theirs: &BTreeMap<PathBuf, String>,
) -> bool {
    let directory = tempfile::tempdir().unwrap();
    base.iter().any(|(path, base)| match (ours.get(path), theirs.get(path)) {
        (Some(ours), Some(theirs)) if ours == base || theirs == base || ours == theirs => false,
        (Some(ours), Some(theirs)) => {
            for (name, text) in [("ours", ours), ("base", base), ("theirs", theirs)] {
                fs::write(directory.path().join(name), text).unwrap();
            }
            let mut git = Command::new("git");
            git.args(["merge-file", "--stdout", "ours", "base", "theirs"]);
            !git.current_dir(directory.path()).output().unwrap().status.success()
        }
        // One side has deleted what the other has changed.
        (Some(other), None) | (None, Some(other)) => other != base,
        (None, None) => false,
    })
}
