//! A generated project, and the user's commands in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::Duration;

use super::background::Background;
use super::cluster::{Cluster, free_port, text};
use super::machine::{Machine, build_directory, cache, turn};
use super::wait::{COMPILATION, timed, within};

/// The crate that every project has a copy of.
const RUNTIME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/opctl-runtime");

/// A project. Until it runs, it is the only one of its name.
pub struct Project<'a> {
    machine: &'a Machine,
    name: String,
    folder: PathBuf,
    turn: Mutex<Option<File>>,
    /// The files that may have the time of the last run.
    settled: Mutex<BTreeSet<PathBuf>>,
}

/// What is left of a project for tests that only run its manager.
pub struct Built {
    pub manager: PathBuf,
    /// The project's folder `config`.
    pub config: PathBuf,
}

impl<'a> Project<'a> {
    /// `opctl init` in an empty folder.
    pub fn init(machine: &'a Machine, name: &str, args: &[&str]) -> Self {
        let turn = turn(name);
        let folder = folder(name);
        if folder.exists() {
            let _ = fs::remove_dir_all(before(&folder));
            fs::rename(&folder, before(&folder)).unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        let (name, turn) = (name.to_owned(), Mutex::new(Some(turn)));
        let project = Self { machine, name, folder, turn, settled: Mutex::default() };
        project.opctl(&[&["init", "--domain", "example.com"], args].concat());
        project.keep_times();
        project
    }

    /// Gives the runtime the times of its original. To cargo, which knows a member by its path in the workspace, the
    /// runtime of all projects is then one, and compiled once.
    pub fn keep_times(&self) {
        keep_times(Path::new(RUNTIME), &self.folder.join("runtime"));
    }

    /// `opctl create api`; the words are separated by blanks.
    pub fn api(&self, args: &str) {
        let words: Vec<&str> = ["create", "api"].into_iter().chain(args.split(' ')).collect();
        self.opctl(&words);
    }

    fn opctl(&self, args: &[&str]) {
        let mut opctl = self.machine.command(env!("CARGO_BIN_EXE_opctl"));
        let output = opctl.current_dir(&self.folder).args(args).output().unwrap();
        assert!(output.status.success(), "opctl {args:?}:\n{}", printed(&output));
    }

    /// A command of the user's, in the project.
    pub fn command(&self, program: &str) -> Command {
        self.settle();
        let mut command = self.machine.command(program);
        command.current_dir(&self.folder);
        command
    }

    /// Gives the files that are as the last run has left them the times of then: what cargo has made of them is
    /// up to date. Not those that this run changes later on, since it may have compiled something else meanwhile.
    fn settle(&self) {
        let before = before(&self.folder);
        let mut settled = self.settled.lock().unwrap();
        for (path, content) in self.snapshot() {
            let name = path.strip_prefix(&self.folder).unwrap();
            let old = before.join(name);
            if !name.starts_with("runtime")
                && settled.insert(path.clone())
                && fs::read(&old).is_ok_and(|old| old == content)
            {
                set_time(&path, &old);
            }
        }
    }

    /// `make`, on no cluster but the one that it chooses by itself. Returns what it printed.
    pub fn make(&self, target: &str) -> String {
        finished(&format!("make {target}"), self.command("make").arg(target).output().unwrap())
    }

    /// `make` on the cluster of the kubeconfig.
    pub fn make_on(&self, cluster: &Cluster, target: &str) -> String {
        let mut make = self.command("make");
        make.arg(target).env("KUBECONFIG", &cluster.kubeconfig);
        finished(&format!("make {target}"), make.output().unwrap())
    }

    /// Compiles the manager, and keeps what it takes to run it.
    pub fn build(self) -> Built {
        timed(&format!("compilation of the manager of {}", self.name), || {
            let mut build = self.command("cargo");
            finished("cargo build", build.args(["build", "--bin", "manager"]).output().unwrap());
        });
        let kept = build_directory().join("managers").join(&self.name);
        let _ = fs::remove_dir_all(&kept); // of another run
        fs::create_dir_all(&kept).unwrap();
        // Not by this process: what one of its threads writes is no program that another can start.
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(self.path("target/debug/manager")).arg(self.path("config")).arg(&kept);
        finished("cp", copy.output().unwrap());
        Built { manager: kept.join("manager"), config: kept.join("config") }
    }

    /// `make run` in the background, once the operator is ready.
    pub fn run(&self) -> Background {
        let (probes, metrics) = (free_port(), free_port());
        let args = format!(
            "ARGS=--health-probe-bind-address=127.0.0.1:{probes} \
             --metrics-bind-address=127.0.0.1:{metrics} --metrics-secure=false"
        );
        let mut make = self.command("make");
        make.args(["run", &args]);
        let log = self.machine.home().join(format!("{}.log", self.name));
        let mut operator = Background::start(&format!("make run of {}", self.name), make, log);
        timed(&format!("from `make run` to ready in {}", self.name), || {
            within(COMPILATION, "ready operator", || {
                operator.assert_runs();
                get(probes, "/readyz")
            })
        });
        assert_eq!(get(metrics, "/metrics").map(|text| text.ends_with("# EOF\n")), Ok(true));
        *self.turn.lock().unwrap() = None;
        operator
    }

    /// The project's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file of the project.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.folder.join(path)).unwrap()
    }

