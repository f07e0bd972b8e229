//! One run: tasks are polled, requests served and clocks moved one at a time, in an order that the seed decides.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Waker};
use std::sync::{Arc, Mutex};

use thiserror::Error;

use crate::Bug;
use crate::actor::{Role, start};
use crate::host::Host;
use crate::tally::{Fault, Tally};
use crate::violation::{Rule, Violation};
use crate::world::{Next, Shared, Wait, World, lock};

/// The most steps in which everything must be drained once the faults have stopped.
pub const MAX_DRAIN_STEPS: u64 = 5_000;

/// What a run is to do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// A bug to plant.
    pub bug: Option<Bug>,
    /// Whether to write down what happens.
    pub trace: bool,
}

/// A run that broke no promise.
#[derive(Debug, Clone)]
pub struct Run {
    /// What happened, counted.
    pub tally: Tally,
    /// What happened, line by line; empty unless asked for.
    pub trace: Vec<String>,
}

/// A run that broke a promise.
#[derive(Debug, Clone, Error)]
#[error("seed {seed}, step {step}: {violation}")]
pub struct Failure {
    /// The seed that shows it, always.
    pub seed: u64,
    /// The step at which it showed.
    pub step: u64,
    /// The promise.
    #[source]
    pub violation: Violation,
    /// What happened until then, line by line; empty unless asked for.
    pub trace: Vec<String>,
}

struct Task {
    host: Host,
    role: Role,
    future: Pin<Box<dyn Future<Output = ()>>>,
}

/// Runs a seed to its end.
///
/// # Errors
///
/// The first promise that was broken. The same seed and options always give the same run.
pub fn run(seed: u64, options: Options) -> Result<Run, Box<Failure>> {
    let world = Arc::new(Mutex::new(World::new(seed, options.bug, options.trace)));
    let mut tasks = tasks(&world);
    while step(&world, &mut tasks) {}
    let mut ended = lock(&world);
    let outcome = ended.end();
    let (tally, trace) = (ended.tally.clone(), ended.trace.take().unwrap_or_default());
    drop(ended);
    match outcome {
        Ok(()) => Ok(Run { tally, trace }),
        Err(violation) => Err(Box::new(Failure { seed, step: tally.steps, violation, trace })),
    }
}

/// One task for each shard of each flusher, one for each producer, one for the operator.
fn tasks(world: &Shared) -> Vec<Task> {
    let mut roles = Vec::new();
    let mut locked = lock(world);
    let plan = &locked.plan;
    let flushers = plan.flushers;
    for process in 0..flushers {
        roles.extend(plan.shards.iter().map(|shard| (process, Role::Flusher(shard))));
    }
    let producers = plan.calls.len();
    roles.extend((0..producers).map(|number| (flushers + number, Role::Producer(number))));
    roles.push((flushers + producers, Role::Operator));
    locked.ahead = vec![0; flushers + producers + 1];
    locked.waits = vec![vec![Wait::Nothing]; roles.len()];
    drop(locked);
    let task = |(task, (process, role))| {
        let host = Host::new(Arc::clone(world), process, task);
        Task { future: start(host.clone(), role, false), host, role }
    };
    roles.into_iter().enumerate().map(task).collect()
}

/// Whether there is another step.
fn step(world: &Shared, tasks: &mut [Task]) -> bool {
    let mut locked = lock(world);
    locked.tally.steps += 1;
    let drained = locked.tally.steps.saturating_sub(locked.plan.heals_at);
    locked.tally.longest_drain = drained;
    if locked.broken.is_some() || locked.finished() {
        return false;
    }
    if drained > MAX_DRAIN_STEPS {
        let detail = format!("not drained {MAX_DRAIN_STEPS} steps after the last fault");
        locked.broken = Some(Violation { rule: Rule::Drains, detail });
        return false;
    }
    let dying = locked.befall();
    drop(locked);
    if let Some(process) = dying {
        die(world, tasks, process);
    }
    let next = lock(world).choose();
    match next {
        Next::Clock => {}
        Next::Flight(at) => lock(world).serve(at),
        Next::Task(at) => {
            lock(world).waits[at].clear();
            // Whoever is pending says what it waits for; one that is ready waits for nothing any more.
            let _ = tasks[at].future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
    true
}

/// A process dies with all its tasks, wherever each is, and comes back.
fn die(world: &Shared, tasks: &mut [Task], process: usize) {
    for task in tasks.iter_mut().filter(|task| task.host.process == process) {
        // The old future is dropped here, which tells the network.
        task.future = start(task.host.clone(), task.role, true);
        let mut locked = lock(world);
        locked.waits[task.host.task] = vec![Wait::Nothing];
        locked.committing.remove(&task.host.task);
        let abandoned = locked.plan.weather.abandoned;
        if let Role::Producer(number) = task.role {
            let gives_up = abandoned > 0.0 && rand::Rng::random_bool(&mut locked.rng, abandoned);
            let journal = &mut locked.journals[number];
            journal.next += usize::from(gives_up && !journal.done);
            journal.done = false;
        }
    }
    let mut locked = lock(world);
    locked.note(|| format!("process {process} dies and comes back"));
    let role = tasks.iter().find(|task| task.host.process == process).map(|task| task.role);
    match role {
        Some(Role::Flusher(_)) => locked.tally.fault(Fault::FlusherCrash),
        Some(Role::Producer(_)) => locked.tally.fault(Fault::ProducerCrash),
        Some(Role::Operator) => locked.tally.fault(Fault::OperatorCrash),
        None => {}
    }
}
