//! Sending one event to the queue: once, or more often on purpose.

use std::sync::Arc;

use live_redis::{LiveRedis, LiveRedisError};
use spend_queue::{EncodedEvent, Enqueued, SpendQueue};

use crate::backlog::Backlog;
use crate::retry::retry;
use crate::workload::Duplicate;

/// The way to the queue.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) redis: LiveRedis,
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) attempts: u32,
}

/// What the sends of one event were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    accepted: u32,
    duplicates: u32,
    conflicts: u32,
    /// An attempt whose reply was lost may have been the accepted one.
    unknown: bool,
}

impl Answers {
    fn note(&mut self, answer: Enqueued) {
        match answer {
            Enqueued::Accepted { .. } => self.accepted += 1,
            Enqueued::Duplicate => self.duplicates += 1,
            Enqueued::Conflict => self.conflicts += 1,
        }
    }

    /// What is wrong with the answers to the first sends of an event: exactly one must have been accepted.
    pub(crate) fn first_fault(self) -> Option<&'static str> {
        match self {
            Self { conflicts: 1.., .. } => Some("an event was answered with a conflict"),
            Self { accepted: 0, unknown: false, .. } => Some("a new event was answered with a duplicate"),
            Self { accepted: 2.., .. } => Some("a duplicate was accepted"),
            _ => None,
        }
    }

    /// What is wrong with the answers to later sends of an event: all must have been duplicates.
    pub(crate) fn later_fault(self) -> Option<&'static str> {
        match self {
            Self { conflicts: 1.., .. } => Some("an event was answered with a conflict"),
            Self { accepted: 1.., .. } => Some("a duplicate was accepted"),
            _ => None,
        }
    }
}

impl Delivery {
    /// Sends an event for the first time, with the duplicates that follow without delay.
    pub(crate) async fn first(
        &self,
        event: &EncodedEvent,
        duplicate: Option<Duplicate>,
    ) -> Result<Answers, LiveRedisError> {
        let mut answers = Answers::default();
        match duplicate {
            None | Some(Duplicate::Later(_)) => self.send(event, &mut answers).await?,
            Some(Duplicate::AtOnce) => {
                self.send(event, &mut answers).await?;
                self.send(event, &mut answers).await?;
            }
            Some(Duplicate::Concurrent) => {
                let mut others = Answers::default();
                let (one, other) =
                    tokio::join!(self.send(event, &mut answers), self.send(event, &mut others));
                one.and(other)?;
                answers.accepted += others.accepted;
                answers.duplicates += others.duplicates;
                answers.conflicts += others.conflicts;
                answers.unknown |= others.unknown;
            }
        }
        Ok(answers)
    }

    /// Sends an event that was sent before.
    pub(crate) async fn again(&self, event: &EncodedEvent) -> Result<Answers, LiveRedisError> {
        let mut answers = Answers::default();
        self.send(event, &mut answers).await?;
        Ok(answers)
    }

    async fn send(&self, event: &EncodedEvent, answers: &mut Answers) -> Result<(), LiveRedisError> {
        let answer = retry(self.attempts, || self.redis.enqueue(event)).await?;
        answers.unknown |= answer.retried;
        answers.note(answer.value);
        if let Enqueued::Accepted { depth, .. } = answer.value {
            self.backlog.note(depth);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(accepted: u32, duplicates: u32, conflicts: u32, unknown: bool) -> Answers {
        Answers { accepted, duplicates, conflicts, unknown }
    }

    #[test]
    fn exactly_one_of_the_first_sends_is_accepted() {
        assert_eq!(answers(1, 0, 0, false).first_fault(), None);
        assert_eq!(answers(1, 1, 0, false).first_fault(), None);
        assert!(answers(0, 1, 0, false).first_fault().is_some());
        assert!(answers(2, 0, 0, false).first_fault().is_some());
        assert!(answers(1, 0, 1, false).first_fault().is_some());
    }

    #[test]
    fn after_a_lost_reply_the_retry_may_be_the_duplicate() {
        assert_eq!(answers(0, 1, 0, true).first_fault(), None);
        assert!(answers(2, 0, 0, true).first_fault().is_some());
    }

    #[test]
    fn every_later_send_is_a_duplicate() {
        assert_eq!(answers(0, 1, 0, false).later_fault(), None);
        assert!(answers(1, 0, 0, true).later_fault().is_some());
        assert!(answers(0, 0, 1, false).later_fault().is_some());
    }
}
