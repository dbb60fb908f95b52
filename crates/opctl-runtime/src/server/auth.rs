//! Authenticates and authorizes clients of /metrics by the API server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tracing::warn;

/// Where the metrics are.
pub(super) const PATH: &str = "/metrics";

/// How long a decision holds: a revoked permission works for so much longer.
const TTL: Duration = Duration::from_secs(60);

/// How many decisions are remembered. There are few scrapers; tokens of others push none out.
const MAX_DECISIONS: usize = 64;

/// How long the API server may take to decide.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Reviews every token.
pub(super) struct Authorizer {
    client: Client,
    /// The authorized tokens, and since when.
    allowed: Mutex<HashMap<String, Instant>>,
}

impl Authorizer {
    pub fn new(client: Client) -> Self {
        let allowed = Mutex::default();
        Self { client, allowed }
    }

    /// Whether the request with these headers may get the metrics.
    ///
    /// # Errors
    /// The status to answer with: 401 without a valid token, 403 without the permission, 500
    /// where the API server does not answer.
    pub async fn check(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let token = bearer(headers).ok_or(StatusCode::UNAUTHORIZED)?;
        if self.remembers(token) {
            return Ok(());
        }
        match timeout(REVIEW_TIMEOUT, self.ask(token)).await {
            Ok(Ok(Ok(()))) => self.remember(token.to_owned()),
            Ok(Ok(Err(refusal))) => return Err(refusal),
            Ok(Err(error)) => {
                warn!(%error, "cannot review the token of a client of /metrics");
                return Err(StatusCode::INTERNAL_SERVER_ERROR);
            }
            Err(_) => return Err(StatusCode::INTERNAL_SERVER_ERROR),
        }
        Ok(())
    }

    async fn ask(&self, token: &str) -> kube::Result<Result<(), StatusCode>> {
        // The field is optional in some versions of the API types.
        let review = json!({ "spec": { "token": token } });
        let review: TokenReview =
            serde_json::from_value(review).map_err(kube::Error::SerdeError)?;
        let reviews = Api::all(self.client.clone());
        let status = reviews
            .create(&PostParams::default(), &review)
            .await?
            .status;
        let status = status.filter(|status| status.authenticated == Some(true));
        let Some(user) = status.and_then(|status| status.user) else {
            return Ok(Err(StatusCode::UNAUTHORIZED));
        };

        let reviews = Api::all(self.client.clone());
        let review = access(user);
        let status = reviews
            .create(&PostParams::default(), &review)
            .await?
            .status;
        match status.is_some_and(|status| status.allowed) {
            true => Ok(Ok(())),
            false => Ok(Err(StatusCode::FORBIDDEN)),
        }
    }

    fn remembers(&self, token: &str) -> bool {
        let allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        let since = allowed.get(token);
        since.is_some_and(|since| since.elapsed() < TTL)
    }

    fn remember(&self, token: String) {
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        allowed.retain(|_, since| since.elapsed() < TTL);
        if allowed.len() < MAX_DECISIONS {
            allowed.insert(token, Instant::now());
        }
    }
}

fn access(user: UserInfo) -> SubjectAccessReview {
    let attributes = NonResourceAttributes {
        path: Some(PATH.to_owned()),
        verb: Some("get".to_owned()),
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            extra: user.extra,
            groups: user.groups,
            non_resource_attributes: Some(attributes),
            uid: user.uid,
            user: user.username,
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    /// An API server that authenticates every token and authorizes all of them or none, and how often it
    /// was asked.
    fn authorizer(allowed: bool) -> (Authorizer, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let service = service_fn(move |_: Request<Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let user = json!({ "username": "prometheus" });
            let status = json!({ "authenticated": true, "user": user, "allowed": allowed });
            let answer = json!({ "metadata": {}, "spec": { "token": "" }, "status": status });
            let answer = Response::new(Body::from(answer.to_string().into_bytes()));
            async { Ok::<_, Infallible>(answer) }
        });
        (Authorizer::new(Client::new(service, "default")), asked)
    }

    fn headers(authorization: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, authorization.parse().unwrap())])
    }

    #[tokio::test]
    async fn without_a_token_nobody_is_asked() {
        let (authorizer, asked) = authorizer(true);
        for headers in [HeaderMap::new(), headers("Basic x"), headers("Bearer ")] {
            assert_eq!(
                authorizer.check(&headers).await,
                Err(StatusCode::UNAUTHORIZED)
            );
        }
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_permission_is_remembered_and_a_refusal_is_not() {
        let scraper = headers("bearer x");
        let (open, asked) = authorizer(true);
        assert_eq!(open.check(&scraper).await, Ok(()));
        assert_eq!(open.check(&scraper).await, Ok(()));
        assert_eq!(
            asked.load(Ordering::Relaxed),
            2,
            "two reviews for the first check"
        );

        let (shut, asked) = authorizer(false);
        for _ in 0..2 {
            assert_eq!(shut.check(&scraper).await, Err(StatusCode::FORBIDDEN));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }
}
