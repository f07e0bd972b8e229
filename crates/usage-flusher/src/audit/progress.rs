//! How far a long audit is, for somebody who watches a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// How often the line is written anew.
const EVERY: Duration = Duration::from_millis(200);

/// One line on standard error, written over and over; nothing where that is no terminal.
pub(super) struct Progress {
    shown: bool,
    last: Option<Instant>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { shown: stderr().is_terminal(), last: None }
    }

    pub(super) fn say(&mut self, line: impl FnOnce() -> String) {
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        // A terminal that is gone is no reason to stop.
        let _ = write!(stderr(), "\r\u{1b}[K{}", line());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            let _ = write!(stderr(), "\r\u{1b}[K");
        }
    }
}
