//! Random CRDs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use opctl::crd::{Crd, CrdSelector};
use opctl::project::{ApiRequest, Project};
use opctl::render::extra_files;
use serde_yaml::Value;

use super::sandbox::{self, Sandbox};
use super::sweep::{BINARY, assert_formatted, assert_harmless, assert_usable, reason, sweep};

/// The CRDs of the tests and of `OPCTL_SWEEP_CRDS`, one a text.
pub fn crds() -> Vec<String> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crds");
    let mut directories = vec![own];
    directories.extend(std::env::var_os("OPCTL_SWEEP_CRDS").map(PathBuf::from));
    let mut crds = BTreeMap::new();
    while let Some(path) = directories.pop() {
        if path.is_dir() {
            directories.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if path.extension().is_none_or(|end| end != "yaml") || !text.contains("openAPIV3Schema") {
            continue;
        }
        for document in text.split("\n---") {
            if let Ok(crd) = Crd::read("", document, CrdSelector::default()) {
                crds.insert((crd.group, crd.kind), crd.manifest);
            }
        }
    }
    crds.into_values().collect()
}

/// A project without APIs.
pub fn project() -> Project {
    Project::parse(&Sandbox::new().read("PROJECT")).unwrap()
}

/// What the command does, without the disk: the project and the types, or the error.
pub fn create(project: &Project, crd: &str) -> Result<(Project, String), String> {
    let crd = Crd::read("crd.yaml", crd, CrdSelector::default()).map_err(reason)?;
    let api = project.check_api(crd.request(ApiRequest::default())).map_err(reason)?;
    let new = project.with_api(&api).map_err(reason)?;
    let extra = extra_files(&new, &api, Some(&crd)).map_err(reason)?;
    assert_harmless(&extra);
    let types = extra.iter().find(|(path, _)| path.starts_with("src/api/")).unwrap();
    Ok((new, types.1.text.to_string()))
}

#[test]
fn random_crds_are_refused_or_harmless() {
    let (seeds, project) = (crds(), project());
    println!("{} CRDs to begin with", seeds.len());
    let mut sources = BTreeSet::new();
    let mut through_the_binary = 0;
    sweep(&seeds, |text, case| {
        let result = create(&project, text);
        if result.as_ref().is_err_and(|reason| reason.contains("nested more than 100 levels")) {
            let value = serde_yaml::from_str(text);
            assert!(value.is_err() || depth(&value.unwrap()) > 100, "nested less deeply");
        }
        if case % BINARY == 0 {
            through_the_binary += 1;
            let sandbox = Sandbox::new();
            let crd = sandbox.crd(text);
            let before = sandbox.tree();
            let outside = sandbox.surroundings();
            let output = sandbox.opctl(&["create", "api", "--crd", &crd]);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!stderr.contains(sandbox::is_hidden), "{stderr:?}");
            assert_eq!(output.status.success(), result.is_ok(), "{stderr}");
            if result.is_ok() {
                assert_eq!(sandbox.surroundings(), outside);
                sandbox.assert_usable();
            } else {
                assert!(matches!(output.status.code(), Some(1 | 2)), "{output:?}");
                assert_eq!(sandbox.tree(), before);
            }
        }
        let (new, types) = result?;
        assert_usable(&new);
        sources.insert(types);
        Ok(())
    });
    println!("{through_the_binary} through the binary, {} different types", sources.len());
    assert_formatted(&sources);
}

/// The nesting of a value.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Mapping(fields) => fields.values().map(depth).max(),
        Value::Sequence(items) => items.iter().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or_default()
}
