//! Who acts: the real flusher, producers that retry, an operator who takes unreadable heads off.

use core::future::Future;
use core::pin::Pin;

use spend_queue::{BatchLimit, Enqueued, Index, Shard, SpendQueue, Stop};
use usage_flusher::{Flusher, Pace, Worker};

use crate::Bug;
use crate::host::Host;
use crate::plan::Sending;
use crate::port::{SimLedger, SimQueue};
use crate::tally::Situation;

/// What a task is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// One shard of a flusher, as [`usage_flusher::Service`] drives it.
    Flusher(Shard),
    /// A host that sends bills; its number.
    Producer(usize),
    /// The operator.
    Operator,
}

/// The longest wait of a process that comes back, in milliseconds.
const RESTART: u64 = 500;

/// Of so many chances to go on and one, a flusher stops at one.
const STOPS_EACH: u64 = 15;

/// A task at its beginning.
pub(crate) fn start(host: Host, role: Role, again: bool) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        if again {
            host.sleep(host.roll(RESTART)).await;
        }
        match role {
            Role::Flusher(shard) => flush(host, shard).await,
            Role::Producer(number) => produce(host, number).await,
            Role::Operator => operate(host).await,
        }
    })
}

async fn flush(host: Host, shard: Shard) {
    // Bounds that contradict each other would show as a run that never drains.
    let Ok(pace) = Pace::new(host.with(|world| world.plan.pace)) else { return };
    let flusher = Flusher::new(SimQueue(host.clone()), SimLedger(host.clone()));
    let mut worker = Worker::new(shard, pace, host.roll(u64::MAX));
    loop {
        let turn = worker.turn(&flusher, || host.now(), || goes_on(&host)).await;
        host.with(|world| {
            world.note(|| {
                let (process, done) = (host.process, turn.step.flushed);
                let error = turn.step.outcome.as_ref().err().map(|error| format!(", then failed: {error}"));
                format!(
                    "flusher {process} took {} off shard {shard}, {} left{}",
                    done.entries,
                    done.left,
                    error.unwrap_or_default()
                )
            });
        });
        host.sleep(u64::try_from(turn.wait.as_millis()).unwrap_or(u64::MAX)).await;
    }
}

/// Now and then a flusher is told to stop between two batches; the next turn is that of its successor.
fn goes_on(host: &Host) -> bool {
    let stopped = host.roll(STOPS_EACH) == 0;
    if stopped {
        host.with(|world| world.tally.situation(Situation::Stopped));
    }
    !stopped
}

async fn produce(host: Host, number: usize) {
    loop {
        let sending = host.with(|world| {
            let next = world.journals[number].next;
            world.plan.calls[number].get(next).cloned()
        });
        let Some(sending) = sending else { break };
        for _ in 0..=sending.repeats {
            send(&host, &sending).await;
        }
        host.with(|world| world.journals[number].next += 1);
        host.sleep(sending.pause).await;
    }
    if host.with(|world| world.plan.replays) {
        let all = host.with(|world| world.plan.calls[number].clone());
        for sending in &all {
            send(&host, sending).await;
        }
    }
    host.with(|world| world.journals[number].done = true);
}

/// Sends one bill until the queue has answered.
async fn send(host: &Host, sending: &Sending) {
    let queue = SimQueue(host.clone());
    let mut event = sending.event.clone();
    for attempt in 0_u64.. {
        if attempt > 0 && host.with(|world| world.server.bug) == Some(Bug::RetryUnderNewId) {
            event.request_id = format!("{}-{attempt}", sending.event.request_id);
        }
        // The clock of the moment: a retry may be encoded at another time than the call that it repeats.
        let Ok(encoded) = event.encode(host.now()) else { return };
        match queue.enqueue(&encoded).await {
            Ok(Enqueued::Accepted { .. } | Enqueued::Duplicate | Enqueued::Conflict) => return,
            Err(_) => host.sleep(host.roll(50 * (attempt + 1).min(20))).await,
        }
    }
}

async fn operate(host: Host) {
    let queue = SimQueue(host.clone());
    loop {
        for shard in queue.sources() {
            look(&host, &queue, shard).await;
        }
        host.sleep(500 + host.roll(1_500)).await;
    }
}

/// What an operator does about a shard. Whatever fails is tried again the next time.
async fn look(host: &Host, queue: &SimQueue, shard: Shard) {
    if matches!(queue.depth(shard).await, Ok(0) | Err(_)) {
        return;
    }
    let Ok(peeked) = queue.peek(shard, BatchLimit::MIN).await else { return };
    match peeked.stop {
        Some(Stop::Corrupt { position: 0, raw, .. }) => {
            // The answer is that of the moment, and the next look tells.
            let _ = queue.quarantine(shard, raw).await;
        }
        _ if peeked.index == Index::Doubtful && host.roll(1) == 0 => {
            let _ = queue.reindex(shard).await;
        }
        _ => {}
    }
}
