//! Askers, cancellations and ends of reads in any order: what each asker may be given.

use std::cell::Cell;
use std::pin::Pin;

use futures_util::FutureExt;
use proptest::prelude::*;
use proptest::sample::Index;
use tokio::sync::Semaphore;

use super::*;

const KEYS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    /// Somebody asks for this key.
    Ask(usize),
    /// Somebody who was not answered yet goes away, in the middle of a read or not.
    Leave(Index),
    /// The read of this key ends, or else the next one will at once.
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..KEYS).prop_map(Step::Ask),
        1 => any::<Index>().prop_map(Step::Leave),
        2 => (0..KEYS).prop_map(Step::End),
    ]
}

/// A read that ended: of what, and when it began.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Read {
    key: usize,
    began: Instant,
}

/// One key as its server sees it.
struct Source {
    may_end: Semaphore,
    under_way: Cell<bool>,
    /// The last read that ended.
    last: Cell<Option<Read>>,
}

/// A read that is under way, until it ends or is dropped.
struct UnderWay<'a>(&'a Cell<bool>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Source {
    /// Reads for somebody who asked at that moment.
    async fn read(&self, key: usize, asked: Instant) -> Read {
        assert!(!self.under_way.replace(true), "two read key {key} at the same time");
        let _under_way = UnderWay(&self.under_way);
        let began = tick();
        let could_share = self.last.get().filter(|read| read.began > asked);
        assert_eq!(could_share, None, "key {key} is read for one who asked {asked:?}");
        self.may_end.acquire().await.unwrap().forget();
        let read = Read { key, began };
        self.last.set(Some(read));
        read
    }
}

/// A moment after every one before.
fn tick() -> Instant {
    let before = Instant::now();
    loop {
        let now = Instant::now();
        if now > before {
            return now;
        }
    }
}

struct Asker<'a> {
    key: usize,
    asked: Instant,
    answer: Pin<Box<dyn Future<Output = Arc<Read>> + 'a>>,
}

/// Lets everybody go on as far as possible; whoever is answered is gone, with an answer that it may be given.
fn settle(askers: &mut Vec<Asker<'_>>) {
    loop {
        let before = askers.len();
        askers.retain_mut(|asker| {
            let Some(read) = asker.answer.as_mut().now_or_never() else { return true };
            assert_eq!(read.key, asker.key);
            assert!(read.began > asker.asked, "{read:?} began before {:?}", asker.asked);
            false
        });
        // Each answer may let one more read.
        if askers.len() == before {
            return;
        }
    }
}

fn run(steps: Vec<Step>) {
    let shared = SharedReads::new();
    let sources: [Source; KEYS] = std::array::from_fn(|_| Source {
        may_end: Semaphore::new(0),
        under_way: Cell::new(false),
        last: Cell::new(None),
    });
    let mut askers: Vec<Asker<'_>> = Vec::new();
    for step in steps {
        match step {
            Step::Ask(key) => {
                // Before it asks, and not at the moment of another.
                let asked = tick();
                let (shared, source) = (&shared, &sources[key]);
                tick();
                let answer = async move { shared.get(&key, source.read(key, asked)).await };
                askers.push(Asker { key, asked, answer: Box::pin(answer) });
            }
            Step::Leave(who) if !askers.is_empty() => drop(askers.remove(who.index(askers.len()))),
            Step::Leave(_) => {}
            Step::End(key) => sources[key].may_end.add_permits(1),
        }
        settle(&mut askers);
        for (key, source) in sources.iter().enumerate() {
            assert_eq!(shared.last(&key).as_deref(), source.last.get().as_ref(), "the last read of {key}");
            let waits = askers.iter().any(|asker| asker.key == key);
            assert_eq!(waits, source.under_way.get(), "somebody waits for {key} if and only if it is read");
        }
    }
    sources.iter().for_each(|source| source.may_end.add_permits(askers.len()));
    settle(&mut askers);
    assert!(askers.is_empty(), "{} are never answered", askers.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everybody_is_given_a_read_of_its_key_that_began_after_it_asked(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        run(steps);
    }
}
