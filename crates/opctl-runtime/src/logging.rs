//! Logs: text for a person at a terminal, JSON for a collector.

use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::options::Options;

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One line of text per event.
    Text,
    /// One JSON object per event.
    Json,
}

/// The libraries below the operator, of which only warnings are logged.
const LIBRARIES: [&str; 7] = ["axum", "hyper", "kube", "mio", "rustls", "tokio", "tower"];

/// Logs the `tracing` events of this process to stderr from now on, in the format and from the level
/// that the flags set. An operator that has a subscriber of its own need not call it.
pub fn init(options: &Options) {
    let level = options.log_level;
    let json = match options.log_format {
        LogFormat::Auto => !io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let quiet = level.min(LevelFilter::WARN);
    let targets = Targets::new()
        .with_default(level)
        .with_targets(LIBRARIES.map(|library| (library, quiet)));
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_target(false);
    let registry = tracing_subscriber::registry();
    if json {
        registry
            .with(
                layer
                    .json()
                    .flatten_event(true)
                    .with_span_list(false)
                    .with_filter(targets),
            )
            .init();
    } else {
        let ansi = io::stderr().is_terminal();
        registry
            .with(layer.with_ansi(ansi).with_filter(targets))
            .init();
    }
}
