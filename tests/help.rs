//! Every `--help` ends with examples that work.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use snapbox::Assert;

/// The commands whose examples can be run one after the other in an empty directory.
const COMMANDS: &[&[&str]] = &[
    &["init"],
    &["create"],
    &["create", "api"],
    &["edit"],
    &["edit", "api"],
    &["generate"],
    &["generate", "helm"],
    &["generate", "kustomize"],
    &["generate", "kustomize", "manifests"],
    &["delete"],
    &["delete", "api"],
    &["delete", "controller"],
    &["rename"],
    &["rename", "kind"],
    &["rename", "group"],
    &["rename", "project"],
    &["rename", "domain"],
    &["image", "pin"],
    &["image", "unpin"],
    &["update"],
    &["status"],
    &["diff"],
    &["completion"],
    &["version"],
    &["help"],
    &["create", "help"],
];

const MEMCACHED: &[&str] =
    &["create", "api", "--group", "cache", "--version", "v1alpha1", "--kind", "Memcached"];

fn opctl(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_opctl"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The lines after the last heading, which is `Example:` or `Examples:`.
fn examples(help: &str) -> Vec<&str> {
    let (_, examples) =
        help.rsplit_once("Example").unwrap_or_else(|| panic!("no example in {help}"));
    examples.lines().skip(1).map(str::trim).collect()
}

fn run(directory: &Path, example: &str) {
    let path = format!(
        "{}:{}",
        Path::new(env!("CARGO_BIN_EXE_opctl")).parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new("sh")
        .args(["-c", example])
        .env("PATH", path)
        .env("CARGO", "true") // the checks of a compiler are not what this is about
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{example}: {output:?}");
}

#[test]
fn every_help_ends_with_examples_that_work() {
    for command in COMMANDS {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("my-operator");
        std::fs::create_dir(&directory).unwrap();
        let help = if command.last() == Some(&"help") {
            opctl(&directory, command)
        } else {
            opctl(&directory, &[*command, &["--help"]].concat())
        };
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{help}");
        if !examples[0].starts_with("opctl init") {
            opctl(&directory, &["init"]);
        }
        if matches!(command.first(), Some(&"edit" | &"delete" | &"rename")) {
            opctl(&directory, MEMCACHED);
        }
        for example in examples {
            run(&directory, example);
        }
    }
}

/// `SNAPSHOTS=overwrite cargo test --test help` writes the page anew, but for its introduction.
#[test]
fn the_page_of_commands_has_their_help() {
    let page = include_str!("../docs/commands.md");
    let (introduction, _) = page.split_once("\n## ").expect("a first command");
    let mut page = introduction.to_owned();
    append_help(&mut page, &[]);
    Assert::new().action_env("SNAPSHOTS").eq(page, snapbox::file!["../docs/commands.md"]);
}

/// Appends the help of a command and of those below it.
fn append_help(page: &mut String, command: &[&str]) {
    let help = opctl(Path::new("."), &[command, &["--help"]].concat());
    let name = [&["opctl"], command].concat().join(" ");
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", help.trim_end()));
    let list = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for below in names.filter(|name| !["", "help"].contains(name)) {
        append_help(page, &[command, &[below]].concat());
    }
}
