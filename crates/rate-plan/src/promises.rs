//! What every node promises to the allocations below it before anything is used.

use alloc::{boxed::Box, vec};

use crate::topology::Topology;
use crate::{Dimension, MAX_LIMIT, Node, Usage};

/// S0 of every node: the sum over its children of their limit, or of their own S0 where they share.
///
/// It depends on the configuration alone, so it is computed once; in a minute only what has been *released* from it
/// is kept. The bound makes both exact in 53 bits.
#[derive(Clone, Debug)]
pub(crate) struct Promises(Box<[Usage]>);

/// A node that promises more than can be counted exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PromisedTooMuch {
    pub(crate) node: usize,
    pub(crate) dimension: Dimension,
    pub(crate) promised: u128,
}

impl Promises {
    pub(crate) fn new(nodes: &[Node], topology: &Topology) -> Result<Self, PromisedTooMuch> {
        let mut promised = vec![Usage::default(); nodes.len()];
        // Without parents nothing is promised: a flat tree is made for each request, and pays nothing here.
        if !topology.is_flat() {
            for node in topology.bottom_up() {
                for dimension in Dimension::ALL {
                    let passed_up = |&child: &usize| {
                        let shared = promised[child].get(dimension);
                        u128::from(nodes[child].limits.get(dimension).unwrap_or(shared))
                    };
                    let sum: u128 = topology.children(node).iter().map(passed_up).sum();
                    *promised[node].get_mut(dimension) = u64::try_from(sum)
                        .ok()
                        .filter(|&sum| sum <= MAX_LIMIT)
                        .ok_or(PromisedTooMuch { node, dimension, promised: sum })?;
                }
            }
        }
        Ok(Self(promised.into()))
    }

    /// S0 of a node; 0 if it is no node.
    pub(crate) fn at(&self, node: usize, dimension: Dimension) -> u64 {
        self.0.get(node).map_or(0, |promised| promised.get(dimension))
    }
}
