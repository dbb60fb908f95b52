//! Clients of what runs on the node.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{Cluster, text};

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

/// A client of a PostgresCluster, with what its Secret says.
#[derive(Clone)]
pub struct Postgres {
    /// Runs psql, of another version than that of the image.
    command: Arc<dyn Fn() -> Command + Send + Sync>,
    secret: BTreeMap<String, String>,
    /// Where the primary is reached, and where any instance is.
    pub primary: String,
    pub all: String,
}

impl Postgres {
    pub fn of(
        object: &Value,
        cluster: &Cluster,
        command: impl Fn() -> Command + Send + Sync + 'static,
    ) -> Self {
        let status = &object["status"];
        let address = |field: &str| {
            let service = cluster.get(&["service", status[field].as_str().unwrap()]);
            service["spec"]["clusterIP"].as_str().unwrap().to_owned()
        };
        let secrets = ["appSecret", "passwordSecret"].iter();
        let secret = secrets.filter_map(|field| status[field].as_str()).next().unwrap();
        let template = "go-template={{range $key, $value := .data}}{{$key}} {{$value | base64decode}}\n{{end}}";
        let data = cluster.ok(&["get", "secret", secret, "-o", template]);
        let data = data.lines().filter_map(|line| line.split_once(' '));
        Self {
            command: Arc::new(command),
            secret: data.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            primary: address("readWriteService"),
            all: address("readOnlyService"),
        }
    }

    pub fn query(&self, address: &str, sql: &str) -> Result<String, String> {
        let (user, password) = (&self.secret["username"], &self.secret["password"]);
        let database = self.secret.get("dbname").unwrap_or(user);
        let server = format!(
            "host={address} user={user} dbname={database} password={password} connect_timeout=2 \
             tcp_user_timeout=2000 options='-c statement_timeout=5s'"
        );
        let mut psql = (self.command)();
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "-c", sql, "-d"]);
        let output = psql.arg(server).output().unwrap();
        match output.status.success() {
            true => Ok(text(&output.stdout).trim().to_owned()),
            false => Err(text(&output.stderr)),
        }
    }
}

/// Requests in the background, one after another.
pub struct Client {
    done: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    thread: JoinHandle<Figures>,
}

/// What a client has seen.
#[derive(Debug, Default)]
pub struct Figures {
    pub requests: usize,
    pub failed: usize,
    /// The longest time between two answers with failures between them.
    pub outage: Duration,
    /// How often there was which failure.
    pub failures: BTreeMap<String, usize>,
}

impl Client {
    /// The pause is that between two requests.
    pub fn start(
        pause: Duration,
        mut request: impl FnMut() -> Result<(), String> + Send + 'static,
    ) -> Self {
        let (done, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (is_done, count) = (done.clone(), answered.clone());
        let thread = thread::spawn(move || {
            let mut figures = Figures::default();
            let (mut last, mut is_failing) = (Instant::now(), false);
            while !is_done.load(Ordering::Relaxed) {
                figures.requests += 1;
                let result = request();
                if is_failing || result.is_err() {
                    figures.outage = figures.outage.max(last.elapsed());
                }
                is_failing = result.is_err();
                match result {
                    Ok(()) => {
                        last = Instant::now();
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(failure) => {
                        figures.failed += 1;
                        let line = failure.lines().next().unwrap_or("closed").to_owned();
                        *figures.failures.entry(line).or_default() += 1;
                    }
                }
                sleep(pause);
            }
            figures
        });
        Self { done, answered, thread }
    }

    /// How many requests have been answered so far.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    pub fn stop(self) -> Figures {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
