//! Pushes to registries that fail, and pushes again.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::image::Project;
use crate::image::registry::Crane;

const PLATFORM: [&str; 3] = ["--platform", "linux/amd64", "--tag"];

/// What happens to a request on its way to the registry.
#[derive(Clone, Copy)]
enum Fault {
    None,
    /// A status, perhaps with headers, is the answer.
    Status(&'static str),
    /// The connection ends in the middle of the request.
    CutOff,
    /// The answer takes this long.
    Slow(Duration),
}

/// Stands before a registry. Of each request, `fault` gets the first line and the number of those before with the
/// same one.
fn before(crane: &Crane, fault: impl Fn(&str, usize) -> Fault + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let registry = crane.name("").trim_end_matches('/').to_owned();
    let (fault, seen) = (Arc::new(fault), Arc::new(Mutex::new(HashMap::<String, usize>::new())));
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (fault, seen, registry) = (Arc::clone(&fault), Arc::clone(&seen), registry.clone());
            thread::spawn(move || {
                let choose = |line: &str| {
                    let mut seen = seen.lock().unwrap();
                    // A session of an upload has a name of its own.
                    let line = line.split("/uploads/").next().unwrap().to_owned();
                    let count = seen.entry(line.clone()).or_default();
                    *count += 1;
                    fault(&line, *count - 1)
                };
                // Whoever goes away is no reason to end.
                let _ = forward(connection.unwrap(), &registry, choose);
            });
        }
    });
    address
}

