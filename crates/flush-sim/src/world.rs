//! Everything that tasks share: the servers, the network, the clock, the dice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use usage_flusher::Settlement;

use crate::Bug;
use crate::plan::{Plan, Weather};
use crate::request::{CallError, Reply, Request};
use crate::server::Server;
use crate::tally::{Call, Fault, Situation, Tally};
use crate::violation::{Rule, Violation};

/// The most milliseconds that a request which nobody waits for is still under way.
const LATE: u64 = 5_000;
/// The most milliseconds that a ledger takes for a commit when it stalls.
const STALL: u64 = 30_000;
/// The most milliseconds that a clock jumps: a quarter of a day.
const JUMP: i64 = 6 * 3_600 * 1_000;

/// A world that tasks have handles to. Only one of them runs at a time, so nobody ever waits for the lock.
pub(crate) type Shared = Arc<Mutex<World>>;

/// What a task waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    Nothing,
    Reply(u64),
    Until(u64),
}

/// A request on its way.
#[derive(Debug)]
struct Flight {
    /// The call that waits for the answer; none when its caller was told of an error already, or died.
    caller: Option<u64>,
    request: Request,
    /// The earliest time of its arrival.
    at: u64,
    /// Whether the answer arrives.
    answered: bool,
    /// Whether the ledger gives the transaction up.
    refused: bool,
}

/// What a producer remembers over its death.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The next call to send.
    pub(crate) next: usize,
    pub(crate) done: bool,
}

/// What happens next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Next {
    /// A task goes on.
    Task(usize),
    /// A request arrives at its server.
    Flight(usize),
    /// The clock went on.
    Clock,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) server: Server,
    pub(crate) rng: ChaCha8Rng,
    /// Milliseconds since the run began.
    pub(crate) now: u64,
    pub(crate) tally: Tally,
    pub(crate) trace: Option<Vec<String>>,
    pub(crate) broken: Option<Violation>,
    /// What each task waits for: whichever comes first. One that is done waits for nothing that could come.
    pub(crate) waits: Vec<Vec<Wait>>,
    /// How far each process's clock is ahead, in milliseconds.
    pub(crate) ahead: Vec<i64>,
    pub(crate) journals: Vec<Journal>,
    /// What each task is committing.
    pub(crate) committing: BTreeMap<usize, Settlement>,
    flights: Vec<Flight>,
    replies: BTreeMap<u64, Result<Reply, CallError>>,
    calls: u64,
    /// A process that is about to die, with a call under way.
    doomed: Option<usize>,
    over: bool,
}

