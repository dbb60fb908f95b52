//! Renames the paths of a Rust file that lead to something.

use std::collections::HashMap;
use std::ops::Range;

use proc_macro2::{Delimiter, Literal, TokenStream, TokenTree};

/// A path from the root of the crate, and the new name of what is at its end.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// The names on the path; the last one is the old name.
    pub path: Vec<String>,
    /// The new name.
    pub new: String,
}

impl Pattern {
    /// A path with the new name of its end.
    pub fn new(path: &[&str], new: &str) -> Self {
        Self { path: path.iter().map(|name| (*name).to_owned()).collect(), new: new.to_owned() }
    }
}

/// A part of a text, and what takes its place.
pub type Edit = (Range<usize>, String);

/// The text of a Rust file with the new names. A file that is not Rust stays as it is.
pub fn rewrite(file: &str, text: &str, patterns: &[Pattern]) -> String {
    apply(text, edits(file, text, patterns))
}

/// The text with edits, which are sorted and do not overlap.
pub fn apply(text: &str, edits: Vec<Edit>) -> String {
    let mut edited = text.to_owned();
    for (range, new) in edits.into_iter().rev() {
        edited.replace_range(range, &new);
    }
    edited
}

/// The names of a Rust file that change.
pub fn edits(file: &str, text: &str, patterns: &[Pattern]) -> Vec<Edit> {
    // Most files have none of the names, and to look for them is cheap.
    let has = |pattern: &Pattern| pattern.path.last().is_some_and(|name| text.contains(name));
    let parsed = if patterns.iter().any(has) { tokens(text) } else { None };
    let Some(tokens) = parsed else { return Vec::new() };
    let mut imports = Imports::default();
    walk(&tokens, &mut |path| imports.add(file, path));
    let mut edits: Vec<Edit> = Vec::new();
    walk(&tokens, &mut |path| {
        for candidate in imports.resolve(file, path) {
            if let Some(pattern) = patterns.iter().find(|pattern| pattern.path == candidate) {
                edits.push((path.range.clone(), pattern.new.clone()));
                return;
            }
        }
    });
    edits.sort_by_key(|(range, _)| range.start);
    edits.dedup_by_key(|(range, _)| range.start);
    edits
}

/// The tokens of a Rust file.
pub fn tokens(text: &str) -> Option<TokenStream> {
    // The positions of a text that begins with a byte order mark are those behind it.
    if text.starts_with('\u{feff}') { None } else { text.parse().ok() }
}

/// A path up to one of its names.
struct Path {
    /// The names, such as `crate`, `api` and `cache`. Those before the braces of `use` are among them.
    names: Vec<String>,
    /// Where the last name is in the text.
    range: Range<usize>,
    /// The inline modules that the path is in.
    modules: Vec<String>,
    /// How the path is imported, if it is complete and in a `use`.
    import: Option<Import>,
}

enum Import {
    /// Under this name.
    Name(String),
    /// With everything below it.
    Glob,
}

/// Passes each name of a file to `visit`, with the path that leads to it.
fn walk(tokens: &TokenStream, visit: &mut impl FnMut(&Path)) {
    let mut walker = Walker { visit, modules: Vec::new(), is_kube: false };
    walker.stream(tokens.clone(), &[], false);
}

struct Walker<'a, F> {
    visit: &'a mut F,
    modules: Vec<String>,
    /// Whether the tokens are the arguments of kube's derive.
    is_kube: bool,
}

