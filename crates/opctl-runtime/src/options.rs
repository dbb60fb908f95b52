//! The manager's flags. Their names are those of controller-runtime, kubebuilder and Kubernetes.

use std::ffi::OsString;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{ArgAction, Args, Command, FromArgMatches};
use k8s_openapi::jiff::SignedDuration;
use tracing_subscriber::filter::LevelFilter;

use crate::logging::LogFormat;

/// The manager's flags: flatten them into the operator's own.
///
/// # Example
/// ```
/// use clap::Parser;
/// use opctl_runtime::Options;
///
/// #[derive(Parser)]
/// struct Flags {
///     #[command(flatten)]
///     options: Options,
///
///     /// URL of the registry in which names are reserved
///     #[arg(long, default_value = "http://localhost:5000")]
///     registry_url: String,
/// }
///
/// let flags = Flags::parse_from(["manager", "--leader-elect"]);
/// assert!(flags.options.leader_election.enabled);
/// ```
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// Address of the probes /healthz and /readyz; 0 turns them off
    #[arg(long, default_value = ":8081", value_name = "ADDRESS", value_parser = bind_address)]
    pub health_probe_bind_address: BindAddress,

    /// Address of /metrics; 0 turns it off
    #[arg(long, default_value = ":8080", value_name = "ADDRESS", value_parser = bind_address)]
    pub metrics_bind_address: BindAddress,

    /// Serve /metrics over HTTPS to clients that RBAC authorizes; false serves plain HTTP to anyone
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub metrics_secure: bool,

    /// Directory of tls.crt and tls.key for /metrics; without it the certificate is self-signed
    #[arg(long, value_name = "DIRECTORY")]
    pub metrics_cert_path: Option<PathBuf>,

    /// Namespaces to watch, separated by commas; empty for all
    #[arg(
        long,
        value_name = "NAMES",
        env = "WATCH_NAMESPACE",
        default_value = ""
    )]
    pub namespaces: Namespaces,

    /// How many objects each controller reconciles at a time
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub max_concurrent_reconciles: u16,

    /// How one of several managers is elected to reconcile.
    #[command(flatten)]
    pub leader_election: LeaderElection,

    /// Level of the logs: error, warn, info, debug or trace
    #[arg(long, default_value = "info", value_name = "LEVEL")]
    pub log_level: LevelFilter,

    /// Format of the logs; auto is text on a terminal and JSON elsewhere
    #[arg(long, default_value = "auto", value_name = "FORMAT")]
    pub log_format: LogFormat,
}

impl Options {
    /// The options that these flags set, without the program's name: for tests.
    ///
    /// # Errors
    /// A flag is unknown or has an invalid value.
    pub fn from_flags<T: Into<OsString> + Clone>(
        flags: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let command = Self::augment_args(Command::new("manager").no_binary_name(true));
        Self::from_arg_matches(&command.try_get_matches_from(flags)?)
    }
}

/// Whether and how a leader is elected. The defaults are controller-runtime's.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct LeaderElection {
    /// Reconcile only while holding a Lease, so that one of several managers does
    #[arg(long = "leader-elect", value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enabled: bool,

    /// How long other managers wait for a lease that is not renewed
    #[arg(long = "leader-elect-lease-duration", value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub lease_duration: Duration,

    /// How long the leader tries to renew its lease before it stops
    #[arg(long = "leader-elect-renew-deadline", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub renew_deadline: Duration,

    /// Delay between two attempts to get or renew the lease
    #[arg(long = "leader-elect-retry-period", value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub retry_period: Duration,

    /// Name of the lease [default: the name of the operator]
    #[arg(long = "leader-election-id", value_name = "NAME")]
    pub id: Option<String>,

    /// Namespace of the lease [default: the namespace of the pod]
    #[arg(long = "leader-elect-namespace", value_name = "NAME")]
    pub namespace: Option<String>,
}

impl LeaderElection {
    /// A leader that gives up later than its lease expires is a second one for a while.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            self.lease_duration >= Duration::from_secs(1),
            "--leader-elect-lease-duration is less than a second, the unit of a Lease"
        );
        ensure!(
            self.renew_deadline < self.lease_duration,
            "--leader-elect-renew-deadline is not less than --leader-elect-lease-duration"
        );
        ensure!(
            self.retry_period < self.renew_deadline,
            "--leader-elect-retry-period is not less than --leader-elect-renew-deadline"
        );
        Ok(())
    }
}

/// The namespaces to watch; none means all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces(pub(crate) Vec<String>);

impl From<&str> for Namespaces {
    fn from(text: &str) -> Self {
        let names = text.split(',').map(str::trim);
        let mut names: Vec<_> = names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }
}

/// Where a server listens, if it does.
pub type BindAddress = Option<Endpoint>;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// At this port of every address.
    Any(u16),
    /// At an address or the name of a host, with a port, such as `127.0.0.1:8081` and `localhost:8081`.
    Host(String),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(port) => write!(f, ":{port}"),
            Self::Host(host) => f.write_str(host),
        }
    }
}

/// Reads Go's notation, in which `:8081` is that port on every address and `0` is no server.
fn bind_address(text: &str) -> Result<BindAddress, String> {
    if text == "0" {
        return Ok(None);
    }
    let endpoint = text.rsplit_once(':').and_then(|(host, port)| {
        let port: u16 = port.parse().ok()?;
        match host {
            "" => Some(Endpoint::Any(port)),
            _ if is_host(host) => Some(Endpoint::Host(text.to_owned())),
            _ => None,
        }
    });
    let endpoint = endpoint.ok_or_else(|| format!("`{text}` is not of the form [HOST]:PORT or 0"));
    endpoint.map(Some)
}

/// Whether it is a name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(text: &str) -> bool {
    match text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)),
    }
}

/// Reads Go's notation of durations, such as `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    let duration: Option<SignedDuration> = text.parse().ok();
    duration
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("`{text}` is not a duration such as 15s or 1m30s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Options {
        Options::from_flags(flags).unwrap()
    }

    #[test]
    fn reads_what_go_programs_read() {
        let options = parse(&[
            "--leader-elect",
            "--metrics-secure=false",
            "--metrics-bind-address=0",
            "--leader-elect-retry-period=1m30s",
        ]);
        assert!(options.leader_election.enabled && !options.metrics_secure);
        assert_eq!(options.metrics_bind_address, None);
        assert_eq!(options.leader_election.retry_period.as_secs(), 90);
        assert!(duration("-1s").is_err() && duration("15").is_err());
    }

    #[test]
    fn addresses_are_those_that_go_programs_take() {
        for (text, endpoint) in [
            (":8081", Some(Endpoint::Any(8081))),
            ("0", None),
            (
                "localhost:8081",
                Some(Endpoint::Host("localhost:8081".to_owned())),
            ),
            ("[::1]:8081", Some(Endpoint::Host("[::1]:8081".to_owned()))),
        ] {
            assert_eq!(bind_address(text), Ok(endpoint), "{text}");
        }
        for text in [
            "8081",
            "localhost",
            "::1:8081",
            "[localhost]:80",
            "a b:80",
            ":65536",
            "",
        ] {
            assert!(bind_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn namespaces_are_a_list_without_repetitions() {
        assert_eq!(Namespaces::from("b, a,b,"), Namespaces::from("a,b"));
        assert!(Namespaces::from("").0.is_empty());
    }

    #[test]
    fn a_leader_gives_up_before_its_lease_expires() {
        assert!(parse(&[]).leader_election.check().is_ok());
        let late = parse(&["--leader-elect-renew-deadline=15s"]);
        assert!(late.leader_election.check().is_err());
    }
}
