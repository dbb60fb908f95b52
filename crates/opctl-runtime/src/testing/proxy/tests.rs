use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request as HttpRequest;
use axum::response::IntoResponse;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use tokio::net::TcpListener as TokioListener;
use tokio::time::{sleep, timeout};

use super::*;

/// The delay between the events of a watch.
const INTERVAL: Duration = Duration::from_millis(20);

/// Longer than many events take.
const LONG: Duration = Duration::from_millis(500);

/// An API server that takes every object, and whose watches have an event in each interval, every
/// second one a bookmark. Counts the requests.
async fn upstream() -> (Config, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let routes = Router::new()
        .fallback(answer)
        .with_state(Arc::clone(&requests));
    let listener = TokioListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await });
    (Config::new(url.parse().unwrap()), requests)
}

async fn answer(
    State(requests): State<Arc<AtomicUsize>>,
    request: HttpRequest<Body>,
) -> impl IntoResponse {
    requests.fetch_add(1, Ordering::Relaxed);
    if !request.uri().to_string().contains("watch=true") {
        return Body::from(r#"{"metadata": {"name": "x"}}"#);
    }
    Body::from_stream(stream::unfold(0, async |number| {
        sleep(INTERVAL).await;
        let kind = if number % 2 == 1 { "BOOKMARK" } else { "ADDED" };
        let event = format!(
            r#"{{"type":"{kind}","object":{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{number}","resourceVersion":"{number}"}}}}}}"#
        );
        // In two parts: what is a chunk is not an event.
        let (left, right) = event.split_at(30);
        let parts = [left.to_owned(), format!("{right}\n")];
        let parts = parts.map(Ok::<_, std::convert::Infallible>);
        Some((stream::iter(parts), number + 1))
    })
    .flatten())
}

fn config_maps(proxy: &FaultProxy) -> Api<ConfigMap> {
    Api::namespaced(proxy.client(), "default")
}

async fn create(proxy: &FaultProxy) -> kube::Result<ConfigMap> {
    let mut object = ConfigMap::default();
    object.metadata.name = Some("x".to_owned());
    config_maps(proxy)
        .create(&PostParams::default(), &object)
        .await
}

/// The names of the objects in events, and of bookmarks `-`.
async fn watch(proxy: &FaultProxy) -> impl Stream<Item = kube::Result<String>> + Unpin {
    let events = config_maps(proxy).watch(&WatchParams::default(), "0").await;
    let names = events.unwrap().map_ok(|event| match event {
        WatchEvent::Added(object) => object.name_any(),
        _ => "-".to_owned(),
    });
    Box::pin(names)
}

async fn next(events: &mut (impl Stream<Item = kube::Result<String>> + Unpin)) -> Option<String> {
    let event = timeout(LONG, events.next()).await.ok()??;
    Some(event.unwrap())
}

#[tokio::test]
async fn a_rule_decides_what_becomes_of_its_requests() {
    let (config, requests) = upstream().await;
    let proxy = FaultProxy::start(config);
    assert!(create(&proxy).await.is_ok());
    let rule = Rule::new(Fault::Status(500))
        .verb("create")
        .resource("configmaps");
    let failed = proxy.inject(rule.times(1));
    let others = Rule::new(Fault::Status(500)).resource("configmaps/status");
    let spared = proxy.inject(others);
    let error = create(&proxy).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 500));
    assert!(create(&proxy).await.is_ok(), "it strikes once");
    assert_eq!((failed.count(), spared.count()), (1, 0));
    assert_eq!(requests.load(Ordering::Relaxed), 2, "it is not passed on");

    let seen = proxy.take_requests();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0].to_string(), "POST configmaps");
    assert_eq!(seen[0].body["metadata"]["name"], "x");
    drop(failed);
    assert!(create(&proxy).await.is_ok());
}

#[tokio::test]
async fn a_lost_answer_is_that_of_a_request_that_arrived() {
    let (config, requests) = upstream().await;
    let proxy = FaultProxy::start(config);
    for (fault, arrived) in [(Fault::Disconnect, 0), (Fault::LoseAnswer, 1)] {
        let _lost = proxy.inject(Rule::new(fault));
        assert!(matches!(create(&proxy).await, Err(kube::Error::Service(_))));
        assert_eq!(requests.load(Ordering::Relaxed), arrived);
    }
    {
        let _replaced = proxy.inject(Rule::new(Fault::ReplaceAnswer(500)));
        assert!(matches!(create(&proxy).await, Err(kube::Error::Api(_))));
        assert_eq!(requests.load(Ordering::Relaxed), 2);
    }
    let _hang = proxy.inject(Rule::new(Fault::Hang));
    assert!(timeout(LONG, create(&proxy)).await.is_err());
    assert_eq!(requests.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn the_events_of_a_watch_come_late_and_in_order() {
    let (config, _) = upstream().await;
    let proxy = FaultProxy::start(config);
    let _no_bookmarks = proxy.inject(Rule::new(Fault::DropBookmarks));
    let delays = LONG..2 * LONG;
    let delay = proxy.inject(Rule::new(Fault::DelayEvents(delays)).times(5));
    let (begin, mut events) = (Instant::now(), watch(&proxy).await);
    let first = events.next().await.unwrap().unwrap();
    assert!(begin.elapsed() > LONG);
    let mut names = vec![first];
    for _ in 0..9 {
        names.extend(next(&mut events).await);
    }
    assert_eq!(
        names,
        ["0", "2", "4", "6", "8", "10", "12", "14", "16", "18"]
    );
    assert_eq!(delay.count(), 5);
}

#[tokio::test]
async fn the_events_of_a_watch_are_dropped_or_held() {
    let (config, _) = upstream().await;
    let proxy = FaultProxy::start(config);
    let mut events = watch(&proxy).await;
    assert_eq!(next(&mut events).await.as_deref(), Some("0"));
    let dropped = proxy.inject(Rule::new(Fault::DropEvents).times(1));
    assert_eq!(next(&mut events).await.as_deref(), Some("-"));
    assert_eq!(
        next(&mut events).await.as_deref(),
        Some("-"),
        "2 is dropped"
    );
    assert_eq!(dropped.count(), 1);
    let held = proxy.inject(Rule::new(Fault::HoldEvents));
    assert_eq!(next(&mut events).await, None);
    drop(held);
    assert_eq!(next(&mut events).await.as_deref(), Some("4"));
}

#[tokio::test]
async fn a_watch_ends_or_goes_silent() {
    let (config, _) = upstream().await;
    let proxy = FaultProxy::start(config);
    let (mut silent, mut spared) = (watch(&proxy).await, watch(&proxy).await);
    assert!(next(&mut silent).await.is_some() && next(&mut spared).await.is_some());
    let silence = proxy.inject(Rule::new(Fault::Silence).times(1));
    sleep(INTERVAL).await;
    while silent.next().now_or_never().is_some() {}
    let cut = proxy.inject(Rule::new(Fault::Cut(LONG)));
    let mut ends = 0;
    for events in [&mut silent, &mut spared] {
        while let Ok(event) = timeout(2 * LONG, events.next()).await {
            // kube takes a broken connection for the end.
            if event.is_none() {
                ends += 1;
                break;
            }
        }
    }
    assert_eq!((silence.count(), ends, cut.count()), (1, 1, 1));
}
