//! The requests in the audit log of an API server: one JSON object a line
//! (<https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/>).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Permission, SERVICE_ACCOUNT};

/// The permissions that the requests of the operator needed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// The permissions of the requests that the API server allowed.
    pub allowed: BTreeSet<Permission>,
    /// The permissions of the requests that the API server refused.
    pub refused: BTreeSet<Permission>,
}

impl Requests {
    /// Whether the log has no requests of the operator.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty() && self.refused.is_empty()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<Status>,
    annotations: BTreeMap<String, String>,
}

/// The annotation with what the authorizer says of a request, before any admission
/// (<https://kubernetes.io/docs/reference/labels-annotations-taints/audit-annotations/>).
const DECISION: &str = "authorization.k8s.io/decision";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
}

/// The requests of the service account of the operator. Lines that are not events are skipped, since
/// the last one may be incomplete.
pub fn requests(log: &str) -> Requests {
    let mut requests = Requests::default();
    for event in log.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        // An event of this stage has no response yet; that of a later stage follows.
        if !is_operator(&event.user.username) || event.stage == "RequestReceived" {
            continue;
        }
        let permission = event.permission();
        if event.is_unauthorized() {
            requests.refused.insert(permission);
            continue;
        }
        // A server-side apply that creates an object needs the permission to create it, too.
        let code = event.response_status.as_ref().map(|status| status.code);
        if code == Some(201) && event.verb == "patch" {
            requests.allowed.insert(permission_to_create(&permission));
        }
        requests.allowed.insert(permission);
    }
    requests
}

fn is_operator(username: &str) -> bool {
    let account = username.strip_prefix("system:serviceaccount:");
    let name = account.and_then(|account| account.split_once(':')).map(|(_, name)| name);
    name == Some(SERVICE_ACCOUNT)
}

impl Event {
    /// Whether the operator lacks a permission. Admission refuses what is permitted with the same code, such
    /// as a larger volume of a StorageClass that does not allow it.
    fn is_unauthorized(&self) -> bool {
        let refusal = self.response_status.as_ref().filter(|status| status.code == 403);
        refusal.is_some_and(|status| {
            let is_permitted = self.annotations.get(DECISION).is_some_and(|it| it == "allow");
            // An apply may be permitted, but not the creation that it turns out to be.
            let subject = format!("User \"{}\" cannot ", self.user.username);
            !is_permitted || status.message.contains(&subject)
        })
    }

    /// The permission that the request needs.
    fn permission(&self) -> Permission {
        let Some(object) = &self.object_ref else {
            let path = self.request_uri.split('?').next().unwrap_or_default();
            return Permission::url(&self.verb, path);
        };
        let ObjectRef { api_group, resource, subresource, name } = object;
        // The URL of a request that creates an object has no name, though the log has it.
        let is_nameless = name.is_empty() || (self.verb == "create" && subresource.is_empty());
        let name = if is_nameless { None } else { Some(name.as_str()) };
        if subresource.is_empty() {
            Permission::resource(&self.verb, api_group, resource, name)
        } else {
            let resource = format!("{resource}/{subresource}");
            Permission::resource(&self.verb, api_group, &resource, name)
        }
    }
}

fn permission_to_create(permission: &Permission) -> Permission {
    let mut created = permission.clone();
    if let Permission::Resource { verb, .. } = &mut created {
        "create".clone_into(verb);
    }
    created
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const OPERATOR: &str = "system:serviceaccount:test-1:controller-manager";

    fn event(user: &str, verb: &str, object: &Value, code: u16) -> Value {
        json!({
            "stage": "ResponseComplete", "verb": verb, "requestURI": "/logs?a=b",
            "user": {"username": user}, "objectRef": object, "responseStatus": {"code": code},
        })
    }

    fn of(events: &[Value]) -> (Vec<String>, Vec<String>) {
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        let Requests { allowed, refused } = requests(&lines.join("\n"));
        let text = |set: BTreeSet<Permission>| set.iter().map(ToString::to_string).collect();
        (text(allowed), text(refused))
    }

    fn allowed(event: Value) -> Vec<String> {
        of(&[event]).0
    }

    #[test]
    fn requests_of_the_operator_are_allowed_or_refused() {
        let pods = json!({"resource": "pods", "namespace": "test-1", "apiVersion": "v1"});
        let events = [
            event(OPERATOR, "list", &pods, 200),
            event(OPERATOR, "watch", &pods, 403),
            event("system:serviceaccount:a:other", "get", &pods, 200),
            event("me:controller-manager", "get", &pods, 200),
        ];
        let expected = (vec!["list pods (core)".to_owned()], vec!["watch pods (core)".to_owned()]);
        assert_eq!(of(&events), expected);
    }

    #[test]
    fn what_admission_refuses_is_permitted() {
        let claim = json!({"resource": "persistentvolumeclaims", "name": "a"});
        let mut refused = event(OPERATOR, "patch", &claim, 403);
        refused["annotations"] = json!({ DECISION: "allow" });
        assert_eq!(allowed(refused.clone()), ["patch persistentvolumeclaims/a (core)"]);
        let message = format!("a is forbidden: User \"{OPERATOR}\" cannot create resource");
        refused["responseStatus"]["message"] = json!(message);
        assert_eq!(allowed(refused.clone()), [""; 0]);
        refused["responseStatus"]["message"] = json!("");
        refused["annotations"] = json!({ DECISION: "forbid" });
        assert_eq!(allowed(refused), [""; 0]);
    }

    #[test]
    fn groups_subresources_and_names_are_part_of_a_request() {
        let object = json!({
            "apiGroup": "apps", "resource": "deployments", "subresource": "scale", "name": "a",
        });
        let update = event(OPERATOR, "update", &object, 200);
        assert_eq!(allowed(update), ["update deployments/a/scale (apps)"]);
        assert_eq!(allowed(event(OPERATOR, "get", &Value::Null, 200)), ["get /logs"]);
    }

    #[test]
    fn only_an_apply_creates_by_name() {
        let pod = json!({"resource": "pods", "name": "a"});
        assert_eq!(allowed(event(OPERATOR, "create", &pod, 201)), ["create pods (core)"]);
        let apply = event(OPERATOR, "patch", &pod, 201);
        assert_eq!(allowed(apply), ["create pods/a (core)", "patch pods/a (core)"]);
        assert_eq!(allowed(event(OPERATOR, "patch", &pod, 200)), ["patch pods/a (core)"]);
        let token = json!({"resource": "serviceaccounts", "subresource": "token", "name": "a"});
        let create = event(OPERATOR, "create", &token, 201);
        assert_eq!(allowed(create), ["create serviceaccounts/a/token (core)"]);
    }

    #[test]
    fn incomplete_lines_and_requests_without_a_response_are_skipped() {
        let pods = json!({"resource": "pods"});
        let mut received = event(OPERATOR, "list", &pods, 0);
        received["stage"] = json!("RequestReceived");
        let half = &event(OPERATOR, "list", &pods, 200).to_string()[..40];
        assert!(requests(&format!("{received}\nnot JSON\n{half}")).is_empty());
    }
}
