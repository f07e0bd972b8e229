//! What proves that the head of a list is what was committed.

use core::fmt;

use sha1::{Digest, Sha1};

/// A digest of raw entries in their order, their bounds included.
///
/// It begins as 40 zeros and becomes, with each entry, `sha1(hex(digest) ++ entry)`. Entry by entry, so that a script compares
/// 8 MiB without a second copy of them. Like [`crate::Chain`], it guards against accidents and is no signature. The chain can
/// not stand in for it: links prove what was enqueued, and not that nothing else stands between two copies of linked entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixDigest([u8; 20]);

impl PrefixDigest {
    /// Of these entries, the oldest first.
    pub fn of<E: AsRef<[u8]>>(entries: impl IntoIterator<Item = E>) -> Self {
        entries.into_iter().fold(Self([0; 20]), |before, entry| {
            let mut hash = Sha1::new();
            hash.update(hex::encode(before.0));
            hash.update(entry);
            Self(hash.finalize().into())
        })
    }
}

impl fmt::Display for PrefixDigest {
    /// 40 lowercase hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for PrefixDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixDigest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_every_byte_and_on_order_and_bounds() {
        let digest = PrefixDigest::of(["ab", "c"]);
        assert_eq!(digest, PrefixDigest::of([b"ab".to_vec(), b"c".to_vec()]));
        for other in [&["ab"][..], &["abc"], &["a", "bc"], &["c", "ab"], &["ab", "C"], &["ab", "c", ""], &[]]
        {
            assert_ne!(PrefixDigest::of(other), digest, "{other:?}");
        }
    }
}
