//! The objects that exist, and what a request makes of them.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

use super::Request;

/// A resource version that is newer than those of objects that tests make.
const FIRST_VERSION: u64 = 1_000_000;

type Answer = (StatusCode, Value);

#[derive(Debug)]
pub(super) struct Objects {
    by_path: BTreeMap<String, Value>,
    version: u64,
}

impl Default for Objects {
    fn default() -> Self {
        Self {
            by_path: BTreeMap::new(),
            version: FIRST_VERSION,
        }
    }
}

impl Objects {
    pub fn insert(&mut self, path: String, object: Value) {
        self.by_path.insert(path, object);
    }

    /// Carries the request out.
    pub fn answer(&mut self, request: &Request, content_type: &str) -> Answer {
        let answer = match (request.method.as_str(), &request.name) {
            ("GET", None) => Ok(self.list(request)),
            ("GET", Some(_)) => self.get(request).cloned(),
            ("POST", None) => self.create(request),
            ("PUT" | "PATCH", Some(_)) => self.change(request, content_type),
            ("DELETE", Some(_)) => self.delete(request),
            // Such as the eviction of a pod.
            _ => Ok(request.body.clone()),
        };
        match answer {
            Ok(object) => (StatusCode::OK, object),
            Err(code) => (code, failure(request, code)),
        }
    }

    fn list(&self, request: &Request) -> Value {
        let directory = format!("{}/", request.path);
        let items = self.by_path.iter();
        let name = request
            .query
            .split('&')
            .find_map(|parameter| parameter.strip_prefix("fieldSelector=metadata.name%3D"));
        let items = items.filter(|(path, _)| {
            let rest = path.strip_prefix(&directory);
            rest.is_some_and(|rest| name.is_none_or(|name| rest == name))
        });
        let items: Vec<_> = items.map(|(_, object)| object).collect();
        json!({ "metadata": { "resourceVersion": self.version.to_string() }, "items": items })
    }

    fn get(&self, request: &Request) -> Result<&Value, StatusCode> {
        let object = self.by_path.get(request.object_path());
        object.ok_or(StatusCode::NOT_FOUND)
    }

    fn create(&mut self, request: &Request) -> Result<Value, StatusCode> {
        let metadata = &request.body["metadata"];
        let name = match (metadata["name"].as_str(), metadata["generateName"].as_str()) {
            (Some(name), _) => name.to_owned(),
            (None, Some(prefix)) => format!("{prefix}{}", self.version),
            (None, None) => return Err(StatusCode::UNPROCESSABLE_ENTITY),
        };
        let path = format!("{}/{name}", request.path);
        if self.by_path.contains_key(&path) {
            return Err(StatusCode::CONFLICT);
        }
        let mut object = request.body.clone();
        object["metadata"]["name"] = json!(name);
        Ok(self.store(path, request, None, object))
    }

    fn change(&mut self, request: &Request, content_type: &str) -> Result<Value, StatusCode> {
        let applies = content_type.starts_with("application/apply-patch");
        let old = match self.get(request) {
            Ok(object) => Some(object.clone()),
            Err(_) if applies && request.subresource.is_none() => None,
            Err(code) => return Err(code),
        };
        let live = match &old {
            Some(object) => object.clone(),
            None => json!({ "metadata": { "name": request.name } }),
        };
        let expected = &request.body["metadata"];
        for field in ["uid", "resourceVersion"] {
            // A version does not keep an apply from creating an object.
            let is_expected = !expected[field].is_null() && (old.is_some() || field == "uid");
            if is_expected && expected[field] != live["metadata"][field] {
                return Err(StatusCode::CONFLICT);
            }
        }
        let changed = match request.method.as_str() {
            "PUT" => request.body.clone(),
            _ if applies => applied(live.clone(), &request.body),
            _ => patched(live.clone(), &request.body, content_type)?,
        };
        let new = match request.subresource.as_deref() {
            None => with_status(changed, &live["status"]),
            Some("status") => with_status(live, &changed["status"]),
            Some(_) => return Ok(request.body.clone()), // such as a Scale
        };
        Ok(self.store(request.object_path().to_owned(), request, old, new))
    }

    fn delete(&mut self, request: &Request) -> Result<Value, StatusCode> {
        let deleted = self.by_path.remove(request.object_path());
        let status = json!({ "apiVersion": "v1", "kind": "Status", "status": "Success" });
        deleted.map(|_| status).ok_or(StatusCode::NOT_FOUND)
    }

    /// Keeps the object, with the metadata that an API server sets.
    fn store(
        &mut self,
        path: String,
        request: &Request,
        old: Option<Value>,
        mut new: Value,
    ) -> Value {
        let old = old.unwrap_or_default();
        let metadata = &old["metadata"];
        for field in ["uid", "resourceVersion", "generation"] {
            new["metadata"][field] = metadata[field].clone();
        }
        if new == old {
            return new;
        }
        self.version += 1;
        new["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if metadata["uid"].is_null() {
            new["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        if specification(&old) != specification(&new) {
            let generation = metadata["generation"].as_i64().unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + 1);
        }
        if let Some(namespace) = &request.namespace {
            new["metadata"]["namespace"] = json!(namespace);
        }
        if is_finalized(&new) {
            self.by_path.remove(&path);
        } else {
            self.by_path.insert(path, new.clone());
        }
        new
    }
}

/// The object with these fields; its metadata is merged.
fn applied(mut object: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().into_iter().flatten() {
        if name == "metadata" {
            json_patch::merge(&mut object[name], value);
        } else {
            object[name] = value.clone();
        }
    }
    object
}

fn patched(mut object: Value, patch: &Value, content_type: &str) -> Result<Value, StatusCode> {
    if content_type.starts_with("application/json-patch") {
        let patch = serde_json::from_value::<Patch>(patch.clone());
        let mut patch = patch.map_err(|_| StatusCode::BAD_REQUEST)?;
        patch
            .0
            .retain(|operation| !is_test_for_none(operation, &object));
        let result = json_patch::patch(&mut object, &patch);
        result.map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?;
    } else {
        json_patch::merge(&mut object, patch);
    }
    Ok(object)
}

/// Whether the operation tests that a field is null that is missing: to Kubernetes that is the same.
fn is_test_for_none(operation: &PatchOperation, object: &Value) -> bool {
    matches!(
        operation,
        PatchOperation::Test(test) if test.value.is_null() && object.pointer(test.path.as_str()).is_none()
    )
}

fn with_status(mut object: Value, status: &Value) -> Value {
    let patch = json!({ "status": null });
    json_patch::merge(&mut object, &patch);
    if !status.is_null() {
        object["status"] = status.clone();
    }
    object
}

/// What the generation counts the changes of.
fn specification(object: &Value) -> Vec<(&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| !["metadata", "status"].contains(&name.as_str()))
        .collect()
}

/// Whether nothing keeps an object that was deleted.
fn is_finalized(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array();
    !metadata["deletionTimestamp"].is_null() && finalizers.is_none_or(Vec::is_empty)
}

/// The answer to a request that fails.
fn failure(request: &Request, code: StatusCode) -> Value {
    let reason = match code {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT if request.method == "POST" => "AlreadyExists",
        StatusCode::CONFLICT => "Conflict",
        StatusCode::BAD_REQUEST => "BadRequest",
        _ => "Invalid",
    };
    json!({
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code.as_u16(),
        "reason": reason,
        "message": format!("{request}: {reason}"),
    })
}
