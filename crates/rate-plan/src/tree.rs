//! The allocation tree, valid by construction.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use crate::index::ScopeIndex;
use crate::promises::Promises;
use crate::topology::{Malformed, Topology};
use crate::{
    Dimension, Fingerprint, Limits, MAX_LIMIT, NodeRef, Path, PathError, RatePlan, Scope, TreeError,
};

/// The most nodes of one tree.
pub const MAX_NODES: usize = 100_000;

/// One node of a rate tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Node {
    /// Whom the limits apply to.
    pub scope: Scope,
    /// Index of the parent in the same list, before or after this node; `None` for a root.
    pub parent: Option<usize>,
    /// What the node may use in a minute.
    pub limits: Limits,
}

/// Nodes with limits, each below at most one parent. Several roots are legal.
///
/// A value of this type is valid: at most [`MAX_NODES`] nodes, at most [`MAX_DEPTH`](crate::MAX_DEPTH) levels, every
/// parent exists, no cycle, no scope twice, no limit above [`MAX_LIMIT`], no node with more than that promised below
/// it. It is immutable; share it behind an `Arc` and replace it when the configuration changes.
///
/// It is compiled: whatever admission needs of the configuration is computed here, once, so that a decision costs
/// what its path costs and not what the tree costs.
///
/// Children may be promised more than their parent has. That is a question for whoever writes the configuration;
/// here the parent's own limit then decides.
#[derive(Clone, Debug)]
pub struct RateTree {
    nodes: Box<[Node]>,
    topology: Topology,
    index: ScopeIndex,
    promises: Promises,
    fingerprint: Fingerprint,
}

impl RateTree {
    /// Validates and compiles nodes, in O(n) but for the scope index, which sorts. No nodes at all are legal.
    ///
    /// # Errors
    ///
    /// [`TreeError`], which names the node and the bound. Of several faults one is reported.
    pub fn new(nodes: Vec<Node>) -> Result<Self, TreeError> {
        if nodes.len() > MAX_NODES {
            return Err(TreeError::TooManyNodes { nodes: nodes.len() });
        }
        for (i, node) in nodes.iter().enumerate() {
            check_parent(&nodes, i)?;
            check_limits(i, node, node.limits)?;
        }
        let index = ScopeIndex::new(&nodes).map_err(|duplicate| TreeError::DuplicateScope {
            node: node_ref(&nodes, duplicate.later),
            first: duplicate.first,
        })?;
        let parents: Vec<Option<usize>> = nodes.iter().map(|node| node.parent).collect();
        let topology = Topology::new(&parents).map_err(|malformed| match malformed {
            Malformed::Cycle(i) => TreeError::Cycle { node: node_ref(&nodes, i) },
            Malformed::TooDeep(i) => TreeError::TooDeep { node: node_ref(&nodes, i) },
        })?;
        Self::compile(nodes.into(), topology, index)
    }

    /// What depends on the limits, once shape and scopes are known to be legal.
    fn compile(nodes: Box<[Node]>, topology: Topology, index: ScopeIndex) -> Result<Self, TreeError> {
        let promises = Promises::new(&nodes, &topology).map_err(|too_much| TreeError::PromisedTooMuch {
            node: node_ref(&nodes, too_much.node),
            dimension: too_much.dimension,
            promised: too_much.promised,
        })?;
        let fingerprint = if topology.is_flat() {
            Fingerprint::FLAT
        } else {
            Fingerprint::new(&nodes, index.in_scope_order())
        };
        Ok(Self { nodes, topology, index, promises, fingerprint })
    }

    /// A flat tree: every scope an independent root, which reserves nothing for another.
    ///
    /// # Errors
    ///
    /// [`TreeError`] for too many scopes, a scope that occurs twice, or a limit above [`MAX_LIMIT`].
    pub fn flat(scopes: Vec<(Scope, Limits)>) -> Result<Self, TreeError> {
        Self::new(scopes.into_iter().map(|(scope, limits)| Node { scope, parent: None, limits }).collect())
    }

