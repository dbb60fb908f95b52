//! Reconciles every object now and then, even when nothing has changed.

use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::cause::Causes;
use super::queue::Queue;
use crate::object::Object;
use crate::store::Store;

/// How many groups the objects are in, of which one is reconciled at a time.
const GROUPS: u32 = 100;

/// Adds every object to the queue once in each period, if there is one, without an end. The objects of a group come
/// together, and the groups one after another: so the load is even, and no object has a timer.
pub(super) async fn run<K: Object>(store: &Store<K>, queue: &Queue<K>, period: Option<Duration>) {
    let Some(period) = period else {
        return pending().await;
    };
    let hasher = RandomState::new();
    let tick = (period / GROUPS).max(Duration::from_millis(1));
    let mut ticks = interval_at(Instant::now() + tick, tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for group in (0..u64::from(GROUPS)).cycle() {
        ticks.tick().await;
        let objects = store.references().into_iter();
        objects
            .filter(|object| hasher.hash_one(object) % u64::from(GROUPS) == group)
            .for_each(|object| queue.add(object, Causes::RESYNC));
    }
}
