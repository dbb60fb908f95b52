//! What the tests of an operator need.
