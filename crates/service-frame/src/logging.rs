//! Structured logs on standard error, and spans to whoever wants them.

use std::io::{IsTerminal, stderr};

use clap::ValueEnum;
use tracing_subscriber::filter::{FilterExt, dynamic_filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging; `RUST_LOG` chooses what is logged (default `info`).
pub fn start(format: LogFormat) {
    start_with(format, |lines| tracing_subscriber::registry().with(lines).init());
}

/// [`start`], with the layer of the log's lines handed to what puts a subscriber together. What other layers see is not
/// filtered by `RUST_LOG`.
pub fn start_with(format: LogFormat, install: impl FnOnce(Box<dyn Layer<Registry> + Send + Sync>)) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let text = match format {
        LogFormat::Auto => stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let coloured =
        stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = fmt::layer().with_writer(stderr).with_ansi(coloured);
    let lines = if text { lines.boxed() } else { lines.json().flatten_event(true).boxed() };
    // Spans are for the other layers. A line says by itself what it is about.
    //
    // A dynamic filter, although it decides by what never changes: the answer of one that is not is cached for each place that
    // logs, and with two filtered layers a library's `enabled!` question just before then makes such a line disappear.
    let events = dynamic_filter_fn(|metadata, _| metadata.is_event());
    install(lines.with_filter(filter.and(events)).boxed());
}
