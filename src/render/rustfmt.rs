//! Formats the lines of generated Rust code that depend on names, as rustfmt does: names determine the
//! order of items, and long names break lines. Other lines are left alone. Templates keep each construct
//! that contains a name on one line; it can be
//!
//! - a list of imports without nested lists, `use a::{b, c};`;
//! - the signature of a function with a body or of a trait's method, without a `where` clause;
//! - a constant whose value is a string, an array of strings, or the call of a macro, in ASCII;
//! - a run of `mod x;`, of `pub use x::*;` or of `use x::y;` items, which are sorted.

use std::cmp::Ordering;

/// rustfmt's `max_width`, in characters.
const WIDTH: usize = 100;
/// The maximum width of a list of imports on one line.
const USE_WIDTH: usize = WIDTH - 2;
/// rustfmt's `short_array_element_width_threshold`: the maximum width of array items that share a line.
const SHORT_ITEM: usize = 10;
/// rustfmt's `array_width`: the maximum width of the items of an array on one line.
const ARRAY_WIDTH: usize = 60;
const INDENT: &str = "    ";

/// Sorts and breaks the lines that depend on names.
pub fn tidy(source: &str) -> String {
    let mut lines: Vec<&str> = source.lines().collect();
    for run in lines.chunk_by_mut(|a, b| is_same_run(a, b)) {
        match run.first().and_then(|line| Item::parse(line)) {
            Some(Item::Mod(_)) => run.sort_by(|a, b| by_module(ident(a), ident(b))),
            Some(Item::Use(_)) => run.sort_by(|a, b| by_version(ident(a), ident(b))),
            Some(Item::Path(_)) => run.sort_by(|a, b| by_path(a, b)),
            None => {}
        }
    }
    let mut tidy = String::with_capacity(source.len());
    for line in lines {
        tidy.push_str(break_line(line).as_deref().unwrap_or(line));
        tidy.push('\n');
    }
    if !source.ends_with('\n') {
        tidy.pop();
    }
    tidy
}

/// An item that rustfmt sorts by a name.
#[derive(Debug, PartialEq, Eq)]
enum Item<'a> {
    Mod(&'a str),
    Use(&'a str),
    Path(&'a str),
}

impl<'a> Item<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let item = line.strip_suffix(';')?;
        if let Some(path) = item.strip_prefix("use ") {
            let path = path.split_once(" as ").map_or(path, |(path, _)| path);
            return path.split("::").all(is_ident).then_some(Self::Path(path));
        }
        let item = item.strip_prefix("pub ").unwrap_or(item);
        if let Some(name) = item.strip_prefix("mod ") {
            return is_ident(name).then_some(Self::Mod(name));
        }
        let name = item.strip_prefix("use ")?.strip_suffix("::*")?;
        is_ident(name).then_some(Self::Use(name))
    }
}

fn is_ident(name: &str) -> bool {
    let name = name.strip_prefix("r#").unwrap_or(name);
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_same_run(a: &str, b: &str) -> bool {
    matches!(
        (Item::parse(a), Item::parse(b)),
        (Some(Item::Mod(_)), Some(Item::Mod(_)))
            | (Some(Item::Use(_)), Some(Item::Use(_)))
            | (Some(Item::Path(_)), Some(Item::Path(_)))
    )
}

fn ident(line: &str) -> &str {
    match Item::parse(line) {
        Some(Item::Mod(name) | Item::Use(name) | Item::Path(name)) => name,
        None => "",
    }
}

fn plain(ident: &str) -> &str {
    ident.strip_prefix("r#").unwrap_or(ident)
}

/// rustfmt's order of `mod` items: by their characters.
pub fn by_module(a: &str, b: &str) -> Ordering {
    plain(a).cmp(plain(b))
}

/// rustfmt's order of `use` items in the 2024 style: the style guide's version sort.
fn by_version(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (chunks(plain(a)), chunks(plain(b)));
    let mut zeros = Ordering::Equal;
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return zeros,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some("_"), Some("_")) => Ordering::Equal,
            (Some("_"), Some(_)) => Ordering::Less,
            (Some(_), Some("_")) => Ordering::Greater,
            (Some(a), Some(b)) if is_number(a) && is_number(b) => {
                // More leading zeros come first, but only between names that are equal otherwise.
                let (a, b) =
                    ((a.len(), a.trim_start_matches('0')), (b.len(), b.trim_start_matches('0')));
                zeros = zeros.then((b.0 - b.1.len()).cmp(&(a.0 - a.1.len())));
                (a.1.len(), a.1).cmp(&(b.1.len(), b.1))
            }
            (Some(a), Some(b)) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// The position of a keyword that paths begin with, which comes before all names.
fn keyword(part: &str) -> usize {
    let keywords = ["self", "super", "crate"];
    keywords.iter().position(|keyword| *keyword == part).unwrap_or(keywords.len())
}

/// rustfmt's order of the paths of `use` items: part by part.
fn by_path(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (ident(a).split("::"), ident(b).split("::"));
    loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) if a != b => {
                return keyword(a).cmp(&keyword(b)).then_with(|| by_version(a, b));
            }
            (Some(_), Some(_)) => {}
            (a, b) => return a.is_some().cmp(&b.is_some()),
        }
    }
}

fn is_number(chunk: &str) -> bool {
    chunk.starts_with(|c: char| c.is_ascii_digit())
}

/// Splits a name into single underscores, numbers, and the text between them.
fn chunks(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match first {
            '_' => 1,
            '0'..='9' => rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()),
            _ => rest.find(|c: char| c == '_' || c.is_ascii_digit()).unwrap_or(rest.len()),
        };
        let (chunk, tail) = rest.split_at(end);
        rest = tail;
        Some(chunk)
    })
}

