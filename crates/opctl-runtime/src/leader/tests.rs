//! Managers on an API server that holds one Lease and, like the real one, refuses to replace it
//! under an old resource version.

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::service_fn;

use super::*;

const IDENTITY: Identity = Identity::new("test", "1.0.0");

#[derive(Default)]
struct Server {
    lease: Mutex<Option<Value>>,
    broken: Mutex<bool>,
    /// How long a write takes, which is in force before its answer.
    latency: Mutex<Duration>,
    writes: AtomicUsize,
}

impl Server {
    fn answer(&self, method: &Method, body: &[u8]) -> (StatusCode, Value) {
        let mut lease = self.lease.lock().unwrap();
        let stored = lease
            .as_ref()
            .map(|lease| &lease["metadata"]["resourceVersion"]);
        let error = |code: StatusCode, reason: &str| {
            let status = json!({ "status": "Failure", "code": code.as_u16(), "reason": reason });
            (code, status)
        };
        if *self.broken.lock().unwrap() {
            return error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
        }
        if method == Method::GET {
            let missing = || error(StatusCode::NOT_FOUND, "NotFound");
            return lease
                .clone()
                .map_or_else(missing, |lease| (StatusCode::OK, lease));
        }
        let mut new: Value = serde_json::from_slice(body).unwrap();
        if stored.is_some_and(|stored| *stored != new["metadata"]["resourceVersion"]) {
            return error(StatusCode::CONFLICT, "Conflict");
        }
        let version = stored.map_or(1, |version| {
            version.as_str().unwrap().parse::<u64>().unwrap() + 1
        });
        new["metadata"]["resourceVersion"] = version.to_string().into();
        *lease = Some(new.clone());
        (StatusCode::OK, new)
    }

    fn client(self: &Arc<Self>) -> Client {
        let server = Arc::clone(self);
        let service = service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let (status, answer) = server.answer(&head.method, &body);
                if head.method != Method::GET {
                    server.writes.fetch_add(1, Ordering::Relaxed);
                    let latency = *server.latency.lock().unwrap();
                    sleep(latency).await;
                }
                let answer = Body::from(answer.to_string().into_bytes());
                let answer = Response::builder().status(status).body(answer).unwrap();
                Ok::<_, Infallible>(answer)
            }
        });
        Client::new(service, "default")
    }

    fn holder(&self) -> String {
        let lease = self.lease.lock().unwrap();
        let holder = lease.as_ref().map(|lease| &lease["spec"]["holderIdentity"]);
        holder
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    fn elect(self: &Arc<Self>) -> Candidate {
        let leader = LeaderState::default();
        let timing = LeaderElection {
            enabled: true,
            lease_duration: Duration::from_secs(1),
            renew_deadline: Duration::from_millis(500),
            retry_period: Duration::from_millis(20),
            id: None,
            namespace: Some("default".to_owned()),
        };
        let metrics = Arc::new(Metrics::for_tests());
        let client = self.client();
        let elector = Elector::new(client, IDENTITY, &timing, leader.clone(), metrics).unwrap();
        let release = CancellationToken::new();
        let task = tokio::spawn(elector.run(release.clone()));
        Candidate {
            leader,
            release,
            task,
        }
    }
}

struct Candidate {
    leader: LeaderState,
    release: CancellationToken,
    task: JoinHandle<Result<()>>,
}

impl Candidate {
    async fn wins(&self) {
        let won = timeout(Duration::from_secs(30), self.leader.acquired());
        won.await.expect("a leader");
    }

    /// Stops it, and waits until it has ended.
    async fn stop(self) {
        self.release.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Waits until one of them leads. At no time may there be two.
async fn leader_of(candidates: &[Candidate]) -> usize {
    let found = async {
        loop {
            let leads = |index: &usize| candidates[*index].leader.is_held();
            let leading: Vec<_> = (0..candidates.len()).filter(leads).collect();
            match leading[..] {
                [] => sleep(Duration::from_millis(5)).await,
                [leader] => break leader,
                _ => panic!("{leading:?} lead"),
            }
        }
    };
    let found = timeout(Duration::from_secs(30), found).await;
    found.expect("a leader")
}

#[tokio::test]
async fn of_many_one_leads_and_another_follows_when_it_releases() {
    let server = Arc::new(Server::default());
    let mut candidates: Vec<_> = (0..5).map(|_| server.elect()).collect();
    leader_of(&candidates).await;
    sleep(Duration::from_millis(200)).await;
    let leader = leader_of(&candidates).await;

    let old = candidates.swap_remove(leader);
    old.release.cancel();
    old.task.await.unwrap().unwrap();
    assert!(!old.leader.is_held());
    leader_of(&candidates).await;
}

/// Waits until the next write is under way.
async fn next_write(server: &Server) {
    let writes = server.writes.load(Ordering::Relaxed);
    while server.writes.load(Ordering::Relaxed) == writes {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_manager_that_is_stopped_releases_the_lease_even_while_it_writes_it() {
    let server = Arc::new(Server::default());
    *server.latency.lock().unwrap() = Duration::from_millis(100);
    let candidate = server.elect();
    candidate.wins().await;
    next_write(&server).await;
    candidate.stop().await;
    assert_eq!(server.holder(), "");

    let candidate = server.elect();
    next_write(&server).await;
    assert_ne!(
        server.holder(),
        "",
        "it has taken the lease without knowing"
    );
    candidate.stop().await;
    assert_eq!(server.holder(), "");
}

#[tokio::test]
async fn a_lease_is_released_after_a_renewal_without_an_answer() {
    let server = Arc::new(Server::default());
    let candidate = server.elect();
    candidate.wins().await;
    // Longer than an attempt may take.
    *server.latency.lock().unwrap() = Duration::from_millis(300);
    next_write(&server).await;
    *server.latency.lock().unwrap() = Duration::ZERO;
    candidate.stop().await;
    assert_eq!(server.holder(), "");
}

#[tokio::test]
async fn a_lease_is_taken_over_once_it_was_not_renewed_for_its_duration() {
    let server = Arc::new(Server::default());
    let renewed = "1970-01-01T00:00:00.000000Z";
    *server.lease.lock().unwrap() = Some(json!({
        "metadata": { "name": IDENTITY.name(), "resourceVersion": "7" },
        "spec": { "holderIdentity": "gone", "leaseDurationSeconds": 1, "renewTime": renewed },
    }));
    let candidate = server.elect();
    // Its clock may be wrong: that it was renewed long ago says nothing.
    sleep(Duration::from_millis(800)).await;
    assert_eq!(server.holder(), "gone");
    candidate.wins().await;
    assert_ne!(server.holder(), "gone");
}

#[tokio::test]
async fn a_leader_gives_up_before_its_lease_expires() {
    let server = Arc::new(Server::default());
    let candidate = server.elect();
    candidate.wins().await;
    *server.broken.lock().unwrap() = true;
    let broken = Instant::now();
    assert!(candidate.task.await.unwrap().is_err());
    assert!(!candidate.leader.is_held());
    assert!(broken.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_leader_ends_when_another_manager_has_its_lease() {
    let server = Arc::new(Server::default());
    let candidate = server.elect();
    candidate.wins().await;
    if let Some(lease) = &mut *server.lease.lock().unwrap() {
        lease["metadata"]["resourceVersion"] = "100".into();
        lease["spec"]["holderIdentity"] = "another".into();
    }
    let error = candidate.task.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the lease went to another");
}
