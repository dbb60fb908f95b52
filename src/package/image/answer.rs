//! What a registry, or its server of tokens, says about the next attempt.

use std::time::{Duration, SystemTime};

use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// An answer that is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// How long to wait for another attempt, if the server asks for it.
    pub retry_after: Option<Duration>,
}

impl Answer {
    /// The answer, unless it is one of success.
    pub fn of(response: &Response) -> Option<Self> {
        let (status, headers) = (response.status(), response.headers());
        let is_error = status.is_client_error() || status.is_server_error();
        is_error.then(|| Self {
            status: status.as_u16(),
            retry_after: retry_after(headers, SystemTime::now()),
        })
    }

    /// Whether another attempt may be answered in another way.
    pub fn may_pass(self) -> bool {
        matches!(self.status, 408 | 429 | 500..)
    }
}

/// The time of the header `Retry-After`: a number of seconds, or a date
/// (<https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let date = httpdate::parse_http_date(value).ok()?;
            Some(date.duration_since(now).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_wait_is_in_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Mon, 02 Jan 2023 00:00:00 GMT").unwrap();
        let time = |value: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            retry_after(&headers, now).map(|time| time.as_secs())
        };
        assert_eq!(time("15"), Some(15));
        assert_eq!(time("Mon, 02 Jan 2023 00:01:00 GMT"), Some(60));
        assert_eq!(time("Sun, 01 Jan 2023 00:00:00 GMT"), Some(0), "it has passed");
        assert_eq!((time("soon"), time("-1"), time("1.5")), (None, None, None));
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
