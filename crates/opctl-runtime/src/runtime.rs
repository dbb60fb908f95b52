//! The thread of the controllers, and how often it wakes up.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::token_bucket::{Bucket, Limit};

/// How often the thread wakes up for each packet that comes: so often at once, and then once in each
/// interval.
const WAKE_UPS: Limit = Limit {
    burst: 50.0,
    interval: Duration::from_millis(50),
};

/// For how long the thread rests while so many objects are reconciled, which wait for answers, that others may have
/// to wait for them.
const SHORT_REST: Duration = Duration::from_millis(20);

/// How many lists are under way.
static LISTS: AtomicUsize = AtomicUsize::new(0);

/// How many controllers reconcile almost as many objects as they may at a time.
static QUEUES: AtomicUsize = AtomicUsize::new(0);

/// The runtime for `main`: one thread, which is enough for what an operator does, and takes the least memory.
///
/// Whenever something comes, the thread wakes up, looks what it is, and finds the caches of its processor with the
/// data of others. Where that happens more than 20 times a second, the thread rests for 50 ms before it waits again,
/// or for 20 ms while a controller reconciles almost as many objects as it may at a time, and does what has come
/// meanwhile at once: many changes then take a third less of the processor. A network card coalesces its interrupts for
/// the same reason. A change now and then is not delayed, nor are leases, probes and metrics, which have a thread of
/// their own.
///
/// # Errors
/// The system has no file descriptors left.
///
/// # Example
/// ```no_run
/// use opctl_runtime::{Identity, Manager, Options};
///
/// fn run(identity: Identity, options: Options) -> anyhow::Result<()> {
///     opctl_runtime::runtime()?.block_on(async {
///         let manager = Manager::connect(identity, options).await?;
///         manager.run().await
///     })
/// }
/// ```
///
/// # When not to use it
/// A process that also answers others while it is busy, such as one with a server of its own, has
/// `#[tokio::main]`.
pub fn runtime() -> io::Result<Runtime> {
    let wake_ups = Mutex::new(Bucket::full(&WAKE_UPS, Instant::now()));
    Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || {
            let mut wake_ups = wake_ups.lock().unwrap_or_else(PoisonError::into_inner);
            let [lists, queues] = [&LISTS, &QUEUES].map(|count| count.load(Ordering::Relaxed));
            if let Some(rest) = rest(&mut wake_ups, Instant::now(), lists, queues) {
                sleep(rest);
            }
        })
        .build()
}

/// For how long the thread rests before it waits, if it was woken up too often.
fn rest(wake_ups: &mut Bucket, now: Instant, lists: usize, queues: usize) -> Option<Duration> {
    let is_rare = wake_ups.take(&WAKE_UPS, now);
    if is_rare || lists > 0 {
        return None;
    }
    Some(match queues {
        0 => WAKE_UPS.interval,
        _ => SHORT_REST,
    })
}

/// While it lives, the thread rests less.
pub(crate) struct Hurry(&'static AtomicUsize);

impl Hurry {
    /// Of a list, one page follows the other.
    pub fn for_list() -> Self {
        Self::begin(&LISTS)
    }

    /// Of many objects, one follows the other.
    pub fn for_queue() -> Self {
        Self::begin(&QUEUES)
    }

    fn begin(count: &'static AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_wake_ups_are_gathered_and_those_of_a_list_are_not() {
        let mut now = Instant::now();
        let mut wake_ups = Bucket::full(&WAKE_UPS, now);
        let mut rests = |now, lists| {
            let rests = (0..100).filter_map(|_| rest(&mut wake_ups, now, lists, 0));
            rests.count()
        };
        assert_eq!(rests(now, 0), 50);
        assert_eq!(rests(now, 1), 0);
        now += 10 * WAKE_UPS.interval;
        assert_eq!(rests(now, 0), 90);
        now += 50 * WAKE_UPS.interval;
        assert_eq!(rests(now, 0), 50);
    }

    #[test]
    fn the_rest_is_short_while_places_are_scarce() {
        let now = Instant::now();
        let mut wake_ups = Bucket::full(&WAKE_UPS, now);
        let mut last = |queues| {
            (0..100)
                .filter_map(|_| rest(&mut wake_ups, now, 0, queues))
                .last()
        };
        assert_eq!(last(0), Some(WAKE_UPS.interval));
        assert_eq!(last(2), Some(SHORT_REST));
    }
}
