//! Micro-batches: what waits goes together.
//!
//! A lane is one partition and minute: one hash, so one script call decides for all that wait in it, and what it
//! decides is what the callers' own calls would have decided one after the other. Lanes do not wait for each other;
//! their calls share the connection and pipeline.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rate_plan::{Decision, UsageError};
use tokio::sync::oneshot;

use super::answer::Admission;
use super::call::Ask;
use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, WindowClock};

/// The lanes in which a call is under way, and who waits in each.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Mutex<HashMap<LaneKey, VecDeque<Waiting>>>);

/// Partition, and its minute where this host's clock decides.
type LaneKey = (Box<str>, Option<i64>);

#[derive(Debug)]
struct Waiting {
    ask: Ask,
    now: i64,
    answer: oneshot::Sender<Result<Answer, LiveRedisError>>,
}

/// The second that chose the minute, and the decision.
type Answer = (i64, Result<Decision, UsageError>);

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<LaneKey, VecDeque<Waiting>>> {
        // Each change is one step, so a panic elsewhere leaves the map sound.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a lane; `true` when it was free, so that somebody must drive it now.
    fn join(&self, key: &LaneKey, waiting: Waiting) -> bool {
        match self.lock().entry(key.clone()) {
            Entry::Occupied(lane) => {
                lane.into_mut().push_back(waiting);
                false
            }
            Entry::Vacant(lane) => {
                lane.insert(VecDeque::from([waiting]));
                true
            }
        }
    }

    /// The next batch of a lane: those of one version of the tree that have waited longest, at most `most`. Callers
    /// that have gone are left out. `None` closes the lane.
    fn take(&self, key: &LaneKey, most: usize) -> Option<Vec<Waiting>> {
        let mut lanes = self.lock();
        let waiting = lanes.get_mut(key)?;
        let mut batch: Vec<Waiting> = Vec::new();
        while let Some(next) = waiting.front() {
            let version = next.ask.plan.tree().fingerprint();
            let fits = batch.first().is_none_or(|first| first.ask.plan.tree().fingerprint() == version);
            if batch.len() == most || !fits {
                break;
            }
            batch.extend(waiting.pop_front().filter(|next| !next.answer.is_closed()));
        }
        if batch.is_empty() {
            lanes.remove(key);
            return None;
        }
        Some(batch)
    }
}

/// Frees a lane whose driver has died; those who wait in it learn that nobody will answer.
struct Freed<'a>(&'a Lanes, &'a LaneKey);

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(self.1);
    }
}

impl LiveRedis {
    /// Waits for a place in the partition's next call. The caller may go at any time: the calls are driven by a task
    /// of their own.
    pub(super) async fn admit_in_lane(
        &self,
        partition: &str,
        ask: Ask,
        now: i64,
    ) -> Result<Admission, LiveRedisError> {
        let minute = match self.shared.options.window_clock {
            WindowClock::Local => Some(rate_plan::minute_of(now)),
            WindowClock::Redis => None,
        };
        let key: LaneKey = (partition.into(), minute);
        let (answer, answered) = oneshot::channel();
        if self.shared.lanes.join(&key, Waiting { ask: ask.clone(), now, answer }) {
            let redis = self.clone();
            tokio::spawn(async move { redis.drive(key).await });
        }
        let waited =
            self.within_deadline(async { answered.await.unwrap_or_else(|_| Err(CallError::Closed.into())) });
        let (second, decision) = waited.await?;
        Ok(self.admission(partition, second, ask, decision)?)
    }

    /// Makes call after call until nobody waits.
    async fn drive(&self, key: LaneKey) {
        let lanes = &self.shared.lanes;
        let freed = Freed(lanes, &key);
        while let Some(batch) = lanes.take(&key, self.shared.options.micro_batch) {
            let now = batch[0].now;
            let (asks, answers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|waiting| (waiting.ask, waiting.answer)).unzip();
            match self.decide(&key.0, &asks, now).await {
                Ok(decided) => {
                    for (answer, decision) in answers.into_iter().zip(decided.decisions) {
                        let _ = answer.send(Ok((decided.second, decision)));
                    }
                }
                Err(error) => {
                    for answer in answers {
                        let _ = answer.send(Err(error.clone()));
                    }
                }
            }
        }
        // The lane was closed by `take`, under its lock; another driver may have opened it again.
        std::mem::forget(freed);
    }
}
