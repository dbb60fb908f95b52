//! Fills a store for as long as the process lives.
//!
//! It is not kube's `watcher`, which keeps to itself the version of a list and the bookmarks: the one
//! tells what was written after the list was made, the others that a silent watch is alive.

mod delays;

use std::time::Duration;
use std::{io, iter};

use axum::http::HeaderValue;
use axum::http::header::ACCEPT_ENCODING;
use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::api::{ListParams, Request, VersionMatch, WatchParams};
use kube::core::Status;
use kube::runtime::watcher::{Config, ListSemantic};
use kube::{Api, Error};
use serde::de::DeserializeOwned;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use self::delays::Delays;
use super::Store;
use super::glance::{Glance, Holder};
use super::objects::Listed;
use super::selection::Selection;
use super::state::Event;
use super::sync::FirstList;
use crate::object::Object;
use crate::runtime::Hurry;
use crate::without_managed_fields::WithoutManagedFields;

/// How many objects one request lists: an answer is in memory several times while it is read.
const PAGE_SIZE: u32 = 100;

/// How long an API server may take to answer a list or to begin a watch.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a watch lasts at most, in seconds. kube-apiserver ends one by itself after a random time of
/// at least 30 minutes (`--min-request-timeout`); proxies on the way have less patience.
const WATCH_DURATION: u32 = 290;

/// How long the API server may take to end a watch that has lasted long enough.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a watch may be silent where the API server sends bookmarks: kube-apiserver does that every
/// minute (<https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks>).
const SILENCE_TIMEOUT: Duration = Duration::from_secs(150);

/// How much memory a watch keeps for the next event, in bytes: most are smaller.
const LINE: usize = 16 << 10;

/// A watch that ends earlier has not worked.
const STEADY: Duration = Duration::from_secs(5);

impl<K: Object> Store<K> {
    /// Fills the store with the objects of one namespace, or of all, without an end, and
    /// reports its first complete list.
    pub(crate) async fn watch(
        self,
        namespace: Option<String>,
        api: Api<WithoutManagedFields<K>>,
        config: Config,
        first_list: FirstList,
    ) {
        let mut follower = Follower {
            selection: self.0.selection.subscribe(),
            store: self,
            namespace,
            api,
            config,
            first_list,
            version: None,
            has_bookmarks: false,
            is_silent: false,
            is_doubtful: false,
            delays: Delays::default(),
        };
        loop {
            let followed = match follower.version.clone() {
                None => follower.list().await,
                Some(version) => follower.follow(&version).await,
            };
            if let Err(interruption) = followed {
                follower.recover(interruption).await;
            }
        }
    }
}

/// Why a watch does not go on.
enum Interruption {
    /// The API server no longer knows what has changed since, as after a restart.
    Expired,
    /// Nothing has come for too long.
    Silent,
    /// It has ended too early.
    Short,
    /// The store holds objects that were not listed.
    Selected,
    Failed(Error),
}

/// How far one watch of a store has come.
struct Follower<K: Object> {
    store: Store<K>,
    selection: Receiver<Selection>,
    namespace: Option<String>,
    api: Api<WithoutManagedFields<K>>,
    config: Config,
    first_list: FirstList,
    /// Where the watch goes on; `None` is a list.
    version: Option<String>,
    has_bookmarks: bool,
    /// Whether nothing has come since a watch was replaced for that.
    is_silent: bool,
    /// Whether the API server may be another one than before, restored from a backup.
    is_doubtful: bool,
    delays: Delays,
}

impl<K: Object> Follower<K> {
    /// Lists all objects.
    async fn list(&mut self) -> Result<(), Interruption> {
        let _hurry = Hurry::for_list();
        self.selection.mark_unchanged();
        self.report(Event::ListBegins);
        let listed = match self.pages(Some(PAGE_SIZE)).await {
            // It takes longer than the API server keeps the pages.
            Err(Interruption::Expired) => self.pages(None).await,
            listed => listed,
        };
        let (objects, version) = listed?;
        self.version = Some(version.clone());
        self.report(Event::Listed { objects, version });
        self.is_doubtful = false;
        let selection = self.selection.borrow(); // as long as this is borrowed, it stays
        if selection.has_changed() {
            return Err(Interruption::Selected);
        }
        self.first_list.complete();
        Ok(())
    }

