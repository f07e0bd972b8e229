//! The hash chain that makes one entry prove all entries before it.

use core::fmt;
use core::str::FromStr;

use sha1::{Digest, Sha1};

use crate::Millis;

/// The SHA-1 link of one entry: `sha1(hex(previous link) ++ seq ++ "," ++ queued ++ "," ++ body)`, numbers in decimal.
///
/// It guards against accidents (a diverged fail-over, a foreign writer, a restore), for which SHA-1 is ample
/// and the one digest that a Redis script can compute; it is no signature against an attacker with write access.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chain([u8; 20]);

impl Chain {
    /// The link before the first entry of a queue that never held one.
    pub const GENESIS: Self = Self([0; 20]);

    /// The link of the entry with this sequence number, time of queueing and body, right after the entry that `self`
    /// belongs to.
    #[must_use]
    pub fn next(self, seq: u64, queued: Millis, body: impl AsRef<[u8]>) -> Self {
        let mut hash = Sha1::new();
        hash.update(format!("{self}{seq},{queued},"));
        hash.update(body);
        Self(hash.finalize().into())
    }

    /// The 20 bytes of the link.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl From<[u8; 20]> for Chain {
    fn from(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Chain {
    /// 40 lowercase hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({self})")
    }
}

impl FromStr for Chain {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 20];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Millis = Millis::EPOCH;

    #[test]
    fn a_link_depends_on_everything_before_it() {
        let one = Chain::GENESIS.next(1, AT, "\"a\"}");
        assert_eq!(one, Chain::GENESIS.next(1, AT, "\"a\"}"));
        assert_ne!(one, Chain::GENESIS.next(2, AT, "\"a\"}"));
        assert_ne!(one, Chain::GENESIS.next(1, AT, "\"b\"}"));
        assert_ne!(one, Chain::GENESIS.next(1, Millis::LATEST, "\"a\"}"));
        assert_ne!(one.next(2, AT, "\"c\"}"), Chain::GENESIS.next(2, AT, "\"c\"}"));
    }

    #[test]
    fn the_text_reads_back() {
        let chain = Chain::GENESIS.next(9, AT, "}");
        assert_eq!(chain.to_string().parse(), Ok(chain));
        assert!("00".parse::<Chain>().is_err());
        assert_eq!(format!("{chain:?}"), format!("Chain({chain})"));
    }
}
