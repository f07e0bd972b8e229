//! Which configuration a tree is: the same on every replica, however it lists the nodes.

use core::fmt;

use sha2::{Digest, Sha256};

use crate::{Dimension, Node, Scope};

/// Names the encoding that is hashed. Another encoding must have another number, or two releases could take
/// different trees for one.
const ENCODING: &[u8] = b"rate-plan tree\x01";

/// The identity of a tree's configuration: scopes, parents and limits, in any order of nodes.
///
/// Whoever keeps incremental state keeps this beside it, and recomputes the state when it meets another one. It is
/// the first 16 bytes of a SHA-256, so that no tenant can choose ids for which two configurations look alike.
/// `Display` writes 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The fingerprint of every flat tree. Independent roots reserve nothing for each other, so a change of
    /// configuration never makes their state stale.
    pub const FLAT: Self = Self(*b"rate-plan flat 1");

    /// The bytes, as they are stored.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The fingerprint of a tree that is not flat. `in_scope_order` has every index once, by rising scope.
    pub(crate) fn new(nodes: &[Node], in_scope_order: &[usize]) -> Self {
        let mut hash = Sha256::new();
        hash.update(ENCODING);
        hash_number(&mut hash, nodes.len() as u64);
        for node in in_scope_order.iter().map(|&index| &nodes[index]) {
            hash_scope(&mut hash, &node.scope);
            match node.parent.map(|parent| &nodes[parent].scope) {
                None => hash.update([0]),
                Some(parent) => {
                    hash.update([1]);
                    hash_scope(&mut hash, parent);
                }
            }
            for dimension in Dimension::ALL {
                match node.limits.get(dimension) {
                    None => hash.update([0]),
                    Some(limit) => {
                        hash.update([1]);
                        hash_number(&mut hash, limit);
                    }
                }
            }
        }
        let mut fingerprint = [0; 16];
        for (byte, hashed) in fingerprint.iter_mut().zip(hash.finalize()) {
            *byte = hashed;
        }
        Self(fingerprint)
    }
}

/// Each part is preceded by its length, so that no two lists of scopes are the same bytes.
fn hash_scope(hash: &mut Sha256, scope: &Scope) {
    for part in [scope.kind(), scope.id()] {
        hash_number(hash, part.len() as u64);
        hash.update(part);
    }
}

fn hash_number(hash: &mut Sha256, number: u64) {
    hash.update(number.to_be_bytes());
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
