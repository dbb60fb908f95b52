//! A store that follows an API server of which the test writes each answer.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use futures::{FutureExt, SinkExt, channel};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::runtime::watcher;
use kube::{Client, ResourceExt, client};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tower::service_fn;

use crate::object::api;
use crate::store::{Answer, Selection, Store};

/// Longer than any delay of a store that follows.
const LONG: Duration = Duration::from_secs(400);

struct Server {
    requests: mpsc::UnboundedReceiver<Call>,
    store: Store<ConfigMap>,
    watch: JoinHandle<()>,
}

/// A request, and what answers it.
struct Call {
    query: String,
    answer: oneshot::Sender<io::Result<Response<Body>>>,
}

/// The events of a watch under way.
struct Events(channel::mpsc::UnboundedSender<Result<String, Infallible>>);

impl Events {
    async fn send(&mut self, kind: &str, object: Value) {
        let event = json!({ "type": kind, "object": object });
        let sent = self.0.send(Ok(format!("{event}\n"))).await;
        sent.expect("the watch should be under way");
        sleep(Duration::from_millis(1)).await;
    }

    async fn bookmark(&mut self, version: &str) {
        let metadata = json!({ "resourceVersion": version });
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        self.send("BOOKMARK", object).await;
    }

    async fn expire(mut self) {
        let status = json!({ "status": "Failure", "reason": "Expired", "code": 410 });
        self.send("ERROR", status).await;
    }
}

impl Server {
    fn start() -> Self {
        Self::start_with(Selection::All)
    }

    fn start_with(selection: Selection) -> Self {
        let (sender, requests) = mpsc::unbounded_channel();
        let service = service_fn(move |request: Request<client::Body>| {
            let (answer, answered) = oneshot::channel();
            let query = request.uri().query().unwrap_or_default().to_owned();
            let _ = sender.send(Call { query, answer });
            // What the test does not answer, hangs.
            async {
                match answered.await {
                    Ok(answer) => answer,
                    Err(_) => pending().await,
                }
            }
        });
        let store = Store::empty((), selection);
        let api = api(&Client::new(service, "default"), None, &());
        let name = "the watch".to_owned();
        let first_list = store.sync_state().add(name, Gauge::default());
        let watch = store
            .clone()
            .watch(None, api, watcher::Config::default(), first_list);
        Self {
            requests,
            store,
            watch: tokio::spawn(watch),
        }
    }

    async fn next(&mut self) -> Call {
        let call = timeout(LONG, self.requests.recv()).await;
        let call = call.expect("there should be a request in time");
        call.expect("the store should be watching")
    }

    /// Lets the store list these objects.
    async fn list(&mut self, version: &str, objects: &[Value]) {
        let call = self.next().await;
        assert!(!call.is_watch(), "{}", call.query);
        call.list(version, objects).await;
    }

    /// Lets the store watch from that version.
    async fn watch(&mut self, version: &str) -> Events {
        let call = self.next().await;
        assert_eq!(call.version(), Some(version), "{}", call.query);
        call.watch()
    }

    fn names(&self) -> Vec<String> {
        let objects = self.store.list();
        let mut names: Vec<_> = objects.iter().map(|object| object.name_any()).collect();
        names.sort();
        names
    }

