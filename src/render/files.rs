//! The table of all generated files: their templates, their paths, what they are rendered for, and who
//! owns them.

use serde::Serialize;

use crate::project::License;

/// Who owns a rendered file, which decides how it is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ownership {
    /// Depends on the model alone; users do not edit it, as its header says.
    Generated,
    /// Written once, then owned by the user; updates are merged with the user's edits.
    Scaffolded,
    /// Written by `make manifests` or cargo from the user's code. In a conflict the user's version stays.
    Derived,
}

/// What a template is rendered once for each of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderPer {
    /// The project: rendered once.
    Project,
    /// The project, if it has this license.
    License(License),
    /// Each group.
    Group,
    /// Each group with a controller.
    ControllerGroup,
    /// Each version of each group.
    Version,
    /// Each kind: its storage version.
    Kind,
    /// Each kind, with the items of `spec.versions` of its CRD.
    Crd,
    /// Each kind with a controller: its storage version.
    Controller,
    /// Each further file of each controller: those in the directory `controller` of its recipe.
    ControllerPart,
    /// Each version of each kind.
    Resource,
    /// Each file of a tree of templates, which is copied as it is. `.in` at the end of a template's
    /// name goes: cargo packs no directory that has a `Cargo.toml`.
    Verbatim,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// The name of the template; `{recipe}` stands for the recipe of the resource, `{part}` for a file of it.
    pub template: &'static str,
    /// The path of the file, separated by `/`, with fields of the context in braces.
    pub path: &'static str,
    /// Who owns the file.
    pub ownership: Ownership,
    /// What the template is rendered for.
    pub per: RenderPer,
}

const fn file(
    template: &'static str,
    path: &'static str,
    ownership: Ownership,
    per: RenderPer,
) -> File {
    File { template, path, ownership, per }
}

/// A row for a template below `project` at the path of its file.
macro_rules! project {
    ($ownership:ident, $path:literal) => {
        file(concat!("project/", $path, ".tera"), $path, Ownership::$ownership, RenderPer::Project)
    };
}

