//! From a project to what is shipped.

pub mod image;
pub mod olm;
