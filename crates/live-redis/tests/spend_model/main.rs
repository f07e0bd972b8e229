//! Random programs leave Redis and the model of the queue in the same state and get the same answers.
//!
//! `TALLYWEIR_SEED=<number>` repeats a run: each test prints the number that it started from.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod act;
#[path = "../common/mod.rs"]
mod common;
mod foreign;
mod world;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use common::Hot;
use devstack::{AppendFsync, RedisServer};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use world::World;

/// The steps of one run of the tests, at the least.
const STEPS: u64 = 100_000;

/// What programs run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A prefix of its own on a shared server.
    Prefix,
    /// A server of its own that writes everything to the disk before it answers.
    Durable,
    /// A server of its own that keeps nothing.
    Forgetful,
}

fn seed() -> u64 {
    match std::env::var("TALLYWEIR_SEED") {
        Ok(text) => text.parse().expect("TALLYWEIR_SEED is a whole number"),
        Err(_) => RandomState::new().hash_one(Instant::now()),
    }
}

async fn world(place: Place, number: u64) -> World {
    // Every third program meets the bound beyond which entries are not gone through.
    let bound = if number.is_multiple_of(3) { 6 } else { 200_000 };
    let hot = if place == Place::Prefix {
        Hot::shared_with(|options| options.with_scan_bound(bound)).await
    } else {
        let server = RedisServer::builder()
            .appendonly(place == Place::Durable)
            .appendfsync(AppendFsync::Always)
            .start()
            .unwrap();
        Hot::on(server, |options| options.with_scan_bound(bound)).await
    };
    World::new(hot, place == Place::Durable).await
}

/// Runs programs in several threads at once; answers how many steps they had.
fn run(place: Place, threads: u8, programs: u32) -> u64 {
    let (seed, started, steps) = (seed(), Instant::now(), AtomicU64::new(0));
    println!("{place:?}: TALLYWEIR_SEED={seed}");
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let steps = &steps;
            scope.spawn(move || {
                let mut bytes = [thread; 32];
                bytes[..8].copy_from_slice(&seed.to_le_bytes());
                let config = Config { cases: programs, failure_persistence: None, ..Config::default() };
                let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let number = AtomicU64::new(0);
                let outcome = TestRunner::new_with_rng(config, rng).run(
                    &act::program(place != Place::Prefix),
                    |program| {
                        let number = number.fetch_add(1, Ordering::Relaxed);
                        let taken =
                            runtime.block_on(async { world(place, number).await.run(program).await })?;
                        steps.fetch_add(taken, Ordering::Relaxed);
                        Ok(())
                    },
                );
                if let Err(error) = outcome {
                    panic!("TALLYWEIR_SEED={seed} repeats this: {error}");
                }
            });
        }
    });
    let steps = steps.into_inner();
    println!("{place:?}: {steps} steps compared with the model in {:?}", started.elapsed());
    steps
}

#[test]
fn random_programs_leave_redis_and_the_model_in_the_same_state() {
    let steps = run(Place::Prefix, 4, 120);
    assert!(steps >= STEPS, "{steps}");
}

#[test]
fn a_durable_server_that_dies_keeps_every_byte() {
    run(Place::Durable, 1, 25);
}

#[test]
fn a_server_that_forgets_everything_begins_again_as_the_model_does() {
    run(Place::Forgetful, 1, 25);
}
