//! The spans of a batch, named as OpenTelemetry's conventions for messaging and for databases name such work.
//!
//! ```text
//!   batch ── peek ── commit ── acknowledge
//! ```
//!
//! One peek may serve several batches; it belongs to the first of them, or to the one that is committed meanwhile.
//!
//! Nothing here knows whether anybody collects them; without a collector a span costs next to nothing.

use std::fmt::Display;
use std::future::Future;

use spend_queue::Shard;
use tracing::{Instrument, Span, field::Empty, info_span};

/// Entries of a batch, in both its own span and its peek's: a span of none is an idle look, which is not worth exporting.
pub const MESSAGE_COUNT: &str = "messaging.batch.message_count";

/// How a batch ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    /// Settled and taken off the queue.
    Acknowledged,
    /// Settled; the queue's head was no longer what was settled, so nothing was taken off.
    HeadChanged,
    /// Settled, and not to be taken off before the batch in front of it.
    Committed,
    /// Nothing was waiting.
    Idle,
    /// A step failed; its `error.type` says which.
    Failed,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::HeadChanged => "head_changed",
            Self::Committed => "committed",
            Self::Idle => "idle",
            Self::Failed => "failed",
        }
    }
}

/// The span of one batch of a shard.
pub(crate) fn batch(shard: Shard) -> Span {
    info_span!(
        "batch",
        otel.kind = "consumer",
        otel.status_code = Empty,
        otel.status_description = Empty,
        messaging.system = "redis",
        messaging.operation.name = "flush",
        "messaging.operation.type" = "process",
        messaging.destination.partition.id = %shard,
        messaging.batch.message_count = Empty,
        "error.type" = Empty,
        tallyweir.batch.first_seq = Empty,
        tallyweir.batch.last_seq = Empty,
        tallyweir.batch.outcome = Empty,
    )
}

/// The look at a shard's head.
pub(crate) fn peek() -> Span {
    info_span!(
        "peek",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        messaging.system = "redis",
        messaging.operation.name = "peek",
        "messaging.operation.type" = "receive",
        messaging.batch.message_count = Empty,
    )
}

/// The transaction in PostgreSQL, its retries included.
pub(crate) fn commit() -> Span {
    info_span!(
        "commit",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        db.system.name = "postgresql",
        db.operation.name = "COMMIT",
    )
}

/// Taking off the queue what was committed.
pub(crate) fn acknowledge() -> Span {
    info_span!(
        "acknowledge",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        messaging.system = "redis",
        messaging.operation.name = "acknowledge",
        "messaging.operation.type" = "settle",
    )
}

/// Makes a call within its span, which says so when the call fails.
pub(crate) async fn within<T, E: Display>(
    span: Span,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let answer = call.instrument(span.clone()).await;
    if let Err(error) = &answer {
        describe_failure(&span, error);
    }
    answer
}

/// How many entries the batch has, and their numbers. Signed, since OpenTelemetry has no unsigned integers, and others would
/// become texts.
pub(crate) fn describe_entries(batch: &Span, entries: u64, seqs: Option<(u64, u64)>) {
    let signed = |number| i64::try_from(number).unwrap_or(i64::MAX);
    batch.record(MESSAGE_COUNT, signed(entries));
    if let Some((first, last)) = seqs {
        batch.record("tallyweir.batch.first_seq", signed(first));
        batch.record("tallyweir.batch.last_seq", signed(last));
    }
}

/// How the batch ended.
pub(crate) fn conclude(batch: &Span, outcome: Outcome) {
    batch.record("tallyweir.batch.outcome", outcome.as_str());
}

/// That the batch failed, in which step, and why.
pub(crate) fn conclude_failed(batch: &Span, step: &'static str, error: &impl Display) {
    conclude(batch, Outcome::Failed);
    batch.record("error.type", step);
    describe_failure(batch, error);
}

fn describe_failure(span: &Span, error: &impl Display) {
    span.record("otel.status_code", "error");
    span.record("otel.status_description", tracing::field::display(error));
}
