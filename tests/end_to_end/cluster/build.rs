//! Where the programs of the control plane come from.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use super::sandbox::{Sandbox, eventually, script, text};

#[test]
fn without_go_the_ways_are_listed() {
    let sandbox = Sandbox::new();
    let output = bare(&sandbox).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    for word in ["kube-apiserver", "etcd", "kwok", "install Go 1.26", "OPCTL_CLUSTER_ASSETS"] {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(error.contains("cannot build them: Go is not installed"), "{error}");
    assert!(
        error.contains("cannot download them: kube-apiserver from http://127.0.0.1:"),
        "{error}"
    );
}

#[test]
fn a_download_is_verified_and_no_go_is_needed() {
    let sandbox = Sandbox::new();
    let bin = sandbox.0.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let calls = sandbox.0.path().join("calls");
    script(&bin, "go", &format!("echo $1 >> {}", calls.display()));
    let mirror = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mirror.local_addr().unwrap();
    let paths = thread::spawn(move || {
        let (mut connection, _) = mirror.accept().unwrap();
        let mut line = String::new();
        BufReader::new(connection.try_clone().unwrap()).read_line(&mut line).unwrap();
        write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nmalware").unwrap();
        line
    });
    let mut download = bare(&sandbox);
    download.arg("--download").env("PATH", &bin);
    download.env("OPCTL_CLUSTER_MIRROR", format!("http://{address}"));
    let output = download.output().unwrap();

    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(" Downloading kube-apiserver v1.36.3 (1 of 6)"), "{error}");
    assert!(error.contains("its SHA-256 checksum is "), "{error}");
    let path = paths.join().unwrap();
    assert!(path.starts_with("GET /dl.k8s.io/release/v1.36.3/bin/linux/"), "{path}");
    assert!(!calls.exists(), "Go was called");
    let home = fs::read_dir(sandbox.0.path().join("cache/cluster")).unwrap().flatten().next();
    assert_eq!(fs::read_dir(home.unwrap().path().join("bin")).unwrap().count(), 0);
}

#[test]
fn two_calls_build_once_and_a_failed_build_leaves_nothing() {
    let sandbox = Sandbox::new();
    let bin = sandbox.0.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let calls = sandbox.0.path().join("calls");
    // What it builds cannot start a cluster; here it counts how often each program is built.
    let go = |end: &str| {
        let body = format!(
            "[ \"$1\" = build ] || exit 0\nwhile [ \"$1\" != -o ]; do shift; done\n\
             echo $3 >> {}\necho '#!/bin/sh' > $2\n\
             echo 'echo etcd Version: 3.6.16; [ $1 = --version ]' >> $2\n\
             chmod +x $2; {end}",
            calls.display()
        );
        script(&bin, "go", &body);
    };
    let start = |name: &str| {
        let mut command = bare(&sandbox);
        command.args(["--name", name]).env("PATH", format!("{}:/bin:/usr/bin", bin.display()));
        command
    };
    let built = || {
        let directories = fs::read_dir(sandbox.0.path().join("cache/cluster")).unwrap();
        let bin = directories.flatten().next().unwrap().path().join("bin");
        let files = fs::read_dir(bin).unwrap().flatten();
        files.filter_map(|file| file.file_name().into_string().ok()).collect::<Vec<_>>()
    };

    go("echo does not compile; exit 1");
    let failed = text(&start("a").output().unwrap().stderr);
    assert!(failed.contains("building kube-apiserver failed:\ndoes not compile"), "{failed}");
    assert_eq!(built(), Vec::<String>::new());

    // A build goes on when opctl is killed; the next one ends it and removes its half a program.
    go("sleep 300");
    let mut killed = start("a").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("half a program", || built().iter().any(|file| file.starts_with('.')));
    killed.kill().unwrap();
    killed.wait().unwrap();

    go("sleep 0.2");
    fs::remove_file(&calls).unwrap();
    let spawn = |name| start(name).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for mut child in ["a", "b"].map(spawn) {
        child.wait().unwrap();
    }
    let mut calls: Vec<String> =
        fs::read_to_string(&calls).unwrap().lines().map(str::to_owned).collect();
    calls.sort();
    let count = calls.len();
    calls.dedup();
    assert_eq!(calls.len(), count, "{calls:?}");
    assert!(count >= 5, "{calls:?}");
    assert!(built().iter().all(|file| !file.starts_with('.')), "{:?}", built());
}

/// A start on a machine that has nothing, without a network.
fn bare(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.cluster(&["start"]);
    command.env("PATH", "/nonexistent").env_remove("OPCTL_CLUSTER_ASSETS");
    command.env("OPCTL_CLUSTER_MIRROR", "http://127.0.0.1:1");
    command.env("OPCTL_CACHE_DIR", sandbox.0.path().join("cache"));
    command
}
