//! Enqueues a second, against the least that a script can do.

use std::sync::Arc;

use anyhow::Result;
use chrono::{DateTime, Utc};
use spend_queue::{EncodedEvent, SpendEvent};

use crate::common::floor::{one_hincrby, pipelined};
use crate::common::load::{Measured, Runs, rate_of_all};
use crate::common::program::Effort;
use crate::common::report::{Bound, Section};
use crate::common::server::Server;
use crate::fill::{CALLERS, Outcome, enqueue};
use crate::raw_script::RawScript;
use crate::traffic::{self, Callers};

/// Events of one measurement, so what the queue holds at its end.
const EVENTS_A_CALL: usize = 10;

const FLOOR: &str = "one-HINCRBY script, pipelined";
const EVERYONE: &str = "enqueue, 512 callers";
const ONE_KEY: &str = "enqueue, 512 callers, one key";
const ENCODED: &str = "encode and enqueue, 512 callers";
const RAW: &str = "script alone, one event a call, pipelined";
const ALONE: &str = "enqueue, one caller";
const DUPLICATES: &str = "enqueue, 512 callers, known already";

/// What enqueueing with all checks must reach of the floor.
const OF_FLOOR: Bound = Bound::AtLeast(0.3);

pub(crate) async fn measure(server: &Server, effort: Effort) -> Result<Section> {
    let count = effort.calls * EVENTS_A_CALL;
    // Everything once, so that scripts are loaded and connections warm.
    Load::of(count / 20)?.round(server, effort, &mut Runs::default(), "warming up").await?;
    let load = Load::of(count)?;
    let mut runs = Runs::default();
    for round in 1..=effort.rounds {
        load.round(server, effort, &mut runs, &format!("enqueue {round}/{}", effort.rounds)).await?;
    }
    let mut section = Section::new(
        "Enqueues",
        "four scopes and a start, one shard, one worker thread, default options; the body's size is in the note",
    );
    section.push(runs.figure(FLOOR));
    let floor = &runs.figure(FLOOR).series;
    let size = load.everyone.iter().map(|event| event.body().len()).sum::<usize>() / load.everyone.len();
    for (name, required) in [
        (EVERYONE, Some(OF_FLOOR)),
        (ONE_KEY, None),
        (ENCODED, None),
        (RAW, None),
        (ALONE, None),
        (DUPLICATES, None),
    ] {
        let figure = runs.figure(name).against(FLOOR, floor, required);
        let note = format!("{}, {size} bytes", figure.note);
        section.push(figure.note(note));
    }
    Ok(section)
}

/// Events, made ready once so that making them is not measured.
struct Load {
    everyone: Arc<Vec<EncodedEvent>>,
    one_key: Arc<Vec<EncodedEvent>>,
    plain: Arc<Vec<SpendEvent>>,
    now: DateTime<Utc>,
}

impl Load {
    fn of(count: usize) -> Result<Self> {
        let now = Utc::now();
        let plain = (0..count).map(|nth| traffic::event(nth, Callers::Everyone, now));
        Ok(Self {
            everyone: Arc::new(traffic::encoded(0..count, Callers::Everyone, now)?),
            one_key: Arc::new(traffic::encoded(0..count, Callers::OneKey, now)?),
            plain: Arc::new(plain.collect::<Result<_>>()?),
            now,
        })
    }

    async fn round(&self, server: &Server, effort: Effort, runs: &mut Runs, label: &str) -> Result<()> {
        let mut note = |name, measured: Measured| {
            eprintln!("{label}: {name}: {:.0}/s, {:.1} us a call", measured.rate, measured.micros);
            runs.push(name, measured);
        };
        let increment = one_hincrby(server).await?;
        // The floor is measured before and after what is compared with it, and the better counts.
        let before = pipelined(server, effort.span, &increment).await?;
        server.clear().await?;
        note(EVERYONE, enqueue(server, &self.everyone, CALLERS, Outcome::Accepted).await?);
        note(DUPLICATES, enqueue(server, &self.everyone, CALLERS, Outcome::Duplicate).await?);
        server.clear().await?;
        note(ONE_KEY, enqueue(server, &self.one_key, CALLERS, Outcome::Accepted).await?);
        note(FLOOR, before.better(pipelined(server, effort.span, &increment).await?));
        server.clear().await?;
        note(ENCODED, self.encode_and_enqueue(server).await?);
        server.clear().await?;
        note(RAW, RawScript::of(server, &self.everyone).await?.measure(server, CALLERS).await?);
        server.clear().await?;
        let few = Arc::new(self.everyone[..self.everyone.len() / 20].to_vec());
        note(ALONE, enqueue(server, &few, 1, Outcome::Accepted).await?);
        server.clear().await
    }

    /// As a gateway does it: each event is checked, digested and written first.
    async fn encode_and_enqueue(&self, server: &Server) -> Result<Measured> {
        let (events, redis, now) = (self.plain.clone(), server.batching.clone(), self.now);
        rate_of_all(server, events.len(), CALLERS, move |nth| {
            let (events, redis) = (events.clone(), redis.clone());
            async move { Outcome::Accepted.check(redis.enqueue_spend(&events[nth], now).await?) }
        })
        .await
    }
}
