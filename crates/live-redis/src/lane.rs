//! Lanes: what waits while a call is under way goes together in the next one (docs/decisions/0017).
//!
//! Alone, a call waits for nobody. Lanes do not wait for each other; their calls share the connection and pipeline. A call
//! that panics takes down neither its lane nor those who wait behind it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tokio::sync::oneshot;

use crate::error::{CallError, LiveRedisError};

/// The lanes in which a call is under way, and who waits in each.
#[derive(Debug)]
pub(crate) struct Lanes<K, A, R>(Mutex<HashMap<K, VecDeque<Waiting<A, R>>>>);

/// One who waits: what is asked, and where the answer goes.
#[derive(Debug)]
struct Waiting<A, R> {
    ask: A,
    reply: Reply<R>,
}

/// Where an answer goes.
type Reply<R> = oneshot::Sender<Result<R, LiveRedisError>>;

/// What may go together in one call, judged in the order of arrival.
pub(crate) trait Batch<A>: Default {
    /// Takes one more ask in, or says that it does not fit those that were taken. The first always fits.
    fn takes(&mut self, ask: &A) -> bool;
}

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

impl<K: Clone + Eq + Hash, A, R> Lanes<K, A, R> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, VecDeque<Waiting<A, R>>>> {
        // Each change is one step, so a panic elsewhere leaves the map sound.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a lane; `true` when it was free, so that somebody must drive it now.
    pub(crate) fn join(&self, key: &K, ask: A) -> (Answer<R>, bool) {
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { ask, reply: answer };
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
    /// Makes call after call, of at most `most` asks, until nobody waits. `call` gives one answer an ask, in order, or one error for
    /// all of them. What was refused for a reason that stays was not written and may be the fault of one, so each is then called
    /// for alone.
    ///
    /// A call that panics is a defect of this crate that some ask has found: its own callers are told so, and the lane goes on.
    /// `kind` and `shape` say in metric and log what the call was made of, without ids or contents.
    pub(crate) async fn run<B: Batch<A>, F>(
        mut self,
        (kind, most): (&'static str, usize),
        shape: impl Fn(&[A]) -> String,
        call: impl Fn(Arc<[A]>) -> F,
    ) where
        A: Clone,
        F: Future<Output = Result<Vec<R>, LiveRedisError>>,
    {
        let caught = async |asks: Arc<[A]>| {
            // What the call left half done is dropped with it; what lanes share is sound after each step.
            let answers = AssertUnwindSafe(async { call(Arc::clone(&asks)).await }).catch_unwind().await;
            answers.unwrap_or_else(|_| {
                metrics::counter!("tallyweir_redis_driver_panics_total", "lane" => kind).increment(1);
                tracing::error!(lane = kind, asks = asks.len(), shape = shape(&asks), "a call panicked");
                Err(CallError::Panicked { asks: asks.len() }.into())
            })
        };
        while let Some(batch) = self.next::<B>(most) {
            let (asks, replies): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|Waiting { ask, reply }| (ask, reply)).unzip();
            let asks: Arc<[A]> = asks.into();
            let answers = caught(Arc::clone(&asks)).await;
            if asks.len() == 1 || !answers.as_ref().is_err_and(may_be_of_one) {
                answer_all(replies, answers);
                continue;
            }
            for (ask, reply) in asks.iter().zip(replies) {
                answer_all(vec![reply], caught(Arc::new([ask.clone()])).await);
            }
        }
    }

    /// Those that have waited longest, at most `most`, and none that does not fit the ones before it. Callers that have gone
    /// are left out. `None` closes the lane.
    fn next<B: Batch<A>>(&mut self, most: usize) -> Option<Vec<Waiting<A, R>>> {
        let mut lanes = self.lanes.lock();
        let waiting = lanes.get_mut(&self.key)?;
        let (mut batch, mut together) = (Vec::new(), B::default());
        while let Some(next) = waiting.pop_front() {
            if next.reply.is_closed() {
                continue;
            }
            if batch.len() == most || !(together.takes(&next.ask) || batch.is_empty()) {
                waiting.push_front(next);
                break;
            }
            batch.push(next);
        }
        if batch.is_empty() {
            lanes.remove(&self.key);
            self.closed = true;
            return None;
        }
        Some(batch)
    }
}

/// Whether nothing was written, and an ask in other company may be answered.
const fn may_be_of_one(error: &LiveRedisError) -> bool {
    matches!(error, LiveRedisError::Damaged(_) | LiveRedisError::Call(CallError::Refused(_)))
}

/// Gives each its own answer, or all the same error. Who asked may have gone.
fn answer_all<R>(replies: Vec<Reply<R>>, answers: Result<Vec<R>, LiveRedisError>) {
    let error = match answers {
        Ok(answers) if answers.len() == replies.len() => {
            return replies.into_iter().zip(answers).for_each(|(reply, answer)| drop(reply.send(Ok(answer))));
        }
        Ok(answers) => {
            CallError::Answer(format!("{} answers to {} asks", answers.len(), replies.len())).into()
        }
        Err(error) => error,
    };
    replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone()))));
}

