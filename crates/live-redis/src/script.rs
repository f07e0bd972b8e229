//! The scripts, one file an operation.

use std::sync::LazyLock;

use redis::Script;

macro_rules! script {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])*
        pub(crate) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!(concat!("../lua/", $file))));)*
    };
}

script! {
    /// Decides and counts one request.
    ADMIT_ONE = "admit_one.lua";
    /// Decides and counts several requests in order.
    ADMIT_BATCH = "admit_batch.lua";
    /// Corrects what an admission counted.
    SETTLE = "settle.lua";
    /// Appends and charges one event.
    ENQUEUE = "enqueue.lua";
    /// Reads the head of the queue.
    PEEK = "peek.lua";
    /// Takes a committed prefix off the queue.
    ACK = "ack.lua";
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
pub(crate) static REBUILD: LazyLock<Script> = LazyLock::new(|| {
    let batch = include_str!("../lua/admit_batch.lua");
    // Only the first line of a script may name the engine.
    let batch = batch.strip_prefix("#!lua\n").unwrap_or(batch);
    Script::new(&format!("{}{batch}", include_str!("../lua/rebuild.lua")))
});
