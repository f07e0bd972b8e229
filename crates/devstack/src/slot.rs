//! Slots of a Redis Cluster: which one a key is in, and how one moves to another node.

use std::time::Duration;

use crate::cluster::{Node, RedisCluster, call};
use crate::cluster_view::SLOTS;
use crate::error::{DevstackError, Result};
use crate::group::in_range;

/// How many keys one `MIGRATE` carries.
const BATCH: usize = 100;

/// Less than our own patience, so that the reason of a failure is Redis's.
const MIGRATE_TIMEOUT_MS: &[u8] = b"1500";

const AGREED_WITHIN: Duration = Duration::from_secs(30);

/// A slot on its way to another node, begun by [`RedisCluster::begin_slot_move`].
///
/// While it is: a key that is gone (or never was) makes the old node answer `ASK`, several keys of which some are
/// gone `TRYAGAIN`, and the new node answers `MOVED` to whoever has not said `ASKING`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "until it is finished, the slot's new keys cannot be reached without ASK redirections"]
pub struct SlotMove {
    slot: u16,
    from: usize,
    to: usize,
}

impl SlotMove {
    /// The slot.
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// The index of the node that the slot leaves.
    pub fn from(&self) -> usize {
        self.from
    }

    /// The index of the node that gets the slot.
    pub fn to(&self) -> usize {
        self.to
    }
}

impl RedisCluster {
    /// The slot of a key: CRC16 (XMODEM) modulo 16384 of what stands between its first `{` and the next `}`, or of
    /// the whole key if that is nothing; Redis Cluster specification, "Hash tags".
    pub fn key_slot(key: &[u8]) -> u16 {
        let open = key.iter().position(|byte| *byte == b'{');
        let tag = open.and_then(|open| {
            let rest = key.get(open + 1..)?;
            rest.get(..rest.iter().position(|byte| *byte == b'}')?)
        });
        crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
    }

    /// Moves a slot (0 to 16383) with its keys to the node of that index, which must be a primary, and waits until
    /// all nodes know it.
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`] for the numbers; [`DevstackError::Redis`] when a node refuses, the slot's owner
    /// as its own target included; [`DevstackError::NotSettled`] when the nodes do not agree in 30 s.
    pub fn move_slot(&self, slot: u16, to: usize) -> Result<()> {
        let slot_move = self.begin_slot_move(slot, to)?;
        self.finish_slot_move(&slot_move)
    }

    /// Begins such a move: from now on, the slot's new keys are created on the new node.
    ///
    /// # Errors
    ///
    /// As [`move_slot`](Self::move_slot).
    pub fn begin_slot_move(&self, slot: u16, to: usize) -> Result<SlotMove> {
        let from = self.primary_of(slot)?;
        let (source, target) = (self.node(from)?, self.node(to)?);
        let number = slot.to_string();
        call(&target.server, &["CLUSTER", "SETSLOT", &number, "IMPORTING", &source.id])?;
        call(&source.server, &["CLUSTER", "SETSLOT", &number, "MIGRATING", &target.id])?;
        Ok(SlotMove { slot, from, to })
    }

    /// Moves at most so many of the slot's keys, whichever Redis lists first, and returns how many it moved.
    ///
    /// # Errors
    ///
    /// [`DevstackError::Redis`].
    pub fn migrate_keys(&self, slot_move: &SlotMove, count: usize) -> Result<usize> {
        let (source, target) = (self.node(slot_move.from)?, self.node(slot_move.to)?);
        let doing = format!("move keys of slot {}", slot_move.slot);
        let step = |count| migrate(source, target, slot_move.slot, count);
        let mut moved = 0;
        while moved < count {
            match step(BATCH.min(count - moved)).map_err(DevstackError::redis(&doing))? {
                0 => break,
                keys => moved += keys,
            }
        }
        Ok(moved)
    }

    /// Moves the keys that are left, makes the new node the owner, and waits until all nodes know it. It may be
    /// repeated after an error.
    ///
    /// # Errors
    ///
    /// As [`move_slot`](Self::move_slot).
    pub fn finish_slot_move(&self, slot_move: &SlotMove) -> Result<()> {
        while self.migrate_keys(slot_move, usize::MAX)? > 0 {}
        let SlotMove { slot, from, to } = *slot_move;
        let (source, target) = (self.node(from)?, self.node(to)?);
        // The new owner first: were the old one the first to know, a request could be sent back and forth.
        for node in [target, source] {
            call(&node.server, &["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &target.id])?;
        }
        self.wait_ok(AGREED_WITHIN)
    }

    fn node(&self, index: usize) -> Result<&Node> {
        in_range("the node's index", index, 0, self.nodes.len().saturating_sub(1))?;
        let missing = || "there is no such node".to_owned();
        self.nodes.get(index).ok_or_else(missing).map_err(DevstackError::redis(format!("find node {index}")))
    }
}

fn migrate(source: &Node, target: &Node, slot: u16, count: usize) -> Result<usize, String> {
    let mut connection = source.server.connect()?;
    let (slot, count) = (slot.to_string(), count.to_string());
    let keys = connection.list(&[b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), count.as_bytes()])?;
    if keys.is_empty() {
        return Ok(0);
    }
    let port = target.server.port().to_string();
    let mut command: Vec<&[u8]> =
        vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", MIGRATE_TIMEOUT_MS];
    if let Some(password) = &target.server.options.password {
        command.extend([b"AUTH", password.as_bytes()]);
    }
    command.push(b"KEYS");
    command.extend(keys.iter().map(Vec::as_slice));
    connection.call(&command)?;
    Ok(keys.len())
}

/// CRC16 of the XMODEM kind: polynomial 0x1021, start 0, bits in their natural order.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_specifications() {
        // Redis Cluster specification, appendix A.
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn slots_of_keys_are_those_that_redis_computes() {
        let cluster = RedisCluster::builder().primaries(1).start().unwrap();
        let mut redis = cluster.nodes[0].server.connect().unwrap();
        let keys: [&[u8]; 9] =
            [b"", b"a", b"{a}b", b"x{a}{b}", b"{}a", b"{a", b"a}{b}", b"{{a}}", b"\xff\x00{\xfe}"];
        for key in keys {
            let told = redis.call(&[b"CLUSTER", b"KEYSLOT", key]).unwrap();
            assert_eq!(RedisCluster::key_slot(key).to_string(), told, "{key:?}");
        }
    }
}
