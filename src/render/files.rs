//! The table of all files that a project has: which template makes them, for what, and whose they are.

use crate::project::License;

/// Whose a generated file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A function of the model alone; its header says so.
    Owned,
    /// Written once, the user's from then on.
    Seeded,
    /// Written from the user's code by `make manifests` or by cargo. A conflict in one is none.
    Derived,
}

/// For what a template is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// The project.
    Project,
    /// The project, with one license.
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
    /// Each further part of each controller: what its recipe has in the folder `controller`.
    ControllerPart,
    /// Each version of each kind.
    Resource,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// The template's name; `{recipe}` stands for the resource's recipe, `{part}` for a part of it.
    pub template: &'static str,
    /// Where the file goes, with `/` between the parts and fields of the context in braces.
    pub path: &'static str,
    /// Whose it is.
    pub class: Class,
    /// What it is rendered for.
    pub for_each: For,
}

const fn file(template: &'static str, path: &'static str, class: Class, for_each: For) -> File {
    File { template, path, class, for_each }
}

/// A row for a template that lies where its file goes.
macro_rules! project {
    ($class:ident, $path:literal) => {
        file(concat!("project/", $path, ".tera"), $path, Class::$class, For::Project)
    };
}

/// The files of a project, by folder.
pub const FILES: &[File] = &[
    project!(Seeded, ".dockerignore"),
    project!(Seeded, ".github/workflows/lint.yml"),
    project!(Seeded, ".github/workflows/test.yml"),
    project!(Seeded, ".gitignore"),
    project!(Derived, "Cargo.lock"),
    project!(Seeded, "Cargo.toml"),
    project!(Seeded, "Dockerfile"),
    file("project/LICENSE.apache2.tera", "LICENSE", Class::Seeded, For::License(License::Apache2)),
    file("project/LICENSE.mit.tera", "LICENSE", Class::Seeded, For::License(License::Mit)),
    project!(Seeded, "Makefile"),
    project!(Seeded, "README.md"),
    file(
        "project/config/crd/bases/group_plural.yaml.tera",
        "config/crd/bases/{api_group}_{plural}.yaml",
        Class::Derived,
        For::Crd,
    ),
    project!(Seeded, "config/availability/kustomization.yaml"),
    project!(Seeded, "config/availability/pod_disruption_budget.yaml"),
    project!(Seeded, "config/availability/spread_patch.yaml"),
    project!(Owned, "config/crd/kustomization.yaml"),
    project!(Seeded, "config/default/kustomization.yaml"),
    project!(Seeded, "config/default/metrics_service.yaml"),
    project!(Seeded, "config/grafana/dashboard.json"),
    project!(Seeded, "config/grafana/kustomization.yaml"),
    project!(Seeded, "config/manager/kustomization.yaml"),
    project!(Seeded, "config/manager/manager.yaml"),
    project!(Seeded, "config/network-policy/allow_metrics_traffic.yaml"),
    project!(Seeded, "config/network-policy/kustomization.yaml"),
    project!(Seeded, "config/prometheus/kustomization.yaml"),
    project!(Seeded, "config/prometheus/monitor.yaml"),
    project!(Seeded, "config/prometheus/rules.yaml"),
    file(
        "project/config/rbac/group_kind_admin_role.yaml.tera",
        "config/rbac/{group}_{kind_lower}_admin_role.yaml",
        Class::Seeded,
        For::Kind,
    ),
    file(
        "project/config/rbac/group_kind_editor_role.yaml.tera",
        "config/rbac/{group}_{kind_lower}_editor_role.yaml",
        Class::Seeded,
        For::Kind,
    ),
    file(
        "project/config/rbac/group_kind_viewer_role.yaml.tera",
        "config/rbac/{group}_{kind_lower}_viewer_role.yaml",
        Class::Seeded,
        For::Kind,
    ),
    project!(Owned, "config/rbac/kustomization.yaml"),
    project!(Seeded, "config/rbac/leader_election_role.yaml"),
    project!(Seeded, "config/rbac/leader_election_role_binding.yaml"),
    project!(Seeded, "config/rbac/metrics_auth_role.yaml"),
    project!(Seeded, "config/rbac/metrics_auth_role_binding.yaml"),
    project!(Seeded, "config/rbac/metrics_reader_role.yaml"),
    project!(Derived, "config/rbac/role.yaml"),
    project!(Seeded, "config/rbac/role_binding.yaml"),
    project!(Seeded, "config/rbac/service_account.yaml"),
    project!(Owned, "config/samples/kustomization.yaml"),
    project!(Seeded, "docs/runbooks.md"),
    project!(Owned, "src/api/mod.rs"),
    file(
        "project/src/api/group/mod.rs.tera",
        "src/api/{group_file}/mod.rs",
        Class::Owned,
        For::Group,
    ),
    file(
        "project/src/api/group/version/mod.rs.tera",
        "src/api/{group_file}/{version}/mod.rs",
        Class::Owned,
        For::Version,
    ),
    project!(Owned, "src/bin/manifests.rs"),
    project!(Owned, "src/bin/rbac_audit.rs"),
    project!(Owned, "src/controller/mod.rs"),
    file(
        "project/src/controller/group/mod.rs.tera",
        "src/controller/{group_file}/mod.rs",
        Class::Owned,
        For::ControllerGroup,
    ),
    project!(Seeded, "src/lib.rs"),
    project!(Seeded, "src/main.rs"),
    project!(Owned, "src/manager/attempts.rs"),
    project!(Owned, "src/manager/auth.rs"),
    project!(Owned, "src/manager/cache.rs"),
    project!(Owned, "src/manager/client.rs"),
    project!(Owned, "src/manager/conditions.rs"),
    project!(Owned, "src/manager/controller.rs"),
    project!(Owned, "src/manager/drift.rs"),
    project!(Owned, "src/manager/error.rs"),
    project!(Owned, "src/manager/events.rs"),
    project!(Owned, "src/manager/field_manager.rs"),
    project!(Owned, "src/manager/field_manager/lifetime.rs"),
    project!(Owned, "src/manager/health.rs"),
    project!(Owned, "src/manager/index.rs"),
    project!(Owned, "src/manager/leader.rs"),
    project!(Owned, "src/manager/leader/tests.rs"),
    project!(Owned, "src/manager/leadership.rs"),
    project!(Owned, "src/manager/metrics.rs"),
    project!(Owned, "src/manager/mod.rs"),
    project!(Owned, "src/manager/object.rs"),
    project!(Owned, "src/manager/options.rs"),
    project!(Owned, "src/manager/pod.rs"),
    project!(Owned, "src/manager/process.rs"),
    project!(Owned, "src/manager/queue.rs"),
    project!(Owned, "src/manager/rbac.rs"),
    project!(Owned, "src/manager/rollout.rs"),
    project!(Owned, "src/manager/server.rs"),
    project!(Owned, "src/manager/telemetry.rs"),
    project!(Owned, "src/manager/tls.rs"),
    project!(Owned, "src/manager/trimmed.rs"),
    project!(Owned, "src/manager/workload.rs"),
    project!(Owned, "tests/common/mod.rs"),
    project!(Owned, "tests/common/process.rs"),
    project!(Owned, "tests/common/service_account.rs"),
    project!(Owned, "tests/e2e.rs"),
    project!(Owned, "tests/manager.rs"),
    project!(Owned, "tests/manifests.rs"),
    file(
        "recipes/{recipe}/api.rs.tera",
        "src/api/{group_file}/{version}/{kind_file}.rs",
        Class::Seeded,
        For::Resource,
    ),
    file(
        "recipes/{recipe}/controller.rs.tera",
        "src/controller/{group_file}/{kind_file}.rs",
        Class::Seeded,
        For::Controller,
    ),
    file(
        "recipes/{recipe}/controller/{part}.tera",
        "src/controller/{group_file}/{kind_file}/{part}",
        Class::Seeded,
        For::ControllerPart,
    ),
    file(
        "recipes/{recipe}/test.rs.tera",
        "tests/{group_file}_{kind_file}.rs",
        Class::Seeded,
        For::Controller,
    ),
    file(
        "recipes/{recipe}/sample.yaml.tera",
        "config/samples/{group}_{version}_{kind_lower}.yaml",
        Class::Seeded,
        For::Resource,
    ),
];
