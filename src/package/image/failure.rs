//! What registries refuse, in the words of the user, and what is worth another attempt.

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use humantime::format_duration;
use oci_client::errors::{OciDistributionError, OciErrorCode};
use reqwest::Url;

use super::answer::Answer;
use crate::error::UserError;
use crate::text::one_line;

/// The longest delay before another attempt after an error that may pass.
const MAX_DELAY: Duration = Duration::from_secs(4);
/// The longest delay where a registry asks for fewer requests.
const MAX_RATE_LIMIT_DELAY: Duration = Duration::from_secs(16);
/// The longest delay that a registry may ask for. Nobody waits for one that asks for more.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);
/// How much of an answer is worth reading.
const MAX_ANSWER: usize = 300;

/// Why a registry did not do what it was asked for.
#[derive(Debug)]
pub enum Failure {
    /// An error of the registry, or of the way to it.
    Registry(OciDistributionError),
    /// What its server of tokens answers.
    Answer(Answer),
    /// The registry has not answered for this long.
    Silence(Duration),
    /// The registry accepts no requests for this long.
    Closed(Duration),
    /// The file with the credentials, or what it leads to.
    Credentials(String),
}

impl From<OciDistributionError> for Failure {
    fn from(error: OciDistributionError) -> Self {
        Self::Registry(error)
    }
}

/// What a registry means by an error.
enum Cause {
    /// It does not know who asks.
    Unauthorized,
    /// It knows, and refuses.
    Denied,
    RateLimit,
    /// It or the network fails.
    Outage,
    Other,
}

impl Failure {
    fn cause(&self) -> Cause {
        let of_status = |status: u16| match status {
            401 => Cause::Unauthorized,
            403 => Cause::Denied,
            429 => Cause::RateLimit,
            408 | 500.. => Cause::Outage,
            _ => Cause::Other,
        };
        match self {
            Self::Silence(_) | Self::Closed(_) | Self::Credentials(_) => Cause::Other,
            Self::Answer(answer) => of_status(answer.status),
            Self::Registry(error) => match error {
                OciDistributionError::UnauthorizedError { .. }
                | OciDistributionError::AuthenticationFailure(_) => Cause::Unauthorized,
                OciDistributionError::ServerError { code, .. } => of_status(*code),
                OciDistributionError::RegistryError { envelope, .. } => {
                    match envelope.errors.first().map(|error| &error.code) {
                        Some(OciErrorCode::Unauthorized) => Cause::Unauthorized,
                        Some(OciErrorCode::Denied) => Cause::Denied,
                        Some(OciErrorCode::Toomanyrequests) => Cause::RateLimit,
                        _ => Cause::Other,
                    }
                }
                // Nobody waits for a registry that does not exist.
                OciDistributionError::RequestError(error) if error.is_connect() => Cause::Other,
                OciDistributionError::RequestError(error) => {
                    error.status().map_or(Cause::Outage, |status| of_status(status.as_u16()))
                }
                _ => Cause::Other,
            },
        }
    }

    /// Whether another attempt may succeed; without an answer it would fail as well.
    pub fn may_pass(&self) -> bool {
        self.max_delay().is_some()
    }

    fn max_delay(&self) -> Option<Duration> {
        match self.cause() {
            Cause::RateLimit => Some(MAX_RATE_LIMIT_DELAY),
            Cause::Outage => Some(MAX_DELAY),
            Cause::Unauthorized | Cause::Denied | Cause::Other => None,
        }
    }

    /// How long to wait for another attempt: `delay`, or what the registry asks for.
    ///
    /// # Errors
    /// The failure, if there should be no other attempt.
    pub fn retry_delay(
        self,
        delay: Duration,
        retry_after: Option<Duration>,
    ) -> Result<Duration, Self> {
        match (self.max_delay(), retry_after) {
            (Some(longest), Some(time)) if delay <= longest && time > MAX_RETRY_AFTER => {
                Err(Self::Closed(time))
            }
            (Some(longest), time) if delay <= longest => Ok(time.unwrap_or(delay)),
            _ => Err(self),
        }
    }

    /// The address that answers so, if it may also say how long to wait.
    pub fn overloaded_url(&self) -> Option<Url> {
        let Self::Registry(error) = self else { return None };
        match (self.cause(), error) {
            (Cause::RateLimit | Cause::Outage, OciDistributionError::RequestError(error)) => {
                error.status().and(error.url().cloned())
            }
            (
                Cause::RateLimit | Cause::Outage,
                OciDistributionError::ServerError { url, .. }
                | OciDistributionError::RegistryError { url, .. },
            ) => url.parse().ok(),
            _ => None,
        }
    }

    /// The error of a command that could not do `action` because of the registry, with `hint` unless there is
    /// a better one.
    pub fn explain(self, registry: &str, action: &str, hint: &str) -> UserError {
        let login = format!("log in with `docker login {registry}` or `podman login {registry}`");
        let error = |problem: &dyn Display| UserError::failure(format!("{action}: {problem}"));
        match (&self, self.cause()) {
            (Self::Credentials(problem), _) => error(problem).with_hint(login),
            (_, Cause::Unauthorized) => error(&"it refuses the credentials").with_hint(login),
            (_, Cause::Denied) => error(&format!("the account may not do this ({self})"))
                .with_hint(format!("{login}, with an account that may")),
            _ => error(&self).with_hint(hint),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Credentials(problem) => f.write_str(problem),
            Self::Answer(answer) => {
                write!(f, "its server of tokens answers with {}", answer.status)
            }
            Self::Silence(time) => write!(f, "it has not answered for {}", format_duration(*time)),
            Self::Closed(time) => {
                write!(f, "it accepts no requests for {}", format_duration(*time))
            }
            Self::Registry(OciDistributionError::RequestError(error)) => match error.status() {
                Some(status) => write!(f, "it answers with {status}"),
                None => f.write_str(&root_cause(error)),
            },
            Self::Registry(OciDistributionError::ServerError { code, message, .. }) => {
                let message: String = message.trim().chars().take(MAX_ANSWER).collect();
                write!(f, "it answers with {code} {}", one_line(&message))
            }
            Self::Registry(error) => {
                let message: String = error.to_string().chars().take(MAX_ANSWER).collect();
                f.write_str(&one_line(&message))
            }
        }
    }
}

/// The last cause of an error, which has no address in it.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_what_the_registry_asks_for_within_limits() {
        let delay = |status, delay: u64, retry_after: Option<u64>| {
            let failure = Failure::Answer(Answer { status, retry_after: None });
            let retry_after = retry_after.map(Duration::from_secs);
            let delay = failure.retry_delay(Duration::from_secs(delay), retry_after);
            delay.map(|delay| delay.as_secs()).map_err(|failure| failure.to_string())
        };
        assert_eq!(delay(429, 1, None), Ok(1));
        assert_eq!(delay(429, 1, Some(3)), Ok(3));
        assert_eq!(delay(503, 4, Some(120)), Ok(120));
        let lasting = "its server of tokens answers with".to_owned();
        assert_eq!(delay(503, 8, Some(1)), Err(format!("{lasting} 503")), "the last attempt");
        assert_eq!(delay(429, 1, Some(121)), Err("it accepts no requests for 2m 1s".to_owned()));
        assert_eq!(delay(401, 1, Some(1)), Err(format!("{lasting} 401")));
    }
}