    /// This tree with other limits for one node, as after a change of configuration. O(n).
    ///
    /// Counters are not part of a tree: the new limits may be below what was used in the minute already.
    ///
    /// # Errors
    ///
    /// [`TreeError::NoSuchNode`], [`TreeError::LimitTooLarge`] or [`TreeError::PromisedTooMuch`].
    pub fn with_limits(&self, index: usize, limits: Limits) -> Result<Self, TreeError> {
        let mut nodes = self.nodes.clone();
        let len = nodes.len();
        let node = nodes.get_mut(index).ok_or(TreeError::NoSuchNode { index, nodes: len })?;
        check_limits(index, node, limits)?;
        node.limits = limits;
        Self::compile(nodes, self.topology.clone(), self.index.clone())
    }

    /// Every node, in the order given.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node, if the index is in range.
    #[must_use]
    pub fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)
    }

    /// How many nodes there are, 0 to [`MAX_NODES`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether every node is a root, so that nothing is reserved for anyone. True for an empty tree.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.topology.is_flat()
    }

    /// Children of a node in rising order; none for an index out of range.
    pub fn children(&self, index: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.topology.children(index).iter().copied()
    }

    /// Index of the node with exactly this kind and id, in O(log n).
    #[must_use]
    pub fn find(&self, kind: &str, id: &str) -> Option<usize> {
        self.index.find(&self.nodes, kind, id)
    }

    /// The path of a node: itself and its ancestors. The node need not be without children.
    ///
    /// # Errors
    ///
    /// [`PathError::NoSuchNode`].
    pub fn path_from(&self, leaf: usize) -> Result<Path, PathError> {
        Path::from_leaf(self, leaf)
    }

    /// The path with these indices, leaf to root: each node followed by its parent and the last a root; or, in a
    /// flat tree, any distinct roots in the order in which they shall be checked. No index at all is legal.
    ///
    /// # Errors
    ///
    /// [`PathError`].
    pub fn path(&self, indices: Vec<usize>) -> Result<Path, PathError> {
        Path::from_indices(self, indices)
    }

    /// The plan of a request by this node: the tree with [`path_from`](Self::path_from).
    ///
    /// # Errors
    ///
    /// [`PathError::NoSuchNode`].
    pub fn plan(self: &Arc<Self>, leaf: usize) -> Result<RatePlan, PathError> {
        self.path_from(leaf).map(|path| RatePlan::trusted(Arc::clone(self), path))
    }

    /// The plan with these indices: the tree with [`path`](Self::path).
    ///
    /// # Errors
    ///
    /// [`PathError`].
    pub fn plan_of(self: &Arc<Self>, indices: Vec<usize>) -> Result<RatePlan, PathError> {
        self.path(indices).map(|path| RatePlan::trusted(Arc::clone(self), path))
    }

    /// S0 of a node: what it reserves for the allocations below it while nothing is used, 0 to [`MAX_LIMIT`]. The
    /// sum over its children of their limit, or of their own S0 where they are shared. 0 for an index out of range.
    #[must_use]
    pub fn promised(&self, node: usize, dimension: Dimension) -> u64 {
        self.promises.at(node, dimension)
    }

    /// The identity of this configuration; the same for every order of the same nodes, and one for all flat trees.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Every node once, each after all of its children.
    pub fn bottom_up(&self) -> impl Iterator<Item = usize> + '_ {
        self.topology.bottom_up()
    }
}

fn node_ref(nodes: &[Node], index: usize) -> NodeRef {
    NodeRef { index, scope: nodes[index].scope.clone() }
}

fn check_parent(nodes: &[Node], index: usize) -> Result<(), TreeError> {
    match nodes[index].parent {
        Some(parent) if parent >= nodes.len() => {
            Err(TreeError::ParentOutOfRange { node: node_ref(nodes, index), parent, nodes: nodes.len() })
        }
        _ => Ok(()),
    }
}

fn check_limits(index: usize, node: &Node, limits: Limits) -> Result<(), TreeError> {
    for dimension in Dimension::ALL {
        if let Some(limit) = limits.get(dimension).filter(|&limit| limit > MAX_LIMIT) {
            let node = NodeRef { index, scope: node.scope.clone() };
            return Err(TreeError::LimitTooLarge { node, dimension, limit });
        }
    }
    Ok(())
}
