//! A proxy between an operator and its API server that lets requests fail.
//!
//! Each connection carries one request: `Connection: close` tells both sides so, and what comes
//! back is passed on as it is, be it an answer or a watch.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::spawn;
use std::time::{Duration, Instant};

/// In so many requests there is one burst of 429.
const BURST_EVERY: u64 = 150;

/// How many requests a burst refuses.
const BURST: u64 = 10;

/// How long a watch lasts before its connection is dropped.
const WATCH: Duration = Duration::from_secs(8);

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    Passed,
    /// 500.
    Failed,
    /// 409, of requests that write.
    Conflict,
    /// Its connection ends before the API server sees it.
    Lost,
    /// The API server has done it, but the answer never comes.
    Unanswered,
    /// 429 with `Retry-After: 1`.
    Throttled,
    /// A watch whose connection ended in its midst.
    Cut,
}

pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: u16,
    stop: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    requests: u64,
    random: u64,
    fates: BTreeMap<Fate, usize>,
}

impl Proxy {
    /// A proxy for the plain HTTP server on that port of this machine.
    pub fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, state) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { upstream, stop, state });
        let proxy = Self { port, shared: Arc::clone(&shared) };
        spawn(move || {
            for connection in listener.incoming().flatten() {
                if shared.stop.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&shared);
                // A connection that breaks is what this is about.
                spawn(move || drop(serve(&shared, connection)));
            }
        });
        proxy
    }

    /// How many requests met with which fate.
    pub fn fates(&self) -> BTreeMap<Fate, usize> {
        self.shared.state.lock().unwrap().fates.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)); // wakes the listener
    }
}

impl State {
    /// What becomes of the next request: the same sequence in each run.
    fn decide(&mut self, writes: bool) -> Fate {
        self.requests += 1;
        if self.requests % BURST_EVERY >= BURST_EVERY - BURST {
            return Fate::Throttled;
        }
        // Knuth's generator; its high bits are the better ones.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        match (self.random >> 33) % 1000 {
            0..100 => Fate::Failed,
            100..200 if writes => Fate::Conflict,
            200..225 => Fate::Lost,
            225..250 => Fate::Unanswered,
            _ => Fate::Passed,
        }
    }

    fn count(&mut self, fate: Fate) {
        *self.fates.entry(fate).or_default() += 1;
    }
}

fn serve(shared: &Shared, mut client: TcpStream) -> io::Result<()> {
    let Some(request) = Request::read(&client)? else {
        return Ok(());
    };
    let fate = {
        let mut state = shared.state.lock().unwrap();
        let fate = state.decide(!request.head.starts_with("GET "));
        state.count(fate);
        fate
    };
    match fate {
        Fate::Failed => return answer(&mut client, 500, "Internal Server Error", ""),
        Fate::Conflict => return answer(&mut client, 409, "Conflict", ""),
        Fate::Throttled => {
            return answer(&mut client, 429, "Too Many Requests", "Retry-After: 1\r\n");
        }
        Fate::Lost => return Ok(()),
        Fate::Passed | Fate::Unanswered | Fate::Cut => {}
    }

    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.upstream))?;
    server.write_all(request.head.as_bytes())?;
    server.write_all(&request.body)?;
    if fate == Fate::Unanswered {
        return server.read(&mut [0; 1]).map(drop);
    }
    if request.watches() {
        pass_on(&mut server, &mut client, Some(Instant::now() + WATCH))?;
        shared.state.lock().unwrap().count(Fate::Cut);
    } else {
        pass_on(&mut server, &mut client, None)?;
    }
    client.shutdown(Shutdown::Both)
}

/// Until the server has said all, or that moment.
fn pass_on(server: &mut TcpStream, client: &mut TcpStream, end: Option<Instant>) -> io::Result<()> {
    let mut bytes = [0; 16 * 1024];
    loop {
        if let Some(end) = end {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            server.set_read_timeout(Some(left))?;
        }
        match server.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => client.write_all(&bytes[..count])?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// An answer as the API server gives it.
fn answer(client: &mut TcpStream, code: u16, reason: &str, headers: &str) -> io::Result<()> {
    let reason_word = reason.replace(' ', "");
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"injected","reason":"{reason_word}","code":{code}}}"#
    );
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {code} {reason}\r\n{headers}Content-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    /// `None` where the client has only connected.
    fn read(client: &TcpStream) -> io::Result<Option<Self>> {
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

    fn watches(&self) -> bool {
        self.head.lines().next().is_some_and(|line| line.contains("watch=true"))
    }
}