impl<F: FnMut(&Path)> Walker<'_, F> {
    fn stream(&mut self, tokens: TokenStream, prefix: &[String], mut in_use: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut names = prefix.to_vec();
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            match token {
                TokenTree::Ident(ident) if ident == "use" => {
                    (in_use, names) = (true, prefix.to_vec());
                }
                TokenTree::Ident(ident) => {
                    let is_field = index > 0 && is_punct(&tokens[index - 1], '.');
                    let is_module = index > 0 && is_ident(&tokens[index - 1], "mod");
                    if let (true, Some(TokenTree::Group(body))) = (is_module, tokens.get(index + 1))
                    {
                        self.modules.push(ident.to_string());
                        self.stream(body.stream(), &[], false);
                        self.modules.pop();
                        index += 2;
                        continue;
                    }
                    if !continues(&tokens, index) {
                        names = prefix.to_vec();
                    }
                    names.push(ident.to_string());
                    if !is_field {
                        let import = if in_use { import(&tokens, index) } else { None };
                        self.visit(&names, ident.span().byte_range(), import);
                    }
                }
                TokenTree::Group(group) => {
                    let is_tree = in_use && group.delimiter() == Delimiter::Brace;
                    let prefix = if is_tree { names.as_slice() } else { &[] };
                    let is_kube = index > 0 && is_ident(&tokens[index - 1], "kube");
                    let outer = std::mem::replace(&mut self.is_kube, is_kube);
                    self.stream(group.stream(), prefix, is_tree);
                    self.is_kube = outer;
                    names = prefix.to_vec();
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' && in_use => {
                    self.visit(&names, punct.span().byte_range(), Some(Import::Glob));
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => {
                    (in_use, names) = (false, prefix.to_vec());
                }
                TokenTree::Literal(literal) if self.is_kube && is_status(&tokens[..index]) => {
                    self.quoted(literal);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            index += 1;
        }
    }

    /// The path in a string, such as `status = "MemcachedStatus"`.
    fn quoted(&mut self, literal: &Literal) {
        let text = literal.to_string();
        let Some(path) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
            return;
        };
        let names: Vec<String> = path.split("::").map(str::to_owned).collect();
        let end = literal.span().byte_range().end - 1;
        let start = end - names.last().map_or(0, String::len);
        self.visit(&names, start..end, None);
    }

    fn visit(&mut self, names: &[String], range: Range<usize>, import: Option<Import>) {
        let (names, modules) = (names.to_vec(), self.modules.clone());
        (self.visit)(&Path { names, range, modules, import });
    }
}

/// Whether `status =` is before a token.
fn is_status(before: &[TokenTree]) -> bool {
    matches!(before, [.., name, equals] if is_ident(name, "status") && is_punct(equals, '='))
}

/// How a name in `use` is imported, if the path ends with it.
fn import(tokens: &[TokenTree], index: usize) -> Option<Import> {
    let TokenTree::Ident(name) = &tokens[index] else { return None };
    let alias = match (tokens.get(index + 1), tokens.get(index + 2)) {
        (Some(next), Some(TokenTree::Ident(alias))) if is_ident(next, "as") => alias,
        (Some(next), _) if is_punct(next, ':') => return None,
        _ => name,
    };
    // The alias itself is no path.
    let is_alias = index > 0 && is_ident(&tokens[index - 1], "as");
    (!is_alias && name != "as").then(|| Import::Name(alias.to_string()))
}

/// Whether a name follows `::`.
fn continues(tokens: &[TokenTree], index: usize) -> bool {
    index > 1 && is_punct(&tokens[index - 1], ':') && is_punct(&tokens[index - 2], ':')
}

fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == c)
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

/// What the `use` items of a file import, as paths from the root of the crate.
#[derive(Default)]
struct Imports {
    names: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

impl Imports {
    fn add(&mut self, file: &str, path: &Path) {
        let full =
            || absolute(file, &path.modules, &path.names).unwrap_or_else(|| path.names.clone());
        match &path.import {
            Some(Import::Name(name)) if name == "self" => {
                let mut full = full();
                full.pop();
                if let Some(name) = full.last().cloned() {
                    self.names.insert(name, full);
                }
            }
            Some(Import::Name(name)) => drop(self.names.insert(name.clone(), full())),
            Some(Import::Glob) => self.globs.push(full()),
            None => {}
        }
    }

