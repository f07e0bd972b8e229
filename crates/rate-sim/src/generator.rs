//! Invented traffic that resembles the real thing: bursts of arrivals and long-tailed token counts.

use chrono::{DateTime, TimeDelta, Utc};

use crate::random::Random;
use crate::trace::TraceRequest;

/// When invented traces begin: a quarter of a minute before a UTC day and month end, so that even a short one is billed to
/// two of each.
pub const START: DateTime<Utc> = DateTime::from_timestamp_secs(1_748_735_985).unwrap();

/// Arrivals a second, outside and inside of a burst. About 320 a minute over all, as in the public trace of a
/// conversation service that the tenants' limits are made for.
const RATE: [f64; 2] = [4.2, 12.6];
/// How long calm and burst last on average, in seconds.
const SPELL_SECONDS: [f64; 2] = [60.0, 10.0];

/// An endless trace, the same for the same seed; take as many requests as are wanted.
///
/// Arrivals are a Poisson process whose rate changes between calm and burst, each of a random (exponential) length.
/// Token counts are log-normal, cut off at what a model takes.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    seconds: f64,
    burst: bool,
    spell_ends: f64,
}

impl Generator {
    /// The trace of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, "arrivals");
        let spell_ends = random.exponential(SPELL_SECONDS[0]);
        Self { random, seconds: 0.0, burst: false, spell_ends }
    }

    /// Memoryless arrivals may be drawn anew at each change of the rate.
    fn next_arrival(&mut self) -> f64 {
        loop {
            let gap = self.random.exponential(1.0 / RATE[usize::from(self.burst)]);
            if self.seconds + gap <= self.spell_ends {
                self.seconds += gap;
                return self.seconds;
            }
            self.seconds = self.spell_ends;
            self.burst = !self.burst;
            self.spell_ends += self.random.exponential(SPELL_SECONDS[usize::from(self.burst)]);
        }
    }
}

impl Iterator for Generator {
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        let micros = whole(self.next_arrival() * 1e6, 0, i64::MAX.unsigned_abs());
        let at = START.checked_add_signed(TimeDelta::microseconds(i64::try_from(micros).ok()?))?;
        let context_tokens = whole(self.random.log_normal(800.0, 0.85), 1, 16_000);
        let generated_tokens = whole(self.random.log_normal(150.0, 0.8), 1, 2_000);
        Some(TraceRequest { at, context_tokens, generated_tokens })
    }
}

/// The nearest whole number within bounds.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to integer cast saturates"
)]
fn whole(number: f64, low: u64, high: u64) -> u64 {
    (number.round() as u64).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_trace() {
        let take = |seed| Generator::new(seed).take(500).collect::<Vec<_>>();
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }

    #[test]
    fn a_longer_trace_begins_with_the_shorter_one() {
        let short: Vec<_> = Generator::new(4).take(50).collect();
        assert!(Generator::new(4).take(500).take(50).eq(short));
    }

    #[test]
    fn requests_come_in_order_at_a_realistic_rate_and_size() {
        for seed in 0..5 {
            let trace: Vec<_> = Generator::new(seed).take(20_000).collect();
            assert!(trace.is_sorted_by_key(|request| request.at));
            let minutes = (trace[trace.len() - 1].at - START).as_seconds_f64() / 60.0;
            let per_minute = 20_000.0 / minutes;
            assert!((250.0..400.0).contains(&per_minute), "{per_minute} requests a minute");
            let tokens: u64 = trace.iter().map(|r| r.context_tokens + r.generated_tokens).sum();
            assert!((1_100..1_600).contains(&(tokens / 20_000)), "{} tokens a request", tokens / 20_000);
        }
    }

    #[test]
    fn even_a_short_trace_crosses_the_end_of_a_month() {
        use chrono::Datelike;
        let months: Vec<u32> = Generator::new(1).take(500).map(|request| request.at.month()).collect();
        assert_eq!((months[0], months[499]), (5, 6));
    }
}
