//! `MIGRATION.md`: what has become of each file of the Go project, and what is left to do.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Source;
use super::kinds::Kinds;
use super::rbac::{self, Rule};
use crate::project::{FILE, Project, Resource, names::Module};
use crate::render::{RenderedFile, Tree};
use crate::text::one_line;

/// The report.
pub struct Report<'a> {
    pub source: &'a Source,
    pub project: &'a Project,
    pub kinds: &'a Kinds,
    /// The samples that were carried over by their paths: group, kind and version.
    pub samples: &'a BTreeMap<String, (String, String, String)>,
    pub rules: &'a BTreeMap<String, Vec<Rule>>,
    pub to_do: &'a [String],
}

/// The targets of the Makefile that are called otherwise, or are not needed.
const TARGETS: &[(&str, &str)] = &[
    ("all", "`make build`"),
    ("generate", "not needed: nothing is generated from the types but the CRDs"),
    ("vet", "`make lint`"),
    ("fmt", "`make fmt`"),
    ("lint-fix", "`make fmt`, and `cargo clippy --fix`"),
    ("lint-config", "`make lint`"),
    ("setup-test-e2e", "not needed: `make test` starts a local control plane"),
    ("cleanup-test-e2e", "not needed: `make test` starts a local control plane"),
    ("test-e2e", "`make test`"),
    ("setup-envtest", "not needed: `make test` starts a local control plane"),
    ("envtest", "not needed: `make test` starts a local control plane"),
    ("kustomize", "not needed: kubectl has it"),
    ("controller-gen", "not needed: `make manifests` is a program of the project"),
    ("golangci-lint", "not needed: clippy comes with Rust"),
    ("catalog-build", "not carried over: use `opm`"),
    ("catalog-push", "not carried over: use `opm`"),
    ("install-helm", "not needed"),
    ("helm-history", "`helm history`"),
    ("helm-rollback", "`helm rollback`"),
    ("helm-status", "`helm status`"),
    ("operator-sdk", "not needed: `opctl`"),
    ("opm", "not carried over"),
];

/// The targets that are there by the same names.
const SAME_TARGETS: &[&str] = &[
    "build",
    "build-installer",
    "bundle",
    "bundle-build",
    "bundle-push",
    "deploy",
    "docker-build",
    "docker-buildx",
    "docker-push",
    "helm-deploy",
    "helm-uninstall",
    "help",
    "install",
    "lint",
    "manifests",
    "run",
    "test",
    "undeploy",
    "uninstall",
];

/// The flags of the manager that are there by the same names.
const SAME_FLAGS: &[&str] = &[
    "health-probe-bind-address",
    "leader-elect",
    "metrics-bind-address",
    "metrics-cert-path",
    "metrics-secure",
];

/// Flags of the manager that are not there.
const OTHER_FLAGS: &[(&str, &str)] = &[
    ("enable-http2", "not needed: /metrics has HTTP/1.1 alone"),
    ("metrics-cert-name", "the file is `tls.crt` in `--metrics-cert-path`"),
    ("metrics-cert-key", "the file is `tls.key` in `--metrics-cert-path`"),
    ("webhook-cert-path", "there are no webhooks"),
    ("webhook-cert-name", "there are no webhooks"),
    ("webhook-cert-key", "there are no webhooks"),
    ("webhook-port", "there are no webhooks"),
    ("zap-log-level", "`--log-level`"),
];

