//! Files that a command adds beside what the model stands for. Later commands neither know nor touch
//! them.

use anyhow::Result;
use serde_yaml::{Mapping, Value};

use super::files::Class;
use super::{Rendered, Tree, context};
use crate::project::{Project, Resource};

/// The object of the test of somebody else's kind: `fields`, and what all objects have.
pub fn object(project: &Project, resource: &Resource, fields: &Mapping) -> Result<Tree> {
    let seen = context::Resource::new(project, resource, false);
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
    let text = format!(
        "# What the test makes of this kind. `$NAMESPACE` stands for its own namespace.\n{}",
        serde_saphyr::to_string(&object)?
    );
    let path = format!("tests/objects/{}_{}.yaml", seen.group_file, seen.kind_file);
    Ok(Tree::from([(path, Rendered { text, class: Class::Seeded })]))
}
