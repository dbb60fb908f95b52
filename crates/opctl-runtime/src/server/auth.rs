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
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::warn;

/// Where the metrics are.
pub(super) const PATH: &str = "/metrics";

/// How long a decision holds: a revoked permission works for so much longer.
const TTL: Duration = Duration::from_secs(60);

/// How long a refusal holds: a permission that is granted works so much later.
const REFUSAL_TTL: Duration = Duration::from_secs(10);

/// How many reviews are under way at a time: tokens of others must not make this a load on the API server.
const MAX_REVIEWS: usize = 4;

/// How many decisions of each kind are remembered. There are few scrapers; tokens of others push none
/// out.
const MAX_DECISIONS: usize = 64;

/// How long the API server may take to decide.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Reviews every token.
pub(super) struct Authorizer {
    client: Client,
    allowed: Mutex<Decisions<()>>,
    refused: Mutex<Decisions<StatusCode>>,
    reviews: Semaphore,
}

/// What was decided on tokens, and when.
type Decisions<T> = HashMap<String, (Instant, T)>;

impl Authorizer {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            allowed: Mutex::default(),
            refused: Mutex::default(),
            reviews: Semaphore::new(MAX_REVIEWS),
        }
    }

    /// Whether the request with these headers may get the metrics.
    ///
    /// # Errors
    /// The status to answer with: 401 without a valid token, 403 without the permission, 500
    /// where the API server does not answer.
    pub async fn check(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let token = bearer(headers).ok_or(StatusCode::UNAUTHORIZED)?;
        if let Some(decision) = self.remembered(token) {
            return decision;
        }
        match timeout(REVIEW_TIMEOUT, self.review(token)).await {
            Ok(Ok(decision)) => decision,
            Ok(Err(error)) => {
                warn!(%error, "cannot review the token of a client of /metrics");
                Err(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Err(_) => Err(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// Asks the API server, when it is this request's turn.
    async fn review(&self, token: &str) -> kube::Result<Result<(), StatusCode>> {
        // The semaphore is never closed.
        let _turn = self.reviews.acquire().await;
        if let Some(decision) = self.remembered(token) {
            return Ok(decision); // another request of the same client was first
        }
        let decision = self.ask(token).await?;
        match decision {
            Ok(()) => remember(&self.allowed, token, (), TTL),
            Err(refusal) => remember(&self.refused, token, refusal, REFUSAL_TTL),
        }
        Ok(decision)
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

    fn remembered(&self, token: &str) -> Option<Result<(), StatusCode>> {
        if recall(&self.allowed, token, TTL).is_some() {
            return Some(Ok(()));
        }
        recall(&self.refused, token, REFUSAL_TTL).map(Err)
    }
}

fn recall<T: Copy>(decisions: &Mutex<Decisions<T>>, token: &str, ttl: Duration) -> Option<T> {
    let decisions = decisions.lock().unwrap_or_else(PoisonError::into_inner);
    let (since, decision) = decisions.get(token)?;
    (since.elapsed() < ttl).then_some(*decision)
}

fn remember<T>(decisions: &Mutex<Decisions<T>>, token: &str, decision: T, ttl: Duration) {
    let mut decisions = decisions.lock().unwrap_or_else(PoisonError::into_inner);
    decisions.retain(|_, (since, _)| since.elapsed() < ttl);
    if decisions.len() < MAX_DECISIONS {
        decisions.insert(token.to_owned(), (Instant::now(), decision));
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
    use futures::future::join_all;
    use kube::client::Body;
    use tokio::time::{advance, sleep};
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
    async fn a_decision_is_remembered() {
        let scraper = headers("bearer x");
        for (allowed, decision) in [(true, Ok(())), (false, Err(StatusCode::FORBIDDEN))] {
            let (authorizer, asked) = authorizer(allowed);
            assert_eq!(authorizer.check(&scraper).await, decision);
            assert_eq!(authorizer.check(&scraper).await, decision);
            assert_eq!(
                asked.load(Ordering::Relaxed),
                2,
                "two reviews for the first check"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_permission_that_is_granted_counts_soon() {
        let (authorizer, asked) = authorizer(false);
        for reviews in [2, 4] {
            let decision = authorizer.check(&headers("bearer x")).await;
            assert_eq!(decision, Err(StatusCode::FORBIDDEN));
            assert_eq!(asked.load(Ordering::Relaxed), reviews);
            advance(REFUSAL_TTL).await;
        }
    }

    #[tokio::test]
    async fn tokens_of_others_push_out_no_permission() {
        let (authorizer, asked) = authorizer(true);
        assert_eq!(authorizer.check(&headers("bearer x")).await, Ok(()));
        for token in 0..2 * MAX_DECISIONS {
            let others = headers(&format!("bearer {token}"));
            assert_eq!(authorizer.check(&others).await, Ok(()));
        }
        let reviews = asked.load(Ordering::Relaxed);
        assert_eq!(authorizer.check(&headers("bearer x")).await, Ok(()));
        assert_eq!(asked.load(Ordering::Relaxed), reviews);
    }

    #[tokio::test(start_paused = true)]
    async fn few_reviews_are_under_way_at_a_time() {
        let under_way = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let (counter, maximum) = (Arc::clone(&under_way), Arc::clone(&most));
        let service = service_fn(move |_: Request<Body>| {
            let (counter, maximum) = (Arc::clone(&counter), Arc::clone(&maximum));
            async move {
                let reviews = counter.fetch_add(1, Ordering::Relaxed) + 1;
                maximum.fetch_max(reviews, Ordering::Relaxed);
                sleep(Duration::from_millis(5)).await;
                counter.fetch_sub(1, Ordering::Relaxed);
                let answer = json!({ "metadata": {}, "spec": {}, "status": {} }).to_string();
                Ok::<_, Infallible>(Response::new(Body::from(answer.into_bytes())))
            }
        });
        let authorizer = Authorizer::new(Client::new(service, "default"));
        let checks = (0..64).map(async |token| {
            let refused = authorizer.check(&headers(&format!("bearer {token}"))).await;
            assert_eq!(refused, Err(StatusCode::UNAUTHORIZED));
        });
        join_all(checks).await;
        assert_eq!(most.load(Ordering::Relaxed), MAX_REVIEWS);
    }
}
