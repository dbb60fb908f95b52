//! The parts of `config/default` that a user has chosen by hand: a change begins with them, as if opctl had written
//! the file so, and only what else the user has edited in it is merged.

use std::collections::BTreeSet;

use super::lockfile::Lockfile;
use crate::project::{FEATURES_FILE, Feature, chosen};
use crate::render::{RenderedFile, Tree};

/// Writes a choice of components down in the base of a merge, and in what opctl wrote.
pub fn begin_with(features: &BTreeSet<Feature>, base: &mut Tree, lock: &mut Lockfile) {
    let Some(written) = base.get_mut(FEATURES_FILE) else { return };
    let text = chosen(&written.text, features);
    if text != written.text {
        let choice = RenderedFile { text: text.into(), ..written.clone() };
        *lock = lock.with_choice(FEATURES_FILE, written, &choice);
        *written = choice;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Tree {
        let file = RenderedFile::extra(text.to_owned(), "project".to_owned());
        Tree::from([(FEATURES_FILE.to_owned(), file)])
    }

    fn lock(text: &str) -> Lockfile {
        Lockfile::default().after(&Tree::new(), &tree(text))
    }

    #[test]
    fn a_choice_is_what_opctl_wrote() {
        let (mut base, mut lock) = (tree("#- ../grafana\n"), lock("#- ../grafana\n"));
        begin_with(&BTreeSet::from([Feature::Grafana]), &mut base, &mut lock);
        assert_eq!(base, tree("- ../grafana\n"));
        assert_eq!(lock, self::lock("- ../grafana\n"));
    }

    #[test]
    fn without_a_choice_the_lines_of_two_branches_still_count() {
        let (ours, theirs) = ("#- ../grafana\n", "#- ../grafana # ours\n");
        let text = [ours, theirs].map(|text| lock(text).to_text()).concat();
        let merged = Lockfile::parse(&text).unwrap();
        assert!(merged.wrote(FEATURES_FILE, ours) && merged.wrote(FEATURES_FILE, theirs));
        let (mut base, mut lock) = (tree(ours), merged.clone());
        begin_with(&BTreeSet::new(), &mut base, &mut lock);
        assert_eq!((base, lock), (tree(ours), merged));
    }
}
