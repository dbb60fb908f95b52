//! Files whose paths change with the model, such as the CRD of a kind with its plural.

use std::collections::BTreeMap;

use crate::render::{RenderedFile, Tree};

/// The old path of each file that moves, by the new one: what one template renders for one subject is one
/// file, wherever it is.
pub fn find<'a>(base: &'a Tree, theirs: &'a Tree) -> BTreeMap<&'a String, &'a String> {
    let identity = |file: &'a RenderedFile| (&file.template, &file.subject);
    let only_in = |tree: &'a Tree, other: &'a Tree| {
        let files = tree
            .iter()
            .filter(|(path, file)| !other.contains_key(*path) && !file.template.is_empty());
        files.collect::<Vec<_>>()
    };
    let old = only_in(base, theirs).into_iter().map(|(path, file)| (identity(file), path));
    let old: BTreeMap<_, _> = old.collect();
    let new = only_in(theirs, base).into_iter();
    new.filter_map(|(path, file)| Some((path, *old.get(&identity(file))?))).collect()
}
