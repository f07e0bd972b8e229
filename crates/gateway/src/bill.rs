//! Step 9: the bill, before the client has the whole answer.

use chrono::Utc;
use live_redis::{LiveRedis, LiveRedisError};
use spend_queue::{EncodedEvent, Enqueued, QueueError, SpendEvent, SpendQueue, Usd};
use spend_spool::{Delivery, Spool, SpooledQueue};
use tokio_util::sync::CancellationToken;

use crate::call::Call;
use crate::config::Deployment;
use crate::idempotency::new_id;
use crate::shutdown::Shutdown;
use crate::usage::Usage;

/// Where bills go: to the queue, or else to disk.
#[derive(Debug)]
pub(crate) enum Bills {
    Queue(LiveRedis),
    Spooled(SpooledQueue<LiveRedis>),
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The upstream finished its answer.
    Whole,
    /// The client left, the upstream broke or the gateway was told to end, after output began.
    Partial,
}

/// What was used and how it ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) usage: Usage,
    pub(crate) ended: Ended,
    pub(crate) first_token_ms: Option<u64>,
}

/// Nothing has the bill. It was logged with all that it says, and the answer must not be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unbilled;

/// What became of an event.
enum Kept {
    Queued,
    Spooled,
    Duplicate,
    Conflict,
}

/// Bills a call that ran: one event, which is in the queue or on disk when this returns.
pub(crate) async fn bill(call: &Call, deployment: &Deployment, used: Used) -> Result<(), Unbilled> {
    let Some(cost) = deployment.prices.cost(used.usage) else {
        return Err(lost(call, &format!("the cost of {:?} cannot be counted", used.usage)));
    };
    let mut event = match event(call, used, cost) {
        Ok(event) => event,
        Err(error) => return Err(lost(call, &error)),
    };
    count(used.usage, cost);
    match keep(call, &event).await? {
        Kept::Queued | Kept::Spooled | Kept::Duplicate => Ok(()),
        // The client's idempotency key was used before its claim was forgotten, and that call has the bill under this id. This
        // one ran too.
        Kept::Conflict => {
            event.metadata.insert("idempotent_request_id".into(), event.request_id.into());
            event.request_id = new_id();
            tracing::warn!(
                request_id = call.id.as_str(),
                billed_as = event.request_id,
                "billed under another id"
            );
            keep(call, &event).await.map(drop)
        }
    }
}

fn event(call: &Call, used: Used, cost: Usd) -> Result<SpendEvent, String> {
    let identity = &call.identity;
    let id = |id: Option<&str>| id.map(str::to_owned);
    let scopes = identity.charged().map_err(|error| error.to_string())?;
    let mut event = SpendEvent::new(call.id.as_str(), &*call.asked.model.name, scopes);
    event.key_id = id(Some(identity.key_id()));
    event.user_id = id(identity.user_id());
    event.team_id = id(identity.team_id());
    event.project_id = id(identity.project_id());
    event.organization_id = id(identity.organization_id());
    call.asked.model.kind.as_str().clone_into(&mut event.call_type);
    event.status = match used.ended {
        Ended::Whole => "success".to_owned(),
        Ended::Partial => "partial".to_owned(),
    };
    event.prompt_tokens = used.usage.prompt;
    event.completion_tokens = used.usage.completion;
    event.cached_tokens = used.usage.cached;
    event.cost = Some(cost);
    event.started_at = Some(call.at);
    event.ended_at = Some(Utc::now());
    event.time_to_first_token_ms = used.first_token_ms;
    Ok(event)
}

async fn keep(call: &Call, event: &SpendEvent) -> Result<Kept, Unbilled> {
    let encoded = event.encode(Utc::now()).map_err(|error| lost_event(call, event, &error.to_string()))?;
    let kept = call
        .state
        .bills
        .keep(&encoded, &call.state.shutdown)
        .await
        .map_err(|error| lost_event(call, event, &error))?;
    let to = match kept {
        Kept::Queued => "queued",
        Kept::Spooled => "spooled",
        Kept::Duplicate => "duplicate",
        Kept::Conflict => "conflict",
    };
    metrics::counter!("tallyweir_gateway_bills_total", "to" => to).increment(1);
    Ok(kept)
}

