//! Many seeds on all cores.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::scheduler::{Failure, Options, run};
use crate::tally::Tally;

/// Runs so many seeds, from the first on, and adds their numbers up. `progress` is told of each one that is done.
///
/// # Errors
///
/// The failure with the smallest seed that was found before the threads stopped, with its trace.
pub fn run_many(
    first: u64,
    seeds: u64,
    threads: NonZeroUsize,
    options: Options,
    progress: impl Fn() + Sync,
) -> Result<Tally, Box<Failure>> {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let failed: Mutex<Option<Box<Failure>>> = Mutex::new(None);
    let work = || {
        let mut tally = Tally::default();
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= seeds {
                break;
            }
            match run(first.wrapping_add(at), options) {
                Ok(run) => tally.add(&run.tally),
                Err(failure) => {
                    stop.store(true, Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed.as_ref().is_none_or(|before| failure.seed < before.seed) {
                        *failed = Some(failure);
                    }
                }
            }
            progress();
        }
        tally
    };
    let mut sum = Tally::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.get()).map(|_| scope.spawn(work)).collect();
        // A panic is a bug of the simulation or of what it runs, and goes on.
        for worker in workers {
            match worker.join() {
                Ok(tally) => sum.add(&tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed {
        None => Ok(sum),
        // Once more, written down.
        Some(failure) => match run(failure.seed, Options { trace: true, ..options }) {
            Err(traced) => Err(traced),
            Ok(_) => Err(failure),
        },
    }
}