impl<K: Clone + Eq + Hash, A, R> Drop for Driver<'_, K, A, R> {
    fn drop(&mut self) {
        // A lane that was closed under the lock may be another driver's by now.
        if !self.closed {
            self.lanes.lock().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures_util::future::join_all;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;

    /// At most three neighbours of one sign.
    #[derive(Default)]
    struct OneSign(Option<bool>);

    impl Batch<i32> for OneSign {
        fn takes(&mut self, ask: &i32) -> bool {
            *self.0.get_or_insert(*ask < 0) == (*ask < 0)
        }
    }

    fn shape(asks: &[i32]) -> String {
        format!("{} numbers", asks.len())
    }

    fn join(lanes: &Lanes<u8, i32, i32>, asks: &[i32]) -> Vec<Answer<i32>> {
        asks.iter().map(|ask| lanes.join(&0, *ask).0).collect()
    }

    fn panicked(asks: usize) -> Result<i32, LiveRedisError> {
        Err(CallError::Panicked { asks }.into())
    }

    #[tokio::test]
    async fn batches_keep_the_order_of_arrival_and_take_only_what_fits() {
        let lanes = Lanes::default();
        let answers = join(&lanes, &[1, 2, 3, 4, -1, -2, 5]);
        let calls = RefCell::new(Vec::new());
        let call = async |asks: Arc<[i32]>| {
            calls.borrow_mut().push(asks.to_vec());
            Ok(asks.iter().map(|ask| ask * 10).collect())
        };
        lanes.drive(0).run::<OneSign, _>(("test", 3), shape, call).await;
        assert_eq!(*calls.borrow(), [vec![1, 2, 3], vec![4], vec![-1, -2], vec![5]]);
        let answers = join_all(answers.into_iter().map(Answer::wait)).await;
        assert_eq!(answers, [10, 20, 30, 40, -10, -20, 50].map(Ok));
    }

    #[tokio::test]
    async fn a_call_that_panics_fails_its_own_callers_and_the_lane_serves_those_behind() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let _local = metrics::set_default_local_recorder(&recorder);
        let lanes = Lanes::default();
        let answers = join(&lanes, &[1, 2, -13, -1, 3, -13]);
        let late = RefCell::new(None);
        let call = async |asks: Arc<[i32]>| {
            // Somebody joins while the call is under way that is about to panic.
            if *asks == [-13, -1] {
                *late.borrow_mut() = Some(lanes.join(&0, 7));
            }
            tokio::task::yield_now().await;
            assert!(!asks.contains(&-13), "the defect");
            Ok(asks.to_vec())
        };
        lanes.drive(0).run::<OneSign, _>(("test", 3), shape, call).await;
        let answers = join_all(answers.into_iter().map(Answer::wait)).await;
        assert_eq!(answers, [Ok(1), Ok(2), panicked(2), panicked(2), Ok(3), panicked(1)]);
        let (answer, must_drive) = late.into_inner().unwrap();
        assert_eq!((answer.wait().await, must_drive), (Ok(7), false));
        let counted = snapshotter.snapshot().into_vec();
        let [(key, _, _, DebugValue::Counter(2))] = &counted[..] else { panic!("{counted:?}") };
        assert_eq!(key.key().name(), "tallyweir_redis_driver_panics_total");
        // Closed, so that the next one drives it anew.
        assert!(lanes.join(&0, 1).1);
    }

    #[tokio::test]
    async fn what_is_refused_for_one_of_several_is_answered_to_the_others() {
        let lanes = Lanes::default();
        let answers = join(&lanes, &[1, 13, 2]);
        let damaged = || LiveRedisError::Damaged("13".into());
        let call = async |asks: Arc<[i32]>| {
            if asks.contains(&13) { Err(damaged()) } else { Ok(asks.to_vec()) }
        };
        lanes.drive(0).run::<OneSign, _>(("test", 3), shape, call).await;
        let answers = join_all(answers.into_iter().map(Answer::wait)).await;
        assert_eq!(answers, [Ok(1), Err(damaged()), Ok(2)]);
    }

    #[tokio::test]
    async fn a_call_with_too_few_answers_is_an_error_for_all() {
        let lanes = Lanes::default();
        let answers = join(&lanes, &[1, 2]);
        lanes.drive(0).run::<OneSign, _>(("test", 3), shape, async |_: Arc<[i32]>| Ok(vec![1])).await;
        for answer in answers {
            assert!(matches!(answer.wait().await, Err(LiveRedisError::Call(CallError::Answer(_)))));
        }
    }
}
