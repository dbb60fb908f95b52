//! Clients of what runs on the node.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::cluster::text;

const TIMEOUT: Duration = Duration::from_secs(2);

fn connect(address: &str, port: u16) -> io::Result<TcpStream> {
    let address: IpAddr = address.parse().map_err(io::Error::other)?;
    let stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// What the server answers before it closes the connection.
fn ask(address: &str, port: u16, request: &str) -> Result<String, String> {
    let answer = || {
        let mut stream = connect(address, port)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    answer().map_err(|error: io::Error| error.to_string())
}

/// Stores a value in memcached and reads it again.
pub fn memcached_keeps(address: &str, port: u16, value: &str) -> Result<(), String> {
    let length = value.len();
    let request = format!("set key 0 60 {length}\r\n{value}\r\nget key\r\nquit\r\n");
    let answer = ask(address, port, &request)?;
    let expected = format!("STORED\r\nVALUE key 0 {length}\r\n{value}\r\nEND\r\n");
    (answer == expected).then_some(()).ok_or(answer)
}

/// A page of a web server.
pub fn page(address: &str, port: u16) -> Result<String, String> {
    let answer = ask(address, port, "GET / HTTP/1.0\r\n\r\n")?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        _ => Err(answer),
    }
}

/// The status code for a request by HTTPS with this token.
pub fn https_status(url: &str, token: Option<&str>) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--insecure", "--silent", "--max-time", "5", "--output", "/dev/null"]);
    curl.args(["--write-out", "%{http_code}", url]);
    if let Some(token) = token {
        curl.args(["--header", &format!("Authorization: Bearer {token}")]);
    }
    text(&curl.output().unwrap().stdout)
}
