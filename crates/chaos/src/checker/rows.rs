//! What is settled in PostgreSQL, row by row, against what was meant.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::Result;
use postgres::{GenericClient, Row};

use super::money::picos;
use super::{Breach, Truth, Verdict};
use crate::bill::Bill;

/// What the ledger holds, in numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settled {
    /// Usage events.
    pub(crate) events: usize,
    /// Their sum in picodollars.
    pub(crate) picos: i128,
}

/// Judges the ledger.
pub(crate) fn check_ledger(
    client: &mut impl GenericClient,
    truth: &Truth,
    verdict: &mut Verdict,
) -> Result<Settled> {
    let rows = client.query(EVENTS, &[])?;
    let mut settled = Settled { events: rows.len(), picos: 0 };
    let mut bills: HashMap<&str, &Bill> = HashMap::new();
    let mut ids = HashSet::new();
    for row in &rows {
        let event = Event::read(row)?;
        settled.picos += event.cost.unwrap_or(0);
        if !ids.insert(event.id.to_owned()) {
            verdict.add(Breach::ChargedTwice, format!("{} has two usage events", event.id));
            continue;
        }
        let Some(intended) = truth.get(event.id) else {
            verdict.add(Breach::NotIntended, event.id);
            continue;
        };
        match truth.legal(intended).find(|bill| event.is(bill)) {
            Some(bill) => drop(bills.insert(event.id, bill)),
            None => verdict.add(Breach::WrongPayload, format!("{event:?}, meant as {intended:?}")),
        }
    }
    check_guard(client, &ids, verdict)?;
    for (id, intended) in truth.intended() {
        if !ids.contains(id) && truth.is_owed(intended) {
            verdict.add(Breach::Lost, format!("{intended:?}"));
        }
    }
    // Sums are those of what is settled, at the costs that were meant; what may be missing is judged above.
    check_scopes(client, bills.values().copied(), verdict)?;
    check_days(client, bills.values().copied(), verdict)?;
    Ok(settled)
}

const EVENTS: &str = "select request_id, (extract(epoch from started_at) * 1000000)::bigint, cost_usd::text, \
     prompt_tokens, completion_tokens, organization_id, team_id, key_id, model, scopes from usage_events";

/// A usage event as it is stored.
#[derive(Debug)]
struct Event<'a> {
    id: &'a str,
    started_at: i64,
    cost: Option<i128>,
    tokens: (i64, i64),
    owners: [Option<&'a str>; 3],
    model: &'a str,
    scopes: Vec<&'a str>,
}

impl<'a> Event<'a> {
    fn read(row: &'a Row) -> Result<Self> {
        Ok(Self {
            id: row.try_get(0)?,
            started_at: row.try_get(1)?,
            cost: row.try_get::<_, Option<&str>>(2)?.map(picos).transpose()?,
            tokens: (row.try_get(3)?, row.try_get(4)?),
            owners: [row.try_get(5)?, row.try_get(6)?, row.try_get(7)?],
            model: row.try_get(8)?,
            scopes: row.try_get(9)?,
        })
    }

    fn is(&self, bill: &Bill) -> bool {
        let scopes: BTreeSet<_> = bill.scopes.iter().map(|(kind, id)| format!("{kind}/{id}")).collect();
        self.started_at == bill.started_at
            && self.cost == bill.cost.map(i128::from)
            && self.tokens == (bill.prompt_tokens.into(), bill.completion_tokens.into())
            && self.owners == [Some(bill.organization.as_str()), Some(&bill.team), Some(&bill.key)]
            && self.model == bill.model
            && self.scopes.len() == scopes.len()
            && self.scopes.iter().all(|scope| scopes.contains(*scope))
    }
}

/// The permanent guard holds exactly the requests that have an event.
fn check_guard(
    client: &mut impl GenericClient,
    events: &HashSet<String>,
    verdict: &mut Verdict,
) -> Result<()> {
    let rows = client.query("select request_id from settled_requests", &[])?;
    let mut guarded = HashSet::new();
    for row in &rows {
        guarded.insert(row.try_get::<_, String>(0)?);
    }
    for id in guarded.symmetric_difference(events) {
        let what = if events.contains(id) { "an event and no guard" } else { "a guard and no event" };
        verdict.add(Breach::HalfSettled, format!("{id} has {what}"));
    }
    Ok(())
}

fn check_scopes<'a>(
    client: &mut impl GenericClient,
    bills: impl Iterator<Item = &'a Bill>,
    verdict: &mut Verdict,
) -> Result<()> {
    let mut want: BTreeMap<(String, String), (i128, i64)> = BTreeMap::new();
    for bill in bills.filter(|bill| bill.picos() > 0) {
        for scope in &bill.scopes {
            let sum = want.entry(scope.clone()).or_default();
            sum.0 += bill.picos();
            sum.1 += 1;
        }
    }
    let mut got = BTreeMap::new();
    let sums =
        "select kind, id, sum(spend_usd)::text, sum(paid_events)::bigint from scope_spend group by 1, 2";
    for row in client.query(sums, &[])? {
        got.insert((row.try_get(0)?, row.try_get(1)?), (picos(row.try_get(2)?)?, row.try_get(3)?));
    }
    compare(&want, &got, Breach::ScopeSum, verdict);
    Ok(())
}

/// Day since 1970, organization, team, key, model.
type Day = (i64, String, String, String, String);
/// Events, unpriced events, input tokens, output tokens, picodollars.
type DaySums = (i64, i64, i64, i64, i128);

fn check_days<'a>(
    client: &mut impl GenericClient,
    bills: impl Iterator<Item = &'a Bill>,
    verdict: &mut Verdict,
) -> Result<()> {
    let mut want: BTreeMap<Day, DaySums> = BTreeMap::new();
    for bill in bills {
        let owners = (bill.organization.clone(), bill.team.clone(), bill.key.clone());
        let sums = want.entry((bill.day(), owners.0, owners.1, owners.2, bill.model.clone())).or_default();
        sums.0 += 1;
        sums.1 += i64::from(bill.cost.is_none());
        sums.2 += i64::from(bill.prompt_tokens);
        sums.3 += i64::from(bill.completion_tokens);
        sums.4 += bill.picos();
    }
    let mut got = BTreeMap::new();
    let sums = "select (day - date '1970-01-01')::bigint, organization_id, team_id, key_id, model, \
         sum(events)::bigint, sum(unpriced_events)::bigint, sum(prompt_tokens)::bigint, \
         sum(completion_tokens)::bigint, sum(cost_usd)::text from usage_daily group by 1, 2, 3, 4, 5";
    for row in client.query(sums, &[])? {
        let day: Day = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        let cost = picos(row.try_get(9)?)?;
        let sums: DaySums = (row.try_get(5)?, row.try_get(6)?, row.try_get(7)?, row.try_get(8)?, cost);
        got.insert(day, sums);
    }
    compare(&want, &got, Breach::DaySum, verdict);
    Ok(())
}

fn compare<K: Ord + Clone + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    want: &BTreeMap<K, V>,
    got: &BTreeMap<K, V>,
    breach: Breach,
    verdict: &mut Verdict,
) {
    let keys: BTreeSet<_> = want.keys().chain(got.keys()).collect();
    for key in keys {
        let (meant, stored) = (want.get(key), got.get(key));
        if meant != stored {
            verdict.add(breach, format!("{key:?} is {stored:?}, but its events make {meant:?}"));
        }
    }
}
