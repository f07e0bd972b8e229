//! A queue with a spool behind it.

use std::sync::Arc;

use spend_queue::{EncodedEvent, Enqueued, QueueError, SpendQueue};
use tokio::time::Instant;

use crate::circuit::Circuit;
use crate::state::Known;
use crate::turns::Turns;
use crate::writer::Kept;
use crate::{KeepError, Replayer, Spool, SpoolError};

/// Takes events to the queue, and to disk when the queue does not take them. Clones share everything.
#[derive(Debug)]
pub struct SpooledQueue<Q> {
    shared: Arc<Shared<Q>>,
}

#[derive(Debug)]
pub(crate) struct Shared<Q> {
    pub(crate) queue: Q,
    pub(crate) spool: Spool,
    circuit: Circuit,
    turns: Turns,
}

/// What became of an event. In every case the bill is safe.
#[derive(Debug)]
pub enum Delivery<E> {
    /// The queue has it.
    Queued {
        /// Its number in the shard.
        seq: u64,
        /// How many entries the shard holds now, this one included.
        depth: u64,
    },
    /// It is on disk, fsynced, and will be replayed.
    Spooled {
        /// Why the queue has it not.
        because: Because<E>,
    },
    /// Queue or spool had the same payload under this request id before.
    Duplicate,
    /// Queue or spool had another payload under this request id before; that one stays.
    Conflict,
}

/// Why an event went to disk.
#[derive(Debug)]
pub enum Because<E> {
    /// The queue was asked and failed. It may have taken the event all the same, which replaying finds out.
    Queue(E),
    /// The queue was not asked, since it failed less than [`crate::SpoolOptions::circuit`] ago.
    CircuitOpen,
}

impl<Q> Clone for SpooledQueue<Q> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<Q: SpendQueue> SpooledQueue<Q> {
    pub(crate) fn new(queue: Q, spool: Spool) -> Self {
        let circuit = Circuit::new(spool.options().circuit);
        Self { shared: Arc::new(Shared { queue, spool, circuit, turns: Turns::default() }) }
    }

    /// The queue itself, for everything but enqueueing.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.shared.queue
    }

    /// The spool behind it.
    #[must_use]
    pub fn spool(&self) -> &Spool {
        &self.shared.spool
    }

    /// What replays the spool into this queue. One is enough; two are safe.
    #[must_use]
    pub fn replayer(&self) -> Replayer<Q> {
        Replayer::new(Arc::clone(&self.shared))
    }

    /// Hands an event to the queue, or keeps it on disk when the queue returns any error, transient or not.
    ///
    /// The first payload under a request id wins: while one is spooled, another gets [`Delivery::Conflict`] and the queue is
    /// not asked. Calls of this handle and its clones under one id go one after the other. Events of other ids do not wait
    /// for what is spooled, so a spooled event may be queued behind younger ones.
    ///
    /// After a transient error of the queue, calls go straight to disk for [`crate::SpoolOptions::circuit`]; then one call
    /// a period asks again until it is answered. An error that is not transient, or that concerns this event alone, is an answer, and opens nothing.
    ///
    /// Dropping the future leaves the event queued, spooled or neither; repeating the call is always safe.
    ///
    /// # Errors
    ///
    /// [`SpoolError`], with both causes, when neither took the event. Before that the queue was asked even if the circuit
    /// was open.
    pub async fn enqueue(&self, event: &EncodedEvent) -> Result<Delivery<Q::Error>, SpoolError<Q::Error>> {
        let Shared { spool, circuit, turns, .. } = &*self.shared;
        let _turn = turns.wait(event.digest()).await;
        if let Some(known) = spool.known(event) {
            return Ok(known.into());
        }
        let mut asked = None;
        if circuit.admits(Instant::now()) {
            match self.shared.ask(event).await {
                Ok(enqueued) => return Ok(enqueued.into()),
                Err(error) => asked = Some(error),
            }
        }
        let spool = match spool.keep(event).await {
            Ok(Kept::Known(known)) => return Ok(known.into()),
            Ok(Kept::Stored) => {
                metrics::counter!("tallyweir_spool_spooled_total").increment(1);
                return Ok(Delivery::Spooled { because: asked.map_or(Because::CircuitOpen, Because::Queue) });
            }
            Err(error) => error,
        };
        let queue = match asked {
            Some(error) => error,
            None => match self.shared.ask(event).await {
                Ok(enqueued) => return Ok(enqueued.into()),
                Err(error) => error,
            },
        };
        let reason = match spool {
            KeepError::Full { .. } => "full",
            KeepError::NotRebuildable(_) => "not_rebuildable",
            KeepError::Storage(_) => "storage",
        };
        metrics::counter!("tallyweir_spool_refused_total", "reason" => reason).increment(1);
        tracing::error!(request_id = event.request_id(), %queue, %spool, "neither queue nor spool took an event");
        Err(SpoolError { queue, spool })
    }
}

impl<Q: SpendQueue> Shared<Q> {
    /// Asks the queue, and tells the circuit.
    pub(crate) async fn ask(&self, event: &EncodedEvent) -> Result<Enqueued, Q::Error> {
        let answer = self.queue.enqueue(event).await;
        match &answer {
            Err(error) if error.is_transient() && !error.is_of_one_event() => {
                if self.circuit.failed(Instant::now()) {
                    tracing::warn!(%error, "the queue fails; events go to the spool");
                }
            }
            _ => {
                if self.circuit.answered() {
                    tracing::info!("the queue answers again");
                }
            }
        }
        answer
    }
}

impl<E> From<Enqueued> for Delivery<E> {
    fn from(enqueued: Enqueued) -> Self {
        match enqueued {
            Enqueued::Accepted { seq, depth } => Self::Queued { seq, depth },
            Enqueued::Duplicate => Self::Duplicate,
            Enqueued::Conflict => Self::Conflict,
        }
    }
}

impl<E> From<Known> for Delivery<E> {
    fn from(known: Known) -> Self {
        match known {
            Known::SamePayload => Self::Duplicate,
            Known::AnotherPayload => Self::Conflict,
        }
    }
}
