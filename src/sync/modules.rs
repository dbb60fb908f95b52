//! The Rust files below `src` that no `mod` leads to, so that nobody compiles them.

use std::collections::{BTreeSet, VecDeque};

use anyhow::Result;
use proc_macro2::{TokenStream, TokenTree};

use super::disk::Disk;

/// The files that cargo compiles by itself.
const ROOTS: [&str; 3] = ["src/lib.rs", "src/main.rs", "build.rs"];

/// Those of the files that are asked for that are not part of any crate. Where a file cannot be understood, or is
/// included by its path, nothing is said of what it may lead to.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn uncompiled(disk: &Disk, is_asked_for: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let files = disk.files(&BTreeSet::from(["src"]))?;
    let files: BTreeSet<String> = files.into_iter().filter(|path| path.ends_with(".rs")).collect();
    let is_root = |path: &&String| ROOTS.contains(&path.as_str()) || path.starts_with("src/bin/");
    let mut todo: VecDeque<String> = files.iter().filter(is_root).cloned().collect();
    let mut compiled: BTreeSet<String> = todo.iter().cloned().collect();
    let mut named = BTreeSet::new();
    let is_missing = |path: &&String| is_asked_for(path) && !compiled.contains(*path);
    let mut missing: BTreeSet<String> = files.iter().filter(is_missing).cloned().collect();
    // From the roots down: what is asked for is often a leaf, which then need not be read.
    while let Some(path) = todo.pop_front().filter(|_| !missing.is_empty()) {
        let text = disk.read(&path)?.contents.unwrap_or_default();
        let Ok(tokens) = String::from_utf8_lossy(&text).parse::<TokenStream>() else {
            return Ok(Vec::new());
        };
        let mut found = Found { modules: Vec::new(), strings: BTreeSet::new() };
        found.walk(tokens, &directory_of(&path));
        named.extend(found.strings);
        for module in found.modules {
            for file in [format!("{module}.rs"), format!("{module}/mod.rs")] {
                if files.contains(&file) && compiled.insert(file.clone()) {
                    missing.remove(&file);
                    todo.push_back(file);
                }
            }
        }
    }
    let is_named = |path: &String| named.contains(path.rsplit('/').next().unwrap_or(path));
    Ok(missing.into_iter().filter(|path| !is_named(path)).collect())
}

/// The directory of the modules that a file declares.
fn directory_of(path: &str) -> String {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "mod.rs" | "lib.rs" | "main.rs" => directory.to_owned(),
        _ if directory == "src/bin" => directory.to_owned(),
        name => format!("{directory}/{}", name.trim_end_matches(".rs")),
    }
}

/// What a file leads to.
struct Found {
    /// The paths of the modules that it declares, without an ending.
    modules: Vec<String>,
    /// The last components of the strings in it, which may be paths for `#[path]` or `include!`.
    strings: BTreeSet<String>,
}

impl Found {
    fn walk(&mut self, tokens: TokenStream, directory: &str) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(name) if index > 0 && is_mod(&tokens[index - 1]) => {
                    let name = name.to_string();
                    let module = format!("{directory}/{}", name.trim_start_matches("r#"));
                    match tokens.get(index + 1) {
                        Some(TokenTree::Group(body)) => self.walk(body.stream(), &module),
                        _ => self.modules.push(module),
                    }
                }
                // The body of an inline module was walked with its name.
                TokenTree::Group(_) if index > 1 && is_mod(&tokens[index - 2]) => {}
                TokenTree::Group(group) => self.walk(group.stream(), directory),
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let text = text.trim_matches(['"', 'r', '#']);
                    self.strings.extend(text.rsplit('/').next().map(str::to_owned));
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

fn is_mod(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == "mod")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_no_module_leads_to_are_found() {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("src/lib.rs", "pub mod a; mod r#type; mod inline { mod deep; } #[cfg(test)] mod t;"),
            ("src/main.rs", "mod cli;"),
            ("src/cli.rs", "mod flags; // mod comment;"),
            ("src/cli/flags.rs", "const S: &str = \"mod string;\"; mod moved;"),
            ("src/cli/comment.rs", ""),
            ("src/a/mod.rs", "pub mod b; #[path = \"other/named.rs\"] mod c; include!(\"d.rs\");"),
            ("src/a/b.rs", "impl mod_like {} macro_rules! m { () => { mod by_macro; } }"),
            ("src/a/b/by_macro.rs", ""),
            ("src/a/other/named.rs", ""),
            ("src/a/d.rs", ""),
            ("src/a/lost.rs", "mod below;"),
            ("src/a/lost/below.rs", ""),
            ("src/type.rs", ""),
            ("src/inline/deep.rs", ""),
            ("src/t.rs", ""),
            ("src/bin/tool.rs", "mod help;"),
            ("src/bin/help.rs", ""),
            ("src/notes.txt", ""),
        ] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let disk = Disk::new(directory.path()).unwrap();
        let expected = ["src/a/lost.rs", "src/a/lost/below.rs", "src/cli/comment.rs"];
        assert_eq!(uncompiled(&disk, |_| true).unwrap(), expected);
        assert_eq!(uncompiled(&disk, |path| path.ends_with("comment.rs")).unwrap(), expected[2..]);
        // Of what cannot be read as Rust, nothing is said.
        fs::write(directory.path().join("src/cli.rs"), "fn broken( {").unwrap();
        assert!(uncompiled(&disk, |_| true).unwrap().is_empty());
    }
}
