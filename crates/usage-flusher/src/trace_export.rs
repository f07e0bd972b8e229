//! Spans to an OpenTelemetry collector: OTLP over HTTP, in protobuf.
//!
//! A collector that is slow or gone never holds up a batch: spans wait in a queue of bounded length that a thread of its own
//! empties, and what does not fit is dropped.

mod client;

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SdkTracerProvider, Span, SpanData, SpanProcessor};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;
use usage_flusher::MESSAGE_COUNT;

use client::CollectorClient;

/// How long the last spans may take at the end: they are worth less than a prompt stop.
const FLUSH_WITHIN: Duration = Duration::from_millis(500);

const ACCEPTED: &str = "--otlp-endpoint (OTEL_EXPORTER_OTLP_ENDPOINT): an http:// or https:// URL without user and password is accepted, \
     such as http://127.0.0.1:4318; credentials belong in OTEL_EXPORTER_OTLP_HEADERS";

#[derive(Debug, Args)]
pub(crate) struct TraceOptions {
    /// OpenTelemetry collector that gets a trace a batch, by OTLP over HTTP: its base URL, such as http://127.0.0.1:4318, to
    /// which /v1/traces is added [default: none]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true, value_name = "URL")]
    otlp_endpoint: Option<String>,
}

/// Spans on their way to a collector.
#[derive(Debug)]
pub(crate) struct TraceExport {
    provider: SdkTracerProvider,
}

impl TraceOptions {
    /// Starts the export, when a collector is named. Needs a tokio runtime.
    pub(crate) fn start(&self) -> Result<Option<TraceExport>> {
        let disabled =
            std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
        let own = std::env::var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").ok();
        let Some(url) = traces_url(own.as_deref(), self.otlp_endpoint.as_deref()).filter(|_| !disabled)
        else {
            return Ok(None);
        };
        let client = CollectorClient::new(&checked(&url)?)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(url)
            .build()
            // Its words would repeat headers.
            .map_err(|_| {
                anyhow!(
                    "OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT or _COMPRESSION has a value that cannot be used"
                )
            })?;
        let processor = WithoutIdle(BatchSpanProcessor::builder(exporter).build());
        let provider =
            SdkTracerProvider::builder().with_resource(resource()).with_span_processor(processor).build();
        Ok(Some(TraceExport { provider }))
    }

    /// What an operator should know of it.
    #[allow(clippy::unused_self, reason = "a build without the export has the same interface")]
    pub(crate) fn remark(&self) -> Option<&'static str> {
        let protocol = std::env::var("OTEL_EXPORTER_OTLP_PROTOCOL").unwrap_or_default();
        (!["", "http/protobuf"].contains(&&*protocol))
            .then_some("OTEL_EXPORTER_OTLP_PROTOCOL is not followed: traces go by http/protobuf")
    }
}

impl TraceExport {
    /// What hands the flusher's spans over, with what it logs meanwhile.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(env!("CARGO_PKG_NAME")))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_filter(
                Targets::new()
                    .with_target("usage_flusher", Level::INFO)
                    .with_target("iam_ledger", Level::WARN)
                    .with_target("live_redis", Level::WARN),
            )
    }

    /// Sends what is left, within half a second.
    pub(crate) async fn finish(self) {
        let flushed =
            tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(FLUSH_WITHIN)).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::warn!("the collector did not take the last spans in time");
        }
    }
}

/// The standard's rule: a signal's own URL is taken as it is, the common one gets a path. An empty one is none.
fn traces_url(own: Option<&str>, common: Option<&str>) -> Option<String> {
    let given = |url: Option<&str>| url.map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned);
    given(own).or_else(|| given(common).map(|url| format!("{}/v1/traces", url.trim_end_matches('/'))))
}

/// Refuses what is no URL of a collector, without repeating it.
fn checked(url: &str) -> Result<axum::http::Uri> {
    let Ok(uri) = url.parse::<axum::http::Uri>() else { bail!("{ACCEPTED}") };
    let sound = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if sound { Ok(uri) } else { bail!("{ACCEPTED}") }
}

/// `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` may say more, or otherwise.
fn resource() -> Resource {
    let ours = [
        KeyValue::new("service.name", env!("CARGO_PKG_NAME")),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let named = Resource::builder().build();
    let is_named = |key: &str| {
        named
            .iter()
            .any(|(name, value)| name.as_str() == key && !value.as_str().starts_with("unknown_service"))
    };
    let missing = ours.into_iter().filter(|attribute| !is_named(attribute.key.as_str()));
    Resource::builder().with_attributes(missing.collect::<Vec<_>>()).build()
}

/// Leaves out looks at a queue that found nothing: an idle flusher makes some each second, and they say nothing.
#[derive(Debug)]
struct WithoutIdle<P>(P);

impl<P: SpanProcessor> SpanProcessor for WithoutIdle<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.0.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        let idle = |attribute: &KeyValue| {
            attribute.key.as_str() == MESSAGE_COUNT && attribute.value == Value::I64(0)
        };
        if !span.attributes.iter().any(idle) {
            self.0.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_traces_is_taken_as_it_is_and_the_common_one_gets_the_path() {
        for (own, common, url) in [
            (None, None, None),
            (Some(""), Some(" "), None),
            (None, Some("http://c:4318"), Some("http://c:4318/v1/traces")),
            (None, Some("http://c:4318/otlp/"), Some("http://c:4318/otlp/v1/traces")),
            (Some("http://t:1/x"), Some("http://c:4318"), Some("http://t:1/x")),
        ] {
            assert_eq!(traces_url(own, common).as_deref(), url, "{own:?} {common:?}");
        }
    }

    #[test]
    fn what_is_no_collectors_url_is_refused_without_repeating_it() {
        checked("https://collector:4318/v1/traces").unwrap();
        for url in
            ["canary", "grpc://canary:4317", "http://u:canary@h", "http://", "http://canary h", "/canary"]
        {
            let text = checked(url).unwrap_err().to_string();
            assert!(!text.contains("canary") && text.contains("is accepted"), "{url}: {text}");
        }
    }
}
