//! The operator's tools: they look, and change only what `--yes` says.

mod losses;
mod peek;
mod quarantine;
mod repair;
mod shown;
mod status;

use std::str::FromStr;

use anyhow::{Result, bail};
use live_redis::LiveRedis;
use spend_queue::{Shard, SpendQueue};

pub(crate) use losses::{LossesOptions, losses};
pub(crate) use peek::{PeekOptions, peek};
pub(crate) use quarantine::{QuarantineOptions, quarantine};
pub(crate) use repair::{RepairOptions, repair};
pub(crate) use status::{StatusOptions, status};

/// A shard as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardName {
    Number(u16),
    Older,
}

impl FromStr for ShardName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "older" => Ok(Self::Older),
            number => number
                .parse()
                .map(Self::Number)
                .map_err(|_| "a shard's number from 0, or `older`, is accepted".into()),
        }
    }
}

impl ShardName {
    /// The shard of that name.
    fn of(self, redis: &LiveRedis) -> Result<Shard> {
        let sources = redis.sources();
        let wanted = |shard: &Shard| match self {
            Self::Number(number) => !shard.is_older() && shard.index() == number,
            Self::Older => shard.is_older(),
        };
        match (sources.into_iter().find(wanted), self) {
            (Some(shard), _) => Ok(shard),
            (None, Self::Older) => bail!(
                "--shard older: there is none; it is accepted with --older-queue, which names its prefix"
            ),
            (None, Self::Number(number)) => {
                bail!(
                    "--shard {number}: there is none; 0 to {last} are accepted with --shards {count}",
                    count = redis.shards(),
                    last = redis.shards().get() - 1
                )
            }
        }
    }
}

/// The shard of that name, or all.
fn shards(redis: &LiveRedis, name: Option<ShardName>) -> Result<Vec<Shard>> {
    name.map_or_else(|| Ok(redis.sources()), |name| Ok(vec![name.of(redis)?]))
}
