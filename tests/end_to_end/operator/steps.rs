//! The examples and steps in the comments of the recipe `none` compile and work when uncommented.

use crate::operator::machine::Machine;
use crate::operator::project::Project;
use crate::operator::wait::timed;

/// What a line of code in a comment starts with; prose has one space.
const CODE: &str = "//     ";

#[test]
fn commented_steps_work_when_uncommented() {
    let machine = Machine::new();
    let project = Project::init(&machine, "steps-operator", &[]);
    for (kind, args) in [("thing", "Thing"), ("wide", "Wide --namespaced=false")] {
        project.api(&format!("--group ops --version v1 --recipe none --kind {args}"));
        for path in [format!("src/api/ops/v1/{kind}.rs"), format!("src/controller/ops/{kind}.rs")] {
            project.write(&path, &uncommented(&project.read(&path)));
        }
        project.replace(&format!("tests/ops_{kind}.rs"), "\"NotImplemented\"", "\"Applied\"");
    }
    for target in ["fmt", "manifests", "lint", "test"] {
        timed(&format!("make {target} after the steps"), || project.make(target));
    }
}

/// The source with every line of code in a comment as code, and without the line that step 4 deletes.
fn uncommented(source: &str) -> String {
    assert!(source.contains(CODE), "there should be code in comments:\n{source}");
    let kept = source.lines().filter(|line| !line.contains("\"NotImplemented\""));
    let code = |line: &str| {
        let line = line.trim_start().strip_prefix(CODE).unwrap_or(line);
        format!("{line}\n")
    };
    kept.map(code).collect()
}
