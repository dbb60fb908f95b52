//! Random CRDs and `PROJECT` files, mutated from valid ones. Each is refused, or what comes of it is
//! harmless: files inside the project, Rust that is formatted, and a project that the next command accepts.
//!
//! An ordinary run takes a few seconds. These variables make a longer one of it:
//!
//! - `OPCTL_SWEEP`: the number of cases, such as 10000;
//! - `OPCTL_SWEEP_SEED`: the seed, a number;
//! - `OPCTL_SWEEP_CRDS`: a directory with CRDs to begin with besides those of the tests, such as a
//!   GOMODCACHE after `go mod download github.com/cert-manager/cert-manager@latest`.
//!
//! `cargo test --test hostile -- --ignored` compiles a sample of the generated types in a project.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use opctl::project::{ApiRequest, Gvk, Project};
use opctl::render::Tree;
use opctl::text::visible;

use super::mutate::mutate;
use super::random::Random;
use super::{PATIENCE, sandbox};

/// How long an ordinary run takes.
const BUDGET: Duration = Duration::from_secs(4);
/// One in so many cases also goes through the binary.
pub const BINARY: usize = 10;

/// What a run saw.
#[derive(Debug, Default)]
struct Sweep {
    cases: usize,
    accepted: usize,
    reasons: BTreeMap<String, usize>,
    slowest: Duration,
}

/// Runs cases with random texts until the budget or the requested number is reached. `check` returns the
/// reason of a refusal.
pub fn sweep(seeds: &[String], mut check: impl FnMut(&str, usize) -> Result<(), String>) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let (cases, seed) = (number("OPCTL_SWEEP"), number("OPCTL_SWEEP_SEED").unwrap_or(1));
    let (start, mut sweep) = (Instant::now(), Sweep::default());
    let goes_on = |sweep: &Sweep| match cases {
        Some(cases) => (sweep.cases as u64) < cases,
        None => start.elapsed() < BUDGET,
    };
    while goes_on(&sweep) {
        let mut random = Random(seed.wrapping_add(sweep.cases as u64).wrapping_mul(0x1_0000_0001));
        let seed_text: &String = random.choose(seeds);
        let text = mutate(seed_text, &mut random);
        let begin = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| check(&text, sweep.cases)));
        let elapsed = begin.elapsed();
        let result = result.unwrap_or_else(|_| {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile.yaml");
            fs::write(&path, &text).unwrap();
            panic!("case {} of seed {seed}, which is in {}", sweep.cases, path.display());
        });
        assert!(elapsed < PATIENCE, "case {} took {elapsed:?}", sweep.cases);
        sweep.slowest = sweep.slowest.max(elapsed);
        sweep.cases += 1;
        match result {
            Ok(()) => sweep.accepted += 1,
            Err(reason) => {
                assert!(!reason.is_empty() && !reason.contains(sandbox::is_hidden), "{reason:?}");
                // The kind of the reason: what it says besides names and numbers.
                let kind = reason.rsplit("': ").next().unwrap_or_default();
                let words = kind.split_whitespace().filter(|word| {
                    !word.contains(['`', '\'', '"']) && !word.contains(char::is_numeric)
                });
                let kind = words.take(6).collect::<Vec<_>>().join(" ");
                *sweep.reasons.entry(kind).or_default() += 1;
            }
        }
    }
    println!("{sweep:#?}");
    assert!(sweep.accepted * 20 > sweep.cases, "hardly any case was accepted: {sweep:#?}");
    assert!(sweep.accepted < sweep.cases, "no case was refused: {sweep:#?}");
}

/// The message of an error, as it is printed.
pub fn reason(error: impl Display) -> String {
    visible(&error.to_string()).into_owned()
}

/// Asserts that files are inside the project, that sources hide nothing, and that manifests are YAML.
pub fn assert_harmless(tree: &Tree) {
    for (path, file) in tree {
        let is_normal = |part| matches!(part, Component::Normal(_));
        assert!(Path::new(path).components().all(is_normal), "{path}");
        assert!(!path.contains(sandbox::is_hidden) && !path.contains('\\'), "{path}");
        if path.ends_with(".rs") {
            assert!(!file.text.contains(sandbox::is_hidden), "{path}: {}", file.text);
        }
        if path.starts_with("tests/objects/") {
            assert!(!file.text.contains(sandbox::is_hidden), "{path}: {}", file.text);
            let object: serde_yaml::Value = serde_yaml::from_str(&file.text).unwrap();
            assert!(object["kind"].is_string(), "{}", file.text);
        }
    }
}

/// Asserts that a project is what the next command reads, and that it can add an API to it.
pub fn assert_usable(project: &Project) {
    let text = project.to_text().unwrap();
    assert_eq!(Project::parse(&text).unwrap(), *project, "{text}");
    let gvk = Gvk::new("the-next", "v1", "TheNext");
    let api = project.check_api(ApiRequest { gvk, ..ApiRequest::default() }).unwrap();
    let next = project.with_api(&api).unwrap();
    assert_eq!(Project::parse(&next.to_text().unwrap()).unwrap(), next);
}

/// Asserts that rustfmt can parse all sources, and that it does not change any.
pub fn assert_formatted(sources: &BTreeSet<String>) {
    let directory = tempfile::tempdir().unwrap();
    let sources: Vec<&String> = sources.iter().collect();
    for (i, sources) in sources.chunks(100).enumerate() {
        let paths: Vec<PathBuf> =
            (0..sources.len()).map(|j| directory.path().join(format!("{i}_{j}.rs"))).collect();
        for (path, source) in paths.iter().zip(sources) {
            fs::write(path, source).unwrap();
        }
        let mut rustfmt = Command::new("rustfmt");
        let output = rustfmt.args(["--check", "--edition", "2024"]).args(&paths).output().unwrap();
        let (stdout, stderr) = (output.stdout, output.stderr);
        let text = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
        assert!(
            output.status.success(),
            "{}",
            text.lines().take(50).collect::<Vec<_>>().join("\n")
        );
    }
}
