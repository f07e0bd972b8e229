//! Who works how much.

use std::time::Duration;

use anyhow::Result;
use bench_frame::process::Process;

use crate::stack::{CLIENT, Stack};

/// As the mock names its thread.
const MOCK: &str = "mock-upstream";

/// Processor time since each began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter([Duration; 5]);

/// Whose time it is, in the order of [`Meter::since`].
pub(crate) const WHO: [&str; 5] = ["gateway", "Redis", "PostgreSQL", "mock", "client"];

impl Meter {
    pub(crate) fn read(stack: &Stack) -> Result<Self> {
        let this = Process::new(std::process::id());
        Ok(Self([
            stack.gateway.process().cpu()?,
            stack.servers.redis_process()?.cpu()?,
            stack.servers.postgres_process()?.cpu_with_children()?,
            this.cpu_of_threads(MOCK)?,
            this.cpu_of_threads(CLIENT)?,
        ]))
    }

    /// Microseconds of each a request.
    pub(crate) fn since(self, before: Self, requests: u64) -> [f64; 5] {
        let mut each = [0.0; 5];
        for (place, each) in each.iter_mut().enumerate() {
            *each = self.0[place].saturating_sub(before.0[place]).as_secs_f64() * 1e6 / requests as f64;
        }
        each
    }
}
