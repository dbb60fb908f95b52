//! What others' tools say of a generated project: of its alerts, workflows, manifests and scripts.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

mod tools;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_yaml::Value;
use tempfile::TempDir;

use self::tools::{Tools, finished};

/// A project with all optional parts, an API of each recipe that has scripts or manifests of its own, and the name
/// that alerts.yaml has.
fn project() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for words in [
        "init --domain example.com --project-name op",
        "create api --group cache --version v1 --kind Memcached",
        "create api --group db --version v1 --kind PostgresCluster",
        "create api --group web --version v1 --kind WebServer",
        "create api --group shop --version v1 --kind Cart",
        "edit --enable availability,cert-manager,grafana,network-policy,prometheus",
    ] {
        let mut opctl = Command::new(env!("CARGO_BIN_EXE_opctl"));
        finished(opctl.args(words.split(' ')).current_dir(&directory));
    }
    directory
}

/// The files below a directory whose names end so.
fn files(directory: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ends));
        } else if ends.iter().any(|end| path.to_str().unwrap().ends_with(end)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn own(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linters").join(file)
}

#[test]
fn alerts_fire_for_what_promtool_is_told() {
    let (tools, project) = (Tools::installed(), project());
    let manifest = fs::read_to_string(project.path().join("config/prometheus/rules.yaml"));
    let manifest: Value = serde_yaml::from_str(&manifest.unwrap()).unwrap();
    let tests = fs::read_to_string(own("alerts.yaml")).unwrap();

    let directory = tempfile::tempdir().unwrap();
    let mut promtool = tools.program("promtool");
    fs::write(
        directory.path().join("rules.yaml"),
        serde_yaml::to_string(&manifest["spec"]).unwrap(),
    )
    .unwrap();
    fs::write(directory.path().join("tests.yaml"), &tests).unwrap();
    promtool.current_dir(&directory).args(["check", "rules", "--lint=all", "--lint-fatal"]);
    finished(promtool.arg("rules.yaml"));

    // What they say is checked below: here it would be repeated.
    let mut rules = manifest["spec"].clone();
    let mut alerts = BTreeSet::new();
    let mut labels = BTreeSet::new();
    for rule in rules["groups"][0]["rules"].as_sequence_mut().unwrap() {
        let rule = rule.as_mapping_mut().unwrap();
        let alert = rule["alert"].as_str().unwrap().to_owned();
        let notes = serde_yaml::to_string(&rule.remove("annotations")).unwrap();
        let words = notes.split("$labels.").skip(1);
        let names = words.filter_map(|rest| rest.split([' ', '}']).next());
        labels.extend(names.map(|name| (alert.clone(), name.to_owned())));
        alerts.insert(alert);
    }
    fs::write(directory.path().join("rules.yaml"), serde_yaml::to_string(&rules).unwrap()).unwrap();
    let mut promtool = tools.program("promtool");
    finished(promtool.current_dir(&directory).args(["test", "rules", "tests.yaml"]));

    let tests: Value = serde_yaml::from_str(&tests).unwrap();
    let (mut fired, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    for check in tests["tests"].as_sequence().unwrap() {
        for check in check["alert_rule_test"].as_sequence().unwrap() {
            let alert = check["alertname"].as_str().unwrap().to_owned();
            match check.get("exp_alerts") {
                None => _ = quiet.insert(alert),
                Some(expected) => {
                    for name in expected[0]["exp_labels"].as_mapping().unwrap().keys() {
                        labels.remove(&(alert.clone(), name.as_str().unwrap().to_owned()));
                    }
                    fired.insert(alert);
                }
            }
        }
    }
    assert_eq!(fired, alerts, "each alert fires in a test");
    assert!(quiet.is_subset(&alerts), "{quiet:?}");
    assert!(labels.is_empty(), "annotations have labels that the alerts lack: {labels:?}");
}

#[test]
fn workflows_have_no_errors_and_no_weak_points() {
    let (tools, project) = (Tools::installed(), project());
    let workflows = files(&project.path().join(".github"), &[".yml"]);
    assert_eq!(workflows.len(), 2);
    // Also the commands in them.
    let shellcheck = tools.path("shellcheck");
    finished(tools.program("actionlint").arg("-shellcheck").arg(shellcheck).args(&workflows));
    finished(tools.program("zizmor").args(["--offline", "--no-progress"]).args(&workflows));
}

#[test]
fn manifests_and_workflows_are_clean_yaml() {
    let (tools, project) = (Tools::installed(), project());
    let files = files(project.path(), &[".yaml", ".yml"]);
    assert!(files.len() > 40, "{files:?}");
    let mut yamllint = tools.yamllint();
    finished(yamllint.arg("--strict").arg("-c").arg(own("yamllint.yaml")).args(&files));
}

/// What shellcheck says that is not so: `a= b=` empties two variables (SC1007), and a directory that is listed has names
/// of the scripts' own (SC2010).
const EXPECTED: &str = "SC1007,SC2010";

#[test]
fn scripts_have_no_traps() {
    let (tools, project) = (Tools::installed(), project());
    let directory = tempfile::tempdir().unwrap();
    let mut count = 0;
    for source in files(&project.path().join("src/controller"), &[".rs"]) {
        let text = fs::read_to_string(&source).unwrap();
        // A script may consist of several files, which share functions and variables.
        for constant in text.split("const ") {
            let parts = constant.split("include_str!(\"").skip(1);
            let parts = parts.filter_map(|rest| rest.split('"').next());
            let parts = parts.map(|part| fs::read_to_string(source.with_file_name(part)).unwrap());
            let script: String = parts.collect();
            if !script.is_empty() {
                count += 1;
                fs::write(directory.path().join(format!("{count}.sh")), script).unwrap();
            }
        }
    }
    assert!(count > 3, "{count} scripts");
    let mut shellcheck = tools.program("shellcheck");
    shellcheck.args(["--shell=sh", "--severity=warning", "--exclude", EXPECTED]);
    finished(shellcheck.args(files(directory.path(), &[".sh"])));
}
