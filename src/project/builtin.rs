//! The kinds that Kubernetes itself has, which a project can watch without an API of its own.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_yaml::Mapping;

use super::Gvk;
use crate::error::UserError;

/// Kubernetes' own API group without a name.
pub const CORE: &str = "core";

static GROUPS: LazyLock<Vec<CoreGroup>> = LazyLock::new(|| {
    serde_yaml::from_str(include_str!("builtin.yaml")).unwrap_or_else(|error| panic!("{error}"))
});

/// One version of an API group of Kubernetes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreGroup {
    /// The name that it has in `PROJECT`.
    pub group: String,
    /// What its API group ends with beside it; often nothing.
    #[serde(default)]
    pub domain: String,
    /// The version.
    pub version: String,
    /// Where k8s-openapi has its types.
    pub module: String,
    kinds: Vec<CoreKind>,
}

/// A kind of a group.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreKind {
    /// The kind.
    pub kind: String,
    /// The plural.
    pub plural: String,
    /// Whether objects live in namespaces.
    #[serde(default)]
    pub namespaced: bool,
    /// What the API server asks of an object, besides a name and a namespace. `$NAMESPACE` stands
    /// for the namespace that the object is in.
    #[serde(default)]
    pub object: Mapping,
}

/// Every kind with its group.
pub fn all() -> impl Iterator<Item = (&'static CoreGroup, &'static CoreKind)> {
    GROUPS.iter().flat_map(|group| group.kinds.iter().map(move |kind| (group, kind)))
}

/// The group of this name, which may be that of the API group: `networking` or `networking.k8s.io`.
pub fn group(name: &str) -> Option<&'static str> {
    let is_named = |group: &&CoreGroup| {
        let full = !group.domain.is_empty() && name == format!("{}.{}", group.group, group.domain);
        full || name == group.group
    };
    GROUPS.iter().find(is_named).map(|group| group.group.as_str())
}

/// A kind of a group that [`group`] knows.
///
/// # Errors
/// A [`UserError`] that tells the kinds that there are.
pub fn find(gvk: &Gvk) -> Result<(&'static CoreGroup, &'static CoreKind), UserError> {
    let Gvk { group, version, kind } = gvk;
    let matches = |(g, k): &(&CoreGroup, &CoreKind)| {
        g.group == *group && g.version == *version && k.kind == *kind
    };
    all().find(matches).ok_or_else(|| {
        let error =
            UserError::usage(format!("Kubernetes has no kind {gvk} that a controller could watch"));
        match all().filter(|(_, k)| k.kind.eq_ignore_ascii_case(kind)).collect::<Vec<_>>() {
            others if others.is_empty() => {
                error.with_hint(format!("the group `{group}` has {}", kinds_of(group)))
            }
            others => {
                let flags = others.iter().map(|(g, k)| {
                    format!("`--group {} --version {} --kind {}`", g.group, g.version, k.kind)
                });
                error.with_hint(format!("use {}", flags.collect::<Vec<_>>().join(" or ")))
            }
        }
    })
}

/// `v1 Deployment, v1 DaemonSet`.
fn kinds_of(group: &str) -> String {
    let of_group = all().filter(|(g, _)| g.group == group);
    let names = of_group.map(|(g, k)| format!("{} {}", g.version, k.kind));
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_names_of_kubebuilder_and_of_kubernetes() {
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
    fn a_kind_that_is_not_there_is_refused_with_those_that_are() {
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
