//! What everybody else waits while one call keeps the server busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Between two pings of the witness: short against what it looks for, long enough to leave the cores alone.
const WITNESS_PAUSE: Duration = Duration::from_millis(1);

/// Another client, who pings on and on: what it waits is what everybody waits, reading of arguments and writing of
/// answers included.
pub(crate) struct Witness {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<Duration>>,
}

impl Witness {
    pub(crate) fn start(url: &str) -> Result<Self> {
        let mut connection = redis::Client::open(url)?.get_connection()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let asked = Instant::now();
                while let Err(error) = redis::cmd("PING").query::<()>(&mut connection) {
                    // What a server answers that has been at one script for 5 s: that is no pong.
                    if error.code() != Some("BUSY") {
                        return Err(error.into());
                    }
                    thread::sleep(WITNESS_PAUSE);
                }
                longest = longest.max(asked.elapsed());
                thread::sleep(WITNESS_PAUSE);
            }
            Ok(longest)
        });
        Ok(Self { stop, thread })
    }

    /// The longest that it waited, in milliseconds.
    pub(crate) fn stop(self) -> Result<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let longest = self.thread.join().ok().context("the witness died")??;
        Ok(longest.as_secs_f64() * 1_000.0)
    }
}