    /// All objects, as of the version that comes with them.
    async fn pages(&self, limit: Option<u32>) -> Result<(Vec<Listed<K>>, String), Interruption> {
        let mut objects = Vec::new();
        let mut params = ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit,
            ..ListParams::default()
        };
        if self.config.list_semantic == ListSemantic::Any && !self.first_list.is_complete() {
            // A list that is made later must not be older.
            params.resource_version = Some("0".to_owned());
            params.version_match = Some(VersionMatch::NotOlderThan);
        }
        loop {
            let page = in_time(self.api.list(&params)).await?;
            let items = page.items.into_iter();
            objects.extend(items.filter_map(|WithoutManagedFields(it)| self.store.listed(it)));
            if self.selection.has_changed().unwrap_or_default() {
                return Err(Interruption::Selected);
            }
            let token = page.metadata.continue_.filter(|token| !token.is_empty());
            if token.is_none() {
                let version = page.metadata.resource_version;
                let version = version.filter(|version| !version.is_empty());
                let version = version.ok_or_else(|| failure("a list has no resourceVersion"))?;
                return Ok((objects, version));
            }
            params.continue_token = token;
            params.resource_version = None;
            params.version_match = None;
        }
    }

    /// Looks whether the API server has come to that version. Where it has not, it lets a watch wait
    /// for it, which then misses what changes meanwhile.
    async fn check(&mut self, version: &str) -> Result<(), Interruption> {
        let page = in_time(self.api.list(&ListParams::default().limit(1))).await?;
        self.is_doubtful = false;
        let current = page.metadata.resource_version.unwrap_or_default();
        if is_before(&current, Some(version)) {
            return Err(Interruption::Expired);
        }
        Ok(())
    }

    /// Watches what changes after that version, until the watch ends.
    async fn follow(&mut self, version: &str) -> Result<(), Interruption> {
        if self.is_doubtful {
            self.check(version).await?;
        }
        let start = Instant::now();
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: Some(self.duration()),
            bookmarks: self.config.bookmarks,
            send_initial_events: false,
        };
        let events = timeout(ANSWER_TIMEOUT, self.events(&params, version)).await;
        let events = events.map_err(|_| Interruption::Silent)?;
        if let Err(Error::Api(status)) = &events
            && matches!(status.code, 400..429)
        {
            self.version = None; // it will not begin there
        }
        let (mut events, mut event) = (events?, String::new());
        loop {
            event.clear();
            event.shrink_to(LINE);
            let length = tokio::select! {
                length = timeout(self.silence(), events.read_line(&mut event)) => length,
                Ok(()) = self.selection.changed() => return Err(Interruption::Selected),
            };
            match length.map_err(|_| Interruption::Silent)? {
                Ok(0) => break,
                Err(error) if is_cut(&error) => break,
                length => _ = length.map_err(Error::ReadEvents)?,
            }
            self.take(&event)?;
            self.is_silent = false;
            self.delays.reset();
        }
        if start.elapsed() < STEADY {
            return Err(Interruption::Short);
        }
        self.delays.reset();
        Ok(())
    }

    /// Begins a watch, of which each event is a line. `Api::watch` would have read them all: half are those of own
    /// writes, whose answers said the same.
    async fn events(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> Result<impl AsyncBufRead + Unpin + use<K>, Error> {
        let request = Request::new(self.api.resource_url());
        let request = if K::metadata_api() {
            request.watch_metadata(params, version)
        } else {
            request.watch(params, version)
        };
        let mut request = request.map_err(Error::BuildRequest)?;
        // As kube does: it reads no watch that is compressed event by event.
        let encoding = HeaderValue::from_static("identity");
        request.headers_mut().insert(ACCEPT_ENCODING, encoding);
        request.extensions_mut().insert("watch");
        let events = self
            .api
            .clone()
            .into_client()
            .request_stream(request)
            .await?;
        Ok(Box::pin(events))
    }

    /// Takes in an event, which is JSON.
    fn take(&mut self, event: &str) -> Result<(), Interruption> {
        let seen = Glance::at_event(event);
        let version = seen.version.clone();
        match &*seen.type_ {
            "ADDED" | "MODIFIED" if self.store.is_known(&seen) => {
                self.go_on(version.clone())?;
                self.report(Event::Bookmark { version });
            }
            type_ @ ("ADDED" | "MODIFIED" | "DELETED") => {
                let Some(WithoutManagedFields(object)) = self.read(event) else {
                    return Ok(());
                };
                self.go_on(version)?;
                self.report(match type_ {
                    "DELETED" => Event::Deleted(object),
                    _ => Event::Applied(object),
                });
            }
            "BOOKMARK" => {
                if is_before(&version, self.version.as_deref()) {
                    return Err(Interruption::Expired); // the API server was restored
                }
                self.has_bookmarks = true;
                self.go_on(version.clone())?;
                self.report(Event::Bookmark { version });
            }
            "ERROR" => {
                let status: Option<Status> = self.read(event);
                return Err(Error::Api(status.unwrap_or_default().boxed()).into());
            }
            // A server, or a proxy before it, may report an error without an event.
            _ => match serde_json::from_str::<Status>(event) {
                Ok(status) if status.code != 0 => return Err(Error::Api(status.boxed()).into()),
                _ => warn!(kind = %self.kind(), "cannot read an event, leaving it out"),
            },
        }
        Ok(())
    }

    /// What an event is about. `None` where it cannot be read: the watch goes on without it.
    fn read<T: DeserializeOwned>(&self, event: &str) -> Option<T> {
        match serde_json::from_str(event) {
            Ok(Holder { object }) => Some(object),
            Err(error) if error.is_eof() => None, // it was cut, and comes again
            Err(error) => {
                warn!(kind = %self.kind(), %error, "cannot read an object, leaving it out");
                None
            }
        }
    }

    /// The watch has come to that version.
    fn go_on(&mut self, version: String) -> Result<(), Interruption> {
        self.version = Some(version).filter(|version| !version.is_empty());
        match self.version {
            Some(_) => Ok(()),
            None => Err(failure("an event has no resourceVersion")),
        }
    }

    /// Decides where to go on, and waits before that.
    async fn recover(&mut self, interruption: Interruption) {
        let kind = self.kind();
        let mut is_refusal = false;
        match interruption {
            Interruption::Silent => {
                if self.has_bookmarks {
                    warn!(%kind, "a watch is silent, replacing it");
                }
                // Either the connection is dead, or the API server has nothing to say about that version.
                if self.is_silent {
                    self.version = None;
                }
                self.is_silent = self.has_bookmarks;
                self.is_doubtful = true;
                return;
            }
            Interruption::Expired => self.version = None,
            Interruption::Selected => {
                self.version = None;
                return;
            }
            Interruption::Short => debug!(%kind, "a watch has ended early, starting it again"),
            Interruption::Failed(error) if is_not_found(&error) => {
                is_refusal = true;
                self.first_list.failed(&error);
                warn!(%kind, "the API server does not know this kind: install its CRD (`make install` for the CRDs of this project)");
            }
            Interruption::Failed(error) => {
                is_refusal = matches!(error, Error::Api(_));
                self.first_list.failed(&error);
                self.is_doubtful = true;
                warn!(%kind, %error, "watch failed, trying again");
            }
        }
        sleep(self.delays.next(is_refusal)).await;
    }

    /// How long the API server may be silent.
    fn silence(&self) -> Duration {
        let duration = Duration::from_secs(self.duration().into()) + END_TIMEOUT;
        if self.has_bookmarks {
            duration.min(SILENCE_TIMEOUT)
        } else {
            duration
        }
    }

    /// How long a watch lasts, in seconds.
    fn duration(&self) -> u32 {
        let configured = self.config.timeout.filter(|seconds| *seconds > 0);
        configured.map_or(WATCH_DURATION, |seconds| seconds.min(WATCH_DURATION))
    }

    fn kind(&self) -> String {
        K::kind(self.store.dyntype()).into_owned()
    }

    fn report(&self, event: Event<K>) {
        self.store.take(&self.namespace, event);
    }
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        match &error {
            Error::Api(status) if status.code == 410 => Self::Expired,
            _ => Self::Failed(error),
        }
    }
}

/// The answer, unless it takes too long.
async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Interruption> {
    let answer = timeout(ANSWER_TIMEOUT, request).await;
    Ok(answer.map_err(|_| failure("the API server does not answer"))??)
}

fn failure(message: &'static str) -> Interruption {
    Interruption::Failed(Error::Service(message.into()))
}

fn is_before(version: &str, other: Option<&str>) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    let other = other.and_then(number);
    number(version).is_some_and(|version| other.is_some_and(|other| version < other))
}

/// Whether the connection ended within an event, as a proxy ends what lasts too long for it.
fn is_cut(error: &io::Error) -> bool {
    let first: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|error| error as _);
    let mut causes = iter::successors(first, |error| error.source());
    causes.any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::UnexpectedEof)
    })
}

/// Whether the API server does not have the resource. It answers so to a list, and to a watch that
/// starts after the CRD was deleted.
fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}

#[cfg(test)]
mod tests;
