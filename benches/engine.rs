//! Benchmarks of the engine: a new project, and another kind in a project of 200.

#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use opctl::project::{ApiRequest, Gvk, Project};
use opctl::render::{Renderer, TemplateSet};
use opctl::sync::{PlanOptions, Workspace};

fn add(project: &Project, number: usize) -> Project {
    let gvk = Gvk::new(format!("group{}", number % 10), "v1alpha1", format!("Kind{number}"));
    let request = ApiRequest { gvk, ..ApiRequest::default() };
    project.with_api(&project.check_api(request).unwrap()).unwrap()
}

fn project_with(kinds: usize) -> Project {
    (0..kinds).fold(Project::new("my-operator".to_owned()), |project, number| add(&project, number))
}

fn render(criterion: &mut Criterion) {
    for kinds in [0, 1, 200] {
        let project = project_with(kinds);
        criterion.bench_function(&format!("render {kinds} kinds, templates parsed"), |bencher| {
            let mut renderer = Renderer::new(TemplateSet::current()).unwrap();
            bencher.iter(|| renderer.render(&project).unwrap());
        });
        criterion.bench_function(&format!("render {kinds} kinds"), |bencher| {
            bencher
                .iter(|| Renderer::new(TemplateSet::current()).unwrap().render(&project).unwrap());
        });
        let text = project.to_text().unwrap();
        criterion.bench_function(&format!("parse a PROJECT of {kinds} kinds"), |bencher| {
            bencher.iter(|| Project::parse(&text).unwrap());
        });
    }
}

/// Renders both models, reads what differs, and merges it with edits in every registry.
fn plan(criterion: &mut Criterion) {
    for kinds in [0, 200] {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (project_with(kinds), project_with(kinds + 1));
        let workspace = Workspace::at(directory.path()).unwrap();
        workspace.apply(&workspace.plan(None, &old, &PlanOptions::default()).unwrap()).unwrap();
        for registry in ["src/api/mod.rs", "src/controller/mod.rs", "config/crd/kustomization.yaml"]
        {
            let path = directory.path().join(registry);
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(path, format!("{text}\n# mine\n")).unwrap();
        }
        criterion.bench_function(&format!("plan kind {}", kinds + 1), |bencher| {
            bencher.iter(|| workspace.plan(Some(&old), &new, &PlanOptions::default()).unwrap());
        });
    }
}

criterion_group! {
    name = engine;
    config = Criterion::default().sample_size(20);
    targets = render, plan
}
criterion_main!(engine);
