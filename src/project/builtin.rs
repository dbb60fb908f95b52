//! The core types of Kubernetes, which a project can reconcile without an API of its own.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_yaml::Mapping;

use super::Gvk;
use crate::error::UserError;

/// The name of the API group that has an empty name in Kubernetes.
pub const CORE: &str = "core";

static GROUPS: LazyLock<Vec<CoreGroup>> = LazyLock::new(|| {
    serde_yaml::from_str(include_str!("builtin.yaml")).unwrap_or_else(|error| panic!("{error}"))
});

/// One version of a core API group.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreGroup {
    /// The name of the group in `PROJECT`.
    pub group: String,
    /// The rest of the full group name; often empty.
    #[serde(default)]
    pub domain: String,
    /// The version.
    pub version: String,
    /// The module of k8s-openapi that has the types.
    pub module: String,
    kinds: Vec<CoreKind>,
}

/// A core type.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreKind {
    /// The kind.
    pub kind: String,
    /// The plural.
    pub plural: String,
    /// Whether the resource is namespaced.
    #[serde(default)]
    pub namespaced: bool,
    /// The fields that the API server requires of an object, besides its name and namespace.
    /// `$NAMESPACE` stands for the namespace of the object.
    #[serde(default)]
    pub object: Mapping,
}

/// All core types with their groups.
pub fn all() -> impl Iterator<Item = (&'static CoreGroup, &'static CoreKind)> {
    GROUPS.iter().flat_map(|group| group.kinds.iter().map(move |kind| (group, kind)))
}

/// The kind and the version of a core type by the full name of its API group and its plural.
pub fn kind_of(api_group: &str, plural: &str) -> Option<(&'static str, &'static str)> {
    let matches = |(group, kind): &(&CoreGroup, &CoreKind)| {
        kind.plural == plural && group.api_group() == api_group
    };
    all().find(matches).map(|(group, kind)| (kind.kind.as_str(), group.version.as_str()))
}

impl CoreGroup {
    /// The full name of the group; empty for the core group.
    pub fn api_group(&self) -> String {
        match (self.group.as_str(), self.domain.as_str()) {
            (CORE, _) => String::new(),
            (group, "") => group.to_owned(),
            (group, domain) => format!("{group}.{domain}"),
        }
    }
}

/// The group with this short or full name: `networking` or `networking.k8s.io`.
pub fn group(name: &str) -> Option<&'static str> {
    let is_named = |group: &&CoreGroup| {
        let full = !group.domain.is_empty() && name == format!("{}.{}", group.group, group.domain);
        full || name == group.group
    };
    GROUPS.iter().find(is_named).map(|group| group.group.as_str())
}

/// A core type by its short group name, as [`group`] returns it.
///
/// # Errors
/// A [`UserError`] that lists the types of the group if this one does not exist.
pub fn find(gvk: &Gvk) -> Result<(&'static CoreGroup, &'static CoreKind), UserError> {
    let Gvk { group, version, kind } = gvk;
    let matches = |(g, k): &(&CoreGroup, &CoreKind)| {
        g.group == *group && g.version == *version && k.kind == *kind
    };
    all().find(matches).ok_or_else(|| {
        let error =
            UserError::usage(format!("{gvk} is not a core type that a controller can watch"));
        match all().filter(|(_, k)| k.kind.eq_ignore_ascii_case(kind)).collect::<Vec<_>>() {
            others if others.is_empty() => error.with_hint(format!(
                "the core types of the group `{group}` are {}",
                kinds_of(group)
            )),
            others => {
                let flags = others.iter().map(|(g, k)| {
                    format!("`--group {} --version {} --kind {}`", g.group, g.version, k.kind)
                });
                error.with_hint(format!("use {}", flags.collect::<Vec<_>>().join(" or ")))
            }
        }
    })
}

/// The types of a group, such as `v1 Deployment, v1 DaemonSet`.
fn kinds_of(group: &str) -> String {
    let kinds = all().filter(|(g, _)| g.group == group);
    let names = kinds.map(|(g, k)| format!("{} {}", g.version, k.kind));
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_their_names_in_kubebuilder_and_in_kubernetes() {
        for (name, found) in [
            ("core", Some("core")),
            ("apps", Some("apps")),
            ("networking", Some("networking")),
            ("networking.k8s.io", Some("networking")),
            ("rbac.authorization.k8s.io", Some("rbac.authorization")),
            ("apps.k8s.io", None),
            ("cache", None),
            ("core.", None),
        ] {
            assert_eq!(group(name), found, "{name}");
        }
    }

    #[test]
    fn unknown_core_type_is_refused_with_the_known_ones() {
        assert!(find(&Gvk::new("apps", "v1", "Deployment")).is_ok());
        for (group, version, kind, hint) in [
            ("apps", "v1", "Deploymnet", "v1 Deployment, "),
            ("apps", "v1beta1", "Deployment", "`--group apps --version v1 --kind Deployment`"),
            ("apps", "v1", "pod", "`--group core --version v1 --kind Pod`"),
        ] {
            let error = find(&Gvk::new(group, version, kind)).unwrap_err();
            assert!(format!("{error:?}").contains(hint), "{error:?}");
        }
    }
}
