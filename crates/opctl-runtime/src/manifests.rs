//! The manifests that the operator's code stands for: CRDs and role.
