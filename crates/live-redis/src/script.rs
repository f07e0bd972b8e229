//! The scripts, one file an operation; what several of them need is in parts, put behind their first line.
//!
//! None of them has the flag `no-writes`, although some only read: a server that has become a replica would run those, and answer
//! what was true before. Without it, it answers READONLY. `allow-oom` lets what reads or takes off run on a full server.

use std::sync::LazyLock;

use redis::Script;

const DECIMAL: &str = include_str!("../lua/parts/decimal.lua");
const BULK: &str = include_str!("../lua/parts/bulk.lua");
const REMOVE: &str = include_str!("../lua/parts/remove.lua");
const INDEX: &str = include_str!("../lua/parts/index.lua");
const PREFIX: &str = include_str!("../lua/parts/prefix.lua");
const LOST: &str = include_str!("../lua/parts/lost.lua");
const SCAN: &str = include_str!("../lua/parts/scan.lua");

macro_rules! script {
    ($($(#[$doc:meta])* $name:ident = $file:literal $([$($part:ident),*])?;)*) => {
        $($(#[$doc])*
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(&whole(include_str!(concat!("../lua/", $file)), &[$($($part),*)?]))
        });)*

        /// Name and whole text of every script, for tests of what the scripts call.
        #[cfg(test)]
        pub(crate) fn texts() -> Vec<(&'static str, String)> {
            vec![
                $((stringify!($name), whole(include_str!(concat!("../lua/", $file)), &[$($($part),*)?])),)*
                ("REBUILD", rebuild()),
            ]
        }
    };
}

script! {
    /// Decides and counts one request.
    ADMIT_ONE = "admit_one.lua";
    /// Decides and counts several requests in order.
    ADMIT_BATCH = "admit_batch.lua";
    /// Gives one of many the turn to rebuild.
    TURN = "turn.lua";
    /// Corrects what an admission counted.
    SETTLE = "settle.lua";
    /// Appends and charges events.
    ENQUEUE = "enqueue.lua" [DECIMAL, BULK, INDEX, LOST];
    /// Reads the head of the queue.
    PEEK = "peek.lua" [INDEX];
    /// Takes a committed prefix off the queue.
    ACK = "ack.lua" [DECIMAL, BULK, REMOVE, INDEX, PREFIX, LOST];
    /// Takes a committed prefix off the queue of an older deployment.
    ACK_OLDER = "ack_older.lua" [PREFIX];
    /// What is pending for each of several scopes, or of an organization since an instant.
    PENDING = "pending.lua" [DECIMAL, BULK, INDEX, SCAN];
    /// What the queue of an older deployment charges to each of several owners.
    PENDING_OLDER = "pending_older.lua";
    /// Makes the index of pending spend anew.
    REINDEX = "reindex.lua" [DECIMAL, BULK, INDEX, SCAN, LOST];
    /// Moves the head of the queue aside.
    QUARANTINE = "quarantine.lua" [DECIMAL, INDEX, LOST];
    /// Puts what was moved aside back.
    RESTORE = "restore.lua" [INDEX];
    /// Length and state of the queue.
    QUEUE_STATE = "queue_state.lua";
    /// Marks a recorded loss as dealt with.
    ACKNOWLEDGE_ITEM = "acknowledge_item.lua";
    /// Length and age of the queue.
    BACKLOG = "backlog.lua";
    /// Counts a deployment's failure and cools it at the threshold.
    RECORD_FAILURE = "record_failure.lua";
    /// Keeps the latest samples.
    ADD_LATENCY = "add_latency.lua";
    /// Adds to a minute's counter.
    HIT = "hit.lua";
    /// Stores a string.
    WRITE_STRING = "write_string.lua";
    /// Renews a string that is the expected one.
    RENEW_STRING = "renew_string.lua";
    /// Stores a string in place of the expected one.
    SWAP_STRING = "swap_string.lua";
}

/// Moves a minute's counters to another version of the tree and goes on as [`ADMIT_BATCH`].
pub(crate) static REBUILD: LazyLock<Script> = LazyLock::new(|| Script::new(&rebuild()));

fn rebuild() -> String {
    let (_, batch) = split(include_str!("../lua/admit_batch.lua"));
    format!("{}{batch}", include_str!("../lua/rebuild.lua"))
}

fn whole(script: &str, parts: &[&str]) -> String {
    let (engine, body) = split(script);
    format!("{engine}\n{}{body}", parts.concat())
}

/// The first line, which alone may name the engine, and the rest.
fn split(script: &str) -> (&str, &str) {
    script.split_once('\n').unwrap_or((script, ""))
}
