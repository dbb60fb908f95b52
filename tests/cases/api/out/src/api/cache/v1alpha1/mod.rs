// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! `cache.example.com/v1alpha1`. Written by opctl from PROJECT.

mod memcached;

pub use memcached::*;
