//! The ports of a cluster.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::binaries::Tool;
use super::exec::POLL_INTERVAL;
use crate::error::UserError;

/// The range of the ports. It is below the NodePorts of a cluster that may also run on this machine, and
/// below the usual ports of outgoing connections.
const PORTS: RangeInclusive<u16> = 20_000..=29_999;

/// The time that the ports of a killed process may stay open.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The port of each component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ports {
    /// That of etcd for clients.
    pub etcd: u16,
    /// That of etcd for members.
    pub etcd_peer: u16,
    /// That of the API server.
    pub apiserver: u16,
    /// That of the controller manager.
    pub controller_manager: u16,
    /// That of the scheduler.
    pub scheduler: u16,
    /// That of kwok.
    pub kwok: u16,
}

impl Ports {
    /// Six free ports.
    ///
    /// # Errors
    /// A [`UserError`] if there are fewer than six.
    pub fn free() -> Result<Self> {
        // The listeners are kept open until all six ports are found.
        let free: Vec<(u16, TcpListener)> = candidates(outgoing_ports())
            .filter_map(|port| Some((port, listen(port)?)))
            .take(6)
            .collect();
        let ports: Vec<u16> = free.iter().map(|(port, _)| *port).collect();
        let [etcd, etcd_peer, apiserver, controller_manager, scheduler, kwok] = ports[..] else {
            let (first, last) = (PORTS.start(), PORTS.end());
            let message = format!("fewer than six free ports between {first} and {last}");
            return Err(UserError::failure(message).into());
        };
        Ok(Self { etcd, etcd_peer, apiserver, controller_manager, scheduler, kwok })
    }

    /// The port on which a component serves others.
    pub fn of(&self, component: Tool) -> u16 {
        match component {
            Tool::Etcd => self.etcd,
            Tool::ApiServer => self.apiserver,
            Tool::ControllerManager => self.controller_manager,
            Tool::Scheduler => self.scheduler,
            _ => self.kwok,
        }
    }

    /// Whether no program listens on the ports of these components. Processes that were just killed have a
    /// moment to close theirs.
    pub fn are_free(&self, components: &[Tool]) -> bool {
        let peer = components.contains(&Tool::Etcd).then_some(self.etcd_peer);
        let mut ports: Vec<u16> = components.iter().map(|component| self.of(*component)).collect();
        ports.extend(peer);
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        loop {
            ports.retain(|port| listen(*port).is_none());
            if ports.is_empty() || Instant::now() > deadline {
                return ports.is_empty();
            }
            sleep(POLL_INTERVAL);
        }
    }
}

/// All ports from a random one on. Those of outgoing connections come last, because such a connection can
/// take a port between its choice and the start.
fn candidates(outgoing: Option<RangeInclusive<u16>>) -> impl Iterator<Item = u16> {
    let random = RandomState::new().hash_one(std::process::id());
    let mut ports: Vec<u16> = PORTS.collect();
    let first = usize::try_from(random % ports.len() as u64).unwrap_or_default();
    ports.rotate_left(first);
    ports.sort_by_key(|port| outgoing.as_ref().is_some_and(|range| range.contains(port)));
    ports.into_iter()
}

/// The ports of outgoing connections. On macOS their range is above [`PORTS`].
fn outgoing_ports() -> Option<RangeInclusive<u16>> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = range.split_whitespace().map(str::parse);
    Some(ends.next()?.ok()?..=ends.next()?.ok()?)
}

/// Whether a program of this machine listens on a port.
pub fn is_served(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Listens on a port if it is free. On macOS it is possible to listen on a port on which another process
/// listens for all addresses, but then a connection succeeds.
fn listen(port: u16) -> Option<TcpListener> {
    let address = (Ipv4Addr::LOCALHOST, port);
    if is_served(port) { None } else { TcpListener::bind(address).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_distinct() {
        let ports = Ports::free().unwrap();
        let mut all = vec![
            ports.etcd,
            ports.etcd_peer,
            ports.apiserver,
            ports.controller_manager,
            ports.scheduler,
            ports.kwok,
        ];
        assert!(all.iter().all(|port| PORTS.contains(port)));
        all.dedup();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn a_port_is_free_again_shortly_after_it_was_used() {
        let ports = Ports::free().unwrap();
        assert!(ports.are_free(&[Tool::Etcd, Tool::Kwok]));
        let peer = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.etcd_peer)).unwrap();
        assert!(!ports.are_free(&[Tool::Etcd]));
        assert!(ports.are_free(&[Tool::Kwok]));
        let closing = std::thread::spawn(move || {
            sleep(Duration::from_millis(200));
            drop(peer);
        });
        assert!(ports.are_free(&[Tool::Etcd]));
        closing.join().unwrap();
    }

    #[test]
    fn the_ports_of_outgoing_connections_are_the_last_choice() {
        let ports: Vec<u16> = candidates(Some(1024..=25_000)).collect();
        assert_eq!(ports.len(), PORTS.count());
        assert!(ports[..4_999].iter().all(|port| *port > 25_000));
        assert!(ports[4_999..].iter().all(|port| *port <= 25_000));
    }

    #[test]
    fn a_port_of_another_listener_is_not_free() {
        for address in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
            let other = TcpListener::bind((address, 0)).unwrap();
            assert!(listen(other.local_addr().unwrap().port()).is_none(), "{address}");
        }
    }
}
