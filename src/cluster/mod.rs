//! A real control plane on this machine.
