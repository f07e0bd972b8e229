//! Moving a minute's counters to another version of the tree.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rate_plan::{Decision, RateTree, UsageError};
use redis::Value;
use spend_queue::ScopeRef;

use super::call::{Call, Reply, field, limits, pack_texts};
use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, script};

/// How long a turn lasts: longer than a rebuild of 100,000 nodes, and well within a deadline, for when its holder has gone.
const TURN: Duration = Duration::from_millis(500);

/// Whose work a rebuild is.
pub(super) enum Turn {
    /// Nobody's any more.
    Done,
    /// This call's.
    Mine,
    /// Another gateway's, or another call's of this one.
    Anothers,
}

impl LiveRedis {
    /// Asks who rebuilds the hash at `key` for the call's tree. Of many that meet another version at once, as after a change of
    /// limits or a fail-over, one gets the turn, so that the others send and compute nothing.
    pub(super) async fn turn(&self, key: &str, call: &Call<'_>) -> Result<Turn, LiveRedisError> {
        match self.call_turn(key, call, TURN).await? {
            0 => Ok(Turn::Done),
            1 => Ok(Turn::Mine),
            2 => Ok(Turn::Anothers),
            other => Err(CallError::Answer(format!("the turn to rebuild is {other}")).into()),
        }
    }

    async fn call_turn(&self, key: &str, call: &Call<'_>, lasts: Duration) -> Result<i64, LiveRedisError> {
        let mut invocation = script::TURN.key(key);
        invocation.arg(&call.version()[..]).arg(lasts.as_millis());
        self.hot_script(&invocation).await
    }

    /// Rebuilds in this call's turn and decides the call. A turn that came to nothing is given back, so that the next one learns
    /// why without waiting.
    pub(super) async fn rebuild(
        &self,
        key: &str,
        call: &Call<'_>,
    ) -> Result<Vec<Result<Decision, UsageError>>, LiveRedisError> {
        let decided = self.rebuild_in_turn(key, call).await;
        if decided.is_err()
            && let Err(error) = self.call_turn(key, call, Duration::ZERO).await
        {
            tracing::debug!(%error, "the turn to rebuild ends by itself");
        }
        decided
    }

    /// Rebuilds the releases of the hash at `key` for the call's tree and decides the call, in one script.
    ///
    /// Only nodes that were used in this minute can have released anything, so only they and their ancestors are
    /// sent. A node that is used for the first time in between makes the script ask again.
    async fn rebuild_in_turn(
        &self,
        key: &str,
        call: &Call<'_>,
    ) -> Result<Vec<Result<Decision, UsageError>>, LiveRedisError> {
        loop {
            let mut read = redis::cmd("HKEYS");
            read.arg(key);
            let used: Vec<Vec<u8>> = self.wide(&read).await?;
            let mut invocation = script::REBUILD.key(key);
            call.batch_arguments(&mut invocation);
            let moved = Moved::of(call, &used)?;
            invocation.arg(moved.foreign);
            for piece in moved.nodes.chunks(PIECE) {
                let shape: Vec<u8> = piece.iter().flat_map(|node| node.shape).collect();
                invocation.arg(shape).arg(pack_texts(piece.iter().map(|node| node.field.as_str())));
            }
            let answer: Vec<Value> = self.hot_script(&invocation).await?;
            if matches!(&answer[..], [Value::BulkString(code)] if code == b"A") {
                continue;
            }
            return match call.reply(answer)? {
                Reply::Decided { decisions, .. } => Ok(decisions),
                Reply::OtherMinute { .. } | Reply::OtherVersion { .. } => {
                    Err(CallError::Answer("a rebuild was asked to rebuild".into()).into())
                }
            };
        }
    }
}

/// How many nodes one piece of the arguments describes: a script cannot unpack some thousands of values.
const PIECE: usize = 1000;

/// Fields of the hash that are no counters.
const OWN: [&[u8]; 2] = [b"v", b"t"];

/// What a rebuild must know.
struct Moved {
    /// Children before their parents.
    nodes: Vec<Shape>,
    /// Fields that are no nodes.
    foreign: usize,
}

/// A node as the script reads it.
struct Shape {
    field: String,
    /// Limits, and the number of the parent among all nodes or 0.
    shape: [u8; 20],
}

impl Moved {
    fn of(call: &Call<'_>, used: &[Vec<u8>]) -> Result<Self, LiveRedisError> {
        let used = used.iter().map(Vec::as_slice).filter(|field| !OWN.contains(field));
        if call.tree().is_flat() { Ok(Self::flat(call, used)) } else { Self::tree(call, used) }
    }

    /// Flat scopes hold nothing for each other, whoever's they are. So every field is one, that of an earlier tree too: the mark
    /// that the script sets speaks for all flat lists, also for those of other callers.
    fn flat<'a>(call: &'a Call<'_>, used: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut foreign = 0;
        let mut fields: BTreeSet<&str> = call.fields().iter().map(String::as_str).collect();
        for field in used {
            match std::str::from_utf8(field) {
                Ok(field) => drop(fields.insert(field)),
                Err(_) => foreign += 1,
            }
        }
        let mut shape = [0xff; 20];
        shape[16..].fill(0);
        let nodes = fields.into_iter().map(|field| Shape { field: field.to_owned(), shape });
        Self { nodes: nodes.collect(), foreign }
    }

    fn tree<'a>(call: &Call<'_>, used: impl Iterator<Item = &'a [u8]>) -> Result<Self, LiveRedisError> {
        let tree = call.tree();
        let mut wanted = vec![false; tree.len()];
        let mut foreign = 0;
        let known = used.filter_map(|field| {
            let node = find(tree, field);
            foreign += usize::from(node.is_none());
            node
        });
        let asked = call.fields().iter().filter_map(|field| find(tree, field.as_bytes()));
        for node in known.chain(asked) {
            let mut next = Some(node);
            // An ancestor that is wanted already has all of its own.
            while let Some(node) = next.filter(|&node| !wanted[node]) {
                wanted[node] = true;
                next = tree.nodes()[node].parent;
            }
        }
        let nodes: Vec<usize> = tree.bottom_up().filter(|&node| wanted[node]).collect();
        let places: HashMap<usize, u32> = (1..).zip(&nodes).map(|(place, &node)| (node, place)).collect();
        let shape = |&node: &usize| {
            let mut shape = [0; 20];
            shape.iter_mut().zip(limits(tree, node)).for_each(|(byte, limit)| *byte = limit);
            let parent = tree.nodes()[node].parent.and_then(|parent| places.get(&parent).copied());
            shape[16..].copy_from_slice(&parent.unwrap_or(0).to_be_bytes());
            Ok(Shape { field: field(&tree.nodes()[node].scope)?, shape })
        };
        Ok(Self { nodes: nodes.iter().map(shape).collect::<Result<_, LiveRedisError>>()?, foreign })
    }
}

/// The node whose field this is.
fn find(tree: &RateTree, field: &[u8]) -> Option<usize> {
    let scope: ScopeRef = std::str::from_utf8(field).ok()?.parse().ok()?;
    tree.find(scope.kind(), scope.id())
}