fn break_line(line: &str) -> Option<String> {
    if line.starts_with("const ") && line.ends_with(';') {
        return break_constant(line);
    }
    // A line never has more characters than bytes.
    if line.len() <= USE_WIDTH {
        return None;
    }
    let width = line.chars().count();
    if width <= USE_WIDTH {
        return None;
    }
    let code = line.trim_start();
    let indent = &line[..line.len() - code.len()];
    let item =
        code.strip_prefix("pub ").or_else(|| code.strip_prefix("pub(crate) ")).unwrap_or(code);
    if item.starts_with("use ") {
        return break_use(indent, code);
    }
    let function = ["const ", "async "]
        .iter()
        .fold(item, |item, word| item.strip_prefix(word).unwrap_or(item));
    if function.starts_with("fn ") && width > WIDTH { break_signature(indent, code) } else { None }
}

/// `const A: &str = "b";` or `const A: [&str; 2] = ["b", "c"];`.
fn break_constant(line: &str) -> Option<String> {
    let (head, value) = line.split_once(" = ")?;
    let items = match value.strip_prefix('[').and_then(|items| items.strip_suffix("];")) {
        Some(items) => split_strings(items)?,
        None => Vec::new(),
    };
    let is_short = items.len() < 2 || items.join(", ").len() <= ARRAY_WIDTH;
    if is_short && line.len() <= WIDTH {
        return None;
    }
    if is_short && INDENT.len() + value.len() <= WIDTH {
        return Some(format!("{head} =\n{INDENT}{value}"));
    }
    if items.is_empty() {
        return None; // rustfmt cannot break it
    }
    let mut broken = format!("{head} = [");
    let mut width = WIDTH;
    for item in &items {
        let together = items.iter().all(|item| item.len() <= SHORT_ITEM);
        let needed = " ".len() + item.len() + ",".len();
        if together && width + needed <= WIDTH {
            broken.push_str(&format!(" {item},"));
            width += needed;
        } else {
            broken.push_str(&format!("\n{INDENT}{item},"));
            width = INDENT.len() + item.len() + ",".len();
        }
    }
    Some(format!("{broken}\n];"))
}

/// String literals with `, ` between them.
fn split_strings(text: &str) -> Option<Vec<&str>> {
    let (mut strings, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let mut escaped = false;
        let end = rest.strip_prefix('"')?.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        let (string, tail) = rest.split_at(end + "\"\"".len());
        strings.push(string);
        rest = tail.strip_prefix(", ").unwrap_or(tail);
    }
    Some(strings)
}

/// Breaks `use a::{b, c};`: as many names on a line as fit.
fn break_use(indent: &str, code: &str) -> Option<String> {
    let (path, list) = code.strip_suffix("};")?.split_once('{')?;
    if list.contains('{') {
        return None;
    }
    let mut broken = format!("{indent}{path}{{");
    let (mut width, mut lines) = (WIDTH, 0);
    let mut names = list.split(", ").peekable();
    while let Some(name) = names.next() {
        // The width of a name includes its comma and a space, except for the last one after a line break.
        let alone = names.peek().is_none() && lines == 1;
        let needed = name.chars().count() + if alone { ",".len() } else { ", ".len() };
        if width + needed > WIDTH {
            broken.push_str(&format!("\n{indent}{INDENT}{name},"));
            width = indent.len() + INDENT.len() + needed;
            lines += 1;
        } else {
            broken.push_str(&format!(" {name},"));
            width += needed;
        }
    }
    Some(format!("{broken}\n{indent}}};"))
}

/// Breaks `fn f(a: A, b: B) -> C {`: one parameter per line.
fn break_signature(indent: &str, code: &str) -> Option<String> {
    let open = code.find('(')?;
    // The first parenthesis belongs to `pub(crate)` or to a bound where it does not open the parameters.
    let open = if code.starts_with("pub(") { open + code[open + 1..].find('(')? + 1 } else { open };
    let (parameters, end) = split_parameters(&code[open + 1..])?;
    let (head, tail) = (&code[..=open], &code[open + 1 + end..]);
    if parameters.is_empty() {
        let result = tail.strip_prefix(") ->")?;
        // If only the brace does not fit, it gets its own line; rustfmt allows one more column there.
        return Some(match code.strip_suffix(" {") {
            Some(code) if indent.len() + code.chars().count() <= WIDTH + 1 => {
                format!("{indent}{code}\n{indent}{{")
            }
            _ => format!("{indent}{head})\n{indent}->{result}"),
        });
    }
    let mut broken = format!("{indent}{head}\n");
    for parameter in parameters {
        broken.push_str(&format!("{indent}{INDENT}{parameter},\n"));
    }
    Some(format!("{broken}{indent}{tail}"))
}

/// The parameters of a list, and the position of its closing parenthesis.
fn split_parameters(text: &str) -> Option<(Vec<&str>, usize)> {
    let mut parameters = Vec::new();
    let (mut depth, mut start, mut previous) = (0_usize, 0, ' ');
    for (i, c) in text.char_indices() {
        match c {
            ')' if depth == 0 => {
                let last = text[start..i].trim();
                parameters.extend((!last.is_empty()).then_some(last));
                return Some((parameters, i));
            }
            '(' | '<' | '[' => depth += 1,
            '>' if previous == '-' => {}
            ')' | '>' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parameters.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
        previous = c;
    }
    None
}

#[cfg(test)]
mod tests;
