//! Repeats requests that fail for a reason that may pass.

use std::pin::pin;
use std::time::Duration;

use humantime::format_duration;
use tokio::time::{Instant, sleep, timeout};

use super::Registry;
use crate::package::image::answer::Answer;
use crate::package::image::credentials::authorized;
use crate::package::image::failure::Failure;

/// The time before the second attempt, which doubles with each further one.
const DELAY: Duration = Duration::from_millis(500);
/// When the user is told what takes long.
const PATIENCE: Duration = Duration::from_secs(1);
/// The slowest network that contents are sent over, in bytes per second.
const MIN_RATE: usize = 10_000;

impl Registry<'_> {
    /// Repeats what fails for a reason that may pass. `size` is how many bytes are sent or received.
    pub(super) async fn request<T, E: Into<Failure>>(
        &self,
        what: &str,
        size: usize,
        request: impl AsyncFn() -> Result<T, E>,
    ) -> Result<T, Failure> {
        let begin = Instant::now();
        let mut delay = DELAY;
        loop {
            let failure = match self.attempt(what, size, request()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let problem = failure.to_string();
            let retry_after = self.retry_after(&failure).await;
            let wait = failure.retry_delay(delay, retry_after)?;
            if begin.elapsed() + wait > PATIENCE {
                let time = format_duration(wait);
                (self.report)(format!("{what}: {problem}; trying again in {time}"));
            }
            sleep(wait).await;
            delay *= 2;
        }
    }

    /// How long the registry asks to wait. The client does not say so, so the address is asked once more.
    async fn retry_after(&self, failure: &Failure) -> Option<Duration> {
        if let Failure::Answer(answer) = failure {
            return answer.retry_after;
        }
        let url = failure.overloaded_url()?;
        // The credentials are for the registry alone, which may have led to another server.
        let is_registry = url.as_str().starts_with(&format!("{}/", self.root()));
        let request = is_registry.then(|| authorized(self.http.head(url), &self.access))?;
        let response = timeout(self.answer_timeout, request.send()).await.ok()?.ok()?;
        Answer::of(&response)?.retry_after
    }

    /// Waits for an answer, but not forever.
    async fn attempt<T, E: Into<Failure>>(
        &self,
        what: &str,
        size: usize,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        let limit = self.answer_timeout + Duration::from_secs((size / MIN_RATE) as u64);
        let mut request = pin!(request);
        let answer = match timeout(PATIENCE.min(limit), &mut request).await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                (self.report)(what.to_owned());
                timeout(limit.saturating_sub(PATIENCE), request).await
            }
        };
        answer.map_err(|_| Failure::Silence(limit))?.map_err(Into::into)
    }
}
