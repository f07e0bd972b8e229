//! Other epochs on the same ledger: another prefix, or another number of shards. Their numbers do not compare with this one's.

use anyhow::Result;
use iam_ledger::{KnownEpoch, Ledger};
use live_redis::{LiveRedis, Options, RedisUrl};
use spend_queue::Epoch;

use super::finding::Report;

/// The most other epochs that are named, and the most shards of one that are looked at.
const NAMED: usize = 20;
const SHARDS: u16 = 256;

/// Names the other epochs. Answers why there is nothing to compare, if the ledger has no batch of this one: whatever else it has, no
/// number of this queue was held against it.
pub(super) async fn compare(
    ledger: &Ledger,
    epoch: &Epoch,
    (url, options): (RedisUrl, Options),
    report: &mut Report,
) -> Result<Option<String>> {
    let (ours, others): (Vec<_>, Vec<_>) =
        ledger.flush_epochs().await?.into_iter().partition(|known| known.epoch == *epoch);
    for known in others.iter().take(NAMED) {
        let state = state_of(ledger, known, &url, &options, epoch).await?;
        report.remarks.push(format!(
            "this ledger also has {}: {} batches until {}; {state}",
            known.epoch,
            known.batches,
            known.last_committed_at.format("%F %TZ")
        ));
    }
    if others.len() > NAMED {
        report.not_looked_at.push(format!("{} more epochs of this ledger", others.len() - NAMED));
    }
    if !ours.is_empty() {
        return Ok(None);
    }
    let target = ledger.target();
    if ledger.is_empty().await? {
        return Ok(Some(format!(
            "nothing was ever settled in {target}: right before the first batch of {epoch}; otherwise another --database-url \
             is meant"
        )));
    }
    let known: Vec<_> = others.iter().take(NAMED).map(|known| known.epoch.to_string()).collect();
    Ok(Some(if known.is_empty() {
        format!(
            "{target} has bills, and no batch of {epoch} or of any other: all of them came from the queue of an older deployment, \
             or somebody emptied the flush log"
        )
    } else {
        format!(
            "{target} has no batch of {epoch}: right before the first one; otherwise --prefix and --shards of an epoch that it \
             has are accepted ({})",
            known.join("; ")
        )
    }))
}

/// Whether everything of another epoch was settled, by what this Redis has of it.
async fn state_of(
    ledger: &Ledger,
    known: &KnownEpoch,
    url: &RedisUrl,
    options: &Options,
    ours: &Epoch,
) -> Result<String> {
    let other = &known.epoch;
    if other.prefix() == ours.prefix() {
        return Ok("its keys are this epoch's by now: whether it ended drained cannot be seen".to_owned());
    }
    if other.shards().get() > SHARDS {
        return Ok(format!("not looked at: more than {SHARDS} shards"));
    }
    let Ok(prefix) = other.prefix().parse() else {
        return Ok("not looked at: its prefix is none that a client takes".to_owned());
    };
    let mut options = options.clone().with_prefix(prefix).with_shards(other.shards());
    options.older_queue = None;
    let redis = match LiveRedis::open_with(url.clone(), options).await {
        Ok(redis) => redis,
        Err(error) => return Ok(format!("not looked at: {error}")),
    };
    let ends = ledger.epoch_ends(other).await?;
    let (mut waiting, mut absent, mut beyond) = (0, 0, 0);
    for shard in other.shards().iter() {
        let status = match redis.queue_status(shard).await {
            Ok(status) => status,
            Err(error) => {
                redis.close();
                return Ok(format!("not looked at: {error}"));
            }
        };
        let settled = ends.get(&shard.index()).copied().unwrap_or_default();
        waiting += status.backlog.entries;
        match status.seqs.1 {
            None if settled > 0 => absent += 1,
            Some(next) if status.backlog.entries == 0 && next.saturating_sub(1) > settled => beyond += 1,
            _ => {}
        }
    }
    redis.close();
    Ok(match (waiting, absent, beyond) {
        (0, 0, 0) => "it ended drained: all that it queued is settled".to_owned(),
        (0, 0, shards) => {
            format!(
                "nothing waits there, and in {shards} of its shards numbers were given out that are not settled: audit it"
            )
        }
        (0, shards, _) => {
            format!("{shards} of its shards are not on this Redis: whether it ended drained cannot be seen")
        }
        (waiting, ..) => format!("{waiting} entries wait there"),
    })
}
