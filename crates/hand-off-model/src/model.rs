//! The bounds, the steps that are possible, and what must hold after each.

use std::collections::{BTreeMap, BTreeSet};

use spend_queue::{BatchLimit, EncodedEvent, MemoryQueue, ScopeRef, ShardCount, SpendEvent, Usd};
use stateright::{Model, Property};

use crate::Bug;
use crate::state::{Flusher, Late, Producer, State};
use crate::step::{Foreign, Step, shard};

/// How much can happen. Crashes and lost answers are not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Events, each sent until its answer is heard.
    pub events: usize,
    /// Flushers.
    pub flushers: usize,
    /// Entries of a batch.
    pub batch: BatchLimit,
    /// Whether a replica that lags may take over, once.
    pub fail_over: bool,
    /// Whether another hand may write, once.
    pub foreign: bool,
    /// Whether a request may arrive after its sender gave up; one at a time.
    pub late: bool,
}

impl Bounds {
    /// Two events, two flushers and everything that may go wrong.
    pub const SMALL: Self =
        Self { events: 2, flushers: 2, batch: BatchLimit::MAX, fail_over: true, foreign: true, late: true };
}

/// The hand-off within bounds, with a mistake if one is planted.
#[derive(Debug, Clone)]
pub struct HandOff {
    bounds: Bounds,
    bug: Option<Bug>,
    events: Vec<EncodedEvent>,
}

impl HandOff {
    /// The model within these bounds.
    #[must_use]
    pub fn new(bounds: Bounds, bug: Option<Bug>) -> Self {
        let event = |nth: usize| {
            let scope = ScopeRef::new("key", "k").ok()?;
            let mut event = SpendEvent::new(format!("e{nth}"), "m", vec![scope]);
            event.cost = Some(Usd::from_picos(1));
            event.encode(Default::default()).ok()
        };
        Self { bounds, bug, events: (0..bounds.events).filter_map(event).collect() }
    }

    fn next(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Enqueue(nth) => next.enqueue(nth, &self.events[nth], true, self.bug)?,
            Step::EnqueueUnheard(nth) => next.enqueue(nth, &self.events[nth], false, self.bug)?,
            Step::Peek(at) => next.peek(at, self.bounds.batch)?,
            Step::Commit(at) => {
                let Flusher::Peeked(batch) = state.flushers[at].clone() else { return None };
                if self.bug == Some(Bug::AckBeforeCommit) {
                    next.acknowledge(&batch, self.bug);
                }
                next.commit(&batch, self.bug);
                next.flushers[at] = Flusher::Committed(batch);
            }
            Step::CommitLate(at) => {
                let Flusher::Peeked(batch) = state.flushers[at].clone() else { return None };
                next.give_up(Late::Commit(batch))?;
                next.flushers[at] = Flusher::Idle;
            }
            Step::Ack(at) => {
                let Flusher::Committed(batch) = &state.flushers[at] else { return None };
                next.acknowledge(batch, self.bug);
                next.flushers[at] = Flusher::Idle;
            }
            Step::AckLate(at) => {
                let Flusher::Committed(batch) = state.flushers[at].clone() else { return None };
                next.give_up(Late::Ack(batch))?;
                next.flushers[at] = Flusher::Idle;
            }
            Step::Crash(at) => next.flushers[at] = Flusher::Idle,
            Step::Deliver => match next.late.take()? {
                Late::Commit(batch) => next.commit(&batch, self.bug),
                Late::Ack(batch) => next.acknowledge(&batch, self.bug),
            },
            Step::Replicate => next.replica = Some(state.queue.clone()),
            Step::FailOver => next.fail_over()?,
            Step::Foreign(what) => next.interfere(what)?,
            Step::Quarantine => next.quarantine()?,
        }
        // Flushers are alike, so which of them holds what makes no difference.
        next.flushers.sort();
        Some(next)
    }
}

impl Model for HandOff {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            queue: MemoryQueue::new(ShardCount::ONE).snapshot(shard()),
            replica: None,
            failed_over: false,
            foreign: false,
            producers: vec![Producer::Unsent; self.bounds.events],
            flushers: vec![Flusher::Idle; self.bounds.flushers],
            late: None,
            charged: BTreeMap::new(),
            logged: None,
            lost: BTreeSet::new(),
            trimmed_uncommitted: false,
            inexact_ack: false,
            unseen_rewind: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (nth, producer) in state.producers.iter().enumerate() {
            // Events are alike, too: they are sent for the first time in their order.
            let turn = nth == 0 || state.producers[nth - 1] != Producer::Unsent;
            if turn && *producer != Producer::Answered {
                steps.extend([Step::Enqueue(nth), Step::EnqueueUnheard(nth)]);
            }
        }
        for (at, flusher) in state.flushers.iter().enumerate() {
            if at > 0 && state.flushers[at - 1] == *flusher {
                continue;
            }
            match flusher {
                Flusher::Idle => steps.push(Step::Peek(at)),
                Flusher::Peeked(_) => steps.extend([Step::Commit(at), Step::Crash(at)]),
                Flusher::Committed(_) => steps.extend([Step::Ack(at), Step::Crash(at)]),
            }
            match flusher {
                Flusher::Peeked(_) if self.bounds.late => steps.push(Step::CommitLate(at)),
                Flusher::Committed(_) if self.bounds.late => steps.push(Step::AckLate(at)),
                _ => {}
            }
        }
        steps.extend(state.late.is_some().then_some(Step::Deliver));
        if self.bounds.fail_over && !state.failed_over {
            steps.push(if state.replica.is_none() { Step::Replicate } else { Step::FailOver });
        }
        if self.bounds.foreign && !state.foreign {
            use Foreign::{GarbageAtHead, GarbageAtTail, HeadAtTail, TailAtHead};
            steps.extend([GarbageAtTail, GarbageAtHead, HeadAtTail, TailAtHead].map(Step::Foreign));
        }
        steps.extend(state.foreign.then_some(Step::Quarantine));
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        self.next(state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is taken off that is not committed", |_, state: &State| {
                !state.trimmed_uncommitted
            }),
            Property::always("nothing is charged twice", |_, state: &State| {
                state.charged.values().all(|times| *times <= 1)
            }),
            Property::always(
                "what was answered for is queued, charged, or lost by Redis",
                |model: &Self, state: &State| {
                    state.producers.iter().zip(&model.events).all(|(producer, event)| {
                        let id = event.request_id();
                        *producer != Producer::Answered
                            || state.charged.contains_key(id)
                            || state.lost.contains(id)
                            || state.holds(id)
                    })
                },
            ),
            Property::always("only a fail-over loses", |_, state: &State| {
                state.failed_over || state.lost.is_empty()
            }),
            Property::always("an acknowledgement takes exactly its prefix or nothing", |_, state: &State| {
                !state.inexact_ack
            }),
            Property::always("a charge under an old number breaks the chain", |_, state: &State| {
                !state.unseen_rewind
            }),
            Property::sometimes("everything is charged and taken off", |model: &Self, state: &State| {
                state.charged.len() == model.events.len() && state.list().is_empty()
            }),
        ]
    }
}
