//! The sums of a batch: by day and ownership, and by charged scope.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use spend_queue::{Entry, ScopeRef, SpendEvent, Usd};
use sqlx::PgConnection;

use super::rows::{charged_at, count};
use crate::LedgerError;
use crate::money::{to_numeric, to_picos};

/// One row of `usage_daily`, in the order of its primary key: the order in which every committer locks rows.
/// An empty text stands for none, which no id can be.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DailyKey<'a> {
    organization_id: &'a str,
    day: NaiveDate,
    team_id: &'a str,
    project_id: &'a str,
    user_id: &'a str,
    key_id: &'a str,
    provider: &'a str,
    model: &'a str,
}

#[derive(Default)]
struct DailySum {
    events: u64,
    unpriced_events: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    cost: Usd,
}

/// Sums by UTC day, full ownership, provider and model.
pub(super) struct DailySums<'a>(BTreeMap<DailyKey<'a>, DailySum>);

impl<'a> DailySums<'a> {
    pub(super) fn of(entries: &[&'a Entry], committed_at: DateTime<Utc>) -> Result<Self, LedgerError> {
        let mut sums = BTreeMap::<_, DailySum>::new();
        for Entry { event, .. } in entries {
            let key = DailyKey {
                organization_id: or_empty(&event.organization_id),
                day: charged_at(event, committed_at).date_naive(),
                team_id: or_empty(&event.team_id),
                project_id: or_empty(&event.project_id),
                user_id: or_empty(&event.user_id),
                key_id: or_empty(&event.key_id),
                provider: &event.provider,
                model: &event.model,
            };
            sums.entry(key).or_default().add(event)?;
        }
        Ok(Self(sums))
    }

    pub(super) async fn add(&self, connection: &mut PgConnection) -> Result<(), LedgerError> {
        let text = |part: fn(&DailyKey<'a>) -> &'a str| self.0.keys().map(part).collect::<Vec<&str>>();
        let sum = |what, part: fn(&DailySum) -> u64| {
            self.0.values().map(|sum| count(what, part(sum))).collect::<Result<Vec<i64>, _>>()
        };
        let days: Vec<NaiveDate> = self.0.keys().map(|key| key.day).collect();
        let costs: Vec<String> = self
            .0
            .values()
            .map(|sum| to_numeric("the cost of a batch on one day", sum.cost))
            .collect::<Result<_, _>>()?;
        sqlx::query_file!(
            "queries/add_daily_usage.sql",
            &days,
            &text(|key| key.organization_id) as &[&str],
            &text(|key| key.team_id) as &[&str],
            &text(|key| key.project_id) as &[&str],
            &text(|key| key.user_id) as &[&str],
            &text(|key| key.key_id) as &[&str],
            &text(|key| key.provider) as &[&str],
            &text(|key| key.model) as &[&str],
            &sum("events", |sum| sum.events)?,
            &sum("unpriced_events", |sum| sum.unpriced_events)?,
            &sum("prompt_tokens", |sum| sum.prompt_tokens)?,
            &sum("completion_tokens", |sum| sum.completion_tokens)?,
            &sum("cached_tokens", |sum| sum.cached_tokens)?,
            &costs,
        )
        .execute(connection)
        .await
        .map_err(LedgerError::query("adding daily usage"))?;
        Ok(())
    }
}

impl DailySum {
    fn add(&mut self, event: &SpendEvent) -> Result<(), LedgerError> {
        let too_large = |what| LedgerError::OutOfRange {
            what,
            value: "a batch's sum beyond 64 bits".to_owned(),
            bound: i64::MAX.to_string(),
        };
        let add = |what, sum: &mut u64, more: u64| {
            *sum = sum.checked_add(more).ok_or_else(|| too_large(what))?;
            Ok::<(), LedgerError>(())
        };
        self.events += 1;
        self.unpriced_events += u64::from(event.cost.is_none());
        add("prompt_tokens", &mut self.prompt_tokens, event.prompt_tokens)?;
        add("completion_tokens", &mut self.completion_tokens, event.completion_tokens)?;
        add("cached_tokens", &mut self.cached_tokens, event.cached_tokens)?;
        let cost = self.cost.checked_add(event.cost.unwrap_or_default());
        self.cost = cost.ok_or_else(|| too_large("the cost of a batch on one day"))?;
        Ok(())
    }
}

/// What each scope is charged: exactly the scopes that an event names, and only for events with a cost above zero.
/// Nothing is derived from ownership.
#[derive(Default)]
pub(super) struct Charges<'a> {
    /// Charged scopes in byte order.
    kinds: Vec<&'a str>,
    ids: Vec<&'a str>,
    /// One row a charge: the place of its scope above, from 1.
    positions: Vec<i64>,
    started_at: Vec<DateTime<Utc>>,
    costs: Vec<i64>,
}

impl<'a> Charges<'a> {
    pub(super) fn of(entries: &[&'a Entry], committed_at: DateTime<Utc>) -> Result<Self, LedgerError> {
        let paid = || entries.iter().filter_map(|entry| entry.event.paid().map(|cost| (&entry.event, cost)));
        let mut charges = Self::default();
        let mut places: BTreeMap<&ScopeRef, i64> =
            paid().flat_map(|(event, _)| &event.scopes).map(|scope| (scope, 0)).collect();
        for (position, (scope, place)) in (1..).zip(&mut places) {
            charges.kinds.push(scope.kind());
            charges.ids.push(scope.id());
            *place = position;
        }
        for (event, cost) in paid() {
            let (started_at, cost) = (charged_at(event, committed_at), to_picos(cost)?);
            for position in event.scopes.iter().filter_map(|scope| places.get(scope)) {
                charges.positions.push(*position);
                charges.started_at.push(started_at);
                charges.costs.push(cost);
            }
        }
        Ok(charges)
    }

    pub(super) async fn add(&self, connection: &mut PgConnection) -> Result<(), LedgerError> {
        if self.positions.is_empty() {
            return Ok(());
        }
        sqlx::query_file!(
            "queries/add_scope_spend.sql",
            &self.kinds as &[&str],
            &self.ids as &[&str],
            &self.positions,
            &self.started_at,
            &self.costs,
        )
        .execute(connection)
        .await
        .map_err(LedgerError::query("adding scope spend"))?;
        Ok(())
    }
}

fn or_empty(id: &Option<String>) -> &str {
    id.as_deref().unwrap_or_default()
}
