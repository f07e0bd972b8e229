//! Events on their way into the queue, through the public interface.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, ensure};
use chrono::{DateTime, Utc};
use spend_queue::{EncodedEvent, Enqueued, SpendQueue};

use crate::common::load::{Measured, rate_of_all};
use crate::common::server::Server;
use crate::traffic::{self, Callers};

/// Callers at once; the floor has as many.
pub(crate) const CALLERS: usize = 512;
/// Events that are made ready at a time.
const PIECE: usize = 50_000;

/// What all events of a measurement are answered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    Accepted,
    Duplicate,
}

impl Outcome {
    pub(crate) fn check(self, enqueued: Enqueued) -> Result<()> {
        let expected = match self {
            Self::Accepted => matches!(enqueued, Enqueued::Accepted { .. }),
            Self::Duplicate => enqueued == Enqueued::Duplicate,
        };
        ensure!(expected, "{enqueued:?}, where {self:?} was expected");
        Ok(())
    }
}

/// So many callers of the public interface, who leave batching to the client.
pub(crate) async fn enqueue(
    server: &Server,
    events: &Arc<Vec<EncodedEvent>>,
    callers: usize,
    outcome: Outcome,
) -> Result<Measured> {
    let (events, redis) = (events.clone(), server.batching.clone());
    rate_of_all(server, events.len(), callers, move |nth| {
        let (events, redis) = (events.clone(), redis.clone());
        async move { outcome.check(redis.enqueue(&events[nth]).await?) }
    })
    .await
}

/// Queues those events of everyone.
pub(crate) async fn fill(server: &Server, numbers: Range<usize>, hour: DateTime<Utc>) -> Result<()> {
    for from in numbers.clone().step_by(PIECE) {
        let piece = from..(from + PIECE).min(numbers.end);
        let events = Arc::new(traffic::encoded(piece, Callers::Everyone, hour)?);
        enqueue(server, &events, CALLERS, Outcome::Accepted).await?;
    }
    Ok(())
}
