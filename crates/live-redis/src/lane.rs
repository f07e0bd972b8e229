//! Lanes: what waits while a call is under way goes together in the next one (docs/decisions/0005).
//!
//! Alone, a call waits for nobody. Lanes do not wait for each other; their calls share the connection and pipeline.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::{CallError, LiveRedisError};

/// The lanes in which a call is under way, and who waits in each.
#[derive(Debug)]
pub(crate) struct Lanes<K, A, R>(Mutex<HashMap<K, VecDeque<Waiting<A, R>>>>);

/// One who waits: what is asked, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Waiting<A, R> {
    pub(crate) ask: A,
    reply: Reply<R>,
}

/// Where an answer goes.
#[derive(Debug)]
pub(crate) struct Reply<R>(oneshot::Sender<Result<R, LiveRedisError>>);

/// The answer to come.
pub(crate) struct Answer<R>(oneshot::Receiver<Result<R, LiveRedisError>>);

impl<K, A, R> Default for Lanes<K, A, R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R> Answer<R> {
    pub(crate) async fn wait(self) -> Result<R, LiveRedisError> {
        self.0.await.unwrap_or_else(|_| Err(CallError::Closed.into()))
    }
}

impl<R> Reply<R> {
    pub(crate) fn send(self, answer: Result<R, LiveRedisError>) {
        // Who asked may have gone.
        let _ = self.0.send(answer);
    }
}

impl<A, R> Waiting<A, R> {
    pub(crate) fn split(self) -> (A, Reply<R>) {
        (self.ask, self.reply)
    }
}

/// Gives each its own answer, or all the same error.
pub(crate) fn answer_all<R>(replies: Vec<Reply<R>>, answers: Result<Vec<R>, LiveRedisError>) {
    match answers {
        Ok(answers) => replies.into_iter().zip(answers).for_each(|(reply, answer)| reply.send(Ok(answer))),
        Err(error) => replies.into_iter().for_each(|reply| reply.send(Err(error.clone()))),
    }
}

impl<K: Clone + Eq + Hash, A, R> Lanes<K, A, R> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, VecDeque<Waiting<A, R>>>> {
        // Each change is one step, so a panic elsewhere leaves the map sound.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a lane; `true` when it was free, so that somebody must drive it now.
    pub(crate) fn join(&self, key: &K, ask: A) -> (Answer<R>, bool) {
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { ask, reply: Reply(answer) };
        let free = match self.lock().entry(key.clone()) {
            Entry::Occupied(lane) => {
                lane.into_mut().push_back(waiting);
                false
            }
            Entry::Vacant(lane) => {
                lane.insert(VecDeque::from([waiting]));
                true
            }
        };
        (Answer(answered), free)
    }

    /// Takes charge of a lane that was free.
    pub(crate) const fn drive(&self, key: K) -> Driver<'_, K, A, R> {
        Driver { lanes: self, key, closed: false }
    }
}

/// Takes batch after batch out of a lane. When it goes before the lane is empty, those who wait in it learn that nobody will
/// answer.
pub(crate) struct Driver<'a, K: Clone + Eq + Hash, A, R> {
    lanes: &'a Lanes<K, A, R>,
    key: K,
    closed: bool,
}

impl<K: Clone + Eq + Hash, A, R> Driver<'_, K, A, R> {
    pub(crate) const fn key(&self) -> &K {
        &self.key
    }

    /// Those that have waited longest, at most `most`, and none that does not fit the ones before it. Callers that have gone
    /// are left out. `None` closes the lane.
    pub(crate) fn next(
        &mut self,
        most: usize,
        mut fits: impl FnMut(&[Waiting<A, R>], &A) -> bool,
    ) -> Option<Vec<Waiting<A, R>>> {
        let mut lanes = self.lanes.lock();
        let waiting = lanes.get_mut(&self.key)?;
        let mut batch = Vec::new();
        while let Some(next) = waiting.front() {
            if batch.len() == most || (!batch.is_empty() && !fits(&batch, &next.ask)) {
                break;
            }
            batch.extend(waiting.pop_front().filter(|next| !next.reply.0.is_closed()));
        }
        if batch.is_empty() {
            lanes.remove(&self.key);
            self.closed = true;
            return None;
        }
        Some(batch)
    }
}

impl<K: Clone + Eq + Hash, A, R> Drop for Driver<'_, K, A, R> {
    fn drop(&mut self) {
        // A lane that was closed under the lock may be another driver's by now.
        if !self.closed {
            self.lanes.lock().remove(&self.key);
        }
    }
}