    /// What a path may mean, from the root of the crate.
    fn resolve(&self, file: &str, path: &Path) -> Vec<Vec<String>> {
        if let Some(full) = absolute(file, &path.modules, &path.names) {
            return vec![full];
        }
        let Some((first, rest)) = path.names.split_first() else { return Vec::new() };
        if let Some(imported) = self.names.get(first).filter(|_| path.import.is_none()) {
            if rest.is_empty() && imported.last() != Some(first) {
                return Vec::new(); // an alias keeps its name
            }
            return vec![[imported.as_slice(), rest].concat()];
        }
        let here = [module_of(file), path.modules.clone()].concat();
        let scopes = std::iter::once(&here).chain(&self.globs);
        scopes.map(|scope| [scope.as_slice(), &path.names].concat()).collect()
    }
}

/// The path from the root of the crate, if the path begins with a word for a module.
fn absolute(file: &str, modules: &[String], names: &[String]) -> Option<Vec<String>> {
    let mut module = [module_of(file), modules.to_vec()].concat();
    let mut names = names;
    match names.first()?.as_str() {
        // The library of a project is called `operator`.
        "crate" | "operator" => return Some(names[1..].to_vec()),
        "self" => names = &names[1..],
        "super" => {
            while names.first().is_some_and(|name| name == "super") {
                (names, _) = (&names[1..], module.pop());
            }
        }
        _ => return None,
    }
    Some([module.as_slice(), names].concat())
}

/// The module of a file of the library; none of its own for other files, such as tests.
fn module_of(file: &str) -> Vec<String> {
    let Some(path) = file.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs")) else {
        return vec![file.to_owned()];
    };
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Vec::new(),
        path => path.split('/').map(crate::project::names::ident).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(file: &str, text: &str) -> String {
        let patterns = [
            Pattern::new(&["api", "web", "v1", "Box"], "Crate"),
            Pattern::new(&["api", "web", "v1", "r#box", "Box"], "Crate"),
            Pattern::new(&["api", "web", "v1", "BoxSpec"], "CrateSpec"),
            Pattern::new(&["controller", "web", "r#box"], "crate_"),
        ];
        rewrite(file, text, &patterns)
    }

    #[test]
    fn paths_that_lead_to_the_kind_are_renamed() {
        for (text, expected) in [
            ("crate::api::web::v1::Box", "crate::api::web::v1::Crate"),
            (
                "use operator::api::web::v1; fn f(b: &v1::Box) {}",
                "use operator::api::web::v1; fn f(b: &v1::Crate) {}",
            ),
            (
                "use crate::api::web::v1::{self, Box, BoxSpec as Spec}; x(Box, Spec, v1::BoxSpec)",
                "use crate::api::web::v1::{self, Crate, CrateSpec as Spec}; x(Crate, Spec, v1::CrateSpec)",
            ),
            (
                "use crate::{api::web::{v1::*}, x}; type B = Box;",
                "use crate::{api::web::{v1::*}, x}; type B = Crate;",
            ),
            (
                "use crate::controller::web::r#box; r#box::start()",
                "use crate::controller::web::crate_; crate_::start()",
            ),
            (
                "/* Zoë */ crate::api::web::v1::Box // Box",
                "/* Zoë */ crate::api::web::v1::Crate // Box",
            ),
        ] {
            assert_eq!(renamed("src/main.rs", text), expected);
        }
    }

    #[test]
    fn files_of_the_kind_have_it_in_scope() {
        let file = "src/api/web/v1/box.rs";
        let text = "#[kube(kind = K, status = \"Box\")] struct Box; mod tests { use super::*; type B = Box; }";
        assert_eq!(renamed(file, text), text.replace("Box", "Crate"));
        assert_eq!(renamed("src/api/web/v1/other.rs", "super::Box, Box"), "super::Crate, Box");
    }

    #[test]
    fn other_names_stay() {
        for text in [
            "Box::new(1)",
            "use crate::api::shop::v1; v1::Box",
            "x.r#box; let r#box = 1; r#box::f()",
            "\"crate::api::web::v1::Box\"",
            "#[kube(doc = \"crate::api::web::v1::Box\", x(status = \"crate::api::web::v1::Box\"))]",
            "fn broken( { crate::api::web::v1::Box",
            "\u{feff}crate::api::web::v1::Box",
        ] {
            assert_eq!(renamed("src/controller/web/box.rs", text), text);
        }
    }
}