impl Report<'_> {
    /// The file.
    pub fn files(&self) -> Tree {
        let mut text = format!(
            "# Migration from Go\n\n\
             `opctl init --from` made this project from the Go project `{}`. This page lists what was carried over\n\
             and what is left to do. Delete it when you are done.\n",
            code(&self.source.name())
        );
        text.push_str("\n## What is left to do\n\n");
        let mut steps = self.reconcilers();
        steps.extend(self.to_do.iter().map(|note| one_line(note).into_owned()));
        for step in &steps {
            let _ = writeln!(text, "- [ ] {step}.");
        }
        text.push_str(
            "- [ ] Run `make manifests`, and compare the CRDs with the old ones: `git diff --no-index OLD/config/crd/bases config/crd/bases`.\n\
             - [ ] Run `make test` and `make rbac-audit`: the tests prove that the operator has the permissions that it needs.\n\
             - [ ] Before the new operator starts in a cluster, stop the old one: `kubectl scale --replicas=0` its Deployment.\n",
        );
        text.push_str("\n## Files\n\n| Go | Here |\n|---|---|\n");
        for path in &self.source.files.paths {
            let _ = writeln!(text, "| `{}` | {} |", code(path), self.fate(path));
        }
        for link in &self.source.files.links {
            let _ = writeln!(
                text,
                "| `{}` | not carried over: a symbolic link, which was not followed |",
                code(link)
            );
        }
        self.flags(&mut text);
        self.targets(&mut text);
        let file = RenderedFile::extra(text, "project".to_owned());
        Tree::from([("MIGRATION.md".to_owned(), file)])
    }

    /// What is to be done for each controller.
    fn reconcilers(&self) -> Vec<String> {
        let controllers = self.project.resources.iter().filter(|r| r.controller);
        let step = |resource: &Resource| {
            let go = self
                .source
                .files
                .paths
                .iter()
                .filter(|path| rbac::is_of(path, self.project, resource));
            let go: Vec<String> = go.map(|path| format!("`{}`", code(path))).collect();
            let from =
                if go.is_empty() { String::new() } else { format!(" from {}", go.join(", ")) };
            format!("Write `reconcile` in `{}`{from}", controller(resource))
        };
        controllers.map(step).collect()
    }

    /// What has become of a file.
    fn fate(&self, path: &str) -> String {
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some(own) = self.kinds.own.iter().find(|own| own.path == path) {
            let paths = own.requests.iter().map(|request| {
                let (group, kind) =
                    (Module::of_group(&request.gvk.group), Module::of_kind(&request.gvk.kind));
                format!("`src/api/{}/{}/{}.rs`", group.file, request.gvk.version, kind.file)
            });
            let paths: Vec<String> = paths.collect();
            return format!(
                "carried over: {}; `make manifests` writes it from them",
                paths.join(", ")
            );
        }
        if self.samples.contains_key(path) {
            let (group, kind, version) = &self.samples[path];
            let group = group.strip_suffix(&self.project.domain).unwrap_or(group);
            let group = group.trim_end_matches('.');
            return format!(
                "carried over: `config/samples/{group}_{version}_{}.yaml`",
                kind.to_lowercase()
            );
        }
        let mut controllers = self.project.resources.iter().filter(|r| r.controller);
        if let Some(resource) = controllers.find(|r| rbac::is_of(path, self.project, r)) {
            let rules = match self.rules.contains_key(path) {
                true => "; its RBAC markers are comments there",
                false => "",
            };
            return format!("**to do**: `reconcile` in `{}`{rules}", controller(resource));
        }
        let is_in = |directory: &str| path.starts_with(directory);
        let fate = match name {
            _ if path == FILE => "carried over: `PROJECT`",
            _ if is_in("config/crd/") => "replaced by that of opctl; patches are not carried over",
            _ if is_in("config/samples/") && name == "kustomization.yaml" => {
                "replaced by that of opctl"
            }
            _ if is_in("config/samples/") => {
                "not carried over: it has no spec, or is not one object of a kind of the project; there is a minimal sample"
            }
            "role.yaml" if is_in("config/rbac/") => {
                "written by `make manifests` from `rules` in the controllers"
            }
            _ if is_in("config/webhook/") || is_in("config/certmanager/") => {
                "not carried over: there are no webhooks"
            }
            _ if is_in("config/") => "replaced by that of opctl: carry over your edits",
            _ if is_in("dist/") => {
                "written by `make build-installer`, and the chart by `opctl edit --enable helm`"
            }
            _ if is_in("bundle/") || name == "bundle.Dockerfile" => {
                "written by `make bundle`, after `opctl edit --enable olm`"
            }
            "Dockerfile" | "Makefile" | "README.md" | ".dockerignore" | ".gitignore"
            | "LICENSE" => "replaced by that of opctl: carry over your edits",
            "go.mod" | "go.sum" => {
                "replaced by `Cargo.toml` and `Cargo.lock`: add crates with `cargo add`"
            }
            "main.go" => "replaced by `src/main.rs`; see the flags below",
            "groupversion_info.go" => "not needed: `src/api` has the groups",
            _ if name.starts_with("zz_generated") || path.contains("/applyconfiguration/") => {
                "not needed"
            }
            _ if name.ends_with("_webhook.go")
                || name.starts_with("webhook_")
                || path.contains("/webhook/") =>
            {
                "**to do**: opctl has no webhooks; write rules in CEL in `src/api`"
            }
            _ if name.ends_with("_conversion.go") => "**to do**: opctl has no conversion webhooks",
            _ if name.ends_with("_types.go") => {
                "carried over from the CRD; methods and constants are not"
            }
            _ if is_in("test/") || name.ends_with("_test.go") => {
                "**to do**: write tests in `tests/`, where each kind has one"
            }
            _ if is_in(".github/") => {
                "replaced by `.github/workflows` of opctl: carry over your edits"
            }
            _ if is_in("hack/") => {
                "not carried over; the header is that of `opctl edit --license --owner`"
            }
            _ if self.rules.contains_key(path) => {
                "**to do**: not carried over, nor are its RBAC markers"
            }
            _ if name.ends_with(".go") => "**to do**: not carried over",
            _ => "not carried over",
        };
        fate.to_owned()
    }

    /// The flags of the manager.
    fn flags(&self, text: &mut String) {
        let mains = ["cmd/main.go", "main.go", "cmd/manager/main.go"];
        let Some(main) = mains.iter().find_map(|path| self.source.files.text(path)) else { return };
        text.push_str("\n## Flags of the manager\n\n| Go | Here |\n|---|---|\n");
        for name in flags_of(main) {
            let fate = match OTHER_FLAGS.iter().find(|(flag, _)| *flag == name) {
                Some((_, fate)) => fate,
                None if SAME_FLAGS.contains(&name.as_str()) => "the same",
                None => "**to do**: add a field to `Flags` in `src/main.rs`",
            };
            let _ = writeln!(text, "| `--{}` | {fate} |", code(&name));
        }
    }

    /// The targets of the Makefile.
    fn targets(&self, text: &mut String) {
        let Some(makefile) = self.source.files.text("Makefile") else { return };
        text.push_str("\n## Targets of the Makefile\n\n| Go | Here |\n|---|---|\n");
        for name in targets_of(makefile) {
            let fate = match TARGETS.iter().find(|(target, _)| *target == name) {
                Some((_, fate)) => fate,
                None if SAME_TARGETS.contains(&name.as_str()) => "the same",
                None => "**to do**: add it to the `Makefile`",
            };
            let _ = writeln!(text, "| `{}` | {fate} |", code(&name));
        }
    }
}

