//! Strict reads of pending spend.

mod asked;
mod older;

use std::future::Future;

use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use redis::ScriptInvocation;
use spend_queue::{Millis, PendingQuery, PendingSpend, ScopeRef, Shard, Start, Usd};

use self::asked::{Asked, pieces};
use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, script};

impl LiveRedis {
    async fn amount(&self, query: PendingQuery) -> Result<Usd, LiveRedisError> {
        let amounts = self.amounts(&[query]).await?;
        amounts.first().copied().ok_or_else(|| CallError::Answer("no amount for a query".into()).into())
    }

    /// What every query asks for. All calls go out together; each shard gets as few as [`pieces`] allows.
    async fn amounts(&self, queries: &[PendingQuery]) -> Result<Vec<Usd>, LiveRedisError> {
        let asked = queries.iter().map(Asked::check).collect::<Result<Vec<_>, _>>()?;
        let amounts = try_join_all(
            pieces(&asked, self.shared.options.since_bound).into_iter().map(|piece| self.piece(piece)),
        )
        .await?;
        Ok(amounts.concat())
    }

    async fn piece(&self, asked: &[Asked]) -> Result<Vec<Usd>, LiveRedisError> {
        let (mut totals, older) = tokio::try_join!(self.in_all_shards(asked), self.in_older_queue(asked))?;
        add(&mut totals, &older, asked)?;
        Ok(totals)
    }

    /// The sums of what each shard answers.
    async fn in_all_shards(&self, asked: &[Asked]) -> Result<Vec<Usd>, LiveRedisError> {
        let calls: Vec<_> = self.shard_count().iter().map(|shard| self.pending_call(asked, shard)).collect();
        let answers =
            try_join_all(calls.iter().map(|call| self.hot_script::<(u64, Vec<String>)>(call))).await?;
        let mut totals = vec![Usd::ZERO; asked.len()];
        for (gone_through, picos) in answers {
            if gone_through > 0 {
                metrics::counter!("tallyweir_redis_index_scans_total").increment(1);
            }
            if picos.len() != asked.len() {
                let text = format!("{} amounts for {} queries", picos.len(), asked.len());
                return Err(CallError::Answer(text).into());
            }
            let amounts = picos.iter().zip(asked).map(|(picos, Asked { scope, .. })| {
                let amount = picos.parse().map(Usd::from_picos);
                amount.map_err(|_| CallError::Answer(format!("pending spend of {scope} is {picos:?}")))
            });
            add(&mut totals, &amounts.collect::<Result<Vec<_>, _>>()?, asked)?;
        }
        Ok(totals)
    }

    fn pending_call(&self, asked: &[Asked], shard: Shard) -> ScriptInvocation<'static> {
        let mut call = script::PENDING.prepare_invoke();
        self.key_index(&mut call, shard);
        call.arg(self.shared.options.scan_bound).arg(self.shared.options.since_bound).arg(asked.len());
        for Asked { scope, .. } in asked {
            call.arg(scope.to_string());
        }
        for (number, Asked { scope, since }) in (1_usize..).zip(asked) {
            if let Some(since) = since {
                call.arg(number);
                for at in [Millis::EPOCH, *since] {
                    call.arg(Start::new(scope.id(), at).to_string());
                }
                call.arg(since.get());
            }
        }
        call
    }
}

/// Adds what one list holds to the totals, amount by amount.
fn add(totals: &mut [Usd], amounts: &[Usd], asked: &[Asked]) -> Result<(), LiveRedisError> {
    for ((total, amount), Asked { scope, .. }) in totals.iter_mut().zip(amounts).zip(asked) {
        *total = total
            .checked_add(*amount)
            .ok_or_else(|| LiveRedisError::Damaged(format!("pending spend of {scope} overflows")))?;
    }
    Ok(())
}

impl PendingSpend for LiveRedis {
    type Error = LiveRedisError;

    fn pending(&self, scope: &ScopeRef) -> impl Future<Output = Result<Usd, Self::Error>> + Send {
        self.strictly("pending", self.amount(PendingQuery::Scope(scope.clone())))
    }

    fn pending_since(
        &self,
        organization_id: &str,
        instant: DateTime<Utc>,
    ) -> impl Future<Output = Result<Usd, Self::Error>> + Send {
        let query = PendingQuery::Organization { id: organization_id.to_owned(), since: instant };
        self.strictly("pending_since", self.amount(query))
    }

    fn pending_key(&self, key_id: &str) -> impl Future<Output = Result<Usd, Self::Error>> + Send {
        self.strictly("pending_key", self.amount(PendingQuery::Key(key_id.to_owned())))
    }

    /// One script call a shard answers up to 512 queries, of which as many for an organization since an instant as may read 512
    /// older starts together, by [`crate::Options::since_bound`]: one by default. More are read by several calls, each at an
    /// instant of its own.
    fn pending_all(
        &self,
        queries: &[PendingQuery],
    ) -> impl Future<Output = Result<Vec<Usd>, Self::Error>> + Send {
        self.strictly("pending_all", self.amounts(queries))
    }
}
