//! Files that a command writes in addition to those of the model. Later commands do not update them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_yaml::{Mapping, Value};

use super::context::{ProjectContext, ResourceContext};
use super::job::check_file_names;
use super::{RenderedFile, Renderer, TemplateSet, Tree};
use crate::crd::{self, Crd, OwnKind};
use crate::error::UserError;
use crate::project::{CheckedApi, Gvk, Project, Resource, builtin};

/// The files that an external or core type needs besides those of the model: the Rust types and the CRD of
/// an external type, and an object for the test of its controller. `project` contains the API.
///
/// # Errors
/// If a file name is too long, or if the object is too large or cannot be written as YAML.
pub fn extra_files(project: &Project, api: &CheckedApi, crd: Option<&Crd>) -> Result<Tree> {
    match (project.find(api.resource()), crd) {
        (Some(resource), Some(crd)) => crd_files(project, resource, crd, api.has_controller()),
        (Some(resource), None) if resource.core => {
            let (_, kind) = builtin::find(api.gvk())?;
            object(project, resource, &kind.object, &[])
        }
        _ => Ok(Tree::new()),
    }
}

/// The files of a kind that a CRD has defined so far, in place of those of its recipe: the Rust types, the CRD,
/// and the samples, by version; without one, the sample is a minimal object. `project` contains the kind.
///
/// # Errors
/// If an object is too large, or cannot be written as YAML.
pub fn own_files(
    project: &Project,
    kind: &OwnKind,
    samples: &BTreeMap<String, String>,
) -> Result<Tree> {
    let mut tree = Tree::new();
    let header = types_header(project);
    let group = kind.group.strip_suffix(&project.domain).unwrap_or(&kind.group);
    let group = group.trim_end_matches('.');
    for version in &kind.versions {
        let gvk = Gvk::new(group, &version.name, &kind.kind);
        let Some(resource) = project.resource(&gvk) else { continue };
        let context = ResourceContext::new(project, resource, false);
        let sample = match samples.get(&version.name) {
            Some(sample) => sample.clone(),
            None => sample(&context, &version.crd)?,
        };
        let types = kind.types(version, &header);
        for (path, text) in [(types_path(&context), types), (sample_path(&context), sample)] {
            tree.insert(path, RenderedFile::extra(text, context.name()));
        }
        let of_kind = project.versions(group, &kind.kind).count();
        if of_kind == kind.versions.len() {
            let path = format!("config/crd/bases/{}_{}.yaml", kind.group, kind.plural);
            tree.insert(path, RenderedFile::extra(kind.manifest()?, context.name()));
        }
    }
    Ok(tree)
}

/// The controllers of a project as the model renders them, with their paths.
///
/// # Errors
/// If the model cannot be rendered.
pub fn controllers(project: &Project) -> Result<Vec<(&Resource, String, RenderedFile)>> {
    let mut tree = Renderer::new(TemplateSet::current())?.render(project)?;
    let with_controller = project.resources.iter().filter(|resource| resource.controller);
    let controllers = with_controller.filter_map(|resource| {
        let context = ResourceContext::new(project, resource, false);
        let path = format!("src/controller/{}/{}.rs", context.group_file, context.kind_file);
        let file = tree.remove(&path)?;
        Some((resource, path, file))
    });
    Ok(controllers.collect())
}

/// A minimal object of a version.
fn sample(context: &ResourceContext, crd: &Crd) -> Result<String> {
    let minimal = crd::minimal_object(crd)?;
    let mut text = match minimal.incomplete.as_slice() {
        [] => String::new(),
        fields => format!("# Set values that the CRD accepts: {}\n", fields.join(", ")),
    };
    let name = format!("{}-sample", context.kind_lower);
    let mut object = Mapping::new();
    object.insert("apiVersion".into(), context.api_version.clone().into());
    object.insert("kind".into(), context.kind.clone().into());
    object.insert("metadata".into(), Mapping::from_iter([("name".into(), name.into())]).into());
    object.extend(minimal.fields.into_iter().filter(|(name, _)| name.as_str() != Some("status")));
    text.push_str(&serde_saphyr::to_string(&object)?);
    Ok(text)
}

/// The paths of the files that [`extra_files`] has made for a project.
pub fn extra_paths(project: &Project) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for resource in project.resources.iter().filter(|r| r.is_external_or_core()) {
        let context = ResourceContext::new(project, resource, false);
        if resource.external {
            paths.extend([
                types_path(&context),
                manifest_path(&resource.plural(), &context.api_group),
            ]);
        }
        if resource.controller {
            paths.insert(object_path(&context));
        }
    }
    paths
}

fn types_path(context: &ResourceContext) -> String {
    format!("src/api/{}/{}/{}.rs", context.group_file, context.version, context.kind_file)
}

fn sample_path(context: &ResourceContext) -> String {
    format!("config/samples/{}_{}_{}.yaml", context.group, context.version, context.kind_lower)
}

fn types_header(project: &Project) -> String {
    let mut header = ProjectContext::new(project).header("//");
    if !header.is_empty() {
        header.push('\n');
    }
    header
}

fn manifest_path(plural: &str, group: &str) -> String {
    format!("tests/crds/{plural}.{group}.yaml")
}

fn object_path(context: &ResourceContext) -> String {
    format!("tests/objects/{}_{}.yaml", context.group_file, context.kind_file)
}

/// The Rust types of an external type, its CRD for the cluster of the tests, and an object for the test
/// of its controller.
fn crd_files(
    project: &Project,
    resource: &Resource,
    crd: &Crd,
    has_controller: bool,
) -> Result<Tree> {
    let mut tree = if resource.controller && !has_controller {
        let minimal = crd::minimal_object(crd)?;
        object(project, resource, &minimal.fields, &minimal.incomplete)?
    } else {
        Tree::new()
    };
    let context = ResourceContext::new(project, resource, false);
    let types = types_path(&context);
    let header = types_header(project);
    let manifest = manifest_path(&crd.plural, &crd.group);
    check_file_names(&manifest)
        .map_err(|reason| UserError::failure(format!("{} {reason}", resource.gvk())))?;
    for (path, text) in [(types, crd.types(&header)), (manifest, crd.manifest.clone())] {
        let subject = context.name();
        tree.insert(path, RenderedFile::extra(text, subject));
    }
    Ok(tree)
}

/// The object that the test of an external or core type creates: `fields`, and those of all objects.
fn object(
    project: &Project,
    resource: &Resource,
    fields: &Mapping,
    incomplete: &[String],
) -> Result<Tree> {
    let context = ResourceContext::new(project, resource, false);
    let subject = context.name();
    let mut metadata = Mapping::new();
    // Distinct from the name of the namespace, so that the object itself can be a namespace.
    metadata.insert("name".into(), "$NAMESPACE-1".into());
    if let Some(Value::Mapping(required)) = fields.get("metadata") {
        metadata.extend(required.clone());
    }
    let mut object = Mapping::new();
    object.insert("apiVersion".into(), context.api_version.clone().into());
    object.insert("kind".into(), context.kind.clone().into());
    object.insert("metadata".into(), metadata.into());
    let rest = fields.iter().filter(|(key, _)| key.as_str() != Some("metadata"));
    object.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
    let mut text =
        "# The object that the test creates. `$NAMESPACE` stands for the namespace of the test.\n"
            .to_owned();
    if !incomplete.is_empty() {
        text.push_str(&format!("# Set values that the CRD accepts: {}\n", incomplete.join(", ")));
    }
    text.push_str(&serde_saphyr::to_string(&object)?);
    let path = object_path(&context);
    Ok(Tree::from([(path, RenderedFile::extra(text, subject))]))
}
