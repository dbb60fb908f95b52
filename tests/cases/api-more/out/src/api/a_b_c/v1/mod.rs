// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! `a.b-c.example.com/v1`. Written by opctl from PROJECT.

mod r#type;

pub use r#type::*;
