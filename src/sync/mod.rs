//! From two trees and the disk to a plan, and from a plan to the disk.

mod commit;
mod disk;
mod merge;
mod names;
mod plan;
mod workspace;

pub use plan::{Action, Conflicts, Options, Plan, Reason, Step};
pub use workspace::Workspace;
