//! What is committed: calls of two hundred keys within a few seconds, each charged to four scopes.

use anyhow::{Context as _, Result};
use chrono::{DateTime, TimeDelta, Utc};
use iam_ledger::{Budget, BudgetPeriod, Ledger, NewIdentity};
use serde_json::json;
use spend_queue::{Chain, Entry, Link, ScopeRef, SpendEvent, Usd};

const ORGANIZATIONS: usize = 10;
const TEAMS: usize = 40;
const USERS: usize = 100;
const KEYS: usize = 200;
const MODELS: [&str; 3] = ["small", "medium", "large"];

/// Hands out events that nobody has seen before, in the chain of a queue.
pub(crate) struct Work {
    next: usize,
    chain: Chain,
    now: DateTime<Utc>,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self { next: 1, chain: Chain::GENESIS, now: Utc::now() }
    }

    /// The committer's clock.
    pub(crate) const fn now(&self) -> DateTime<Utc> {
        self.now
    }

    pub(crate) fn entries(&mut self, count: usize) -> Result<Vec<Entry>> {
        (0..count).map(|_| self.entry()).collect()
    }

    fn entry(&mut self) -> Result<Entry> {
        let n = self.next;
        self.next += 1;
        let encoded = self.event(n)?.encode(self.now)?;
        let seq = u64::try_from(n)?;
        self.chain = encoded.chain_after(self.chain, seq);
        Ok(Entry::decode(encoded.entry(seq, self.chain).into_bytes())?)
    }

    fn event(&self, n: usize) -> Result<SpendEvent> {
        // A prime step, so that neighbours belong to different keys.
        let key = n * 7919 % KEYS;
        let ids = [
            ("organization", format!("org-{}", key % ORGANIZATIONS)),
            ("team", format!("team-{}", key % TEAMS)),
            ("user", format!("user-{}", key % USERS)),
            ("key", format!("key-{key}")),
        ];
        let scopes =
            ids.iter().map(|(kind, id)| ScopeRef::new(*kind, id.as_str())).collect::<Result<_, _>>()?;
        // Like a random id: not in the order of the index.
        let id = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut event = SpendEvent::new(format!("req-{id:016x}-{n}"), MODELS[n % MODELS.len()], scopes);
        let [organization, team, user, key] = ids.map(|(_, id)| Some(id));
        (event.organization_id, event.team_id, event.user_id, event.key_id) = (organization, team, user, key);
        event.provider = "acme".to_owned();
        event.call_type = "chat".to_owned();
        event.status = "ok".to_owned();
        (event.prompt_tokens, event.completion_tokens) = (1_000 + n as u64 % 977, 200 + n as u64 % 499);
        event.cost = Some(Usd::from_picos(2_700_000 + n as i128 % 1_000_003));
        let start = self.now - TimeDelta::milliseconds(5_000 - i64::try_from(n % 2_000)?);
        event.started_at = Some(start);
        event.ended_at = Some(start + TimeDelta::milliseconds(900));
        event.time_to_first_token_ms = Some(120 + n as u64 % 80);
        event.session_id = Some(format!("session-{}", n % 500));
        event.metadata.insert("trace".to_owned(), json!(format!("{id:032x}")));
        event.metadata.insert("tags".to_owned(), json!(["batch", "eu"]));
        Ok(event)
    }
}

/// The organizations have monthly budgets, so that a commit looks up periods.
pub(crate) async fn identities(ledger: &Ledger) -> Result<()> {
    for n in 0..ORGANIZATIONS {
        let budget =
            Budget { amount: None, period: BudgetPeriod::Monthly, time_zone: "Europe/Berlin".to_owned() };
        ledger.create(&NewIdentity::organization(format!("org-{n}"), "").with_budget(budget)).await?;
    }
    Ok(())
}

/// The place of an entry; every entry of the bench has one.
pub(crate) fn link(entry: &Entry) -> Result<Link> {
    entry.link.context("an entry of the bench has a place in the chain")
}
