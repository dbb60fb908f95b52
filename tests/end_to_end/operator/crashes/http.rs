//! Requests of plain HTTP. Each connection carries one: `Connection: close` tells both sides so, and
//! what comes back is passed on as it is, be it an answer or a watch.

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;

/// A request of a client.
pub struct Request {
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    /// `None` where the client has only connected.
    pub fn read(client: &TcpStream) -> io::Result<Option<Self>> {
        let mut reader = BufReader::new(client);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            if line == "\r\n" {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "connection" => continue,
                "content-length" => length = value.trim().parse().map_err(io::Error::other)?,
                "transfer-encoding" => return Err(io::Error::other("a body without a length")),
                _ => {}
            }
            head += &line;
        }
        head += "Connection: close\r\n\r\n";
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Some(Self { head, body }))
    }

    /// Whether it may change something.
    pub fn writes(&self) -> bool {
        let is_dry_run = self.head.lines().next().is_some_and(|line| line.contains("dryRun="));
        !self.head.starts_with("GET ") && !is_dry_run
    }

    pub fn watches(&self) -> bool {
        self.head.lines().next().is_some_and(|line| line.contains("watch=true"))
    }
}
