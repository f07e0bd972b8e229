//! The seeds that every change must pass.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use flush_sim::{Options, run, run_many};

#[test]
fn no_promise_is_broken_and_every_fault_and_situation_occurs() {
    let threads = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let tally = run_many(0, 2_000, threads, Options::default(), || ()).unwrap_or_else(|failure| {
        panic!("{}\n{failure}", failure.trace.join("\n"));
    });
    assert_eq!(tally.seeds, 2_000);
    assert_eq!(tally.missing(), Vec::<String>::new());
}

#[test]
fn a_seed_decides_everything() {
    let traced = Options { trace: true, ..Options::default() };
    for seed in 0..20 {
        let (one, two) = (run(seed, traced).unwrap(), run(seed, traced).unwrap());
        assert_eq!(one.trace, two.trace, "seed {seed}");
        assert_eq!(one.tally, two.tally, "seed {seed}");
        assert_eq!(one.tally, run(seed, Options::default()).unwrap().tally, "seed {seed}");
    }
    assert_ne!(run(0, traced).unwrap().trace, run(1, traced).unwrap().trace);
}
