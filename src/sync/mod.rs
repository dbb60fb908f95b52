//! Merges the trees of the old and the new model with the files of a project, in two steps: a plan, which a
//! command can print, and its commit.

mod action;
mod adopt;
mod choice;
mod codemods;
mod comments;
mod commit;
mod diff;
mod disk;
mod file;
mod lockfile;
mod merge;
mod modules;
mod moves;
mod output;
mod plan;
mod references;
mod rename;
mod rewrite;
mod status;
mod style;
mod template_directory;
mod trial;
mod workspace;

pub use action::{Action, Reason};
pub use adopt::Adopted;
pub use codemods::{Codemod, Codemods};
pub use diff::{DiffOptions, FileDiff};
pub use output::Output;
pub use plan::{Conflicts, Plan, PlanOptions, Step};
pub use references::Reference;
pub use rename::Rename;
pub use rewrite::Rewrite;
pub use status::{FileState, FileStatus};
pub use template_directory::read_templates;
pub use trial::Trial;
pub use workspace::Workspace;
