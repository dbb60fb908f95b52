//! Objects of Kubernetes, as their manifests have them.

use serde::Deserialize;
use serde_json::Value;

use crate::error::UserError;
use crate::yaml::{self, Limit};

/// The maximum size of the manifests of an operator.
pub const LIMIT: Limit = Limit { megabytes: 50 };

/// The lists of the containers of a pod.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// An object of Kubernetes.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(Value);

impl Object {
    /// The objects of a YAML text, also those in lists. `source` says where the text is from.
    ///
    /// # Errors
    /// If the text is not YAML, or if a document is not an object.
    pub fn parse_all(text: &str, source: &str) -> Result<Vec<Self>, UserError> {
        let invalid = |reason: String| UserError::failure(format!("invalid {source}: {reason}"));
        LIMIT.check(text).map_err(invalid)?;
        let mut objects = Vec::new();
        for document in serde_yaml::Deserializer::from_str(text) {
            let value = serde_yaml::Value::deserialize(document)
                .map_err(|error| invalid(crate::text::one_line(&error.to_string()).into_owned()))?;
            yaml::check_json(&value, yaml::MAX_INTEGER).map_err(invalid)?;
            let value = serde_json::to_value(value).map_err(|error| invalid(error.to_string()))?;
            match value {
                // A document without content.
                Value::Null => {}
                Value::Object(mut fields) if fields.get("kind") == Some(&"List".into()) => {
                    let items = fields.remove("items").unwrap_or_default();
                    let items = items.as_array().cloned().unwrap_or_default();
                    objects.extend(items.into_iter().map(Self));
                }
                value => objects.push(Self(value)),
            }
        }
        objects.iter().try_for_each(Self::check).map_err(invalid)?;
        Ok(objects)
    }

    /// Checks that it is an object of Kubernetes.
    ///
    /// # Errors
    /// If it has no kind or no API version.
    pub fn check(&self) -> Result<(), String> {
        if self.kind().is_empty() || self.text("/apiVersion").is_empty() {
            return Err("a document is no object: it has no `kind` or no `apiVersion`".to_owned());
        }
        Ok(())
    }

    /// An object with these fields.
    pub fn new(value: Value) -> Self {
        Self(value)
    }

    /// The whole object.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The whole object.
    pub fn into_value(self) -> Value {
        self.0
    }

    /// A string, by its JSON pointer; empty if there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The items of a list, by its JSON pointer.
    pub fn items(&self, pointer: &str) -> &[Value] {
        self.0.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.0.pointer("/metadata/annotations")?.get(name)?.as_str()
    }

    /// The containers of the pods, if the object has a template of pods.
    pub fn containers(&self) -> impl Iterator<Item = &Value> {
        let lists = CONTAINERS.map(|list| self.items(&format!("/spec/template/spec/{list}")));
        lists.into_iter().flatten()
    }

    /// The containers of the pods, to change them.
    pub fn containers_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        let pod = self.0.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut);
        let lists =
            pod.into_iter().flatten().filter(|(list, _)| CONTAINERS.contains(&list.as_str()));
        lists.filter_map(|(_, list)| list.as_array_mut()).flatten()
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The version of the API.
    pub fn version(&self) -> &str {
        let version = self.text("/apiVersion");
        version.rsplit_once('/').map_or(version, |(_, version)| version)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The namespace; empty if it has none.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// Whether it is of a kind in an API group.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.kind() == kind && self.group() == group
    }

    /// The name of the object in messages.
    pub fn title(&self) -> String {
        format!("{} {}", self.kind(), self.name())
    }

    /// The object without what a cluster decides: its namespace and its status.
    #[must_use]
    pub fn without_cluster(mut self) -> Self {
        if let Some(fields) = self.0.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = self.0.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
            metadata.remove("creationTimestamp");
        }
        self
    }
}

/// The strings in a list.
pub fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
