//! The shape of a forest: who is below whom, and an order in which children come before parents.

use alloc::{boxed::Box, vec, vec::Vec};

/// The most nodes on a path from a root, the root included.
pub const MAX_DEPTH: usize = 32;

/// Children and levels of a forest whose parent indices are in range.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// Every node, level by level from the roots, so that the children of one node stand side by side.
    by_level: Box<[usize]>,
    /// Children of node `i`: `by_level[children[i].0 .. children[i].1]`.
    children: Box<[(usize, usize)]>,
    roots: usize,
}

/// Why parent indices are no forest; the field is the node at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Cycle(usize),
    TooDeep(usize),
}

impl Topology {
    /// Orders a forest in O(n) time and space, without recursion. Every parent must be below `parents.len()`.
    pub(crate) fn new(parents: &[Option<usize>]) -> Result<Self, Malformed> {
        let unordered = Siblings::new(parents);
        let mut by_level = Vec::with_capacity(parents.len());
        let mut children = vec![(0, 0); parents.len()];
        by_level.extend((0..parents.len()).filter(|&i| parents[i].is_none()));

        let roots = by_level.len();
        let mut level = 0..roots;
        for _ in 1..=MAX_DEPTH {
            for position in level.clone() {
                let node = by_level[position];
                let start = by_level.len();
                by_level.extend_from_slice(unordered.of(node));
                children[node] = (start, by_level.len());
            }
            level = level.end..by_level.len();
        }
        if let Some(&node) = by_level.get(level.start) {
            return Err(Malformed::TooDeep(node));
        }
        if by_level.len() < parents.len() {
            return Err(Malformed::Cycle(on_a_cycle(parents, &by_level)));
        }
        Ok(Self { by_level: by_level.into(), children: children.into(), roots })
    }

    /// Children of a node in rising order; none if it is no node.
    pub(crate) fn children(&self, node: usize) -> &[usize] {
        let (start, end) = self.children.get(node).copied().unwrap_or_default();
        &self.by_level[start..end]
    }

    /// Whether every node is a root.
    pub(crate) fn is_flat(&self) -> bool {
        self.roots == self.by_level.len()
    }

    /// Every node once, each after all of its children.
    pub(crate) fn bottom_up(&self) -> impl Iterator<Item = usize> + '_ {
        self.by_level.iter().rev().copied()
    }
}

/// The children of every node in compressed rows: those of `i` are `members[offsets[i]..offsets[i + 1]]`.
struct Siblings {
    offsets: Vec<usize>,
    members: Vec<usize>,
}

impl Siblings {
    fn new(parents: &[Option<usize>]) -> Self {
        let mut offsets = vec![0; parents.len() + 1];
        for &parent in parents.iter().flatten() {
            offsets[parent + 1] += 1;
        }
        for i in 0..parents.len() {
            offsets[i + 1] += offsets[i];
        }
        let mut next = offsets.clone();
        let mut members = vec![0; offsets[parents.len()]];
        for (child, parent) in parents.iter().enumerate() {
            if let Some(parent) = *parent {
                members[next[parent]] = child;
                next[parent] += 1;
            }
        }
        Self { offsets, members }
    }

    fn of(&self, node: usize) -> &[usize] {
        &self.members[self.offsets[node]..self.offsets[node + 1]]
    }
}

/// A node on a cycle, given that some node is not among those `reached` from the roots.
fn on_a_cycle(parents: &[Option<usize>], reached: &[usize]) -> usize {
    let mut unreached = vec![true; parents.len()];
    for &node in reached {
        unreached[node] = false;
    }
    let mut node = unreached.iter().position(|&it| it).unwrap_or_default();
    // The parent of an unreached node is unreached too, so n steps up from any of them end on a cycle.
    for _ in 0..parents.len() {
        node = parents[node].unwrap_or(node);
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with `len - 1` nodes below it, one under the other, listed leaf first.
    fn chain(len: usize) -> Vec<Option<usize>> {
        (1..=len).map(|parent| (parent < len).then_some(parent)).collect()
    }

    #[test]
    fn children_come_in_rising_order_and_before_their_parents() {
        let topology = Topology::new(&[Some(3), Some(3), Some(0), None, None, Some(0)]).unwrap();
        assert_eq!(topology.children(3), [0, 1]);
        assert_eq!(topology.children(0), [2, 5]);
        assert_eq!(topology.children(2), []);
        assert_eq!(topology.children(4), []);
        assert_eq!(topology.bottom_up().collect::<Vec<_>>(), [5, 2, 1, 0, 4, 3]);
    }

    #[test]
    fn a_node_that_does_not_exist_has_no_children() {
        assert_eq!(Topology::new(&[None]).unwrap().children(1), []);
        assert_eq!(Topology::new(&[]).unwrap().children(0), []);
    }

    #[test]
    fn the_deepest_legal_level_is_accepted_and_the_next_is_not() {
        assert!(Topology::new(&chain(MAX_DEPTH)).is_ok());
        assert_eq!(Topology::new(&chain(MAX_DEPTH + 1)).unwrap_err(), Malformed::TooDeep(0));
    }

    #[test]
    fn a_very_deep_chain_is_refused_without_overflowing_the_stack() {
        assert_eq!(Topology::new(&chain(1_000_000)).unwrap_err(), Malformed::TooDeep(1_000_000 - 33));
    }

    #[test]
    fn the_node_named_is_on_the_cycle_and_not_merely_below_it() {
        // 0 -> 1 -> 2 -> 1, beside a healthy root.
        let fault = Topology::new(&[Some(1), Some(2), Some(1), None]).unwrap_err();
        assert!(matches!(fault, Malformed::Cycle(1 | 2)), "{fault:?}");
        assert_eq!(Topology::new(&[Some(0)]).unwrap_err(), Malformed::Cycle(0));
    }
}
