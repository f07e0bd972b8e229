//! What a task can do: call a server, sleep, read its process's clock. Each is an await point at which anybody else may act.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use chrono::{DateTime, TimeDelta, Utc};
use rand::Rng;

use crate::plan::beginning;
use crate::request::{CallError, Reply, Request};
use crate::world::{Shared, Wait, World, lock};

/// A task's handle to the world.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    world: Shared,
    pub(crate) process: usize,
    pub(crate) task: usize,
}

impl Host {
    pub(crate) const fn new(world: Shared, process: usize, task: usize) -> Self {
        Self { world, process, task }
    }

    /// The time that this process's clock shows.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.with(|world| {
            let passed = i64::try_from(world.now).unwrap_or(i64::MAX);
            let shown = passed.saturating_add(world.ahead[self.process]);
            beginning().checked_add_signed(TimeDelta::milliseconds(shown)).unwrap_or_default()
        })
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        act(&mut lock(&self.world))
    }

    /// A number of the dice, from 0 up to this one.
    pub(crate) fn roll(&self, most: u64) -> u64 {
        self.with(|world| world.rng.random_range(0..=most))
    }

    pub(crate) fn sleep(&self, millis: u64) -> Sleep {
        Sleep { host: self.clone(), until: self.with(|world| world.now.saturating_add(millis)) }
    }

    /// Sends a request at once; the future waits for its answer.
    pub(crate) fn call(&self, request: Request) -> Call {
        Call { host: self.clone(), id: Some(self.with(|world| world.submit(self.process, request))) }
    }
}

/// Waits for an answer. Dropping it leaves the request to the network.
#[derive(Debug)]
pub(crate) struct Call {
    host: Host,
    id: Option<u64>,
}

impl Future for Call {
    type Output = Result<Reply, CallError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(id) = self.id else { return Poll::Ready(Err(CallError::NoAnswer)) };
        let task = self.host.task;
        let answer = self.host.with(|world| {
            let answer = world.answer(id);
            if answer.is_none() {
                world.waits[task].push(Wait::Reply(id));
            }
            answer
        });
        match answer {
            Some(answer) => {
                self.id = None;
                Poll::Ready(answer)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.host.with(|world| world.abandon(id));
        }
    }
}

/// Waits until the virtual clock shows a time.
#[derive(Debug)]
pub(crate) struct Sleep {
    host: Host,
    until: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let (task, until) = (self.host.task, self.until);
        self.host.with(|world| {
            if until <= world.now {
                return Poll::Ready(());
            }
            world.waits[task].push(Wait::Until(until));
            Poll::Pending
        })
    }
}
