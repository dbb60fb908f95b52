//! One permission, as a rule grants it and as a request needs it.

use std::fmt;

use serde::Serialize;

/// A verb on a resource or on a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Permission {
    /// A verb on a resource.
    Resource {
        /// The API group, empty for the core group.
        group: String,
        /// The plural, with the subresource after a `/`.
        resource: String,
        /// The name of the one object that the permission is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The verb, such as `list`.
        verb: String,
    },
    /// A verb on a path of the API server that is not a resource.
    Url {
        /// The path, such as `/metrics`.
        #[serde(rename = "nonResourceURL")]
        path: String,
        /// The verb, which is the HTTP method in lower case.
        verb: String,
    },
}

impl Permission {
    /// A verb on a resource, of all objects or of the one with the name.
    pub fn resource(verb: &str, group: &str, resource: &str, name: Option<&str>) -> Self {
        Self::Resource {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        }
    }

    /// A verb on a path.
    pub fn url(verb: &str, path: &str) -> Self {
        Self::Url { path: path.to_owned(), verb: verb.to_owned() }
    }

    /// The name of the one object that the permission is for.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Resource { name, .. } => name.as_deref(),
            Self::Url { .. } => None,
        }
    }

    /// The permission for all objects.
    #[must_use]
    pub fn without_name(&self) -> Self {
        match self {
            Self::Resource { verb, group, resource, .. } => {
                Self::resource(verb, group, resource, None)
            }
            Self::Url { .. } => self.clone(),
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, resource, name, verb) = match self {
            Self::Resource { group, resource, name, verb } => (group, resource, name, verb),
            Self::Url { path, verb } => return write!(f, "{verb} {path}"),
        };
        let group = if group.is_empty() { "core" } else { group };
        // In the order of the API server's paths: resource, name, subresource.
        let path = match (name, resource.split_once('/')) {
            (None, _) => resource.clone(),
            (Some(name), None) => format!("{resource}/{name}"),
            (Some(name), Some((resource, subresource))) => {
                format!("{resource}/{name}/{subresource}")
            }
        };
        write!(f, "{verb} {path} ({group})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_displayed_as_paths() {
        let resource =
            |group, resource, name| Permission::resource("get", group, resource, name).to_string();
        assert_eq!(resource("", "pods", None), "get pods (core)");
        assert_eq!(resource("apps", "deployments/scale", None), "get deployments/scale (apps)");
        assert_eq!(resource("", "secrets", Some("a")), "get secrets/a (core)");
        assert_eq!(resource("", "pods/log", Some("a")), "get pods/a/log (core)");
        assert_eq!(Permission::url("get", "/metrics").to_string(), "get /metrics");
    }
}
