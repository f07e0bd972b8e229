//! Moving a minute's counters to another version of the tree.

use std::collections::HashMap;

use rate_plan::{Decision, RateTree, UsageError};
use redis::Value;
use spend_queue::ScopeRef;

use super::call::{Call, Reply, field, limits, pack_texts};
use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, script};

impl LiveRedis {
    /// Rebuilds the releases of the hash at `key` for the call's tree and decides the call, in one script.
    ///
    /// Only nodes that were used in this minute can have released anything, so only they and their ancestors are
    /// sent. A node that is used for the first time in between makes the script ask again.
    pub(super) async fn rebuild(
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
            let moved = Moved::of(call, &used);
            invocation.arg(moved.foreign);
            moved.pieces(call.tree(), |shape, fields| {
                invocation.arg(shape).arg(fields);
            })?;
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

/// What a rebuild must know.
struct Moved {
    /// Tree indices, children before their parents.
    nodes: Vec<usize>,
    /// Fields that are no nodes of the tree.
    foreign: usize,
}

impl Moved {
    fn of(call: &Call<'_>, used: &[Vec<u8>]) -> Self {
        let tree = call.tree();
        let mut wanted = vec![false; tree.len()];
        let mut foreign = 0;
        let known = used.iter().filter(|field| field.as_slice() != b"v").filter_map(|field| {
            let node = find(tree, field);
            foreign += usize::from(node.is_none());
            node
        });
        for node in known.chain(call.nodes().iter().copied()) {
            let mut next = Some(node);
            // An ancestor that is wanted already has all of its own.
            while let Some(node) = next.filter(|&node| !wanted[node]) {
                wanted[node] = true;
                next = tree.nodes()[node].parent;
            }
        }
        Self { nodes: tree.bottom_up().filter(|&node| wanted[node]).collect(), foreign }
    }

    /// Hands over the nodes piece by piece: limits and parents, and the fields.
    fn pieces(&self, tree: &RateTree, mut hand_over: impl FnMut(&[u8], &[u8])) -> Result<(), LiveRedisError> {
        let places: HashMap<usize, u32> =
            (1..).zip(&self.nodes).map(|(place, &node)| (node, place)).collect();
        for piece in self.nodes.chunks(PIECE) {
            let mut shape = Vec::with_capacity(piece.len() * 20);
            let mut fields = Vec::with_capacity(piece.len());
            for &node in piece {
                shape.extend(limits(tree, node));
                let parent = tree.nodes()[node].parent.and_then(|parent| places.get(&parent).copied());
                shape.extend(parent.unwrap_or(0).to_be_bytes());
                fields.push(field(&tree.nodes()[node].scope)?);
            }
            hand_over(&shape, &pack_texts(&fields));
        }
        Ok(())
    }
}

/// The node whose field this is.
fn find(tree: &RateTree, field: &[u8]) -> Option<usize> {
    let scope: ScopeRef = std::str::from_utf8(field).ok()?.parse().ok()?;
    tree.find(scope.kind(), scope.id())
}
