//! Why an input was refused. Each error names the place, the kind of value and the bound.

use core::fmt;

use crate::{Dimension, MAX_DEPTH, MAX_ID_BYTES, MAX_LIMIT, MAX_NODES, Scope};

/// One of the two parts of a [`Scope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScopePart {
    /// The kind, such as `team`.
    Kind,
    /// The id within the kind.
    Id,
}

impl fmt::Display for ScopePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "kind",
            Self::Id => "id",
        })
    }
}

/// A kind or id that is not legal. The same input is refused for ever: a retry cannot help.
///
/// The value itself is left out: a rejected id may be a secret that was passed by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// The part has no bytes.
    #[error("scope {part} is empty; it must have 1 to {MAX_ID_BYTES} bytes")]
    Empty {
        /// Which part.
        part: ScopePart,
    },
    /// The part has more than [`MAX_ID_BYTES`] bytes.
    #[error("scope {part} has {bytes} bytes; it must have 1 to {MAX_ID_BYTES}")]
    TooLong {
        /// Which part.
        part: ScopePart,
        /// Its length in bytes.
        bytes: usize,
    },
    /// The part holds a control character (Unicode category Cc).
    #[error("scope {part} has a control character at byte {offset}; none is allowed")]
    ControlCharacter {
        /// Which part.
        part: ScopePart,
        /// Where the first one begins, in bytes.
        offset: usize,
    },
}

/// The node that an error is about. `Display` writes `node <index> (<kind>/<id>)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRef {
    /// Its index in the list of nodes.
    pub index: usize,
    /// Its scope.
    pub scope: Scope,
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({})", self.index, self.scope)
    }
}

/// A configuration that is not a rate tree. The same nodes are refused for ever: a retry cannot help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// More than [`MAX_NODES`] nodes.
    #[error("a rate tree of {nodes} nodes; at most {MAX_NODES} are allowed")]
    TooManyNodes {
        /// How many were given.
        nodes: usize,
    },
    /// A parent index that is no node.
    #[error("{node} has parent {parent}, which is not one of the {nodes} nodes")]
    ParentOutOfRange {
        /// The child.
        node: NodeRef,
        /// The index that it gave.
        parent: usize,
        /// How many nodes there are; a parent must be below this.
        nodes: usize,
    },
    /// A node that is its own ancestor, directly or through others.
    #[error("{node} is its own ancestor; parents must lead to a root")]
    Cycle {
        /// A node on the cycle.
        node: NodeRef,
    },
    /// A node with more than [`MAX_DEPTH`] - 1 ancestors.
    #[error("{node} is more than {MAX_DEPTH} levels deep, its root being level 1")]
    TooDeep {
        /// A first node below the deepest legal level.
        node: NodeRef,
    },
    /// A kind and id that an earlier node has already.
    #[error("{node} repeats the scope of node {first}; each may occur once")]
    DuplicateScope {
        /// The later node.
        node: NodeRef,
        /// The index of the earlier node.
        first: usize,
    },
    /// A limit above [`MAX_LIMIT`].
    #[error("{node} has {dimension} limit {limit}; at most {MAX_LIMIT} is allowed")]
    LimitTooLarge {
        /// The node.
        node: NodeRef,
        /// Which of its limits.
        dimension: Dimension,
        /// The limit, per minute.
        limit: u64,
    },
    /// A node whose children are promised more than [`MAX_LIMIT`] together, so that what they hold could not be
    /// counted exactly.
    #[error(
        "{node} promises {promised} {dimension} to the nodes below it; at most {MAX_LIMIT} can be promised"
    )]
    PromisedTooMuch {
        /// The node.
        node: NodeRef,
        /// In which dimension.
        dimension: Dimension,
        /// The sum of its children's limits, a child without one counting as what it promises itself.
        promised: u128,
    },
    /// New limits for an index that is no node.
    #[error("there is no node {index}; the tree has {nodes}")]
    NoSuchNode {
        /// The index that was given.
        index: usize,
        /// How many nodes there are; an index must be below this.
        nodes: usize,
    },
}

/// A path that is not one of the tree's. A retry with the same tree cannot help; the caller may hold a path of
/// another configuration version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// An index that is no node.
    #[error("path position {position} names node {index}; the tree has {nodes} nodes")]
    NoSuchNode {
        /// Where in the path, from 0.
        position: usize,
        /// The index that it names.
        index: usize,
        /// How many nodes there are; an index must be below this.
        nodes: usize,
    },
    /// A step that does not go to the parent, so that a level would go uncounted or unchecked.
    #[error(
        "path position {position} is followed by node {next:?}; the parent of node {index} is {parent:?}"
    )]
    NotAChain {
        /// Where in the path, from 0.
        position: usize,
        /// The node at that position.
        index: usize,
        /// Its parent; `None` at a root, where the path must end.
        parent: Option<usize>,
        /// What follows it in the path; `None` when the path ends there.
        next: Option<usize>,
    },
    /// A root that a flat path names twice, and that would be counted twice.
    #[error("path names node {index} more than once")]
    Repeated {
        /// The node.
        index: usize,
    },
}

/// Counters or an estimate that cannot be decided upon. Nothing was decided and no counter moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// A slice of counters that does not fit: one entry is needed for each node of the tree, or for each node of the
    /// path where only the path's are given. A retry cannot help.
    #[error("usage has {entries} entries; {nodes} nodes need one each")]
    LengthMismatch {
        /// Length of the slice.
        entries: usize,
        /// Nodes of the tree or of the path.
        nodes: usize,
    },
    /// A plan of another tree than the window's. A retry with a plan made of [`Window::tree`](crate::Window::tree)
    /// helps.
    #[error("the plan was made of another tree than the window; make it of the window's own")]
    ForeignPlan,
    /// Incremental state that does not fit the tree: it was left by another configuration. A retry helps after
    /// [`rebuild`](crate::rebuild).
    #[error(
        "what node {index} has released in {dimension} does not fit the tree; rebuild it from the counters"
    )]
    Stale {
        /// The node.
        index: usize,
        /// In which dimension.
        dimension: Dimension,
    },
    /// An estimate above [`MAX_LIMIT`] tokens. A retry cannot help.
    #[error("estimate is {estimate} tokens; at most {MAX_LIMIT} can be counted")]
    EstimateTooLarge {
        /// The estimate, in tokens.
        estimate: i64,
    },
    /// A counter that is above [`MAX_LIMIT`] already: it was not read from where this crate's counters are kept.
    /// A retry cannot help within the minute.
    #[error("node {index} has used {used} {dimension}; a counter is at most {MAX_LIMIT}")]
    CounterTooLarge {
        /// The node.
        index: usize,
        /// Which counter.
        dimension: Dimension,
        /// Its value.
        used: u64,
    },
    /// Every limit admits the request, or it is being corrected, but counting it would take a counter above
    /// [`MAX_LIMIT`]. A retry can help in the next minute, whose counters start at zero.
    #[error("node {index} has used {used} {dimension}; {demand} more would exceed {MAX_LIMIT}")]
    CounterFull {
        /// The node.
        index: usize,
        /// Which counter.
        dimension: Dimension,
        /// Its value.
        used: u64,
        /// What would be added.
        demand: u64,
    },
}
