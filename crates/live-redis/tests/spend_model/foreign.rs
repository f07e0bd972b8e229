//! What hands that know nothing of the queue do to its list.

use std::collections::VecDeque;

use proptest::prelude::*;
use spend_queue::Entry;

use crate::act::{Call, call};

/// What another hand does to the list.
#[derive(Debug, Clone)]
pub(crate) enum Foreign {
    PushBack(&'static [u8]),
    PushFront(&'static [u8]),
    /// An entry once more, at the end.
    Repeat {
        at: usize,
    },
    /// Copies of the first entry and the one at `last` around as many others as stand between those.
    Surround {
        last: usize,
    },
    PopFront,
    PopBack,
    /// An old flusher that trims by number.
    Trim {
        entries: usize,
    },
    /// One in the middle disappears.
    Remove {
        at: usize,
    },
    Garbage {
        at: usize,
    },
    /// Cut at so many per mille of its length.
    Truncate {
        at: usize,
        per_mille: usize,
    },
    /// Another event under the link that is there: it reads well, and its chain is broken.
    Forge {
        at: usize,
        call: Call,
    },
    /// Only one of the two amounts changed.
    Contradict {
        at: usize,
    },
}

pub(crate) fn foreign() -> impl Strategy<Value = Foreign> {
    let bytes = || prop::sample::select(vec![&b"garbage"[..], b"{}", b"", b"\xff\x00\n"]);
    prop_oneof![
        bytes().prop_map(Foreign::PushBack),
        bytes().prop_map(Foreign::PushFront),
        (0..9_usize).prop_map(|at| Foreign::Repeat { at }),
        (1..5_usize).prop_map(|last| Foreign::Surround { last }),
        Just(Foreign::PopFront),
        Just(Foreign::PopBack),
        (1..4_usize).prop_map(|entries| Foreign::Trim { entries }),
        (0..9_usize).prop_map(|at| Foreign::Remove { at }),
        (0..9_usize).prop_map(|at| Foreign::Garbage { at }),
        (0..9_usize, 0..1000_usize).prop_map(|(at, per_mille)| Foreign::Truncate { at, per_mille }),
        (0..9_usize, call()).prop_map(|(at, call)| Foreign::Forge { at, call }),
        (0..9_usize).prop_map(|at| Foreign::Contradict { at }),
    ]
}

/// Does it to a list; `millis` is when what is forged was made ready.
pub(crate) fn change(list: &mut VecDeque<Vec<u8>>, foreign: Foreign, millis: i64) {
    let place = |at: usize| if list.is_empty() { None } else { Some(at % list.len()) };
    match foreign {
        Foreign::PushBack(bytes) => list.push_back(bytes.to_vec()),
        Foreign::PushFront(bytes) => list.push_front(bytes.to_vec()),
        Foreign::PopFront => drop(list.pop_front()),
        Foreign::PopBack => drop(list.pop_back()),
        Foreign::Trim { entries } => drop(list.drain(..entries.min(list.len()))),
        Foreign::Repeat { at } => {
            if let Some(at) = place(at) {
                list.push_back(list[at].clone());
            }
        }
        Foreign::Surround { last } => {
            if 2 * last <= list.len() && last > 0 {
                list.insert(last + 1, list[0].clone());
                list.insert(2 * last + 1, list[last].clone());
            }
        }
        Foreign::Remove { at } => {
            if let Some(at) = place(at) {
                list.remove(at);
            }
        }
        Foreign::Garbage { at } => {
            if let Some(at) = place(at) {
                list[at] = b"\x00garbage".to_vec();
            }
        }
        Foreign::Truncate { at, per_mille } => {
            if let Some(at) = place(at) {
                let length = list[at].len() * per_mille / 1000;
                list[at].truncate(length);
            }
        }
        Foreign::Forge { at, call } => {
            let Some(at) = place(at) else { return };
            let Some(link) = Entry::decode(list[at].clone()).ok().and_then(|entry| entry.link) else {
                return;
            };
            list[at] = call.event(millis).entry(link.seq, link.chain).into_bytes();
        }
        Foreign::Contradict { at } => {
            let Some(at) = place(at) else { return };
            let text = String::from_utf8_lossy(&list[at]).replacen("\"spend_pusd\":", "\"spend_pusd\":1", 1);
            list[at] = text.into_bytes();
        }
    }
}
