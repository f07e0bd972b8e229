//! Looking for inputs that break a target, where there is no libFuzzer: committed seeds, changed at random, and random bytes.
//! What breaks is made as small as it goes.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, io};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use crate::Target;
use crate::seed::fuzz_folder;

/// The longest random input, in bytes.
const MAX_BYTES: usize = 512;
/// Inputs between two looks at the clock.
const ROUND: u32 = 256;

/// Words of the formats that targets read: random bytes hardly ever spell one.
const WORDS: [&str; 24] = [
    "{\"",
    "\":",
    "\",\"",
    "[",
    "]",
    "}",
    "null",
    "true",
    "0",
    "-",
    "e",
    "E-12",
    ".",
    "9223372036854775808",
    "\\u0000",
    "\\ud800",
    "\r",
    "\n",
    "\r\n",
    "data:",
    "%2F",
    "/",
    ":{1}:",
    "\u{85}",
];

/// An input that breaks a target.
#[derive(Debug)]
pub struct Broken {
    /// The smallest that was found.
    pub bytes: Vec<u8>,
    /// What did not hold.
    pub reason: String,
}

/// Tries so many inputs.
///
/// # Errors
///
/// The first input that breaks the target.
pub fn try_many(target: Target, seeds: Vec<Vec<u8>>, inputs: u32) -> Result<(), Box<Broken>> {
    let config = Config { cases: inputs, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&input(seeds), |bytes| {
        target.check(&bytes);
        Ok::<_, TestCaseError>(())
    });
    match outcome {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, bytes)) => Err(Box::new(Broken { bytes, reason: reason.to_string() })),
        Err(TestError::Abort(reason)) => {
            Err(Box::new(Broken { bytes: Vec::new(), reason: reason.to_string() }))
        }
    }
}

/// Tries inputs for so long, and says how many there were.
///
/// # Errors
///
/// The first input that breaks the target.
pub fn try_for(target: Target, seeds: &[Vec<u8>], time: Duration) -> Result<u64, Box<Broken>> {
    let (began, mut tried) = (Instant::now(), 0);
    while began.elapsed() < time {
        try_many(target, seeds.to_vec(), ROUND)?;
        tried += u64::from(ROUND);
    }
    Ok(tried)
}

impl Broken {
    /// Keeps the input where cargo-fuzz keeps its own findings.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn keep(&self, target: Target) -> io::Result<PathBuf> {
        let folder = fuzz_folder().join("artifacts").join(target.name);
        fs::create_dir_all(&folder)?;
        let digest = spend_queue::RequestDigest::of(&String::from_utf8_lossy(&self.bytes));
        let name: String = digest.as_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let path = folder.join(format!("found-{name}"));
        fs::write(&path, &self.bytes)?;
        Ok(path)
    }
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Edit {
    Set(Index, u8),
    Insert(Index, u8),
    Word(Index, &'static str),
    Remove(Index, usize),
    Repeat(Index, usize),
    Splice(Index, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = any::<Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (place(), any::<u8>()).prop_map(|(at, byte)| Edit::Insert(at, byte)),
        (place(), prop::sample::select(&WORDS[..])).prop_map(|(at, word)| Edit::Word(at, word)),
        (place(), 1..40_usize).prop_map(|(at, count)| Edit::Remove(at, count)),
        (place(), 1..40_usize).prop_map(|(at, count)| Edit::Repeat(at, count)),
        (place(), place()).prop_map(|(at, from)| Edit::Splice(at, from)),
    ]
}

fn input(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let random = prop::collection::vec(any::<u8>(), 0..MAX_BYTES);
    let changed = (any::<Index>(), prop::collection::vec(edit(), 0..8)).prop_map(move |(seed, edits)| {
        let mut bytes = seeds.get(seed.index(seeds.len().max(1))).cloned().unwrap_or_default();
        edits.iter().for_each(|edit| apply(&mut bytes, edit, &seeds));
        bytes
    });
    prop_oneof![1 => random, 4 => changed]
}

fn apply(bytes: &mut Vec<u8>, edit: &Edit, seeds: &[Vec<u8>]) {
    let place = |at: &Index| at.index(bytes.len() + 1);
    match edit {
        Edit::Set(at, byte) => {
            let at = place(at);
            if let Some(found) = bytes.get_mut(at) {
                *found = *byte;
            }
        }
        Edit::Insert(at, byte) => bytes.insert(place(at), *byte),
        Edit::Word(at, word) => drop(bytes.splice(place(at)..place(at), word.bytes())),
        Edit::Remove(at, count) => {
            let end = (place(at) + count).min(bytes.len());
            bytes.drain(place(at)..end);
        }
        Edit::Repeat(at, count) => {
            let again = bytes[place(at)..(place(at) + count).min(bytes.len())].to_vec();
            bytes.splice(place(at)..place(at), again);
        }
        Edit::Splice(at, from) if !seeds.is_empty() => {
            let other = &seeds[from.index(seeds.len())];
            let start = place(at).min(other.len());
            bytes.truncate(place(at));
            bytes.extend_from_slice(&other[start..]);
        }
        Edit::Splice(..) => {}
    }
}
