//! A request, and what its path says.

use std::fmt;

use serde_json::Value;

/// One request to the API server. It is shown as `PATCH deployments/web/status`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// The path of the URL.
    pub path: String,
    /// The parameters of the URL, such as `fieldManager=web-operator&force=true`.
    pub query: String,
    /// The plural of the kind, such as `deployments`.
    pub resource: String,
    /// The namespace; a cluster-scoped object has none.
    pub namespace: Option<String>,
    /// The name of the object; a request that creates one has it in its body.
    pub name: Option<String>,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// The object or the patch; null without one.
    pub body: Value,
}

impl Request {
    /// The path is `/api/v1` or `/apis/{group}/{version}`, then `/namespaces/{namespace}` for some
    /// kinds, then `/{resource}/{name}/{subresource}`.
    pub(super) fn new(method: &str, path: &str, query: &str, body: Value) -> Self {
        let segments: Vec<_> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .collect();
        let prefix = if segments.first() == Some(&"api") {
            2
        } else {
            3
        };
        let rest = segments.get(prefix..).unwrap_or_default();
        let (namespace, rest) = match rest {
            // Namespaces have subresources, too.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let segment = |index: usize| rest.get(index).map(ToString::to_string);
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            resource: segment(0).unwrap_or_default(),
            namespace: namespace.map(str::to_owned),
            name: segment(1),
            subresource: segment(2),
            body,
        }
    }

    /// The verb that RBAC has for it, such as `create` or `watch`.
    pub fn verb(&self) -> &'static str {
        let has_name = self.name.is_some();
        match self.method.as_str() {
            "GET"
                if self
                    .parameters()
                    .any(|it| matches!(it, "watch=true" | "watch=1")) =>
            {
                "watch"
            }
            "GET" if has_name => "get",
            "GET" => "list",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if has_name => "delete",
            "DELETE" => "deletecollection",
            _ => "",
        }
    }

    fn parameters(&self) -> impl Iterator<Item = &str> {
        self.query.split('&')
    }

    /// The path of the object itself.
    pub(super) fn object_path(&self) -> &str {
        let subresource = self.subresource.as_deref();
        let path = subresource.and_then(|subresource| self.path.strip_suffix(subresource));
        path.map_or(&self.path, |path| path.trim_end_matches('/'))
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.resource)?;
        for segment in self.name.iter().chain(&self.subresource) {
            write!(f, "/{segment}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_an_object() {
        let parse = |path| {
            let request = Request::new("GET", path, "", Value::Null);
            let object = request.object_path().to_owned();
            (request.to_string(), request.namespace, object)
        };
        for (path, shown, namespace, object) in [
            (
                "/api/v1/namespaces/x",
                "GET namespaces/x",
                None,
                "/api/v1/namespaces/x",
            ),
            (
                "/api/v1/namespaces/x/status",
                "GET namespaces/x/status",
                None,
                "/api/v1/namespaces/x",
            ),
            (
                "/apis/apps/v1/namespaces/x/deployments/y/scale",
                "GET deployments/y/scale",
                Some("x"),
                "/apis/apps/v1/namespaces/x/deployments/y",
            ),
            (
                "/apis/a.b/v1/tests",
                "GET tests",
                None,
                "/apis/a.b/v1/tests",
            ),
        ] {
            let expected = (
                shown.to_owned(),
                namespace.map(str::to_owned),
                object.to_owned(),
            );
            assert_eq!(parse(path), expected);
        }
    }
}
