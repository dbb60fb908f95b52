//! What a proxy does, and to which requests.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::super::Request;

/// What a [`FaultProxy`](super::FaultProxy) does to requests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Answers with this status code, and the API server does not get the request. Codes that ask for
    /// patience (429, 503) come with `Retry-After: 1`.
    Status(u16),
    /// Passes the request on after a random time in this range.
    Delay(Range<Duration>),
    /// Never answers, and the API server does not get the request.
    Hang,
    /// Ends the connection, and the API server does not get the request.
    Disconnect,
    /// Ends the connection once the API server has answered: what the request asked for is done.
    LoseAnswer,
    /// Answers with this status code once the API server has answered: what the request asked for is
    /// done. So does a load balancer that has lost patience (504).
    ReplaceAnswer(u16),
    /// Passes each event of a watch on after a random time in this range. Their order stays.
    DelayEvents(Range<Duration>),
    /// Keeps the events of a watch until the fault ends, and passes them on then.
    HoldEvents,
    /// Passes events of a watch on without this one.
    DropEvents,
    /// Passes events of a watch on without bookmarks, as a server that has none.
    DropBookmarks,
    /// The connection of a watch stays, but nothing more ever comes.
    Silence,
    /// Ends the connection of a watch in its midst, this long after the watch or the fault began.
    Cut(Duration),
}

impl Fault {
    /// Whether it is done to watches under way, not to requests.
    pub(super) fn is_of_watches(&self) -> bool {
        match self {
            Self::Status(_)
            | Self::Delay(_)
            | Self::Hang
            | Self::Disconnect
            | Self::LoseAnswer
            | Self::ReplaceAnswer(_) => false,
            Self::DelayEvents(_)
            | Self::HoldEvents
            | Self::DropEvents
            | Self::DropBookmarks
            | Self::Silence
            | Self::Cut(_) => true,
        }
    }
}

type Filter = Box<dyn Fn(&Request) -> bool + Send + Sync>;

/// A fault, and which requests it is done to: all of them, unless a method says otherwise.
///
/// # Example
/// ```
/// use opctl_runtime::testing::{Fault, Rule};
///
/// // A tenth of the writes of two namespaces' Deployments is throttled, ten of them at most.
/// let rule = Rule::new(Fault::Status(429))
///     .resource("deployments")
///     .matching(|request| request.verb() != "watch")
///     .matching(|request| matches!(request.namespace.as_deref(), Some("a" | "b")))
///     .probability(0.1)
///     .times(10);
/// # let _ = rule;
/// ```
#[must_use = "`FaultProxy::inject` takes it"]
pub struct Rule {
    pub(super) fault: Fault,
    pub(super) probability: f64,
    pub(super) times: usize,
    filters: Vec<Filter>,
}

impl Rule {
    /// The fault, for all requests; for all watches if it is one of watches.
    pub fn new(fault: Fault) -> Self {
        let filters: Vec<Filter> = if fault.is_of_watches() {
            vec![Box::new(|request| request.verb() == "watch")]
        } else {
            Vec::new()
        };
        Self {
            fault,
            probability: 1.0,
            times: usize::MAX,
            filters,
        }
    }

    /// Only requests with this verb of RBAC, such as `create` or `watch`.
    pub fn verb(self, verb: &'static str) -> Self {
        self.matching(move |request| request.verb() == verb)
    }

    /// Only requests for this resource, as a rule of RBAC has it: `deployments`, or
    /// `deployments/status`, which is not among `deployments`.
    pub fn resource(self, resource: &'static str) -> Self {
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (resource, None),
        };
        self.matching(move |request| {
            request.resource == resource && request.subresource.as_deref() == subresource
        })
    }

    /// Only requests of which this is true.
    pub fn matching(mut self, filter: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.filters.push(Box::new(filter));
        self
    }

    /// Only this share of the requests, or of the events of a watch, from 0 to 1.
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// So often, and then no longer. [`Fault::HoldEvents`], [`Fault::Silence`] and [`Fault::Cut`] count
    /// watches, the other faults of watches count events.
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    pub(super) fn selects(&self, request: &Request) -> bool {
        self.filters.iter().all(|filter| filter(request))
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("fault", &self.fault)
            .field("probability", &self.probability)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}