    /// Writes a file of the project.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Changes a file of the project.
    pub fn replace(&self, path: &str, old: &str, new: &str) {
        let text = self.read(path);
        assert!(text.contains(old), "{path}:\n{text}");
        fs::write(self.folder.join(path), text.replacen(old, new, 1)).unwrap();
    }

    /// A path in the project, as an argument.
    pub fn path(&self, path: &str) -> String {
        self.folder.join(path).display().to_string()
    }

    /// Fails the test when a file differs from what it was.
    pub fn assert_unchanged(&self, before: &Snapshot, what: &str) {
        let now = self.snapshot();
        let paths = before.keys().chain(now.keys());
        let changed: Vec<_> = paths.filter(|path| before.get(*path) != now.get(*path)).collect();
        assert!(changed.is_empty(), "{what} changes {changed:?}");
    }

    /// Every file with its content, but for what git is told to ignore.
    pub fn snapshot(&self) -> Snapshot {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path == self.folder.join("target") {
                    continue;
                }
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(files.insert(path.clone(), fs::read(path).unwrap())),
                }
            }
        }
        files
    }
}

pub type Snapshot = BTreeMap<PathBuf, Vec<u8>>;

impl Drop for Project<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(before(&self.folder));
        if std::thread::panicking() {
            eprintln!("the project is kept: {}", self.folder.display());
        }
    }
}

/// Outside of this repository, whose settings for rustfmt and clippy hold for what is below. The
/// same in each run, so that cargo finds what the last one has compiled.
fn folder(name: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    build_directory().hash(&mut hasher);
    cache().join("tests").join(format!("{:016x}", hasher.finish())).join(name)
}

/// Where the project of the last run is meanwhile.
fn before(folder: &Path) -> PathBuf {
    folder.with_extension("before")
}

/// Gives the files of a copy the times of their originals.
fn keep_times(originals: &Path, copy: &Path) {
    for entry in fs::read_dir(originals).unwrap() {
        let original = entry.unwrap().path();
        let path = copy.join(original.file_name().unwrap());
        if original.is_dir() {
            keep_times(&original, &path);
        } else if fs::read(&path).is_ok_and(|copy| copy == fs::read(&original).unwrap()) {
            set_time(&path, &original);
        }
    }
}

/// Gives a file the time of another one.
fn set_time(path: &Path, of: &Path) {
    let time = fs::metadata(of).unwrap().modified().unwrap();
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// What a command printed that must succeed.
pub fn finished(what: &str, output: Output) -> String {
    let printed = printed(&output);
    assert!(output.status.success(), "{what}:\n{printed}");
    printed
}

fn printed(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// The body of an answer of 200; else what there was instead.
pub fn get(port: u16, path: &str) -> Result<String, String> {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|error: std::io::Error| error.to_string())?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(answer),
    }
}
