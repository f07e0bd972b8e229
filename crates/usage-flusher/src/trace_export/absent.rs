//! A build without the cargo feature `otel`: the same interface, and no export.

use anyhow::Result;
use clap::Args;
use tracing_subscriber::layer::Identity;

/// No flag: there is nothing to be switched on.
#[derive(Debug, Args)]
pub(crate) struct TraceOptions {}

/// There is none.
#[derive(Debug)]
pub(crate) enum TraceExport {}

#[allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "a build with the export has the same interface"
)]
impl TraceOptions {
    pub(crate) fn start(&self) -> Result<Option<TraceExport>> {
        Ok(None)
    }

    /// A variable that is set for all programs of a host must not stop this one.
    pub(crate) fn remark(&self) -> Option<&'static str> {
        let wanted = std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_some_and(|value| !value.is_empty());
        wanted.then_some("OTEL_EXPORTER_OTLP_ENDPOINT has no effect: this build has no OpenTelemetry export")
    }
}

impl TraceExport {
    pub(crate) fn layer(&self) -> Identity {
        match *self {}
    }

    pub(crate) async fn finish(self) {
        match self {}
    }
}
