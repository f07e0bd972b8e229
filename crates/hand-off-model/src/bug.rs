//! Mistakes that the check must find.

/// A mistake that is planted into a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A flusher acknowledges what it peeked, then commits it.
    AckBeforeCommit,
    /// An acknowledgement compares the first entry only.
    HeadOnlyAck,
    /// The ledger charges whatever comes.
    NoGuard,
    /// Enqueue remembers the request id, then appends, and may die between the two.
    MarkBeforeEvent,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::AckBeforeCommit, Self::HeadOnlyAck, Self::NoGuard, Self::MarkBeforeEvent];
}