/// All files of a project, sorted by directory.
pub const FILES: &[File] = &[
    project!(Scaffolded, ".dockerignore"),
    project!(Scaffolded, ".gitattributes"),
    project!(Scaffolded, ".github/workflows/lint.yml"),
    project!(Scaffolded, ".github/workflows/test.yml"),
    project!(Scaffolded, ".gitignore"),
    project!(Derived, "Cargo.lock"),
    project!(Scaffolded, "Cargo.toml"),
    project!(Scaffolded, "Dockerfile"),
    file(
        "project/LICENSE.apache2.tera",
        "LICENSE",
        Ownership::Scaffolded,
        RenderPer::License(License::Apache2),
    ),
    file(
        "project/LICENSE.mit.tera",
        "LICENSE",
        Ownership::Scaffolded,
        RenderPer::License(License::Mit),
    ),
    project!(Scaffolded, "Makefile"),
    project!(Scaffolded, "README.md"),
    file(
        "project/config/crd/bases/group_plural.yaml.tera",
        "config/crd/bases/{api_group}_{plural}.yaml",
        Ownership::Derived,
        RenderPer::Crd,
    ),
    project!(Scaffolded, "config/availability/kustomization.yaml"),
    project!(Scaffolded, "config/availability/pod_disruption_budget.yaml"),
    project!(Scaffolded, "config/availability/spread_patch.yaml"),
    project!(Generated, "config/crd/kustomization.yaml"),
    project!(Scaffolded, "config/default/kustomization.yaml"),
    project!(Scaffolded, "config/default/metrics_service.yaml"),
    project!(Scaffolded, "config/grafana/dashboard.json"),
    project!(Scaffolded, "config/grafana/kustomization.yaml"),
    project!(Scaffolded, "config/manager/kustomization.yaml"),
    project!(Scaffolded, "config/manager/manager.yaml"),
    project!(Scaffolded, "config/network-policy/allow_metrics_traffic.yaml"),
    project!(Scaffolded, "config/network-policy/kustomization.yaml"),
    project!(Scaffolded, "config/prometheus/kustomization.yaml"),
    project!(Scaffolded, "config/prometheus/monitor.yaml"),
    project!(Scaffolded, "config/prometheus/rules.yaml"),
    file(
        "project/config/rbac/group_kind_admin_role.yaml.tera",
        "config/rbac/{group}_{kind_lower}_admin_role.yaml",
        Ownership::Scaffolded,
        RenderPer::Kind,
    ),
    file(
        "project/config/rbac/group_kind_editor_role.yaml.tera",
        "config/rbac/{group}_{kind_lower}_editor_role.yaml",
        Ownership::Scaffolded,
        RenderPer::Kind,
    ),
    file(
        "project/config/rbac/group_kind_viewer_role.yaml.tera",
        "config/rbac/{group}_{kind_lower}_viewer_role.yaml",
        Ownership::Scaffolded,
        RenderPer::Kind,
    ),
    project!(Generated, "config/rbac/kustomization.yaml"),
    project!(Scaffolded, "config/rbac/leader_election_role.yaml"),
    project!(Scaffolded, "config/rbac/leader_election_role_binding.yaml"),
    project!(Scaffolded, "config/rbac/metrics_auth_role.yaml"),
    project!(Scaffolded, "config/rbac/metrics_auth_role_binding.yaml"),
    project!(Scaffolded, "config/rbac/metrics_reader_role.yaml"),
    project!(Derived, "config/rbac/role.yaml"),
    project!(Scaffolded, "config/rbac/role_binding.yaml"),
    project!(Scaffolded, "config/rbac/service_account.yaml"),
    project!(Generated, "config/samples/kustomization.yaml"),
    project!(Scaffolded, "docs/runbooks.md"),
    project!(Generated, "src/api/mod.rs"),
    file(
        "project/src/api/group/mod.rs.tera",
        "src/api/{group_file}/mod.rs",
        Ownership::Generated,
        RenderPer::Group,
    ),
    file(
        "project/src/api/group/version/mod.rs.tera",
        "src/api/{group_file}/{version}/mod.rs",
        Ownership::Generated,
        RenderPer::Version,
    ),
    project!(Generated, "src/bin/manifests.rs"),
    project!(Generated, "src/controller/mod.rs"),
    file(
        "project/src/controller/group/mod.rs.tera",
        "src/controller/{group_file}/mod.rs",
        Ownership::Generated,
        RenderPer::ControllerGroup,
    ),
    project!(Scaffolded, "src/lib.rs"),
    project!(Scaffolded, "src/main.rs"),
    file("runtime/{part}", "runtime/{part}", Ownership::Generated, RenderPer::Verbatim),
    project!(Generated, "tests/e2e.rs"),
    project!(Generated, "tests/manifests.rs"),
    file(
        "recipes/{recipe}/api.rs.tera",
        "src/api/{group_file}/{version}/{kind_file}.rs",
        Ownership::Scaffolded,
        RenderPer::Resource,
    ),
    file(
        "recipes/{recipe}/controller.rs.tera",
        "src/controller/{group_file}/{kind_file}.rs",
        Ownership::Scaffolded,
        RenderPer::Controller,
    ),
    file(
        "recipes/{recipe}/controller/{part}.tera",
        "src/controller/{group_file}/{kind_file}/{part}",
        Ownership::Scaffolded,
        RenderPer::ControllerPart,
    ),
    file(
        "recipes/{recipe}/test.rs.tera",
        "tests/{group_file}_{kind_file}.rs",
        Ownership::Scaffolded,
        RenderPer::Controller,
    ),
    file(
        "recipes/{recipe}/sample.yaml.tera",
        "config/samples/{group}_{version}_{kind_lower}.yaml",
        Ownership::Scaffolded,
        RenderPer::Resource,
    ),
];
