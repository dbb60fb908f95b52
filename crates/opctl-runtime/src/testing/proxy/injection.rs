//! The faults of a proxy that are in force.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::super::Request;
use super::fault::{Fault, Rule};

/// A fault of a [`FaultProxy`](super::FaultProxy) that is in force until this is dropped.
#[must_use = "the fault ends when this is dropped"]
pub struct Injection {
    id: u64,
    injections: Injections,
}

impl Injection {
    /// How often the proxy has done it.
    pub fn count(&self) -> usize {
        let state = self.injections.state();
        let active = state.active.iter().find(|active| active.id == self.id);
        active.map_or(0, |active| active.count)
    }
}

impl fmt::Debug for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injection")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        self.injections
            .change(|state| state.active.retain(|active| active.id != self.id));
    }
}

/// What was decided for one watch.
#[derive(Debug)]
pub(super) struct WatchFault {
    id: u64,
    /// `None` if the watch is spared.
    pub fault: Option<Fault>,
    pub since: Instant,
}

/// All of them, and what the proxy has seen. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Injections {
    state: Arc<Mutex<State>>,
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    active: Vec<Active>,
    random: Random,
    next_id: u64,
    requests: Vec<Request>,
}

#[derive(Debug)]
struct Active {
    id: u64,
    rule: Rule,
    count: usize,
}

impl Active {
    /// Whether it is done this time.
    fn strikes(&mut self, random: &mut Random) -> bool {
        let strikes = self.count < self.rule.times && random.chance(self.rule.probability);
        self.count += usize::from(strikes);
        strikes
    }
}

impl Injections {
    pub fn new(seed: u64) -> Self {
        let state = State {
            active: Vec::new(),
            random: Random(seed),
            next_id: 0,
            requests: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            changes: watch::Sender::new(()),
        }
    }

    pub fn inject(&self, rule: Rule) -> Injection {
        let id = self.change(|state| {
            state.next_id += 1;
            let id = state.next_id;
            let count = 0;
            state.active.push(Active { id, rule, count });
            id
        });
        let injections = self.clone();
        Injection { id, injections }
    }

    pub fn take_requests(&self) -> Vec<Request> {
        mem::take(&mut self.state().requests)
    }

    /// What becomes of a request.
    pub fn decide(&self, request: &Request) -> Option<Fault> {
        let mut state = self.state();
        state.requests.push(request.clone());
        let State { active, random, .. } = &mut *state;
        let mut faults = active
            .iter_mut()
            .filter(|active| !active.rule.fault.is_of_watches() && active.rule.selects(request));
        let struck = faults.find_map(|active| active.strikes(random).then_some(&active.rule.fault));
        struck.cloned()
    }

    /// A moment of that range.
    pub fn pick(&self, range: &Range<Duration>) -> Duration {
        self.state().random.pick(range)
    }

    /// The delay of an event of a watch; `None` if it is dropped.
    pub fn decide_event(&self, request: &Request, is_bookmark: bool) -> Option<Duration> {
        let mut state = self.state();
        let State { active, random, .. } = &mut *state;
        let mut delay = Duration::ZERO;
        for active in active
            .iter_mut()
            .filter(|active| active.rule.selects(request))
        {
            match &active.rule.fault {
                Fault::DropEvents if !is_bookmark => {}
                Fault::DropBookmarks if is_bookmark => {}
                Fault::DelayEvents(_) => {}
                _ => continue,
            }
            if !active.strikes(random) {
                continue;
            }
            match &active.rule.fault {
                Fault::DelayEvents(range) => delay += random.pick(range),
                _ => return None,
            }
        }
        Some(delay)
    }

    /// Brings the faults that are done to a watch as a whole up to date.
    pub fn decide_watch(&self, request: &Request, faults: &mut Vec<WatchFault>) {
        let mut state = self.state();
        let State { active, random, .. } = &mut *state;
        faults.retain(|fault| active.iter().any(|active| active.id == fault.id));
        for active in active
            .iter_mut()
            .filter(|active| active.rule.selects(request))
        {
            let is_of_all = matches!(
                active.rule.fault,
                Fault::HoldEvents | Fault::Silence | Fault::Cut(_)
            );
            if is_of_all && faults.iter().all(|fault| fault.id != active.id) {
                let struck = active.strikes(random);
                faults.push(WatchFault {
                    id: active.id,
                    fault: struck.then(|| active.rule.fault.clone()),
                    since: Instant::now(),
                });
            }
        }
    }

    /// Is notified when a fault begins or ends.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changes.send_replace(());
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// SplitMix64: enough for tests, and the same on each machine.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        self.next() as f64 / u64::MAX as f64
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability >= 1.0 || self.share() < probability
    }

    fn pick(&mut self, range: &Range<Duration>) -> Duration {
        range.start + range.end.saturating_sub(range.start).mul_f64(self.share())
    }
}
