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
    interval: Duration::from_millis(20),
};

/// How many lists are under way.
static LISTS: AtomicUsize = AtomicUsize::new(0);

/// The runtime for `main`: one thread, which is enough for what an operator does, and takes the least memory.
///
/// Whenever something comes, the thread wakes up, looks what it is, and finds the caches of its processor with the
/// data of others. Where that happens more than 50 times a second, the thread rests for 20 ms before it waits again,
/// and does what has come meanwhile at once: many changes then take a quarter less of the processor. A network card
/// coalesces its interrupts for the same reason. A change now and then is not delayed, nor are leases, probes and
/// metrics, which have a thread of their own.
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
            if may_rest(&mut wake_ups, Instant::now(), LISTS.load(Ordering::Relaxed)) {
                sleep(WAKE_UPS.interval);
            }
        })
        .build()
}

/// Whether the thread, which is about to wait, was woken up too often.
fn may_rest(wake_ups: &mut Bucket, now: Instant, lists: usize) -> bool {
    !wake_ups.take(&WAKE_UPS, now) && lists == 0
}

/// While it lives, the thread does not rest: of a list, one page follows the other.
pub(crate) struct Listing(());

impl Listing {
    pub fn begin() -> Self {
        LISTS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        LISTS.fetch_sub(1, Ordering::Relaxed);
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
            let rests = (0..100).filter(|_| may_rest(&mut wake_ups, now, lists));
            rests.count()
        };
        assert_eq!(rests(now, 0), 50);
        assert_eq!(rests(now, 1), 0);
        now += 10 * WAKE_UPS.interval;
        assert_eq!(rests(now, 0), 90);
        now += Duration::from_secs(1);
        assert_eq!(rests(now, 0), 50);
    }
}
