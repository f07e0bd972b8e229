//! Micro-batches of admissions.
//!
//! A lane is one partition and minute: one hash, so one script call decides for all that wait in it, and what it
//! decides is what the callers' own calls would have decided one after the other.

use rate_plan::{Decision, UsageError};

use super::answer::Admission;
use super::call::Ask;
use crate::error::LiveRedisError;
use crate::lane::{Lanes, Waiting, answer_all};
use crate::{LiveRedis, WindowClock};

/// Who waits for an admission.
pub(crate) type AdmissionLanes = Lanes<LaneKey, Timed, Decided>;

/// Partition, and its minute where this host's clock decides.
pub(crate) type LaneKey = (Box<str>, Option<i64>);

/// A request and the second at which it came.
#[derive(Debug)]
pub(crate) struct Timed {
    ask: Ask,
    now: i64,
}

/// The second that chose the minute, and the decision.
pub(crate) type Decided = (i64, Result<Decision, UsageError>);

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
        let (answer, free) = self.shared.lanes.join(&key, Timed { ask: ask.clone(), now });
        if free {
            let redis = self.clone();
            tokio::spawn(async move { redis.drive_admissions(key).await });
        }
        let (second, decision) = self.within_deadline(answer.wait()).await?;
        Ok(self.admission(partition, second, ask, decision)?)
    }

    /// Makes call after call until nobody waits.
    async fn drive_admissions(&self, key: LaneKey) {
        let mut lane = self.shared.lanes.drive(key);
        // One call decides by one version of the tree.
        let version = |timed: &Timed| timed.ask.plan.tree().fingerprint();
        while let Some(batch) = lane.next(self.shared.options.micro_batch, |batch, next| {
            batch.first().is_none_or(|first| version(&first.ask) == version(next))
        }) {
            let now = batch[0].ask.now;
            let (asks, replies): (Vec<_>, Vec<_>) =
                batch.into_iter().map(Waiting::split).map(|(timed, reply)| (timed.ask, reply)).unzip();
            let decided = self.decide(&lane.key().0, &asks, now).await;
            answer_all(
                replies,
                decided.map(|decided| {
                    decided.decisions.into_iter().map(|decision| (decided.second, decision)).collect()
                }),
            );
        }
    }
}
