//! Admission in one process, for hosts without a shared store.

mod error;
mod ticket;

use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

pub use error::{LocalError, SettleError};
pub use ticket::{LocalAdmission, Ticket};

use crate::{Adjustment, Decision, Dimension, MAX_LIMIT, RatePlan, RateTree, Usage, Window, minute_of};

/// How many minutes are kept: the newest that was asked for and the one before it. A shared store that lets a minute's
/// counters expire after 120 seconds keeps about the same.
const MINUTES_KEPT: i64 = 2;

/// Numbers the limiters of a process, so that a ticket can be known to belong to another one.
static NEXT_LIMITER: AtomicU64 = AtomicU64::new(0);

/// Admission for one tree, with the counters in this process's memory.
///
/// The same decisions as with a shared store, under weaker guarantees that a host must choose knowingly:
///
/// - **One process.** N replicas, each with its own limiter, admit up to N times every limit.
/// - **Lost at restart.** A process that restarts within a minute admits that minute's limits once more.
/// - **One lock.** Decisions of one limiter are made one after the other, each in O(path).
///
/// The caller gives the time. It may run back into the previous minute, as threads race at a boundary, but no further.
pub struct LocalLimiter {
    id: u64,
    state: Mutex<State>,
}

struct State {
    tree: Arc<RateTree>,
    /// Rising minutes, none older than [`MINUTES_KEPT`] allows.
    windows: Vec<(i64, Window)>,
}

impl LocalLimiter {
    /// A limiter that has admitted nothing yet.
    #[must_use]
    pub fn new(tree: Arc<RateTree>) -> Self {
        let id = NEXT_LIMITER.fetch_add(1, Ordering::Relaxed);
        Self { id, state: Mutex::new(State { tree, windows: Vec::new() }) }
    }

    /// The tree in force; plans for [`admit`](Self::admit) are made of it.
    #[must_use]
    pub fn tree(&self) -> Arc<RateTree> {
        Arc::clone(&self.lock().tree)
    }

    /// Puts another configuration in force, in mid-minute too. Usage stays with its scope; plans of the old tree are
    /// refused from now on, tickets stay good.
    pub fn replace_tree(&self, tree: Arc<RateTree>) {
        let mut state = self.lock();
        for (_, window) in &mut state.windows {
            window.rebuild(Arc::clone(&tree));
        }
        state.tree = tree;
    }

    /// Decides one request in the minute of `now_unix_seconds` and counts it if it is admitted. `estimate` is in
    /// tokens, a negative one read as 0.
    ///
    /// # Errors
    ///
    /// [`LocalError`]; nothing was counted and the request must not run.
    pub fn admit(
        &self,
        plan: &RatePlan,
        estimate: i64,
        now_unix_seconds: i64,
    ) -> Result<LocalAdmission, LocalError> {
        let minute = minute_of(now_unix_seconds);
        let mut state = self.lock();
        let decision = state.window(minute)?.admit(plan, estimate)?;
        let ticket = match decision {
            Decision::Admitted(_) => {
                Some(Ticket::new(self.id, minute, plan.clone(), Dimension::Tpm.demand(estimate)))
            }
            Decision::Rejected(_) => None,
        };
        Ok(LocalAdmission::new(decision, ticket))
    }

    /// Replaces the estimate of an admitted request by what it has really used, in the minute in which it was
    /// admitted. `actual_tokens` may be above or below the estimate; a negative number is read as 0.
    ///
    /// # Errors
    ///
    /// [`SettleError`]; nothing has changed. A ticket that was settled or refunded already is
    /// [`SettleError::Repeated`], so that asking twice is harmless.
    pub fn settle(&self, ticket: &Ticket, actual_tokens: i64) -> Result<(), SettleError> {
        let actual = Dimension::Tpm.demand(actual_tokens);
        if actual > MAX_LIMIT {
            return Err(SettleError::ActualTooLarge { actual_tokens });
        }
        // Both are below 2^53.
        let tpm = actual.cast_signed() - ticket.estimate().cast_signed();
        self.close(ticket, Adjustment { rpm: 0, tpm })
    }

    /// Gives an admission back that was not used: the request and its estimate, in its minute.
    ///
    /// # Errors
    ///
    /// As [`settle`](Self::settle).
    pub fn refund(&self, ticket: &Ticket) -> Result<(), SettleError> {
        self.close(ticket, Adjustment { rpm: -1, tpm: -ticket.estimate().cast_signed() })
    }

    /// What each node of the tree in force has used in the minute of `unix_seconds`, in the tree's order; `None` if
    /// that minute is not kept, or nothing has asked for it.
    #[must_use]
    pub fn usage(&self, unix_seconds: i64) -> Option<Vec<Usage>> {
        let minute = minute_of(unix_seconds);
        let state = self.lock();
        let (_, window) = state.windows.iter().find(|(kept, _)| *kept == minute)?;
        Some(window.nodes().iter().map(|node| node.used).collect())
    }

    fn close(&self, ticket: &Ticket, change: Adjustment) -> Result<(), SettleError> {
        if ticket.limiter() != self.id {
            return Err(SettleError::Foreign);
        }
        let mut state = self.lock();
        if ticket.is_closed() {
            return Err(SettleError::Repeated);
        }
        let minute = ticket.minute();
        let window = state.windows.iter_mut().find(|(kept, _)| *kept == minute);
        let (_, window) = window.ok_or(SettleError::Expired { minute })?;
        window.adjust(ticket.plan(), change)?;
        ticket.set_closed();
        Ok(())
    }

    /// A panic cannot leave the state half changed: windows change only after every check has passed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn window(&mut self, minute: i64) -> Result<&mut Window, LocalError> {
        let newest = self.windows.last().map_or(minute, |(newest, _)| minute.max(*newest));
        let oldest = newest.saturating_sub(MINUTES_KEPT - 1);
        if minute < oldest {
            return Err(LocalError::MinutePassed { minute, oldest });
        }
        self.windows.retain(|(kept, _)| *kept >= oldest);
        let place = match self.windows.binary_search_by_key(&minute, |(kept, _)| *kept) {
            Ok(place) => place,
            Err(place) => {
                self.windows.insert(place, (minute, Window::new(Arc::clone(&self.tree))));
                place
            }
        };
        Ok(&mut self.windows[place].1)
    }
}

/// Not the counters of every node.
impl fmt::Debug for LocalLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let minutes: Vec<i64> = state.windows.iter().map(|(minute, _)| *minute).collect();
        f.debug_struct("LocalLimiter")
            .field("tree", &format_args!("{}", state.tree.fingerprint()))
            .field("minutes", &minutes)
            .finish_non_exhaustive()
    }
}
