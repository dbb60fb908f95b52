//! Downloads from servers on loopback that behave, or do not.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::cluster::build;

/// Serves one connection at a URL.
fn serve(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/etcd", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let request = BufReader::new(connection.try_clone().unwrap()).lines();
        request.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
        answer(&mut connection);
    });
    url
}

/// Sends a body, of which the head says another length.
fn send(connection: &mut TcpStream, length: usize, body: &[u8]) {
    write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").unwrap();
    connection.write_all(body).unwrap();
}

/// Serves a file.
fn serve_file(body: &'static [u8]) -> String {
    serve(|connection| send(connection, body.len(), body))
}

/// The checksum of `program`.
const PROGRAM: &str = "1310ca2c8932dbd118668bd97442558a3e1f546b5e15c69699dfbd6024f548d8";

/// Installs what a server sends. Returns the result, and the directory of the program.
fn install(
    url: &str,
    checksum: &'static str,
    member: Option<&str>,
) -> (Result<u64>, tempfile::TempDir) {
    let bin = tempfile::tempdir().unwrap();
    let release = Release { url: String::new(), checksum, member: member.map(str::to_owned) };
    let downloader = Downloader::new(Duration::from_secs(1)).unwrap();
    let result = downloader.install(url, &release, &bin.path().join("etcd"), &mut |_| Ok(()));
    (result, bin)
}

/// The error of a download that leaves nothing behind.
fn failure(url: &str) -> String {
    let (result, bin) = install(url, PROGRAM, None);
    assert_eq!(fs::read_dir(bin.path()).unwrap().count(), 0);
    format!("{:#}", result.unwrap_err())
}

#[test]
fn a_program_with_the_right_checksum_is_installed() {
    let (result, bin) = install(&serve_file(b"program"), PROGRAM, None);
    assert_eq!(result.unwrap(), 7);
    let program = bin.path().join("etcd");
    assert_eq!(fs::read(&program).unwrap(), b"program");
    assert_eq!(program.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read_dir(bin.path()).unwrap().count(), 1);
}

#[test]
fn a_program_is_unpacked_after_its_archive_is_verified() {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, contents) in [("etcd-1/README", "text"), ("etcd-1/etcd", "program")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        archive.append_data(&mut header, path, contents.as_bytes()).unwrap();
    }
    let bytes: &'static [u8] = archive.into_inner().unwrap().finish().unwrap().leak();
    let checksum: &'static str = Hash::of(bytes).to_string().leak();

    let (result, bin) = install(&serve_file(bytes), checksum, Some("etcd-1/etcd"));
    assert_eq!(result.unwrap(), bytes.len() as u64);
    assert_eq!(fs::read(bin.path().join("etcd")).unwrap(), b"program");
    assert_eq!(fs::read_dir(bin.path()).unwrap().count(), 1, "the archive is deleted");

    let (result, _bin) = install(&serve_file(bytes), checksum, Some("etcd-2/etcd"));
    assert_eq!(result.unwrap_err().to_string(), "it does not contain etcd-2/etcd");
    let (result, _bin) = install(&serve_file(bytes), PROGRAM, Some("etcd-1/etcd"));
    assert!(result.unwrap_err().to_string().contains("checksum"));
}

#[test]
fn another_program_is_not_installed() {
    let error = failure(&serve_file(b"malware"));
    assert!(error.starts_with("its SHA-256 checksum is "), "{error}");
    assert!(error.ends_with(&format!(" instead of {PROGRAM}")), "{error}");
}

#[test]
fn half_a_program_is_not_installed() {
    let error = failure(&serve(|connection| send(connection, 7, b"prog")));
    assert!(error.contains("end of file before message length reached"), "{error}");
}

#[test]
fn a_missing_file_is_reported_with_its_status() {
    let url = serve(|connection| {
        write!(connection, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    assert!(failure(&url).contains("404 Not Found"));
}

#[test]
fn a_server_that_stops_sending_is_given_up() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let url = serve(move |connection| {
        send(connection, 7, b"prog");
        let _ = wait.recv();
    });
    let error = failure(&url);
    assert!(error.contains("operation timed out"), "{error}");
    drop(done);
}

#[test]
fn a_server_that_is_slow_is_waited_for() {
    let url = serve(|connection| {
        send(connection, 7, b"");
        for byte in b"program" {
            // Longer in total than nothing may arrive.
            thread::sleep(Duration::from_millis(200));
            connection.write_all(&[*byte]).unwrap();
        }
    });
    let (result, _bin) = install(&url, PROGRAM, None);
    assert_eq!(result.unwrap(), 7);
}

#[test]
fn an_interruption_ends_a_download_that_waits() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let url = serve(move |_| {
        let _ = wait.recv();
    });
    let bin = tempfile::tempdir().unwrap();
    let release = Release::of(Tool::Etcd, "x86_64").unwrap();
    let downloader = Downloader::new(Duration::from_secs(60)).unwrap();
    let result =
        downloader.install(&url, &release, &bin.path().join("etcd"), &mut |_| bail!("interrupted"));
    assert_eq!(result.unwrap_err().to_string(), "interrupted");
    assert_eq!(fs::read_dir(bin.path()).unwrap().count(), 0);
    drop(done);
}

#[test]
fn every_program_has_a_release_with_a_checksum_of_its_own() {
    let mut checksums = Vec::new();
    for architecture in ["x86_64", "aarch64"] {
        for tool in Tool::ALL {
            let release = Release::of(tool, architecture).unwrap();
            assert!(release.url.contains(version(tool)), "{release:?}");
            assert!(release.checksum.len() == 64, "{release:?}");
            assert!(release.checksum.chars().all(|c| c.is_ascii_hexdigit()), "{release:?}");
            checksums.push(release.checksum);
        }
    }
    checksums.sort_unstable();
    checksums.dedup();
    assert_eq!(checksums.len(), 12);
    assert!(Release::of(Tool::Etcd, "riscv64").is_none());
}

#[test]
fn downloaded_and_built_programs_work_together() {
    assert_eq!(KUBERNETES, build::kubernetes_version());
    assert_eq!(KWOK, build::kwok_version());
    // The format of the data is that of the minor version.
    assert_eq!(ETCD.rsplit_once('.').unwrap().0, build::etcd_version().rsplit_once('.').unwrap().0);
}

#[test]
fn a_mirror_serves_the_files_of_all_hosts() {
    let url = "https://dl.k8s.io/release/kubectl";
    assert_eq!(mirrored(url, None), url);
    assert_eq!(mirrored(url, Some("")), url);
    let expected = "http://mirror.example.com/k8s/dl.k8s.io/release/kubectl";
    for mirror in ["http://mirror.example.com/k8s", "http://mirror.example.com/k8s/"] {
        assert_eq!(mirrored(url, Some(mirror)), expected);
    }
}
