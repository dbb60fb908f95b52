//! Files that a command adds beside what the model stands for. Later commands neither know nor touch
//! them.

use anyhow::Result;
use serde_yaml::{Mapping, Value};

use super::context::{ProjectContext, ResourceContext};
use super::files::Ownership;
use super::{RenderedFile, Tree};
use crate::crd::{self, Crd};
use crate::project::{CheckedApi, Project, Resource, builtin};

/// What the kind of a request needs, if it is somebody else's; `has_controller` is whether the project has had
/// its controller already.
pub fn extra_files(project: &Project, api: &CheckedApi, crd: Option<&Crd>) -> Result<Tree> {
    match (project.resource(api.gvk()), crd) {
        (Some(resource), Some(crd)) => of_crd(project, resource, crd, api.has_controller()),
        (Some(resource), None) if resource.core => {
            let (_, kind) = builtin::find(api.gvk())?;
            object(project, resource, &kind.object, &[])
        }
        _ => Ok(Tree::new()),
    }
}

/// What a kind of somebody else's CRD needs: its types, the CRD for the tests' cluster and an object
/// to test with.
fn of_crd(project: &Project, resource: &Resource, crd: &Crd, has_controller: bool) -> Result<Tree> {
    let mut tree = match resource.controller && !has_controller {
        true => {
            let least = crd::minimal_object(crd);
            object(project, resource, &least.fields, &least.patterns)?
        }
        false => Tree::new(),
    };
    let seen = ResourceContext::new(project, resource, false);
    let types = format!("src/api/{}/{}/{}.rs", seen.group_file, seen.version, seen.kind_file);
    let header = match ProjectContext::new(project).header("//") {
        header if header.is_empty() => header,
        header => format!("{header}\n"),
    };
    let manifest = format!("tests/crds/{}.{}.yaml", crd.plural, crd.group);
    for (path, text) in [(types, crd.types(&header)), (manifest, crd.manifest.clone())] {
        tree.insert(path, RenderedFile { text, ownership: Ownership::Scaffolded });
    }
    Ok(tree)
}

/// The object of the test of somebody else's kind: `fields`, and what all objects have.
fn object(
    project: &Project,
    resource: &Resource,
    fields: &Mapping,
    patterns: &[String],
) -> Result<Tree> {
    let seen = ResourceContext::new(project, resource, false);
    let mut metadata = Mapping::new();
    // Not the namespace's name alone, so that a namespace can have it, too.
    metadata.insert("name".into(), "$NAMESPACE-1".into());
    if let Some(Value::Mapping(own)) = fields.get("metadata") {
        metadata.extend(own.clone());
    }
    let mut object = Mapping::new();
    object.insert("apiVersion".into(), seen.api_version.into());
    object.insert("kind".into(), seen.kind.into());
    object.insert("metadata".into(), metadata.into());
    let rest = fields.iter().filter(|(key, _)| key.as_str() != Some("metadata"));
    object.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
    let mut text =
        "# What the test makes of this kind. `$NAMESPACE` stands for its own namespace.\n"
            .to_owned();
    if !patterns.is_empty() {
        text.push_str(&format!(
            "# These have to match a pattern of the CRD, so give them values that do: {}\n",
            patterns.join(", ")
        ));
    }
    text.push_str(&serde_saphyr::to_string(&object)?);
    let path = format!("tests/objects/{}_{}.yaml", seen.group_file, seen.kind_file);
    Ok(Tree::from([(path, RenderedFile { text, ownership: Ownership::Scaffolded })]))
}