fn forward(
    connection: TcpStream,
    registry: &str,
    choose: impl Fn(&str) -> Fault,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let begin = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
        let line = head[begin..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let fault = choose(head.lines().next().unwrap());
    if let Fault::CutOff = fault {
        let mut half = vec![0; length / 2];
        return reader.read_exact(&mut half);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut connection = connection;
    if let Fault::Status(status) = fault {
        let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        return write!(connection, "HTTP/1.1 {status}\r\n{end}");
    }
    if let Fault::Slow(time) = fault {
        thread::sleep(time);
    }
    let mut upstream = TcpStream::connect(registry)?;
    let (first, rest) = head.split_once("\r\n").unwrap();
    write!(upstream, "{first}\r\nConnection: close\r\n{rest}")?;
    upstream.write_all(&body)?;
    std::io::copy(&mut upstream, &mut connection)?;
    Ok(())
}

#[test]
fn a_push_survives_what_passes() {
    let faults = [
        Fault::Status("503 Service Unavailable"),
        Fault::Status("429 Too Many Requests\r\nRetry-After: 1"),
        Fault::CutOff,
    ];
    thread::scope(|scope| {
        for fault in faults {
            scope.spawn(move || {
                let (project, crane) = (Project::new(), Crane::serve());
                // Each request fails once.
                let before = before(&crane, move |_, count| match count {
                    0 => fault,
                    _ => Fault::None,
                });
                let pinned = project.pushed_to(&format!("{before}/op:v1"));
                crane.run(&["validate", "--remote", &crane.name("op:v1")]);
                let (_, digest) = pinned.split_once('@').unwrap();
                let here = format!("{}@{digest}", crane.name("op"));
                for kind in ["application/spdx+json", "application/vnd.in-toto+json"] {
                    assert_eq!(crane.referrers(&here, kind).len(), 1, "{kind}");
                }
            });
        }
    });
}

#[test]
fn a_rate_limit_is_waited_for() {
    let (project, crane) = (Project::new(), Crane::serve());
    // More often than another error is waited for.
    let before = before(&crane, |line, count| match count < 5 {
        true if line.contains(" /v2/op/referrers/") => {
            Fault::Status("429 Too Many Requests\r\nRetry-After: 1")
        }
        _ => Fault::None,
    });
    project.pushed_to(&format!("{before}/op:v1"));
}

#[test]
fn a_registry_says_how_long_to_wait() {
    let project = Project::new();
    let push = |status: &'static str| {
        let crane = Crane::serve();
        let before = before(&crane, move |line, count| match count == 0 {
            true if line.contains(" /v2/op/manifests/sha256:") => Fault::Status(status),
            _ => Fault::None,
        });
        let mut opctl = project.opctl();
        opctl.args(["image", "build", "--push"]).args(PLATFORM).arg(format!("{before}/op:v1"));
        let output = opctl.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    for status in ["429 Too Many Requests\r\nRetry-After: 2", "503 Unavailable\r\nRetry-After: 2"] {
        let (success, log) = push(status);
        assert!(success && log.contains("; trying again in 2s\n"), "{log}");
    }
    let (success, log) = push("429 Too Many Requests\r\nRetry-After: 3600");
    assert!(!success && log.contains(": it accepts no requests for 1h\n"), "{log}");
}

#[test]
fn a_server_of_tokens_is_asked_again_if_it_is_overloaded() {
    let (project, crane) = (Project::new(), Crane::serve());
    let auth = "dXNlcjpwYXNzd29yZA=="; // `user:password`
    let push = |status: &'static str, failures: usize| {
        let tokens = failing_token_server(status, failures);
        let challenge = format!("Bearer realm=\"http://{tokens}/token\",service=\"r\"");
        let ping = format!("401 Unauthorized\r\nWWW-Authenticate: {challenge}").leak();
        let before = before(&crane, |line, _| match line.starts_with("GET /v2/ ") {
            true => Fault::Status(ping),
            false => Fault::None,
        });
        let config = format!(r#"{{"auths":{{"{before}":{{"auth":"{auth}"}}}}}}"#);
        std::fs::write(project.path().join("config.json"), config).unwrap();
        let mut opctl = project.opctl();
        opctl.args(["image", "build", "--push"]).args(PLATFORM).arg(format!("{before}/op:v1"));
        let output = opctl.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    // The client of registries asks, and then opctl does.
    let (success, log) = push("503 Service Unavailable\r\nRetry-After: 2", 2);
    let again = "its server of tokens answers with 503; trying again in 2s\n";
    assert!(success && log.contains(again), "{log}");
    let (success, log) = push("503 Service Unavailable", 1);
    assert!(success && !log.contains("again"), "it has answered opctl: {log}");
    let (success, log) = push("503 Service Unavailable", usize::MAX);
    assert!(!success && log.contains(": its server of tokens answers with 503\n"), "{log}");
    let (success, log) = push("401 Unauthorized", usize::MAX);
    assert!(!success && log.contains(": it refuses the credentials\n"), "{log}");
    assert!(!log.contains("again"), "a refusal is final: {log}");
}

/// A server of tokens whose first answers have a status.
fn failing_token_server(status: &'static str, failures: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for (count, connection) in listener.incoming().enumerate() {
            let connection = connection.unwrap();
            let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
            let request = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty());
            let request = request.collect::<Vec<_>>().join("\n").to_ascii_lowercase();
            assert!(request.contains("authorization: basic dxnlcjpwyxnzd29yza=="), "{request}");
            let body = r#"{"token":"token"}"#;
            let (status, body) = if count < failures { (status, "") } else { ("200 OK", body) };
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close");
            write!(&connection, "{head}\r\n\r\n{body}").unwrap();
        }
    });
    address
}

#[test]
fn what_lasts_leaves_no_tag_and_is_completed_by_the_next_push() {
    let down = "503 Service Unavailable";
    // Where the push stops: at contents, at a manifest, at the list of what refers to the image.
    let places = [
        ("POST /v2/op/blobs", down),
        ("PUT /v2/op/manifests/sha256:", down),
        ("PUT /v2/op/manifests/sha256-", "500 Internal Server Error"),
    ];
    thread::scope(|scope| {
        for (place, status) in places {
            scope.spawn(move || {
                let (project, crane) = (Project::new(), Crane::serve());
                let broken = before(&crane, move |line, _| match line.starts_with(place) {
                    true => Fault::Status(status),
                    false => Fault::None,
                });
                let name = format!("{broken}/op:v1");
                let error = project.refused(&[&PLATFORM[..], &[&name]].concat());
                for words in [&status[..3], "cannot push to 127.0.0.1:", "run the command again"] {
                    assert!(error.contains(words), "{place}: {words} is not in {error}");
                }
                assert!(!crane.has("/v2/op/manifests/v1"), "{place}");
                let uploads = crane.uploads();
                project.pushed_to(&crane.name("op:v1"));
                assert!(crane.has("/v2/op/manifests/v1"), "{place}");
                crane.run(&["validate", "--remote", &crane.name("op:v1")]);
                assert_eq!(crane.uploads(), 5, "{place}: {uploads} were there");
            });
        }
    });
}

