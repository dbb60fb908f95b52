//! Kinds and whole projects that are carried over: the types follow from CRDs, and new CRDs from the types.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::operator::cluster::Cluster;
use crate::operator::docs::commands;
use crate::operator::machine::{Machine, turn};
use crate::operator::project::{Project, finished};
use crate::operator::wait::{timed, within};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_new_crd_is_to_the_api_server_what_the_old_one_is() {
    let machine = Machine::new();
    let project = Project::init(&machine, "widget-operator", &[]);
    let crds = Path::new(HERE).join("tests/crds");
    let old = crds.join("widget.yaml");
    project.api(&format!("--crd {} --own", old.display()));
    let new = PathBuf::from(project.path("config/crd/bases/shop.example.com_widgets.yaml"));
    let written = fs::read_to_string(&new).unwrap();
    timed("make manifests", || project.make("manifests"));
    assert_eq!(fs::read_to_string(&new).unwrap(), written, "opctl writes what the types say");

    let cluster = Cluster::start(&machine, "widgets");
    let objects = fs::read_to_string(crds.join("widget.objects.yaml")).unwrap();
    let mut objects: serde_yaml::Value = serde_yaml::from_str(&objects).unwrap();
    objects.as_sequence_mut().unwrap().iter_mut().for_each(|object| {
        object.get_mut("spec").unwrap().apply_merge().unwrap();
    });
    let objects = serde_json::to_value(objects).unwrap();
    let objects = objects.as_array().unwrap();
    let judge = |crd: &Path| judgements(&cluster, crd, objects);
    let (old, new) = (judge(&old), judge(&new));
    for ((object, old), new) in objects.iter().zip(&old).zip(&new) {
        assert_eq!(old.is_ok(), object["valid"] == true, "{object}: {old:?}");
        assert_eq!(old.is_ok(), new.is_ok(), "{object}: {old:?}, {new:?}");
        if let (Ok(old), Ok(new)) = (old, new) {
            assert_eq!(old, new, "defaults of {object}");
        }
    }
}

/// The spec of each object as the API server would store it, or why it would not.
fn judgements(cluster: &Cluster, crd: &Path, objects: &[Value]) -> Vec<Result<Value, String>> {
    let name = "crd/widgets.shop.example.com";
    cluster.ok(&["delete", name, "--ignore-not-found"]);
    cluster.ok(&["apply", "--server-side", "-f", crd.to_str().unwrap()]);
    cluster.ok(&["wait", "--for=condition=Established", name, "--timeout=60s"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let try_create = |object: &Value| {
        let object = json!({
            "apiVersion": "shop.example.com/v1",
            "kind": "Widget",
            "metadata": { "name": object["name"].as_str().unwrap_or("a"), "namespace": "default" },
            "spec": object["spec"],
        });
        fs::write(path, object.to_string()).unwrap();
        let args = ["create", "--dry-run=server", "--validate=ignore", "-o", "json", "-f", path];
        let output = cluster.kubectl(&args);
        match output.status.success() {
            true => Ok(serde_json::from_slice::<Value>(&output.stdout).unwrap()["spec"].clone()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    // The API server serves a new definition a moment after it is established.
    within(std::time::Duration::from_secs(60), "definition that is served", || {
        try_create(&objects[0])
    });
    objects.iter().map(try_create).collect()
}

/// The directory that `OPCTL_GO_PROJECTS` names is searched for projects of kubebuilder and operator-sdk, such as a
/// checkout of theirs, whose test data they are. Each becomes a project that compiles, or is refused with a hint.
#[test]
#[ignore = "needs a directory with Go projects in OPCTL_GO_PROJECTS"]
fn go_projects_become_projects_that_compile() {
    let directory = std::env::var_os("OPCTL_GO_PROJECTS").expect("OPCTL_GO_PROJECTS names it");
    let mut projects = Vec::new();
    find(Path::new(&directory), &mut projects);
    assert!(!projects.is_empty(), "no PROJECT below {}", directory.display());
    let machine = Machine::new();
    for (i, go) in projects.iter().enumerate() {
        let target = machine.home().join(format!("migrated-{i}"));
        fs::create_dir(&target).unwrap();
        let mut opctl = machine.command(env!("CARGO_BIN_EXE_opctl"));
        let output = opctl.args(["init", "--from"]).arg(go).current_dir(&target).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            assert!(printed.contains("\nhint: "), "{}: {printed}", go.display());
            eprintln!("{}: {printed}", go.display());
            continue;
        }
        let _turn = turn("migrated");
        let mut check = machine.command("cargo");
        check.args(["check", "--all-targets"]).current_dir(&target);
        timed(&format!("check of {}", go.display()), || {
            finished("cargo check", check.output().unwrap());
        });
    }
}

/// The directories that contain a `PROJECT`.
fn find(directory: &Path, projects: &mut Vec<PathBuf>) {
    if directory.join("PROJECT").is_file() {
        projects.push(directory.to_owned());
        return;
    }
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap()).collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        if entry.file_type().unwrap().is_dir() && entry.file_name() != ".git" {
            find(&entry.path(), projects);
        }
    }
}

#[test]
fn the_page_about_migration_works() {
    let machine = Machine::new();
    let go = machine.home().join("pond-operator");
    fs::create_dir(&go).unwrap();
    // The Go project of a test of `opctl init --from`.
    let setup = Path::new(HERE).join("tests/cases/init-from/setup");
    let setup = fs::read_to_string(setup).unwrap().replace("mkdir -p ../go && cd ../go", "");
    let mut shell = machine.command("sh");
    finished("setup", shell.args(["-ec", &setup]).current_dir(&go).output().unwrap());

    let _turn = turn("migration");
    for (number, script) in commands("docs/migrate.md").iter().enumerate() {
        let empty = machine.home().join(format!("rust-{number}"));
        fs::create_dir(&empty).unwrap();
        let mut shell = machine.command("bash");
        finished(script, shell.args(["-ec", script]).current_dir(&empty).output().unwrap());
        assert!(empty.join("src/controller/park/pond.rs").exists(), "{script}");
    }
}
