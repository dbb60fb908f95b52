// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! `cert.example.org/v1`. Written by opctl from PROJECT.

mod certificate;

pub use certificate::*;
