//! Micro-batches of admissions.
//!
//! A lane is one partition and minute: one hash, so one script call decides for those that wait in it, as far as they can go
//! [together](Together), and what it decides is what the callers' own calls would have decided one after the other.

use std::sync::Arc;

use rate_plan::{Decision, UsageError};

use super::answer::Admission;
use super::call::Ask;
use super::together::Together;
use crate::error::LiveRedisError;
use crate::lane::{Batch, Lanes};
use crate::{LiveRedis, WindowClock};

/// Who waits for an admission.
pub(crate) type AdmissionLanes = Lanes<LaneKey, Timed, Decided>;

/// Partition, and its minute where this host's clock decides.
pub(crate) type LaneKey = (Box<str>, Option<i64>);

/// A request and the second at which it came.
#[derive(Debug, Clone)]
pub(crate) struct Timed {
    ask: Ask,
    now: i64,
}

/// The second that chose the minute, on the clock that decides, and the decision.
pub(crate) type Decided = (i64, Result<Decision, UsageError>);

impl Batch<Timed> for Together {
    fn takes(&mut self, timed: &Timed) -> bool {
        self.takes_plan(&timed.ask.plan)
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
        let (partition, _) = &key;
        let call = |timed: Arc<[Timed]>| async move {
            let asks: Vec<_> = timed.iter().map(|timed| timed.ask.clone()).collect();
            // Where hosts' clocks decide, all came in one minute, so any of them names it.
            let decided = self.decide(partition, &asks, timed.first().map_or(0, |timed| timed.now)).await?;
            let seconds = timed.iter().map(|timed| decided.second.unwrap_or(timed.now));
            Ok(seconds.zip(decided.decisions).collect())
        };
        let shape = |timed: &[Timed]| {
            let of = |timed: &Timed| (timed.ask.plan.tree().is_flat(), timed.ask.plan.path().len());
            format!("flat and length of path of each: {:?}", timed.iter().map(of).collect::<Vec<_>>())
        };
        let lane = self.shared.lanes.drive(key.clone());
        lane.run::<Together, _>(("admission", self.shared.options.micro_batch), shape, call).await;
    }
}
