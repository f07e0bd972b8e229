//! Plans: a tree together with the path of one request.

use alloc::{sync::Arc, vec::Vec};
use core::fmt;

use crate::{PathError, RateTree};

/// Indices of the nodes of one request, leaf to root.
///
/// A path owns its indices and is cheap to clone, so it can outlive its tree or wait in a queue. It is valid for the
/// tree that made it; [`RatePlan::new`] validates it again for whatever tree it is used with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(Arc<[usize]>);

impl Path {
    /// The path of no node, legal in every tree: it is admitted and counts nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The indices, leaf to root.
    #[must_use]
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// How many nodes the path has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is the path of no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn from_leaf(tree: &RateTree, leaf: usize) -> Result<Self, PathError> {
        if leaf >= tree.len() {
            return Err(PathError::NoSuchNode { position: 0, index: leaf, nodes: tree.len() });
        }
        let indices = core::iter::successors(Some(leaf), |&i| tree.nodes()[i].parent);
        Ok(Self(indices.collect()))
    }

    pub(crate) fn from_indices(tree: &RateTree, indices: Vec<usize>) -> Result<Self, PathError> {
        validate(tree, &indices)?;
        Ok(Self(indices.into()))
    }
}

/// A path in the tree that it belongs to: all that admission needs to know about a request's limits.
///
/// It shares the tree, so that a decision cannot meet an index that is not there. A clone costs two reference counts;
/// a plan can be made once for a key and configuration version, kept, sent to other threads and queued.
#[derive(Clone)]
pub struct RatePlan {
    tree: Arc<RateTree>,
    path: Path,
}

impl RatePlan {
    /// Joins a tree and a path that was made earlier, perhaps by an older version of the tree.
    /// O(path), or O(path log path) in a flat tree.
    ///
    /// # Errors
    ///
    /// [`PathError`] when the path is none of this tree's. Indices that exist and form a chain are accepted: whether
    /// they still mean the same scopes is for the caller to know.
    pub fn new(tree: Arc<RateTree>, path: Path) -> Result<Self, PathError> {
        validate(&tree, path.as_slice())?;
        Ok(Self { tree, path })
    }

    /// A plan of a path that this very tree has just made.
    pub(crate) const fn trusted(tree: Arc<RateTree>, path: Path) -> Self {
        Self { tree, path }
    }

    /// The tree.
    #[must_use]
    pub const fn tree(&self) -> &Arc<RateTree> {
        &self.tree
    }

    /// The path, leaf to root.
    #[must_use]
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// The path alone, to be kept without the tree.
    #[must_use]
    pub fn into_path(self) -> Path {
        self.path
    }
}

/// Not the tree, which may have a hundred thousand nodes.
impl fmt::Debug for RatePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RatePlan")
            .field("tree", &format_args!("{}", self.tree.fingerprint()))
            .field("path", &self.path.as_slice())
            .finish()
    }
}

fn validate(tree: &RateTree, indices: &[usize]) -> Result<(), PathError> {
    let nodes = tree.len();
    if let Some(position) = indices.iter().position(|&i| i >= nodes) {
        return Err(PathError::NoSuchNode { position, index: indices[position], nodes });
    }
    if tree.is_flat() { validate_distinct(indices) } else { validate_chain(tree, indices) }
}

/// A tree has no cycle, so a chain cannot repeat a node and is at most as long as the tree is deep.
fn validate_chain(tree: &RateTree, indices: &[usize]) -> Result<(), PathError> {
    for (position, &index) in indices.iter().enumerate() {
        let parent = tree.nodes()[index].parent;
        let next = indices.get(position + 1).copied();
        if next != parent {
            return Err(PathError::NotAChain { position, index, parent, next });
        }
    }
    Ok(())
}

fn validate_distinct(indices: &[usize]) -> Result<(), PathError> {
    let mut sorted = indices.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(PathError::Repeated { index: pair[0] }),
        None => Ok(()),
    }
}
