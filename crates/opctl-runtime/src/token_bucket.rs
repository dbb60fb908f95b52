//! Something may happen so often at once, and then once in each interval.

use std::time::{Duration, Instant};

/// How often.
pub(crate) struct Limit {
    pub burst: f64,
    pub interval: Duration,
}

/// What is left of a burst.
#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    /// When it last had so many.
    at: Instant,
}

impl Bucket {
    pub fn full(limit: &Limit, now: Instant) -> Self {
        Self {
            tokens: limit.burst,
            at: now,
        }
    }

    /// Whether it may happen now, which counts.
    pub fn take(&mut self, limit: &Limit, now: Instant) -> bool {
        let tokens = self.tokens(limit, now);
        let is_allowed = tokens >= 1.0;
        if is_allowed {
            *self = Self {
                tokens: tokens - 1.0,
                at: now,
            };
        }
        is_allowed
    }

    /// Whether it is as a new one.
    pub fn is_full(&self, limit: &Limit, now: Instant) -> bool {
        self.tokens(limit, now) >= limit.burst
    }

    /// When it last happened, or could have for the first time.
    pub fn last(&self) -> Instant {
        self.at
    }

    fn tokens(&self, limit: &Limit, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.at);
        let refilled = elapsed.as_secs_f64() / limit.interval.as_secs_f64();
        (self.tokens + refilled).min(limit.burst)
    }
}