    /// Sends a write. The result answers it with an object.
    fn write(&self) -> impl AsyncFnOnce(Value) + use<> {
        let (sender, answer) = oneshot::channel::<Value>();
        let store = self.store.clone();
        let written = tokio::spawn(async move {
            let request = async { Ok(Answer::Text(answer.await.unwrap().to_string())) };
            store.write(request, None).await.unwrap();
        });
        async |object| {
            sleep(Duration::from_millis(1)).await;
            sender.send(object).unwrap();
            written.await.unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Call {
    fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// The version that a watch begins with.
    fn version(&self) -> Option<&str> {
        let mut parameters = self.query.split('&').filter(|_| self.is_watch());
        parameters.find_map(|parameter| parameter.strip_prefix("resourceVersion="))
    }

    async fn list(self, version: &str, objects: &[Value]) {
        let list = json!({ "metadata": { "resourceVersion": version }, "items": objects });
        self.answer(StatusCode::OK, Body::from(list.to_string()));
        sleep(Duration::from_millis(1)).await;
    }

    fn watch(self) -> Events {
        let (sender, events) = channel::mpsc::unbounded();
        self.answer(StatusCode::OK, Body::from_stream(events));
        Events(sender)
    }

    fn fail(self, code: u16) {
        let status = json!({ "status": "Failure", "message": "no", "reason": "no", "code": code });
        let code = StatusCode::from_u16(code).unwrap();
        self.answer(code, Body::from(status.to_string()));
    }

    fn answer(self, code: StatusCode, body: Body) {
        let mut answer = Response::new(body);
        *answer.status_mut() = code;
        // The store may have given up.
        let _ = self.answer.send(Ok(answer));
    }

    fn disconnect(self) {
        let _ = self
            .answer
            .send(Err(io::Error::other("the connection is lost")));
    }
}

/// An object that a Secret controls.
fn child(name: &str, version: &str) -> Value {
    let mut child = object(name, version);
    let owner = json!({ "apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": "1", "controller": true });
    child["metadata"]["ownerReferences"] = json!([owner]);
    child
}

fn object(name: &str, version: &str) -> Value {
    json!({ "metadata": { "name": name, "resourceVersion": version, "uid": format!("uid of {name}") } })
}

#[tokio::test(start_paused = true)]
async fn a_write_during_a_list_is_not_undone_by_it() {
    let mut server = Server::start();
    server.list("5", &[object("old", "4")]).await;
    server.watch("5").await.expire().await;
    let (before, during) = (server.write(), server.write());
    let list = server.next().await;
    during(object("during", "7")).await;
    assert_eq!(server.names(), ["during", "old"]);
    list.list("6", &[object("old", "4")]).await;
    assert_eq!(server.names(), ["during", "old"]);
    // The answer to what was sent before the list, and done after it.
    before(object("before", "8")).await;
    assert_eq!(server.names(), ["before", "during", "old"]);

    let mut events = server.watch("6").await;
    events.send("ADDED", object("during", "7")).await;
    events.send("ADDED", object("before", "8")).await;
    events.send("DELETED", object("before", "9")).await;
    assert_eq!(server.names(), ["during", "old"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_has_older_versions_of_what_is_written_during_it() {
    let mut server = Server::start();
    server.list("5", &[object("a", "4")]).await;
    server.watch("5").await.expire().await;
    let list = server.next().await;
    server.write()(object("a", "8")).await;
    server.write()(object("a", "9")).await;
    list.list("7", &[object("a", "7")]).await;
    let a = server.store.get(None, "a").unwrap();
    assert_eq!(a.resource_version().as_deref(), Some("9"));
    // Whatever its version is, what is listed is right about what was not written.
    server.watch("7").await.expire().await;
    server.list("20", &[object("a", "3")]).await;
    let a = server.store.get(None, "a").unwrap();
    assert_eq!(a.resource_version().as_deref(), Some("3"));
}

#[tokio::test(start_paused = true)]
async fn a_list_is_right_about_what_was_deleted_before_it() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    server.watch("5").await.expire().await;
    let (early, late) = (server.write(), server.write());
    let list = server.next().await;
    early(object("a", "6")).await;
    list.list("9", &[]).await;
    assert!(server.names().is_empty());
    late(object("b", "7")).await;
    assert!(server.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restored_api_server_may_count_from_a_lower_version() {
    let mut server = Server::start();
    server
        .list(
            "90",
            &[
                object("a", "80"),
                object("changed", "85"),
                object("gone", "90"),
            ],
        )
        .await;
    server.watch("90").await.expire().await;
    let list = server.next().await;
    server.write()(object("during", "12")).await;
    server.write()(object("changed", "12")).await;
    list.list("11", &[object("a", "8"), object("changed", "9")])
        .await;
    assert_eq!(server.names(), ["a", "changed", "during"]);
    let changed = server.store.get(None, "changed").unwrap();
    assert_eq!(changed.resource_version().as_deref(), Some("12"));
    server.write()(object("b", "13")).await;
    assert_eq!(server.names(), ["a", "b", "changed", "during"]);
    let mut events = server.watch("11").await;
    events.send("DELETED", object("a", "14")).await;
    assert_eq!(server.names(), ["b", "changed", "during"]);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_from_before_shows_that_the_api_server_was_restored() {
    let mut server = Server::start();
    server.list("90", &[object("a", "80")]).await;
    let mut events = server.watch("90").await;
    events.bookmark("95").await;
    events.bookmark("20").await;
    server.list("21", &[]).await;
    assert!(server.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_version_of_a_list_shows_that_the_api_server_was_restored() {
    let mut server = Server::start();
    server.list("90", &[object("a", "80")]).await;
    drop(server.watch("90").await);
    server.next().await.disconnect();
    let look = server.next().await;
    assert!(look.query.contains("limit=1"), "{}", look.query);
    look.list("95", &[object("a", "80")]).await;
    let events = server.watch("90").await;
    drop(events);
    server.next().await.disconnect();
    server.list("20", &[]).await;
    server.list("21", &[]).await;
    server.watch("21").await;
    assert!(server.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn own_writes_with_opaque_versions_are_visible_at_once() {
    let mut server = Server::start();
    server.list("r", &[object("a", "q")]).await;
    let mut events = server.watch("r").await;
    server.write()(object("b", "c")).await;
    assert_eq!(server.names(), ["a", "b"]);

    // The watch was faster, and knows more.
    let late = server.write();
    sleep(Duration::from_millis(1)).await;
    events.send("ADDED", object("c", "b")).await;
    events.send("DELETED", object("c", "a")).await;
    late(object("c", "b")).await;
    assert_eq!(server.names(), ["a", "b"]);
    events.send("MODIFIED", object("a", "b")).await;
    let a = server.store.get(None, "a").unwrap();
    assert_eq!(a.resource_version().as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_that_of_one_object_and_not_of_its_successor() {
    let mut server = Server::start();
    server.list("r", &[object("a", "q")]).await;
    let mut events = server.watch("r").await;
    let mut successor = object("a", "c");
    successor["metadata"]["uid"] = json!("another");
    server.write()(successor).await;
    events.send("DELETED", object("a", "z")).await;
    assert_eq!(server.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_start_where_it_ended_lists_again() {
    for code in [410, 404, 400] {
        let mut server = Server::start();
        server.list("5", &[]).await;
        server.next().await.fail(code);
        server.list("9", &[object("a", "8")]).await;
        assert_eq!(server.names(), ["a"]);
        server.watch("9").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_continued_where_it_ended() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    let mut events = server.watch("5").await;
    events.send("ADDED", object("a", "7")).await;
    drop(events);
    let mut events = server.watch("7").await;
    events.bookmark("9").await;
    drop(events);
    server.next().await.fail(500);
    server.list("9", &[]).await; // a look
    server.watch("9").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_signs_of_life_is_replaced() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    let mut events = server.watch("5").await;
    events.bookmark("6").await;
    let silent_since = Instant::now();
    server.list("6", &[]).await; // a look
    let still_silent = server.watch("6").await;
    let elapsed = silent_since.elapsed();
    let minutes = Duration::from_secs(120)..Duration::from_secs(180);
    assert!(minutes.contains(&elapsed), "{elapsed:?}");
    server.list("9", &[object("missed", "7")]).await;
    assert_eq!(server.names(), ["missed"]);
    drop((events, still_silent));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_begin_is_tried_again() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    let first = server.next().await;
    let begin = Instant::now();
    server.list("5", &[]).await; // a look
    server.watch("5").await;
    let elapsed = begin.elapsed();
    assert!(elapsed < Duration::from_secs(90), "{elapsed:?}");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_bookmarks_is_not_taken_for_dead() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    for _ in 0..3 {
        let (begin, events) = (Instant::now(), server.watch("5").await);
        // The server ends it, as it was asked to.
        let early = timeout(Duration::from_secs(289), server.requests.recv()).await;
        assert!(early.is_err(), "after {:?}", begin.elapsed());
        drop(events);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_fail_become_rare() {
    let mut server = Server::start();
    let begin = Instant::now();
    let mut lists = 0;
    while begin.elapsed() < Duration::from_secs(300) {
        server.next().await.fail(500);
        lists += 1;
    }
    assert!((8..30).contains(&lists), "{lists} lists in five minutes");

    server.list("5", &[]).await;
    server.watch("5").await.bookmark("6").await;
    let begin = Instant::now();
    server.next().await.fail(410);
    server.next().await.fail(500);
    server.list("7", &[]).await;
    let elapsed = begin.elapsed();
    assert!(
        elapsed < Duration::from_secs(5),
        "{elapsed:?} after a success"
    );
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_do_not_keep_a_server_busy() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    let begin = Instant::now();
    for _ in 0..20 {
        drop(server.watch("5").await);
    }
    let elapsed = begin.elapsed();
    assert!(elapsed > Duration::from_secs(10), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn pages_that_expire_are_listed_at_once() {
    let mut server = Server::start();
    let page = server.next().await;
    assert!(page.query.contains("limit="), "{}", page.query);
    let items = [object("a", "1")];
    let list = json!({ "metadata": { "resourceVersion": "5", "continue": "x" }, "items": items });
    page.answer(StatusCode::OK, Body::from(list.to_string()));
    let page = server.next().await;
    assert!(page.query.contains("continue=x"), "{}", page.query);
    page.fail(410);
    let all = server.next().await;
    assert!(!all.query.contains("limit="), "{}", all.query);
    all.list("6", &[object("a", "1"), object("b", "6")]).await;
    assert_eq!(server.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_does_not_end_the_watch() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    let mut events = server.watch("5").await;
    events.send("ADDED", json!({ "metadata": 1 })).await;
    events.send("ADDED", object("a", "7")).await;
    assert_eq!(server.names(), ["a"]);
    assert!(server.requests.recv().now_or_never().is_none());
}

/// An object that nobody can read, of which only the name and the version are known.
fn unreadable(name: &str, version: &str) -> Value {
    let mut object = object(name, version);
    object["data"] = json!(1);
    object
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_has_said_is_not_read_again() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    let mut events = server.watch("5").await;
    server.write()(object("a", "7")).await;
    events.send("ADDED", unreadable("a", "7")).await;
    events.send("MODIFIED", unreadable("b", "8")).await;
    drop(events);
    server.watch("7").await;
    assert_eq!(server.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_read_where_the_watch_was_faster() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    let mut events = server.watch("5").await;
    let late = server.write();
    events.send("ADDED", object("a", "7")).await;
    late(unreadable("a", "7")).await;
    assert_eq!(server.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_cut_comes_again() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    let mut events = server.watch("5").await;
    let event = json!({ "type": "ADDED", "object": object("a", "7") }).to_string();
    let cut = event[..event.len() - 9].to_owned();
    events.0.send(Ok(cut)).await.unwrap();
    drop(events);
    server
        .watch("5")
        .await
        .send("ADDED", object("a", "7"))
        .await;
    assert_eq!(server.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_status_instead_of_an_event_is_an_error() {
    let mut server = Server::start();
    server.list("5", &[]).await;
    let mut events = server.watch("5").await;
    let status = json!({ "kind": "Status", "status": "Failure", "reason": "Expired", "code": 410 });
    events.0.send(Ok(format!("{status}\n"))).await.unwrap();
    server.list("9", &[object("a", "8")]).await;
    assert_eq!(server.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_later_is_listed_again() {
    let children = Selection::controlled_by::<Secret>(&());
    let mut server = Server::start_with(children.clone());
    let objects = [child("child", "3"), object("other", "4")];
    server.list("5", &objects).await;
    let mut events = server.watch("5").await;
    events.send("MODIFIED", object("other", "6")).await;
    assert_eq!(server.names(), ["child"]);
    server.store.select(children);
    assert!(server.store.synced().now_or_never().is_some());

    server.store.select(Selection::All);
    assert!(server.store.synced().now_or_never().is_none());
    let [_, other] = objects.clone();
    server.list("7", &[child("child", "3"), other]).await;
    server.store.synced().await;
    assert_eq!(server.names(), ["child", "other"]);
    let _events = server.watch("7").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_for_less_than_is_asked_for_now_does_not_count() {
    let mut server = Server::start_with(Selection::controlled_by::<Secret>(&()));
    let list = server.next().await;
    server.store.select(Selection::All);
    list.list("5", &[object("other", "4")]).await;
    assert!(server.store.synced().now_or_never().is_none());
    server.list("5", &[object("other", "4")]).await;
    server.store.synced().await;
    assert_eq!(server.names(), ["other"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_about_to_be_written_is_held_from_then_on() {
    let mut server = Server::start_with(Selection::controlled_by::<Secret>(&()));
    server.list("5", &[object("other", "4")]).await;
    let _events = server.watch("5").await;
    let (store, mut written) = (server.store.clone(), ConfigMap::default());
    written.metadata.name = Some("other".to_owned());
    let held = tokio::spawn(async move { store.hold(&written).await });
    server.list("5", &[object("other", "4")]).await;
    held.await.unwrap();
    assert_eq!(server.names(), ["other"]);
}