fn controller(resource: &Resource) -> String {
    let (group, kind) = (Module::of_group(&resource.group), Module::of_kind(&resource.kind));
    format!("src/controller/{}/{}.rs", group.file, kind.file)
}

/// A text between backquotes in a table.
fn code(text: &str) -> String {
    one_line(text).replace('`', "'").replace('|', "\\|")
}

/// The names of the flags that a Go program defines.
fn flags_of(go: &str) -> Vec<String> {
    let calls = go.split("Var(&").skip(1);
    let name = |call: &str| {
        let (_, rest) = call.split_once(',')?;
        let name = rest.trim_start().strip_prefix('"')?.split('"').next()?;
        Some(name.to_owned())
    };
    calls.filter_map(name).collect()
}

/// The targets of a Makefile that are no files or variables.
fn targets_of(makefile: &str) -> Vec<String> {
    let name = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        (!name.is_empty() && name.chars().all(is_name) && !rest.starts_with('='))
            .then(|| name.to_owned())
    };
    makefile.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_targets_are_found() {
        let go = "flag.StringVar(&addr, \"metrics-bind-address\", \"0\", \"x\")\n\
                  flag.BoolVar(&secure,\n\t\t\"metrics-secure\", true, \"y\")";
        assert_eq!(flags_of(go), ["metrics-bind-address", "metrics-secure"]);
        let makefile =
            "IMG ?= x\nX:=1\n.PHONY: all\nall: build ## All\n\tgo build\nbuild-x:\n$(Y): z\n";
        assert_eq!(targets_of(makefile), ["all", "build-x"]);
    }
}
