//! The baseline: a script that reads the whole tree for every request.

use std::collections::HashMap;

use anyhow::{Result, bail};
use rate_plan::RatePlan;
use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::common::server::field;
use crate::common::shape::Shape;

/// The script and what it is told of one tree.
pub(crate) struct FullTree {
    script: Script,
    /// Number of each node, children before their parents, from 1.
    numbers: HashMap<usize, usize>,
    /// Field, parent, limits of each.
    nodes: Vec<String>,
}

impl FullTree {
    pub(crate) fn of(shape: &Shape) -> Self {
        let tree = &shape.tree;
        let numbers: HashMap<_, _> = tree.bottom_up().zip(1..).collect();
        let limit = |limit: Option<u64>| limit.map_or_else(|| "-1".to_owned(), |limit| limit.to_string());
        let mut nodes = Vec::with_capacity(tree.len() * 4);
        for at in tree.bottom_up() {
            let node = &tree.nodes()[at];
            let parent = node.parent.and_then(|parent| numbers.get(&parent)).copied().unwrap_or(0);
            nodes.extend([
                field(tree, at),
                parent.to_string(),
                limit(node.limits.rpm),
                limit(node.limits.tpm),
            ]);
        }
        Self { script: Script::new(include_str!("../baseline/admit_tree.lua")), numbers, nodes }
    }

    /// Decides and counts one request in the hash at `key`.
    pub(crate) async fn admit(
        &self,
        connection: &mut MultiplexedConnection,
        key: &str,
        plan: &RatePlan,
        tokens: i64,
    ) -> Result<()> {
        let path = plan.path().as_slice();
        let mut invocation = self.script.key(key);
        invocation.arg(120).arg(tokens).arg(self.numbers.len()).arg(path.len());
        for node in path {
            invocation.arg(self.numbers[node]);
        }
        for argument in &self.nodes {
            invocation.arg(argument);
        }
        let answer: Vec<i64> = invocation.invoke_async(connection).await?;
        if answer != [1] {
            bail!("the full-tree script refused: {answer:?}");
        }
        Ok(())
    }
}
