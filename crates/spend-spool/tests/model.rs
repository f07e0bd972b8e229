//! Random programs against the promise: what is acknowledged is queued in the end, once, with its first payload.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::{FlakyQueue, Mode, event};
use proptest::prelude::*;
use spend_queue::{Enqueued, SpendQueue};
use spend_spool::{Delivery, KeepError, Replayer, Spool, SpoolOptions, SpooledQueue};
use tempfile::TempDir;

#[derive(Debug, Clone)]
enum Step {
    Enqueue {
        id: u8,
        payload: u8,
    },
    /// Another gateway, straight to the queue.
    Elsewhere {
        id: u8,
        payload: u8,
    },
    Replay,
    Queue(Mode),
    Refuse(u8),
    Forgive,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![
        Just(Mode::Up),
        Just(Mode::Down),
        Just(Mode::LostReply),
        Just(Mode::Broken),
        Just(Mode::Flapping)
    ];
    prop_oneof![
        8 => (0..12_u8, 0..2_u8).prop_map(|(id, payload)| Step::Enqueue { id, payload }),
        1 => (0..12_u8, 0..2_u8).prop_map(|(id, payload)| Step::Elsewhere { id, payload }),
        3 => Just(Step::Replay),
        3 => mode.prop_map(Step::Queue),
        1 => (0..12_u8).prop_map(Step::Refuse),
        1 => Just(Step::Forgive),
        1 => Just(Step::Reopen),
    ]
}

fn id(number: u8) -> String {
    format!("r-{number}")
}

/// What must hold, kept beside the real thing.
struct Model {
    folder: TempDir,
    options: SpoolOptions,
    queue: FlakyQueue,
    spooled: SpooledQueue<FlakyQueue>,
    replayer: Replayer<FlakyQueue>,
    /// The payload that each id was first acknowledged with by this gateway.
    acknowledged: BTreeMap<String, String>,
    /// What came into the queue and was not acknowledged here.
    raced: BTreeMap<String, String>,
    /// Ids under which a second payload was spooled when the first was queued already.
    late: BTreeSet<String>,
}

impl Model {
    /// The payload that a repeated call must be measured by; none where the spool holds another than the queue.
    fn known(&self, id: &str) -> Option<&String> {
        let clear = !self.raced.contains_key(id) && !self.late.contains(id);
        self.acknowledged.get(id).filter(|_| clear)
    }

    fn new(options: SpoolOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let queue = FlakyQueue::new(Mode::Up);
        let spooled = Spool::open(folder.path().join("spool"), options).unwrap().wrap(queue.clone());
        let replayer = spooled.replayer();
        Self {
            folder,
            options,
            queue,
            spooled,
            replayer,
            acknowledged: BTreeMap::new(),
            raced: BTreeMap::new(),
            late: BTreeSet::new(),
        }
    }

    async fn run(&mut self, step: Step) {
        match step {
            Step::Enqueue { id: number, payload } => {
                self.enqueue(id(number), format!("p-{payload}")).await;
            }
            Step::Elsewhere { id: number, payload } => {
                let (id, payload) = (id(number), format!("p-{payload}"));
                let before = self.queue.payloads();
                if let Ok(Enqueued::Accepted { .. }) = self.queue.enqueue(&event(&id, &payload)).await {
                    self.raced.insert(id, payload);
                } else if !before.contains_key(&id) && self.queue.payloads().contains_key(&id) {
                    // Its reply was lost.
                    self.raced.insert(id, payload);
                }
            }
            Step::Replay => {
                self.replayer.replay_once().await.unwrap();
            }
            Step::Queue(mode) => self.queue.set(mode),
            Step::Refuse(number) => self.queue.refuse(&id(number)),
            Step::Forgive => self.queue.forgive(),
            Step::Reopen => {
                let before = self.spooled.spool().status();
                self.spooled.spool().close().await;
                self.spooled = Spool::open(self.folder.path().join("spool"), self.options)
                    .unwrap()
                    .wrap(self.queue.clone());
                self.replayer = self.spooled.replayer();
                assert_eq!(self.spooled.spool().status(), before);
            }
        }
        let status = self.spooled.spool().status();
        assert!(status.bytes <= status.max_bytes);
        assert_eq!(status.events == 0, status.bytes == 0);
    }

    async fn enqueue(&mut self, id: String, payload: String) {
        match self.spooled.enqueue(&event(&id, &payload)).await {
            Ok(Delivery::Queued { .. }) => {
                let before = self.acknowledged.insert(id.clone(), payload);
                assert_eq!(before, None, "{id} was queued a second time");
            }
            Ok(Delivery::Spooled { .. }) => {
                let first = self.acknowledged.entry(id.clone()).or_insert(payload.clone());
                if *first != payload {
                    // The queue, which could not be asked, has the first one; the replay will find that out.
                    assert!(self.queue.payloads().contains_key(&id), "{id} is spooled with two payloads");
                    self.late.insert(id);
                }
            }
            Ok(Delivery::Duplicate) => {
                if let Some(known) = self.known(&id) {
                    assert_eq!(*known, payload, "{id}");
                }
            }
            Ok(Delivery::Conflict) => {
                if let Some(known) = self.known(&id) {
                    assert_ne!(*known, payload, "{id}");
                }
            }
            Err(error) => {
                assert!(matches!(error.spool, KeepError::Full { .. }), "{error}");
                // The queue may have taken it and lost the reply: then it counts as anybody else's.
                if !self.acknowledged.contains_key(&id)
                    && let Some(payload) = self.queue.payloads().remove(&id)
                {
                    self.raced.insert(id, payload);
                }
            }
        }
    }

    /// Everything is well again.
    async fn drain(&mut self) {
        self.queue.set(Mode::Up);
        self.queue.forgive();
        for _ in 0..1_000 {
            if self.spooled.spool().is_empty() {
                break;
            }
            self.replayer.replay_once().await.unwrap();
        }
        let status = self.spooled.spool().status();
        assert_eq!((status.events, status.bytes), (0, 0), "it drains");
        let queued = self.queue.payloads();
        for (id, payload) in &self.acknowledged {
            // Where another gateway was in the queue first, that one's payload stays.
            let first = self.raced.get(id).unwrap_or(payload);
            assert_eq!(queued.get(id), Some(first), "{id} was acknowledged");
        }
        let conflicts = self.spooled.spool().conflicts(1_000).await.unwrap();
        assert_eq!(conflicts.len() as u64, status.conflicts);
        for event in conflicts {
            let id = event.request_id();
            assert!(self.raced.contains_key(id) || self.late.contains(id), "{id} conflicts with itself");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn nothing_acknowledged_is_lost_doubled_or_changed(
        steps in prop::collection::vec(step(), 1..60),
        max_events in 1..12_u64,
        replay_batch in 1..5_u32,
        circuit in prop_oneof![Just(Duration::ZERO), Just(Duration::from_secs(3_600))],
    ) {
        let max_bytes = max_events * event("r-1", "p-1").body().len() as u64;
        let options = SpoolOptions { max_bytes, replay_batch, circuit, ..SpoolOptions::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut model = Model::new(options);
            for step in steps {
                model.run(step).await;
            }
            model.drain().await;
        });
    }
}
