//! From two trees and the disk to a plan, and from a plan to the disk.

mod commit;
mod disk;
mod merge;
mod plan;
mod temporary;
mod workspace;

pub use plan::{Action, Conflicts, Plan, PlanOptions, Reason, Step};
pub use workspace::Workspace;
