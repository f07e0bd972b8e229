//! One organization's requests, in the order of the trace.
//!
//! The requests of an organization are admitted one after the other, so its tree sees them in the same order in every
//! run and the refusals are the same. Bills do not depend on order: they are delivered concurrently.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;
use indicatif::ProgressBar;
use live_redis::LiveRedis;
use rate_plan::RatePlan;
use spend_queue::{EncodedEvent, SpendEvent};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::delivery::{Answers, Delivery};
use crate::enrol::Enrolled;
use crate::prices::Model;
use crate::replay::{Played, ReplayError};
use crate::run::RunId;
use crate::tenants::Tenants;
use crate::workload::{Duplicate, Request};

/// What all lanes share.
pub(crate) struct Common {
    pub(crate) run_id: RunId,
    pub(crate) seed: u64,
    pub(crate) attempts: u32,
    pub(crate) redis: LiveRedis,
    pub(crate) delivery: Delivery,
    /// How many deliveries may be under way.
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) tenants: Tenants,
    pub(crate) models: Vec<Model>,
    pub(crate) progress: ProgressBar,
}

/// A delivery that came to its end.
enum Delivered {
    First {
        event: Box<SpendEvent>,
        encoded: Arc<EncodedEvent>,
        answers: Answers,
        duplicate: Option<Duplicate>,
    },
    Again(Answers),
}

/// The right to make one delivery; given back when dropped.
struct Permitted {
    way: Delivery,
    _permit: OwnedSemaphorePermit,
}

/// The requests of one organization.
pub(crate) struct Lane {
    common: Arc<Common>,
    enrolled: Enrolled,
    played: Played,
    under_way: JoinSet<Result<Delivered, ReplayError>>,
    /// Events to be sent again, by the number of requests after which it is time.
    later: BTreeMap<u64, Vec<Arc<EncodedEvent>>>,
}

impl Lane {
    pub(crate) fn new(common: Arc<Common>, enrolled: Enrolled) -> Self {
        Self {
            common,
            enrolled,
            played: Played::default(),
            under_way: JoinSet::new(),
            later: BTreeMap::new(),
        }
    }

    /// Plays everything that comes and returns what was done. Deliveries under way are abandoned after an error; they
    /// may or may not have been queued.
    pub(crate) async fn run(mut self, mut requests: mpsc::Receiver<Request>) -> Result<Played, ReplayError> {
        while let Some(request) = requests.recv().await {
            self.play(request).await?;
            self.common.progress.inc(1);
            while let Some(delivered) = self.under_way.try_join_next() {
                self.note(delivered??)?;
            }
            while let Some(entry) =
                self.later.first_entry().filter(|entry| *entry.key() <= self.played.requests)
            {
                for event in entry.remove() {
                    self.send_again(event).await?;
                }
            }
        }
        self.finish().await
    }

    /// Ends the lane. Events that wait to be sent again are sent again now.
    async fn finish(mut self) -> Result<Played, ReplayError> {
        loop {
            while let Some(delivered) = self.under_way.join_next().await {
                self.note(delivered??)?;
            }
            let Some((_, events)) = self.later.pop_first() else { return Ok(self.played) };
            for event in events {
                self.send_again(event).await?;
            }
        }
    }

    async fn play(&mut self, request: Request) -> Result<(), ReplayError> {
        let common = Arc::clone(&self.common);
        let path = self.enrolled.paths.get(&request.caller.key).cloned().unwrap_or_default();
        let plan = RatePlan::new(Arc::clone(&self.enrolled.tree), path)?;
        let (estimate, now) = (request.estimate(), request.trace.at);
        let admission =
            crate::retry::retry(common.attempts, || common.redis.admit_rate_plan(&plan, estimate, now))
                .await
                .map_err(|error| ReplayError::Admission { index: request.index, error })?;
        self.played.requests += 1;
        let rejection = admission.value.rejection();
        self.played.chart.count(now.timestamp().div_euclid(60), rejection.is_none());
        if let Some(rejection) = rejection {
            *self.played.rejected.entry(rejection.to_string()).or_default() += 1;
            return Ok(());
        }
        self.played.admitted += 1;
        let event = request.event(common.run_id.as_str(), common.seed, &common.tenants, &common.models)?;
        let encoded = Arc::new(event.encode(Utc::now()).map_err(live_redis::LiveRedisError::from)?);
        let (event, duplicate) = (Box::new(event), request.duplicate);
        let delivery = self.next_delivery().await?;
        self.under_way.spawn(async move {
            let answers = delivery.way.first(&encoded, duplicate).await?;
            Ok(Delivered::First { event, encoded, answers, duplicate })
        });
        Ok(())
    }

    async fn send_again(&mut self, event: Arc<EncodedEvent>) -> Result<(), ReplayError> {
        let delivery = self.next_delivery().await?;
        self.under_way.spawn(async move { Ok(Delivered::Again(delivery.way.again(&event).await?)) });
        Ok(())
    }

    /// Waits until the queue is short enough and not too many deliveries are under way.
    async fn next_delivery(&self) -> Result<Permitted, ReplayError> {
        self.common.delivery.backlog.pass(&self.common.redis).await?;
        let permit = Arc::clone(&self.common.permits).acquire_owned().await?;
        Ok(Permitted { way: self.common.delivery.clone(), _permit: permit })
    }

    fn note(&mut self, delivered: Delivered) -> Result<(), ReplayError> {
        let fault = match delivered {
            Delivered::Again(answers) => answers.later_fault(),
            Delivered::First { event, encoded, answers, duplicate } => {
                let started_at = event.started_at.unwrap_or_default();
                let organization = event.organization_id.as_deref().unwrap_or_default();
                self.played.journal.note(organization, started_at.date_naive(), &event)?;
                self.played.duplicates_sent += u64::from(duplicate.is_some());
                if let Some(Duplicate::Later(requests)) = duplicate {
                    self.later.entry(self.played.requests + requests).or_default().push(encoded);
                }
                answers.first_fault()
            }
        };
        if let Some(fault) = fault {
            *self.played.faults.entry(fault).or_default() += 1;
        }
        Ok(())
    }
}
