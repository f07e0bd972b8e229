//! Microseconds that the server spends on one decision, by its own account.

use std::future::Future;
use std::sync::Arc;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::common::program::Effort;
use crate::common::report::{Bound, Figure, Section, Series};
use crate::common::server::{Server, partition};
use crate::common::shape::{Shape, tokens};
use crate::full_tree::FullTree;

/// Sizes of trees, and the ratio that the fast path must reach there against the full tree.
const SIZES: [(usize, Option<f64>); 5] = [
    (4, Some(1.0 / 2.0)),
    (34, None),
    (331, Some(1.0 / 50.0)),
    (1_321, Some(1.0 / 200.0)),
    (10_000, Some(1.0 / 1_500.0)),
];

/// What the largest tree may cost against the smallest.
const GROWTH: f64 = 1.2;

/// Callers who keep the server busy: what a decision costs matters when there are many.
const CALLERS: usize = 16;

struct Candidate {
    size: usize,
    shape: Arc<Shape>,
    full_tree: Arc<FullTree>,
    full: Series,
    fast: Series,
    /// The same with one caller, for whom the server wakes up each time.
    fast_alone: Series,
    hash: String,
}

pub(crate) async fn measure(full_server: &Server, server: &Server, effort: Effort) -> Result<Section> {
    let mut candidates = Vec::new();
    for (size, _) in SIZES {
        let shape = Arc::new(Shape::of(size)?);
        ensure!(shape.tree.len() == size, "a tree of {size} nodes has {}", shape.tree.len());
        candidates.push(Candidate {
            size,
            full_tree: Arc::new(FullTree::of(&shape)),
            shape,
            full: Series::default(),
            fast: Series::default(),
            fast_alone: Series::default(),
            hash: String::new(),
        });
    }
    for round in 1..=effort.rounds {
        for candidate in &mut candidates {
            candidate.round(full_server, server, effort).await?;
            let (full, fast) = (candidate.full.last(), candidate.fast.last());
            let size = candidate.size;
            eprintln!(
                "server time {round}/{}: {size} nodes: full tree {full:.1} us, fast path {fast:.2} us",
                effort.rounds
            );
        }
    }

    let mut section = Section::new(
        "Server time of a decision",
        "INFO commandstats, 16 callers unless said, nothing batched",
    );
    let smallest = candidates[0].fast.clone();
    for (candidate, (size, required)) in candidates.into_iter().zip(SIZES) {
        let full = format!("full tree, {size} nodes");
        let mut fast = Figure::new(format!("fast path, {size} nodes"), "us", candidate.fast.clone())
            .against(&full, &candidate.full, required.map(Bound::AtMost))
            .note(candidate.hash);
        if size != SIZES[0].0 {
            let last = size == SIZES[SIZES.len() - 1].0;
            let bound = last.then_some(Bound::AtMost(GROWTH));
            fast = fast.against(&format!("fast path, {} nodes", SIZES[0].0), &smallest, bound);
        }
        let alone = Figure::new(format!("fast path, {size} nodes, one caller"), "us", candidate.fast_alone)
            .note("the server sleeps before each call");
        section.push(Figure::new(full, "us", candidate.full));
        section.push(fast);
        section.push(alone);
    }
    Ok(section)
}

impl Candidate {
    /// Both ways on hashes in which every node of the tree is used already, as in the middle of a busy minute.
    async fn round(&mut self, full_server: &Server, server: &Server, effort: Effort) -> Result<()> {
        server.clear().await?;
        full_server.clear().await?;
        let now = server.fresh_minute();
        let requests: Vec<_> = self.shape.keys.iter().map(|key| (key.clone(), 1)).collect();
        for requests in requests.chunks(64) {
            for admission in
                server.single.admit_rate_plans(&partition(&self.shape.tree), requests, now).await?
            {
                ensure!(admission?.is_admitted(), "limits are too low for the bench");
            }
        }
        let key = server.key(&self.shape.tree, now);
        let (encoding, fields) = server.encoding(&key).await?;
        ensure!(fields == self.size + 1, "{fields} fields for {} nodes", self.size);
        self.hash = format!("{encoding}, {fields} fields");

        // The full tree's counters look the same, so it gets a copy.
        let baseline = "baseline:{0}:rate";
        let copy: Vec<u8> = redis::cmd("DUMP").arg(&key).query_async(&mut server.plain.clone()).await?;
        let mut plain = full_server.plain.clone();
        redis::cmd("RESTORE").arg(baseline).arg(0).arg(copy).query_async::<()>(&mut plain).await?;
        redis::cmd("HDEL").arg(baseline).arg("v").query_async::<()>(&mut plain).await?;
        // The server forgets no script, so only the first call of all has to load it.
        self.full_tree.admit(&mut plain, baseline, self.shape.any_key(), 1).await?;
        let _ = server.single.admit_rate_plan(self.shape.any_key(), 1, now).await?;

        let (shape, full_tree, key) =
            (self.shape.clone(), self.full_tree.clone(), Arc::<str>::from(baseline));
        let calls = full_tree_calls(self.size, effort);
        let full = time(full_server, CALLERS, calls, move |nth| {
            let (shape, full_tree, key, mut plain) =
                (shape.clone(), full_tree.clone(), key.clone(), plain.clone());
            async move { full_tree.admit(&mut plain, &key, shape.any_key(), tokens(nth)).await }
        });
        self.full.push(full.await?);

        let (shape, redis) = (self.shape.clone(), server.single.clone());
        let admit = move |nth| {
            let (shape, redis) = (shape.clone(), redis.clone());
            async move {
                let admission = redis.admit_rate_plan(shape.any_key(), tokens(nth), now).await?;
                ensure!(admission.is_admitted(), "limits are too low for the bench");
                Ok(())
            }
        };
        self.fast.push(time(server, CALLERS, effort.calls, admit.clone()).await?);
        self.fast_alone.push(time(server, 1, effort.calls / 2, admit).await?);
        Ok(())
    }
}

/// Server's microseconds a script call, when so many callers share so many calls.
async fn time<C, F>(server: &Server, callers: usize, calls: usize, call: C) -> Result<f64>
where
    C: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    server.reset_statistics().await?;
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let call = call.clone();
        tasks.spawn(async move {
            for nth in (caller..calls).step_by(callers) {
                call(nth).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let spent = server.calls("evalsha").await?;
    Ok(spent.micros / spent.count)
}

/// About as much time for every size.
fn full_tree_calls(size: usize, effort: Effort) -> usize {
    (effort.calls * 60 / size).clamp(20, effort.calls)
}
