//! Registries: a real one, and some that refuse.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use serde_json::Value;

/// crane, with the registry that it serves in memory.
pub struct Crane {
    server: Child,
    port: u16,
    /// What the registry has been asked for.
    log: Arc<Mutex<Vec<String>>>,
}

impl Crane {
    /// Serves a registry on loopback, which does not know what refers to an image.
    pub fn serve() -> Self {
        let mut server = Command::new(crane());
        server.args(["registry", "serve", "--address", "127.0.0.1:0"]);
        Self::start(server)
    }

    /// Serves a registry on loopback that lists what refers to an image.
    pub fn serve_with_referrers() -> Self {
        Self::start(Command::new(binary("referrers", "./referrers")))
    }

    fn start(mut server: Command) -> Self {
        let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let port = first.rsplit(' ').next().unwrap().parse().unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines_of = Arc::clone(&log);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                lines_of.lock().unwrap().push(line);
            }
        });
        Self { server, port, log }
    }

    /// The name of an image in the registry.
    pub fn name(&self, image: &str) -> String {
        format!("127.0.0.1:{}/{image}", self.port)
    }

    /// Puts a list of manifests at a tag, as another client would.
    pub fn put(&self, image: &str, index: &serde_json::Value) {
        let (repository, tag) = image.rsplit_once(':').unwrap();
        let (host, repository) = repository.split_once('/').unwrap();
        let body = index.to_string();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "PUT /v2/{repository}/manifests/{tag} HTTP/1.0\r\nContent-Length: {}\r\n\
             Content-Type: application/vnd.oci.image.index.v1+json\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 201 "), "{answer}");
    }

    /// Whether there is something at a path of the registry.
    pub fn has(&self, path: &str) -> bool {
        get(&format!("127.0.0.1:{}", self.port), path).is_some()
    }

    /// The documents of a type that refer to an image, `NAME@DIGEST`. A registry that lists them itself is asked for
    /// its list.
    pub fn referrers(&self, pinned: &str, artifact_type: &str) -> Vec<Value> {
        let (repository, digest) = pinned.split_once('@').unwrap();
        let (host, path) = repository.split_once('/').unwrap();
        let own = get(host, &format!("/v2/{path}/referrers/{digest}"));
        let list = own.unwrap_or_else(|| {
            self.run(&["manifest", &format!("{repository}:{}", digest.replace(':', "-"))])
        });
        let parse = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        let read = |command: &str, descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            parse(&self.run(&[command, &format!("{repository}@{digest}")]))
        };
        let list = parse(&list);
        let manifests = list["manifests"].as_array().unwrap().iter();
        let manifests = manifests.map(|descriptor| read("manifest", descriptor));
        let manifests = manifests.filter(|manifest| manifest["artifactType"] == artifact_type);
        manifests.map(|manifest| read("blob", &manifest["layers"][0])).collect()
    }

    /// How many requests a registry was sent, of which the lines in its log have this text.
    pub fn requests(&self, text: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }

    /// How many blobs were sent to the registry.
    pub fn uploads(&self) -> usize {
        let log = self.log.lock().unwrap();
        log.iter().filter(|line| line.contains(" PUT ") && line.contains("/blobs/")).count()
    }

    /// What crane prints.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(crane()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// The body of an answer, unless there is nothing.
fn get(host: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    head.contains(" 200 ").then(|| body.to_owned())
}

impl Drop for Crane {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn crane() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| binary("crane", "github.com/google/go-containerregistry/cmd/crane"))
}

/// Compiles a program, with the Go that the control plane is built with.
fn binary(name: &str, package: &str) -> PathBuf {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut go = Command::new("go");
    go.args(["build", "-buildvcs=false", "-mod=readonly", "-o"]).arg(&binary).arg(package);
    go.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/image"));
    let output = go.output().expect("Go, with which the control plane is built, too");
    assert!(output.status.success(), "{output:?}");
    binary
}

/// How a registry refuses everything.
#[derive(Clone, Copy)]
pub enum Refusal {
    Unauthorized,
    TooManyRequests,
    Forbidden,
    /// It ends the connection instead of an answer.
    Hangup,
}

impl Refusal {
    /// Serves it on loopback until the tests end. Returns the address.
    pub fn serve(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for connection in listener.incoming() {
                self.answer(connection.unwrap());
            }
        });
        address
    }

    fn answer(self, mut connection: TcpStream) {
        let is_ping = {
            let mut request = [0; 4096];
            let length = connection.read(&mut request).unwrap_or(0);
            request[..length].starts_with(b"GET /v2/ ")
        };
        let status = match self {
            Self::Hangup => return,
            Self::TooManyRequests | Self::Forbidden if is_ping => "200 OK\r\n",
            Self::Forbidden => "403 Forbidden\r\n",
            Self::TooManyRequests => "429 Too Many Requests\r\nRetry-After: 1\r\n",
            Self::Unauthorized => "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"r\"\r\n",
        };
        let answer = format!("HTTP/1.1 {status}Content-Length: 0\r\nConnection: close\r\n\r\n");
        let _ = connection.write_all(answer.as_bytes());
    }
}