/// The last resort: an operator can make the bill from this line. It holds no prompt and no secret, since an event has none.
fn lost_event(call: &Call, event: &SpendEvent, error: &str) -> Unbilled {
    let event = serde_json::to_string(event).unwrap_or_else(|_| format!("{event:?}"));
    tracing::error!(
        request_id = call.id.as_str(),
        error,
        event,
        "a bill is lost: neither queue nor spool took it"
    );
    metrics::counter!("tallyweir_gateway_bills_total", "to" => "lost").increment(1);
    Unbilled
}

fn lost(call: &Call, error: &str) -> Unbilled {
    tracing::error!(
        request_id = call.id.as_str(),
        key_id = call.identity.key_id(),
        error,
        "a bill is lost: it cannot be made"
    );
    metrics::counter!("tallyweir_gateway_bills_total", "to" => "lost").increment(1);
    Unbilled
}

fn count(usage: Usage, cost: Usd) {
    for (kind, tokens) in
        [("prompt", usage.prompt), ("cached", usage.cached), ("completion", usage.completion)]
    {
        metrics::counter!("tallyweir_gateway_tokens_total", "kind" => kind).increment(tokens);
    }
    // What does not fit an event is refused right after.
    let picos = u64::try_from(cost.picos()).unwrap_or(0);
    metrics::counter!("tallyweir_gateway_billed_picodollars_total").increment(picos);
}

impl Bills {
    pub(crate) fn new(redis: LiveRedis, spool: Option<Spool>) -> Self {
        match spool {
            None => Self::Queue(redis),
            Some(spool) => Self::Spooled(spool.wrap(redis)),
        }
    }

    /// The spool, if there is one.
    pub(crate) fn spool(&self) -> Option<&Spool> {
        match self {
            Self::Queue(_) => None,
            Self::Spooled(queue) => Some(queue.spool()),
        }
    }

    /// Replays what the spool holds until told to stop.
    pub(crate) async fn replay(&self, stop: CancellationToken) {
        if let Self::Spooled(queue) = self {
            queue.replayer().run(stop.cancelled()).await;
        }
    }

    /// Once calls are cut, this takes one answer of Redis at most: who ends the process waits for that long.
    async fn keep(&self, event: &EncodedEvent, shutdown: &Shutdown) -> Result<Kept, String> {
        match self {
            Self::Queue(redis) => match ask_twice(redis, event, shutdown).await {
                Ok(Enqueued::Accepted { .. }) => Ok(Kept::Queued),
                Ok(Enqueued::Duplicate) => Ok(Kept::Duplicate),
                Ok(Enqueued::Conflict) => Ok(Kept::Conflict),
                Err(error) => Err(error.to_string()),
            },
            Self::Spooled(queue) => match queue.enqueue(event).await {
                Ok(Delivery::Queued { .. }) => Ok(Kept::Queued),
                Ok(Delivery::Spooled { .. }) => Ok(Kept::Spooled),
                Ok(Delivery::Duplicate) => Ok(Kept::Duplicate),
                Ok(Delivery::Conflict) => Ok(Kept::Conflict),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

/// Repeating is safe, and a connection that broke mends itself. While the process ends nothing is asked again, whatever was
/// answered: the bill is logged in time instead.
async fn ask_twice(
    redis: &LiveRedis,
    event: &EncodedEvent,
    shutdown: &Shutdown,
) -> Result<Enqueued, LiveRedisError> {
    match redis.enqueue(event).await {
        Err(error) if QueueError::is_transient(&error) && !shutdown.is_cut() => redis.enqueue(event).await,
        answer => answer,
    }
}
