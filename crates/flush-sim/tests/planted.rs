//! The proof that the simulation bites: each planted bug is caught, and the correct code passes the same seeds.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use flush_sim::{Bug, Options, run};

/// The most seeds that a planted bug may go unnoticed.
const BUDGET: u64 = 2_000;

#[test]
fn every_planted_bug_is_caught() {
    let mut unnoticed = Vec::new();
    for bug in Bug::ALL {
        let planted = Options { bug: Some(*bug), ..Options::default() };
        let caught = (0..BUDGET).find_map(|seed| run(seed, planted).err());
        match caught {
            None => unnoticed.push(bug.name()),
            Some(failure) => {
                println!("{bug:<24} after {:>4} seeds: {}", failure.seed + 1, failure.violation.rule);
                run(failure.seed, Options::default()).unwrap();
            }
        }
    }
    assert!(unnoticed.is_empty(), "not caught within {BUDGET} seeds: {}", unnoticed.join(", "));
}
