//! RBAC rules, typed so that a misspelt resource does not compile.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Resource;

/// Allows `verbs` on the objects of kind `K`.
///
/// # Example
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use opctl_runtime::rbac::rule;
///
/// let rule = rule::<Deployment>(&["create", "list", "patch", "watch"]);
/// assert_eq!(rule.resources.unwrap(), ["deployments"]);
/// ```
pub fn rule<K: Resource<DynamicType = ()>>(verbs: &[&str]) -> PolicyRule {
    policy_rule::<K>(K::plural(&()).into_owned(), verbs)
}

/// Allows `verbs` on a subresource, such as `status`, of the objects of kind `K`.
pub fn subresource_rule<K: Resource<DynamicType = ()>>(
    subresource: &str,
    verbs: &[&str],
) -> PolicyRule {
    policy_rule::<K>(format!("{}/{subresource}", K::plural(&())), verbs)
}

fn policy_rule<K: Resource<DynamicType = ()>>(resource: String, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![K::group(&()).into_owned()]),
        resources: Some(vec![resource]),
        verbs: verbs.iter().map(ToString::to_string).collect(),
        ..PolicyRule::default()
    }
}
