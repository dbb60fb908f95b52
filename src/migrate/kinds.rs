//! The kinds of a Go project: those that it defines, and those that it only reconciles.

use std::collections::BTreeSet;

use anyhow::Result;

use super::files::Files;
use super::layout::{GoProject, GoResource};
use super::{ARGUMENT, ExternalApi, OwnApi, selector};
use crate::crd::{self, Crd, OwnKind, Source};
use crate::error::UserError;
use crate::project::{ApiRequest, Gvk, Project};

/// The kinds.
#[derive(Debug, Default)]
pub struct Kinds {
    pub own: Vec<OwnApi>,
    pub external: Vec<ExternalApi>,
    /// What cannot be carried over.
    pub to_do: Vec<String>,
}

/// A CRD in the project.
struct CrdFile<'a> {
    path: &'a str,
    text: &'a str,
    /// The full group and the kind of each CRD in it.
    kinds: Vec<(String, String)>,
}

impl Kinds {
    /// Reads the kinds that `PROJECT` lists, with their CRDs.
    pub fn read(go: &GoProject, files: &Files, base: &Project) -> Result<Self, UserError> {
        let mut crds = Vec::new();
        for (path, text) in files.texts("config/crd/", ".yaml") {
            let kinds = crd::kinds(text);
            // Kustomizations and patches are among them, and patches may be of no valid CRD.
            let kinds = match kinds {
                Err(reason) if path.starts_with("config/crd/bases/") => {
                    return Err(files.error(path, reason));
                }
                kinds => kinds.unwrap_or_default(),
            };
            crds.push(CrdFile { path, text, kinds });
        }
        let mut all = Self::default();
        let mut missing = Vec::new();
        let mut seen = BTreeSet::new();
        for resource in &go.resources {
            let group = resource.api_group(go);
            if !seen.insert((group.clone(), resource.kind.clone(), resource.external)) {
                all.note_webhooks(resource, &group);
                continue;
            }
            let is_of_kind = |file: &&CrdFile<'_>| {
                file.kinds.iter().any(|(g, kind)| *g == group && *kind == resource.kind)
            };
            let file = crds.iter().find(is_of_kind);
            let is_own = match go.is_detailed() {
                true => resource.has_api(),
                false => file.is_some(),
            };
            all.note_webhooks(resource, &group);
            match (is_own, file) {
                (true, Some(file)) => all.own(go, resource, &group, file, files, base)?,
                (true, None) => missing.push(format!("{group} {}", resource.kind)),
                (false, _) if resource.controllers() == 0 => {}
                (false, file) => all.external(resource, &group, file, files)?,
            }
        }
        match missing.as_slice() {
            [] => Ok(all),
            kinds => Err(files
                .error("config/crd/bases", format!("no CRD of {}", kinds.join(", ")))
                .with_hint(format!("run `make manifests` in {} first", files.shown()))),
        }
    }

    fn own(
        &mut self,
        go: &GoProject,
        resource: &GoResource,
        group: &str,
        file: &CrdFile<'_>,
        files: &Files,
        base: &Project,
    ) -> Result<(), UserError> {
        let path = format!("{}/{}", files.shown(), file.path);
        let source = Source { argument: ARGUMENT, file: &path };
        let kind = OwnKind::read(source, file.text, selector(group, &resource.kind))?;
        let of_kind =
            || go.resources.iter().filter(|r| r.api_group(go) == group && r.kind == resource.kind);
        let controllers: usize = of_kind().map(GoResource::controllers).sum();
        let sources = controller_files(files, &resource.kind);
        let controller = match go.is_detailed() {
            true => controllers > 0,
            false => !sources.is_empty(),
        };
        if controllers > 1 {
            self.to_do.push(format!(
                "{}: {controllers} controllers; it has one here, to which `src/controller` can add more",
                resource.kind
            ));
        }
        if let Some((_, image)) = go.deployed_images().iter().find(|(k, _)| *k == resource.kind) {
            self.to_do.push(format!(
                "{}: the reconciler of the plugin deploy-image, which runs `{image}`; \
                 `opctl create api --image` scaffolds one like it for a kind of its own, to copy from",
                resource.kind
            ));
        }
        let requests = kind.versions(&base.domain, &ApiRequest::default())?;
        self.own.push(OwnApi { kind, requests, controller, path: file.path.to_owned() });
        Ok(())
    }

    /// A kind of Kubernetes, or of another project if its CRD is there.
    fn external(
        &mut self,
        resource: &GoResource,
        group: &str,
        file: Option<&CrdFile<'_>>,
        files: &Files,
    ) -> Result<(), UserError> {
        let GoResource { version, kind, .. } = resource;
        if let Some(file) = file {
            let path = format!("{}/{}", files.shown(), file.path);
            let source = Source { argument: ARGUMENT, file: &path };
            let crd = Crd::read(source, file.text, selector(group, kind))?;
            let request = crd.request(ApiRequest::default());
            self.external.push(ExternalApi { request, crd: Some(crd) });
            return Ok(());
        }
        let name = if resource.group.is_empty() { "core" } else { &resource.group };
        let request = ApiRequest { gvk: Gvk::new(name, version, kind), ..ApiRequest::default() };
        if !resource.external
            && let Ok(Some(request)) = request.for_core_type()
        {
            self.external.push(ExternalApi { request, crd: None });
            return Ok(());
        }
        self.to_do.push(format!(
            "the controller of {group}/{version} {kind}, an external type: run \
             `opctl create api --crd FILE --kind {kind}` with its CRD, such as from `kubectl get crd NAME -o yaml`"
        ));
        Ok(())
    }

    fn note_webhooks(&mut self, resource: &GoResource, group: &str) {
        let webhooks = resource.webhooks();
        if !webhooks.is_empty() {
            self.to_do.push(format!(
                "{group}/{} {}: the webhooks ({}); rules in CEL and defaults in the schema replace many of them",
                resource.version,
                resource.kind,
                webhooks.join(", ")
            ));
        }
    }
}

/// The Go sources of the controllers of a kind, as kubebuilder names them.
pub fn controller_files(files: &Files, kind: &str) -> Vec<String> {
    let name = format!("{}_controller.go", kind.to_lowercase());
    let is_named = |path: &&String| path.rsplit('/').next() == Some(name.as_str());
    files.paths.iter().filter(is_named).cloned().collect()
}
