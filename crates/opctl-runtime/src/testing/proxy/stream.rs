//! The events of a watch, on their way.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::stream::poll_fn;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, sleep_until};

use super::super::Request;
use super::fault::Fault;
use super::injection::{Injections, WatchFault};

/// How many chunks wait for the client. What is slow is the proxy, not the connection.
const BUFFER: usize = 16;

/// Passes the events of `body` on as the faults have it. An error ends the connection.
pub(super) fn pass(
    body: Body,
    request: Request,
    injections: Injections,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let (sender, mut receiver) = mpsc::channel(BUFFER);
    let watch = Watch {
        request,
        injections,
        faults: Vec::new(),
        events: VecDeque::new(),
        partial: Vec::new(),
    };
    tokio::spawn(watch.run(body, sender));
    poll_fn(move |context| receiver.poll_recv(context))
}

struct Watch {
    request: Request,
    injections: Injections,
    faults: Vec<WatchFault>,
    /// What is on its way, with the moment at which it arrives.
    events: VecDeque<(Instant, Bytes)>,
    /// The begin of an event whose end has yet to come.
    partial: Vec<u8>,
}

impl Watch {
    async fn run(mut self, body: Body, sender: Sender<io::Result<Bytes>>) {
        let mut chunks = body.into_data_stream();
        let mut changes = self.injections.changes();
        self.decide();
        let mut has_ended = false;
        loop {
            if self.has(&Fault::Silence) {
                return sender.closed().await;
            }
            if has_ended && self.events.is_empty() {
                return;
            }
            let next = match self.events.front() {
                Some((arrival, _)) if !self.has(&Fault::HoldEvents) => Some(*arrival),
                _ => None,
            };
            tokio::select! {
                biased;
                () = sender.closed() => return,
                () = at(self.cut()) => {
                    // The client is gone, or it gets the error.
                    let _ = sender.send(Err(io::Error::other("the watch is cut"))).await;
                    return;
                }
                Ok(()) = changes.changed() => self.decide(),
                () = at(next) => {
                    if let Some((_, event)) = self.events.pop_front()
                        && sender.send(Ok(event)).await.is_err()
                    {
                        return;
                    }
                }
                chunk = chunks.next(), if !has_ended => match chunk {
                    Some(Ok(chunk)) => self.take(&chunk),
                    // Whatever it was, for the client it is the end.
                    Some(Err(_)) | None => has_ended = true,
                },
            }
        }
    }

    fn decide(&mut self) {
        self.injections
            .decide_watch(&self.request, &mut self.faults);
    }

    fn has(&self, fault: &Fault) -> bool {
        self.faults
            .iter()
            .any(|it| it.fault.as_ref() == Some(fault))
    }

    /// When the watch is cut.
    fn cut(&self) -> Option<Instant> {
        let cuts = self.faults.iter().filter_map(|it| match it.fault {
            Some(Fault::Cut(after)) => Some(it.since + after),
            _ => None,
        });
        cuts.min()
    }

    /// Splits what has come into events: one a line.
    fn take(&mut self, chunk: &[u8]) {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(part);
            if !part.ends_with(b"\n") {
                continue;
            }
            let event = Bytes::from(std::mem::take(&mut self.partial));
            let is_bookmark = event.starts_with(br#"{"type":"BOOKMARK""#);
            let delay = self.injections.decide_event(&self.request, is_bookmark);
            if let Some(delay) = delay {
                self.send_after(delay, event);
            }
        }
    }

    /// None overtakes another.
    fn send_after(&mut self, delay: Duration, event: Bytes) {
        let last = self.events.back().map(|(arrival, _)| *arrival);
        let arrival = Instant::now() + delay;
        let arrival = last.map_or(arrival, |last| last.max(arrival));
        self.events.push_back((arrival, event));
    }
}

/// Waits for that moment, or for ever.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
