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
    /// Decides and counts one request over a whole tree.
    ADMIT_TREE = "admit_tree.lua";
    /// Appends and charges one event.
    ENQUEUE = "enqueue.lua";
    /// Reads the head of the queue.
    PEEK = "peek.lua";
    /// Takes a committed prefix off the queue.
    ACK = "ack.lua";
}
