//! Creations whose answers are lost.

mod predecessors;

use std::io;
use std::sync::Mutex;

use axum::http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

use super::*;
use crate::Identity;
use crate::testing::{Requests, recording_client};

/// What becomes of a creation.
#[derive(Clone, Copy)]
enum Fate {
    /// The API server never sees it.
    Lost,
    /// It is done, but there is no answer.
    Unanswered,
    /// It is done, but the answer says that it takes too long.
    TimedOut,
}

/// An applier whose first creations meet with these fates, and the requests that the API server sees.
fn applier(fates: Vec<Fate>) -> (Applier, Requests) {
    let (server, requests) = recording_client();
    let fates = Mutex::new(fates.into_iter());
    let service = service_fn(move |request: Request<Body>| {
        let is_creation = request.method() == Method::POST;
        let fate = is_creation.then(|| fates.lock().unwrap().next()).flatten();
        let server = server.clone();
        async move {
            if let Some(Fate::Lost) = fate {
                return Err(io::Error::other("the request is lost"));
            }
            let answer = server.send(request).await.map_err(io::Error::other)?;
            match fate {
                Some(Fate::TimedOut) => {
                    let status = json!({ "status": "Failure", "reason": "Timeout", "code": 504 });
                    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
                    *answer.status_mut() = StatusCode::GATEWAY_TIMEOUT;
                    Ok(answer)
                }
                Some(_) => Err(io::Error::other("the answer is lost")),
                None => Ok(answer),
            }
        }
    });
    let client = Client::new(service, "default");
    let applier = Applier::new(Identity::new("test", "1.0.0"), client);
    (applier, requests)
}

fn owner() -> ConfigMap {
    let mut owner = child();
    owner.metadata.name = Some("owner".to_owned());
    owner.metadata.uid = Some("1".to_owned());
    owner
}

fn child() -> ConfigMap {
    let mut child = ConfigMap::default();
    child.metadata.generate_name = Some("child-".to_owned());
    child.metadata.namespace = Some("default".to_owned());
    child
}

/// The names of the creations that the API server has seen.
fn names(requests: &Requests) -> Vec<String> {
    let mut requests = requests.take();
    requests.retain(|request| request.method == "POST");
    let names = requests
        .iter()
        .map(|request| request.body["metadata"]["name"].to_string());
    names.collect()
}

#[tokio::test]
async fn a_creation_whose_answer_is_lost_is_not_done_twice() {
    for fate in [Fate::Unanswered, Fate::TimedOut] {
        let (applier, requests) = applier(vec![fate, fate]);
        let (owner, store) = (owner(), Store::from_iter([]));
        let create = async || applier.create(&owner, child(), &store).await;
        assert!(create().await.is_err());
        // A repetition, of which there is no answer either.
        assert!(create().await.is_err());
        let known = create().await.unwrap_err();
        assert!(matches!(known, Error::AlreadyCreated { .. }), "{known}");
        let children = store.by_owner(&owner);
        assert_eq!(children.len(), 1, "the store has it now");
        let other = create().await.unwrap();
        assert_ne!(other.name_any(), children[0].name_any());
        assert_eq!(store.by_owner(&owner).len(), 2);
        let names = names(&requests);
        assert_eq!(names.len(), 4);
        assert!(names[0] == names[1] && names[1] == names[2] && names[2] != names[3]);
    }
}

#[tokio::test]
async fn a_creation_that_is_lost_is_repeated() {
    let (applier, requests) = applier(vec![Fate::Lost]);
    let (owner, store) = (owner(), Store::from_iter([]));
    let create = async || applier.create(&owner, child(), &store).await;
    assert!(create().await.is_err());
    let created = create().await.unwrap();
    assert_eq!(names(&requests), [format!("\"{}\"", created.name_any())]);
    assert_eq!(store.by_owner(&owner).len(), 1);
}
