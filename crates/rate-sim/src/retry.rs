//! Trying again after errors that pass.

use std::future::Future;
use std::time::Duration;

use live_redis::LiveRedisError;
use spend_queue::QueueError;

const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// An answer, and whether the first attempt gave it.
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    pub(crate) retried: bool,
}

/// Makes up to `attempts` attempts, with pauses that double. The last error is given back; so is one that does not pass.
pub(crate) async fn retry<T, F: Future<Output = Result<T, LiveRedisError>>>(
    attempts: u32,
    mut call: impl FnMut() -> F,
) -> Result<Answer<T>, LiveRedisError> {
    let mut wait = FIRST_WAIT;
    let mut attempt = 1;
    loop {
        match call().await {
            Ok(value) => return Ok(Answer { value, retried: attempt > 1 }),
            Err(error) if attempt < attempts && error.is_transient() => {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use live_redis::CallError;

    use super::*;

    fn down() -> LiveRedisError {
        CallError::Unavailable("LOADING".to_owned()).into()
    }

    #[tokio::test]
    async fn an_error_that_passes_is_tried_again_and_said_so() {
        let calls = Cell::new(0);
        let answer = retry(3, async || {
            calls.set(calls.get() + 1);
            if calls.get() < 3 { Err(down()) } else { Ok(7) }
        })
        .await
        .unwrap();
        assert_eq!((answer.value, answer.retried, calls.get()), (7, true, 3));
    }

    #[tokio::test]
    async fn attempts_end_and_an_error_that_stays_ends_them_at_once() {
        for (error, wanted) in [(down(), 3), (LiveRedisError::Damaged("x".to_owned()), 1)] {
            let calls = Cell::new(0);
            let result = retry(3, async || -> Result<(), _> {
                calls.set(calls.get() + 1);
                Err(error.clone())
            })
            .await;
            assert_eq!((result.err(), calls.get()), (Some(error), wanted));
        }
    }
}
