//! Files whose paths change with the model, such as the CRD of a kind with its plural.

use std::collections::BTreeMap;

use super::rewrite::Rewrite;
use crate::render::{RenderedFile, Tree};

/// The old path of each file that moves, by the new one: what one template renders for one subject is one
/// file, wherever it is. A subject may have got another name.
pub fn find<'a>(
    base: &'a Tree,
    theirs: &'a Tree,
    rewrite: Option<&'a Rewrite>,
) -> BTreeMap<&'a String, &'a String> {
    let subject = |subject: &'a str| rewrite.map_or(subject, |rewrite| rewrite.subject(subject));
    let before = |file: &'a RenderedFile| (file.template.as_str(), subject(&file.subject));
    let after = |file: &'a RenderedFile| (file.template.as_str(), file.subject.as_str());
    let only_in = |tree: &'a Tree, other: &'a Tree| {
        let files = tree
            .iter()
            .filter(|(path, file)| !other.contains_key(*path) && !file.template.is_empty());
        files.collect::<Vec<_>>()
    };
    let old = only_in(base, theirs).into_iter().map(|(path, file)| (before(file), path));
    let old: BTreeMap<_, _> = old.collect();
    let new = only_in(theirs, base).into_iter();
    new.filter_map(|(path, file)| Some((path, *old.get(&after(file))?))).collect()
}

/// The new directory of each one from which all files of opctl move, by the old one.
pub fn directories<'a>(
    moves: &BTreeMap<&'a String, &'a String>,
    theirs: &Tree,
) -> BTreeMap<&'a str, &'a str> {
    let parent = |path: &'a String| path.rsplit_once('/').map(|(directory, _)| directory);
    let pairs = moves.iter().filter_map(|(new, old)| Some((parent(old)?, parent(new)?)));
    let remains = |directory: &str| {
        theirs
            .keys()
            .any(|path| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')))
    };
    pairs.filter(|(old, new)| old != new && !remains(old)).collect()
}

/// The path of a user's file after its directory has moved.
pub fn follow(path: &str, directories: &BTreeMap<&str, &str>) -> String {
    let mut directory = path;
    while let Some((parent, _)) = directory.rsplit_once('/') {
        if let Some(new) = directories.get(parent) {
            return format!("{new}{}", &path[parent.len()..]);
        }
        directory = parent;
    }
    path.to_owned()
}
