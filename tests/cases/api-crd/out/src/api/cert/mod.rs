// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! The API group `cert.example.org`. Written by opctl from PROJECT.

pub mod v1;
