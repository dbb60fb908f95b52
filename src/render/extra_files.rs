//! Files that a command writes in addition to those of the model. Later commands do not update them.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_yaml::{Mapping, Value};

use super::context::{ProjectContext, ResourceContext};
use super::job::check_file_names;
use super::{RenderedFile, Tree};
use crate::crd::{self, Crd};
use crate::error::UserError;
use crate::project::{CheckedApi, Project, Resource, builtin};

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
    let mut header = ProjectContext::new(project).header("//");
    if !header.is_empty() {
        header.push('\n');
    }
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
