//! Seeded randomness whose results do not depend on the release of any library's distributions.
//!
//! ChaCha8 is specified to the bit. Everything above its 64-bit words is written out here, so that a seed names the
//! same workload for as long as this file stays as it is.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream of this seed for one purpose. Streams of different purposes do not depend on each other, so that
    /// drawing more for one leaves the others as they were.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&xxh3_128_with_seed(purpose.as_bytes(), seed).to_le_bytes());
        key[16..24].copy_from_slice(&seed.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, or 0 when `bound` is 0. Multiply and shift: biased by less than `bound` in 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.bits()) * u128::from(bound);
        // The high half of a product of two 64-bit numbers fits 64 bits.
        u64::try_from(product >> 64).unwrap_or(u64::MAX)
    }

    /// An index below `len`, or 0 when `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True in so many of a thousand cases.
    pub fn permille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    /// A number above 0 and at most 1, a multiple of 2^-53.
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A time until the next event of a Poisson process with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// A log-normal number with this median; `sigma` is the standard deviation of its logarithm.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        // Box and Muller; the second number is thrown away to keep the stream free of state.
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let angle = std::f64::consts::TAU * self.unit();
        median * (sigma * radius * angle.cos()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_purpose_name_one_stream() {
        let draw = |seed, purpose| -> Vec<u64> {
            let mut random = Random::new(seed, purpose);
            (0..8).map(|_| random.bits()).collect()
        };
        assert_eq!(draw(7, "tenants"), draw(7, "tenants"));
        assert_ne!(draw(7, "tenants"), draw(8, "tenants"));
        assert_ne!(draw(7, "tenants"), draw(7, "arrivals"));
    }

    #[test]
    fn the_stream_never_changes() {
        let mut random = Random::new(1, "a recorded stream");
        assert_eq!([random.bits(), random.bits()], RECORDED);
    }

    const RECORDED: [u64; 2] = [9378888133856647577, 16002094479490761272];

    #[test]
    fn numbers_stay_in_their_ranges() {
        let mut random = Random::new(3, "ranges");
        for _ in 0..10_000 {
            assert!(random.below(7) < 7);
            assert!((3..=5).contains(&random.between(3, 5)));
            let unit = random.unit();
            assert!(unit > 0.0 && unit <= 1.0);
            assert!(random.exponential(2.0) >= 0.0);
        }
        assert_eq!((random.below(0), random.index(0), random.between(9, 3)), (0, 0, 9));
    }
}
