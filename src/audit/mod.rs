//! Compares the permissions of an operator with its requests.
//!
//! The permissions are those of the roles that the manifests in `config/rbac` bind to the service
//! account of the operator. The requests are in the audit log of an API server on which the
//! operator, or its tests, ran. Both are plain values here: this module reads no files.
//!
//! It also has the known defects of earlier templates, by the version that wrote a project.

mod defects;
mod log;
mod permission;
mod roles;

use std::collections::BTreeSet;

use serde::Serialize;

pub use defects::{Defect, known as known_defects};
pub use log::{Requests, requests};
pub use permission::Permission;
pub use roles::{Manifest, granted, is_bound, parse};

/// The name of the operator's service account, in any namespace.
pub const SERVICE_ACCOUNT: &str = "controller-manager";

/// The permissions of an operator, by how it used them.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The permissions that requests used.
    pub used: BTreeSet<Permission>,
    /// The permissions that no request used.
    pub unused: BTreeSet<Permission>,
    /// The permissions that the API server refused requests for.
    pub refused: BTreeSet<Permission>,
}

impl Audit {
    /// Whether the operator has exactly the permissions that it uses.
    pub fn is_exact(&self) -> bool {
        self.unused.is_empty() && self.refused.is_empty()
    }
}

/// Compares granted permissions with requests.
///
/// # Caveats
/// A wildcard is not expanded: it is unused, since it grants more than any request uses. A request
/// that another role permits, such as `system:discovery`, is neither used nor refused.
pub fn compare(granted: BTreeSet<Permission>, requests: &Requests) -> Audit {
    // A permission without a name is used by requests for any object.
    let any_name: BTreeSet<Permission> =
        requests.allowed.iter().map(Permission::without_name).collect();
    let is_used = |permission: &Permission| {
        requests.allowed.contains(permission) || any_name.contains(permission)
    };
    // The name of the object matters only where a role restricts names.
    let restricted: BTreeSet<Permission> = granted
        .iter()
        .filter(|permission| permission.name().is_some())
        .map(Permission::without_name)
        .collect();
    let refused = requests.refused.iter().map(|permission| {
        let any_name = permission.without_name();
        if restricted.contains(&any_name) { permission.clone() } else { any_name }
    });
    let refused = refused.collect();
    let (used, unused) = granted.into_iter().partition(is_used);
    Audit { used, unused, refused }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(permissions: &[Permission]) -> BTreeSet<Permission> {
        permissions.iter().cloned().collect()
    }

    fn get(resource: &str, name: Option<&str>) -> Permission {
        Permission::resource("get", "", resource, name)
    }

    #[test]
    fn permissions_are_used_unused_or_refused() {
        let (pods, nodes, secrets) = (get("pods", None), get("nodes", None), get("secrets", None));
        let requests = Requests {
            allowed: set(&[get("pods", Some("a")), get("configmaps", None)]),
            refused: set(&[get("secrets", Some("b")), get("secrets", Some("c"))]),
        };
        let audit = compare(set(&[pods.clone(), nodes.clone()]), &requests);
        let expected =
            Audit { used: set(&[pods]), unused: set(&[nodes]), refused: set(&[secrets]) };
        assert_eq!(audit, expected);
        assert!(!audit.is_exact());
        assert!(compare(BTreeSet::new(), &Requests::default()).is_exact());
    }

    #[test]
    fn a_permission_for_a_name_is_used_by_requests_for_that_name() {
        let (a, b) = (get("secrets", Some("a")), get("secrets", Some("b")));
        let requests = Requests {
            allowed: set(std::slice::from_ref(&a)),
            refused: set(&[get("secrets", Some("c")), get("pods", Some("d"))]),
        };
        let audit = compare(set(&[a.clone(), b.clone()]), &requests);
        let refused = set(&[get("secrets", Some("c")), get("pods", None)]);
        assert_eq!(audit, Audit { used: set(&[a]), unused: set(&[b]), refused });

        let list = Requests { allowed: set(&[get("secrets", None)]), ..Requests::default() };
        let named = set(&[get("secrets", Some("a"))]);
        assert_eq!(compare(named.clone(), &list).unused, named);
    }

    #[test]
    fn paths_are_compared_as_they_are() {
        let url = |path| Permission::url("get", path);
        let requests = Requests { allowed: set(&[url("/metrics")]), refused: set(&[url("/logs")]) };
        let audit = compare(set(&[url("/metrics"), url("/apis/*")]), &requests);
        let expected = Audit {
            used: set(&[url("/metrics")]),
            unused: set(&[url("/apis/*")]),
            refused: set(&[url("/logs")]),
        };
        assert_eq!(audit, expected);
    }
}
