//! Listening at an address, whichever IP versions the machine has.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, lookup_host};

use crate::options::Endpoint;

/// How many connections wait to be accepted: tokio's number.
const BACKLOG: i32 = 1024;

/// Listens there, as Go does: at every address means both IP versions where the machine has them, and
/// a host name means one of its addresses, of IPv4 if there is one.
///
/// # Errors
/// The host has no address, or this process cannot listen at it.
pub(super) async fn listen(endpoint: &Endpoint) -> Result<TcpListener> {
    let listener = match endpoint {
        Endpoint::Any(port) => at_any_address(*port, bind)?,
        Endpoint::Host(host) => {
            let mut addresses: Vec<_> = lookup_host(host).await?.collect();
            addresses.sort_by_key(SocketAddr::is_ipv6);
            bind(*addresses.first().context("the host has no address")?)?
        }
    };
    Ok(TcpListener::from_std(listener.into())?)
}

/// Where IPv6 is switched off there is no such socket, or no such address.
fn at_any_address<T>(port: u16, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    match bind((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error)
            if !matches!(
                error.kind(),
                ErrorKind::AddrInUse | ErrorKind::PermissionDenied
            ) =>
        {
            bind((Ipv4Addr::UNSPECIFIED, port).into())
        }
        outcome => outcome,
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        // IPv4, too, also where the node's sysctl `net.ipv6.bindv6only` says otherwise.
        socket.set_only_v6(false)?;
    }
    // A process that starts again does not wait for the connections of its predecessor.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::env;
    use std::process::Command;

    use tokio::net::TcpStream;

    use super::*;

    /// Whether a server of that endpoint can be reached at `host`.
    async fn is_reached(endpoint: &Endpoint, host: &str) -> bool {
        let listener = listen(endpoint).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((host, port)).await.is_ok()
    }

    #[tokio::test]
    async fn every_address_means_both_ip_versions() {
        let any = Endpoint::Any(0);
        assert!(is_reached(&any, "127.0.0.1").await);
        let machine_has_ipv6 = TcpListener::bind("[::1]:0").await.is_ok();
        assert_eq!(is_reached(&any, "::1").await, machine_has_ipv6);
    }

    #[tokio::test]
    async fn a_host_name_means_its_ipv4_address() {
        let localhost = Endpoint::Host("localhost:0".to_owned());
        assert!(is_reached(&localhost, "127.0.0.1").await);
        let unknown = Endpoint::Host("nowhere.invalid:80".to_owned());
        assert!(listen(&unknown).await.is_err());
    }

    #[test]
    fn without_ipv6_every_address_means_those_of_ipv4() {
        let without = |kind: ErrorKind| {
            let tried = RefCell::new(Vec::new());
            let outcome = at_any_address(80, |address| {
                tried.borrow_mut().push(address.to_string());
                address.is_ipv4().then_some(()).ok_or(kind.into())
            });
            (outcome.is_ok(), tried.into_inner().len())
        };
        assert_eq!(without(ErrorKind::Unsupported), (true, 2));
        assert_eq!(without(ErrorKind::AddrNotAvailable), (true, 2));
        assert_eq!(without(ErrorKind::AddrInUse), (false, 1));
    }

    /// In a network of its own, where IPv6 sockets take no IPv4 by default. It shows nothing where users
    /// may not have such networks.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_sysctl_for_ipv6_sockets_does_not_count() {
        let unshare = |script: &str| {
            let script = format!("ip link set lo up && {script}");
            let mut command = Command::new("unshare");
            command.args(["--map-root-user", "--net", "sh", "-c", &script]);
            command
                .arg(env::current_exe().unwrap())
                .status()
                .is_ok_and(|status| status.success())
        };
        let sysctl = "echo 1 > /proc/sys/net/ipv6/bindv6only";
        if unshare(sysctl) {
            let test = "server::listen::tests::every_address_means_both_ip_versions";
            assert!(unshare(&format!("{sysctl} && exec $0 --exact {test}")));
        }
    }
}
