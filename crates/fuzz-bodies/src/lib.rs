#![doc = include_str!("../README.md")]

pub mod entry;
pub mod event;
pub mod keys;
pub mod node_window;
pub mod older_entry;
pub mod price;
pub mod request_body;
pub mod scope;
pub mod search;
mod seed;
pub mod sse;
pub mod usd;

pub use seed::Seed;

/// One kind of input, and what must hold of it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What it is called: in `fuzz/fuzz_targets/`, in `fuzz/corpus/`, and by `cargo xtask fuzz`.
    pub name: &'static str,
    check: fn(&[u8]),
}

/// All of them, by name.
pub const TARGETS: [Target; 10] = [
    Target { name: "entry", check: entry::check },
    Target { name: "event", check: event::check },
    Target { name: "keys", check: keys::check },
    Target { name: "node_window", check: node_window::check },
    Target { name: "older_entry", check: older_entry::check },
    Target { name: "price", check: price::check },
    Target { name: "request_body", check: request_body::check },
    Target { name: "scope", check: scope::check },
    Target { name: "sse", check: sse::check },
    Target { name: "usd", check: usd::check },
];

/// The target of a name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

impl Target {
    /// Looks at bytes.
    ///
    /// # Panics
    ///
    /// When what must hold of them does not.
    pub fn check(self, bytes: &[u8]) {
        (self.check)(bytes);
    }
}

/// The texts of an input that holds several: one a line. Bytes that are no UTF-8 are replaced.
fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).split('\n').take(8).map(str::to_owned).collect()
}