pub(crate) fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, trace: bool) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let plan = Plan::of(&mut rng);
        let mut server = Server::new(&plan, bug);
        for sending in plan.calls.iter().flatten() {
            // What cannot be encoded is not sent either.
            if let Ok(encoded) = sending.event.encode(crate::plan::beginning()) {
                server.oracle.books.intend(encoded.request_id(), *encoded.payload_check().as_bytes());
            }
        }
        Self {
            server,
            rng,
            now: 0,
            tally: Tally { seeds: 1, ..Tally::default() },
            trace: trace.then(Vec::new),
            broken: None,
            waits: Vec::new(),
            ahead: Vec::new(),
            journals: plan.calls.iter().map(|_| Journal::default()).collect(),
            committing: BTreeMap::new(),
            flights: Vec::new(),
            replies: BTreeMap::new(),
            calls: 0,
            doomed: None,
            over: false,
            plan,
        }
    }

    pub(crate) const fn healed(&self) -> bool {
        self.tally.steps >= self.plan.heals_at
    }

    pub(crate) fn weather(&self) -> Weather {
        if self.healed() { Weather::default() } else { self.plan.weather }
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>5} {:>7} ms  {}", self.tally.steps, self.now, line()));
        }
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random_bool(probability)
    }

    /// Sends a request of a process; the number of the call.
    pub(crate) fn submit(&mut self, process: usize, mut request: Request) -> u64 {
        self.calls += 1;
        let (id, call, weather) = (self.calls, request.call(), self.weather());
        if let (Request::Commit { known, .. }, Some(Bug::StaleGuard)) = (&mut request, self.server.bug) {
            *known = Some(self.server.ledger.ids());
        }
        let mut flight = Flight { caller: Some(id), request, at: self.now, answered: true, refused: false };
        if call == Call::Commit {
            if self.chance(weather.stall) {
                flight.at += self.rng.random_range(1..=STALL);
                self.tally.fault(Fault::Stall);
            }
            if self.chance(weather.serialization) {
                flight.refused = true;
                self.tally.fault(Fault::Serialization);
            }
        }
        // Rare calls must see it too.
        let rare = matches!(call, Call::Reindex | Call::Quarantine);
        if self.chance(weather.crash_in_call * if rare { 6.0 } else { 1.0 }) {
            self.doomed = Some(process);
        }
        if self.chance(weather.request_lost) {
            self.tally.fault(Fault::RequestLost(call));
            self.note(|| format!("call {id} is lost: {}", flight.request.show()));
            self.replies.insert(id, Err(CallError::NoAnswer));
            return id;
        }
        self.note(|| format!("call {id} is sent: {}", flight.request.show()));
        if self.chance(weather.reply_lost) {
            self.tally.fault(Fault::ReplyLost(call));
            flight.answered = false;
        } else if self.chance(weather.late) {
            self.tally.fault(Fault::Late(call));
            flight.caller = None;
            flight.at += self.rng.random_range(1..=LATE);
            self.replies.insert(id, Err(CallError::NoAnswer));
        } else if self.chance(weather.twice) {
            self.tally.fault(Fault::Twice(call));
            let at = flight.at + self.rng.random_range(0..=LATE);
            let (request, refused) = (flight.request.clone(), flight.refused);
            self.flights.push(Flight { caller: None, request, at, answered: true, refused });
        }
        self.flights.push(flight);
        id
    }

    /// The answer of a call, once.
    pub(crate) fn answer(&mut self, id: u64) -> Option<Result<Reply, CallError>> {
        self.replies.remove(&id)
    }

    /// The caller of a call died.
    pub(crate) fn abandon(&mut self, id: u64) {
        if self.over || self.replies.remove(&id).is_some() {
            return;
        }
        let Some(at) = self.flights.iter().position(|flight| flight.caller == Some(id)) else { return };
        let call = self.flights[at].request.call();
        if self.rng.random_bool(0.5) {
            self.flights.swap_remove(at);
            self.tally.fault(Fault::CutOff(call));
        } else {
            let later = self.rng.random_range(0..=LATE);
            let flight = &mut self.flights[at];
            flight.caller = None;
            flight.at += later;
            self.tally.fault(Fault::Orphaned(call));
        }
    }

    /// A request arrives and is served.
    pub(crate) fn serve(&mut self, at: usize) {
        let Flight { caller, request, answered, refused, .. } = self.flights.swap_remove(at);
        let served = self.server.serve(&request, refused, &self.plan, &mut self.rng, &mut self.tally);
        let reply = match served {
            Ok(reply) => reply,
            Err(violation) => {
                self.note(|| format!("{}: BROKEN: {violation}", request.show()));
                self.broken = Some(violation);
                return;
            }
        };
        self.note(|| {
            let shown = reply.as_ref().map_or_else(ToString::to_string, Reply::show);
            let heard = caller.map_or_else(
                || "nobody".to_owned(),
                |id| if answered { format!("call {id}") } else { format!("call {id} (lost)") },
            );
            format!("{} -> {heard}: {shown}", request.show())
        });
        if request.call() == Call::Commit && reply.is_ok() && !(answered && caller.is_some()) {
            self.tally.situation(Situation::CommitUnknown);
        }
        if let Some(id) = caller {
            self.replies.insert(id, if answered { reply } else { Err(CallError::NoAnswer) });
        }
    }

    /// What happens to the servers and the clocks before a step; the process that dies, if one does.
    pub(crate) fn befall(&mut self) -> Option<usize> {
        let weather = self.weather();
        let mut happened = Vec::new();
        if self.chance(weather.fail_over) {
            happened.extend(self.server.fail_over(&self.plan, &mut self.rng, &mut self.tally));
        }
        if self.chance(weather.foreign) {
            happened.extend(self.server.foreign(&self.plan, &mut self.rng, &mut self.tally));
        }
        if self.chance(weather.forgotten) {
            happened.extend(self.server.forget(&self.plan, &mut self.rng, &mut self.tally));
        }
        if self.chance(weather.clock) {
            let process = self.rng.random_range(0..self.ahead.len());
            let jump = self.rng.random_range(1..=JUMP);
            if self.ahead[process] > 0 {
                self.ahead[process] -= jump;
                self.tally.fault(Fault::ClockBackwards);
            } else {
                self.ahead[process] += jump;
                self.tally.fault(Fault::ClockForwards);
            }
            happened.push(format!("the clock of process {process} is now {} ms ahead", self.ahead[process]));
        }
        happened.into_iter().for_each(|line| self.note(|| line));
        let struck = self.chance(weather.crash).then(|| self.rng.random_range(0..self.ahead.len()));
        self.doomed.take().or(struck)
    }

    /// Chooses what happens next among everything that can.
    pub(crate) fn choose(&mut self) -> Next {
        let mut possible = Vec::new();
        for (task, waits) in self.waits.iter().enumerate() {
            let comes = |wait: &Wait| match wait {
                Wait::Nothing => true,
                Wait::Reply(id) => self.replies.contains_key(id),
                Wait::Until(at) => *at <= self.now,
            };
            if waits.iter().any(comes) {
                possible.push(Next::Task(task));
            }
        }
        let arriving = self.flights.iter().enumerate().filter(|(_, flight)| flight.at <= self.now);
        possible.extend(arriving.map(|(at, _)| Next::Flight(at)));
        let slowness = self.weather().slowness;
        if possible.is_empty() || self.chance(slowness) {
            let timers = self.waits.iter().flatten().filter_map(|wait| match wait {
                Wait::Until(at) => Some(*at),
                _ => None,
            });
            let times = timers.chain(self.flights.iter().map(|flight| flight.at));
            if let Some(at) = times.filter(|at| *at > self.now).min() {
                self.now = at;
                return Next::Clock;
            }
        }
        if possible.is_empty() {
            self.broken = Some(Violation { rule: Rule::Drains, detail: "nobody can do anything".to_owned() });
            return Next::Clock;
        }
        possible[self.rng.random_range(0..possible.len())]
    }

    /// Whether everything was sent, settled and taken off, and nothing is under way.
    pub(crate) fn finished(&self) -> bool {
        self.flights.is_empty() && self.journals.iter().all(|journal| journal.done) && self.server.is_empty()
    }

    /// The run is over: whoever is dropped now did not die.
    pub(crate) fn end(&mut self) -> Result<(), Violation> {
        self.over = true;
        match self.broken.take() {
            Some(violation) => Err(violation),
            None => self.server.check_end(&self.plan, &mut self.tally),
        }
    }
}
