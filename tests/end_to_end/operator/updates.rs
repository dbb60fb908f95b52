//! A project of an old opctl, edited in many ways, and updated.

use crate::operator::machine::{Machine, build_directory};
use crate::operator::project::{Project, finished};
use crate::operator::wait::timed;
use crate::update::{edits, old};

#[test]
fn an_edited_project_works_after_an_update() {
    let machine = Machine::new();
    let project = Project::init(&machine, "updated-operator", &[]);
    project.api("--group cache --version v1alpha1 --kind Memcached");
    let directory = project.path("");
    old::make_old(directory.as_ref());
    for edit in &edits::EDITS {
        timed(edit.name, || (edit.make)(directory.as_ref()));
    }

    let mut opctl = project.command(env!("CARGO_BIN_EXE_opctl"));
    opctl.args(["update", "--templates"]).arg(old::templates());
    // The runtime that it compiles to check the update is not that of the other projects.
    opctl.env("CARGO_BUILD_BUILD_DIR", build_directory().join("update"));
    finished("opctl update", timed("opctl update", || opctl.output().unwrap()));
    project.keep_times();
    for target in ["fmt", "manifests", "lint", "test"] {
        timed(&format!("make {target} after the update"), || project.make(target));
    }
    assert!(project.read("config/crd/bases/cache.example.com_memcacheds.yaml").contains("memory:"));
}
