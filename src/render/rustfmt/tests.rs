//! Compares the output with that of rustfmt.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The output of rustfmt.
fn rustfmt(source: &str) -> String {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{source}");
    String::from_utf8(output.stdout).unwrap()
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_]{0,30}[a-z]".prop_filter("no keyword", |name| {
        ![
            "as", "do", "fn", "if", "in", "dyn", "for", "gen", "let", "mod", "mut", "pub", "ref",
            "use",
        ]
        .contains(&name.as_str())
    })
}

fn type_name() -> impl Strategy<Value = String> {
    "[A-Z][A-Za-z0-9]{0,58}z"
}

/// A list of imports in rustfmt's order.
fn import() -> impl Strategy<Value = String> {
    let names = vec("[a-z]{1,40}z", 2..8).prop_map(|mut names| {
        names.sort();
        names.dedup();
        names
    });
    (name(), "[a-z]{1,50}z", names)
        .prop_filter("one name needs no list", |(_, _, names)| names.len() > 1)
        .prop_map(|(a, b, names)| format!("use {a}::{b}::{{{}}};", names.join(", ")))
}

fn signature() -> impl Strategy<Value = String> {
    let parameter =
        ("[a-z][a-z0-9_]{0,6}z", type_name(), 0..4).prop_map(|(name, ty, shape)| match shape {
            0 => format!("{name}: {ty}"),
            1 => format!("{name}: &v1alpha1::{ty}"),
            2 => format!("{name}: Arc<Context<{ty}, u8>>"),
            _ => format!("{name}: impl Fn(u8, &{ty}) -> bool"),
        });
    let head = prop_oneof![
        Just(""),
        Just("pub "),
        Just("async "),
        Just("pub(crate) async "),
        Just("const ")
    ];
    let result = prop_oneof![
        Just(String::new()),
        type_name().prop_map(|ty| format!(" -> {ty}")),
        type_name().prop_map(|ty| format!(" -> Result<{ty}, Error>")),
    ];
    (head, name(), vec(parameter, 0..4), result)
        .prop_filter("rustfmt breaks nothing for lack of a result", |(_, _, parameters, result)| {
            !(parameters.is_empty() && result.is_empty())
        })
        .prop_map(|(head, name, parameters, result)| {
            format!("{head}fn {name}({}){result} {{\n    todo!()\n}}", parameters.join(", "))
        })
}

/// A constant that is a string or an array of strings.
fn constant() -> impl Strategy<Value = String> {
    let string = prop_oneof!["[a-z=,-]{1,9}", "[a-z=,-]{1,30}", "[ -~]{1,100}",];
    let literal = string.prop_map(|text| format!("{text:?}"));
    let array = vec(literal.clone(), 1..20).prop_map(|items| {
        format!("const COMMAND: [&str; {}] = [{}];", items.len(), items.join(", "))
    });
    prop_oneof![literal.prop_map(|text| format!("const IMAGE: &str = {text};")), array]
}

fn indented(snippet: &str, depth: usize) -> String {
    let mut indented = snippet.to_owned();
    for level in 0..depth {
        let inner: String = indented.lines().map(|line| format!("    {line}\n")).collect();
        indented = format!("mod m{level} {{\n{inner}}}");
    }
    indented
}

fn modules() -> impl Strategy<Value = String> {
    let names = vec(
        prop_oneof!["[a-z_0-9]{0,4}[a-z0-9]".prop_map(|s| format!("v{s}")), "_[0-9a-z]{1,3}"],
        2..12,
    );
    names.prop_map(|mut names| {
        names.sort();
        names.dedup();
        let block = |make: fn(&String) -> String| {
            names.iter().rev().map(make).collect::<Vec<_>>().join("\n")
        };
        // Modules of their own files cannot be on stdin: `mod` items are tested with the attribute's order.
        block(|name| format!("pub use {name}::*;"))
    })
}

/// Imports of modules and types, in no order.
fn paths() -> impl Strategy<Value = String> {
    let part = prop_oneof!["[a-c][a-c0-9_]{0,2}z", "v[0-9]{1,2}"];
    let last = prop_oneof!["[a-c]{1,2}z", "v[0-9]{1,2}", "[A-C][A-Ca-c]{0,2}"];
    vec((vec(part, 1..4), last), 2..8).prop_map(|paths| {
        let paths =
            paths.into_iter().map(|(parts, last)| format!("use x{}::{last};", parts.join("::")));
        let mut paths: Vec<String> = paths.collect();
        paths.sort();
        paths.dedup();
        paths.reverse();
        paths.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tidy_is_rustfmt(snippets in vec((prop_oneof![import(), signature(), modules(), paths(), constant()], 0_usize..2), 60)) {
        let source = snippets
            .iter()
            .enumerate()
            .map(|(i, (snippet, depth))| {
                let is_flat = ["pub use", "use x", "const"].iter().any(|start| snippet.starts_with(start));
                let depth = if is_flat { 0 } else { *depth };
                format!("{}\n\nconst C{i}: () = ();\n", indented(snippet, depth))
            })
            .collect::<Vec<_>>()
            .join("\n");
        let (ours, theirs) = (tidy(&source), rustfmt(&source));
        for (ours, theirs) in ours.split("const C").zip(theirs.split("const C")) {
            prop_assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn raw_names_and_numbers_are_sorted_as_rustfmt_does() {
    let uses = "pub use _1password::*;\npub use a::*;\npub use a_b::*;\npub use ab::*;\npub use r#async::*;\npub use b::*;\npub use v2::*;\npub use v10::*;\n";
    assert_eq!(rustfmt(uses), uses);
    let reversed: Vec<&str> = uses.lines().rev().collect();
    assert_eq!(tidy(&format!("{}\n", reversed.join("\n"))), uses);

    let mods = "pub mod _1password;\npub mod a;\npub mod a_b;\npub mod ab;\npub mod r#async;\npub mod b;\npub mod v10;\npub mod v2;\n";
    assert_eq!(rustfmt(mods), mods);
    let reversed: Vec<&str> = mods.lines().rev().collect();
    assert_eq!(tidy(&format!("{}\n", reversed.join("\n"))), mods);
}

#[test]
fn keywords_come_before_names_in_paths() {
    let uses =
        "use self::b;\nuse super::a;\nuse super::b::a;\nuse crate::a;\nuse a::b;\nuse std::a;\n";
    assert_eq!(rustfmt(uses), uses);
    let reversed: Vec<&str> = uses.lines().rev().collect();
    assert_eq!(tidy(&format!("{}\n", reversed.join("\n"))), uses);
}

#[test]
fn lines_that_fit_are_left_alone() {
    let source = "use a::{c, b};\n\nfn f(a: A, b: B) -> C {\n    let x = \"\";\n}";
    assert_eq!(tidy(source), source);
}