#[test]
fn what_takes_long_is_said() {
    let (project, crane) = (Project::new(), Crane::serve());
    let before = before(&crane, |line, _| match line.starts_with("PUT /v2/op/manifests/v1") {
        true => Fault::Slow(Duration::from_secs(2)),
        false => Fault::None,
    });
    let mut opctl = project.opctl();
    opctl.args(["image", "build", "--push"]).args(PLATFORM).arg(format!("{before}/op:v1"));
    let output = opctl.output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && log.contains("push sending v1\n"), "{log}");
    assert!(!log.contains("finding"), "what is quick is not: {log}");
}

#[test]
fn an_identity_token_is_exchanged() {
    let (project, crane) = (Project::new(), Crane::serve());
    let (tokens, asked) = token_server();
    let challenge = format!("Bearer realm=\"http://{tokens}/oauth2/token\",service=\"r\"");
    let challenge: &'static str = challenge.leak();
    let ping = format!("401 Unauthorized\r\nWWW-Authenticate: {challenge}").leak();
    let before = before(&crane, |line, _| match line.starts_with("GET /v2/ ") {
        true => Fault::Status(ping),
        false => Fault::None,
    });
    let auth = "PHRva2VuPjo="; // `<token>:`
    let config =
        format!(r#"{{"auths":{{"{before}":{{"auth":"{auth}","identitytoken":"identity"}}}}}}"#);
    std::fs::write(project.path().join("config.json"), config).unwrap();
    project.pushed_to(&format!("{before}/op:v1"));
    let asked = asked.lock().unwrap().join("\n");
    for words in ["grant_type=refresh_token", "refresh_token=identity", "pull%2Cpush", "service=r"]
    {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
}

/// A server that exchanges tokens, and what it was asked for.
fn token_server() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&asked);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = [0; 4096];
            let mut length = 0;
            while !String::from_utf8_lossy(&request[..length]).contains("refresh_token=") {
                length += connection.read(&mut request[length..]).unwrap();
            }
            log.lock().unwrap().push(String::from_utf8_lossy(&request[..length]).into_owned());
            let body = r#"{"access_token":"access"}"#;
            let length = body.len();
            write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
                .unwrap();
        }
    });
    (address, asked)
}

#[test]
fn a_full_disk_is_reported_and_keeps_the_older_image() {
    if !rustix::process::geteuid().is_root() || cfg!(not(target_os = "linux")) {
        eprintln!("left out: only root on Linux can make a small disk");
        return;
    }
    let project = Project::new();
    let mut opctl = Command::new("unshare");
    project.prepare(&mut opctl);
    let script = "mkdir -p disk && mount -t tmpfs -o size=2m tmpfs disk && \
                  \"$0\" image build -q --platform linux/amd64 --output disk/image && \
                  { cat /dev/zero > disk/file; true; } && \
                  ! \"$0\" image build -q --platform linux/amd64 --output disk/image && \
                  ls disk && cat disk/image/oci-layout";
    opctl.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_opctl")]);
    let output = opctl.output().unwrap();
    let (text, error) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let (text, error) = (text.unwrap(), error.unwrap());
    assert!(output.status.success(), "{error}");
    assert!(error.contains("cannot write disk/image: No space left on device"), "{error}");
    assert!(error.contains("hint: delete what is not needed there"), "{error}");
    assert!(text.ends_with("file\nimage\n{\"imageLayoutVersion\":\"1.0.0\"}"), "{text}");
}
