//! What each report shows of the ledger's rows.

use chrono::{DateTime, SecondsFormat, Utc};
use iam_ledger::{ModelUsage, OpenHold, Overrun, ScopePeriod, ScopeUsage, UsageDay, UsageSums};

use super::grid::{Cell, Grid};

const SUMS: [&str; 6] =
    ["events", "unpriced_events", "prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"];

pub(super) fn days(usage: &[UsageDay]) -> Grid {
    let rows = usage.iter().map(|row| with_sums(&[&row.day.to_string(), &row.organization_id], &row.sums));
    usage_grid(&["day", "organization_id"], rows.collect())
}

pub(super) fn models(usage: &[ModelUsage]) -> Grid {
    let rows =
        usage.iter().map(|row| with_sums(&[&row.organization_id, &row.provider, &row.model], &row.sums));
    usage_grid(&["organization_id", "provider", "model"], rows.collect())
}

pub(super) fn scopes(usage: &[ScopeUsage]) -> Grid {
    let rows = usage
        .iter()
        .map(|row| with_sums(&[&row.organization_id, row.scope.kind(), row.scope.id()], &row.sums));
    usage_grid(&["organization_id", "kind", "id"], rows.collect())
}

pub(super) fn periods(periods: &[ScopePeriod]) -> Grid {
    let rows = periods.iter().map(|row| {
        vec![
            text(&instant(row.period_start)),
            Cell::text(row.organization_id.as_deref()),
            text(row.scope.kind()),
            text(row.scope.id()),
            Cell::text(row.budget_period.as_deref()),
            Cell::Count(row.paid_events),
            Cell::money(row.budget),
            Cell::Money(row.spend),
        ]
    });
    let columns = [
        "period_start",
        "organization_id",
        "kind",
        "id",
        "budget_period",
        "paid_events",
        "budget_usd",
        "spend_usd",
    ];
    Grid { columns: columns.to_vec(), rows: rows.collect(), bar: 7 }
}

/// `expired` is judged at `now`: such a hold reserves nothing and only waits for the sweep.
pub(super) fn holds(holds: &[OpenHold], now: DateTime<Utc>) -> Grid {
    let rows = holds.iter().map(|row| {
        vec![
            text(&instant(row.held_at)),
            text(&instant(row.expires_at)),
            Cell::Yes(row.expires_at <= now),
            Cell::text(row.organization_id.as_deref()),
            text(row.subject.kind()),
            text(row.subject.id()),
            text(&row.request_id),
            Cell::Money(row.amount),
        ]
    });
    let columns =
        ["held_at", "expires_at", "expired", "organization_id", "kind", "id", "request_id", "amount_usd"];
    Grid { columns: columns.to_vec(), rows: rows.collect(), bar: 7 }
}

pub(super) fn overruns(overruns: &[Overrun]) -> Grid {
    let rows = overruns.iter().map(|row| {
        vec![
            text(&instant(row.settled_at)),
            Cell::text(row.organization_id.as_deref()),
            text(row.subject.kind()),
            text(row.subject.id()),
            text(&row.request_id),
            Cell::Yes(row.covered),
            Cell::Money(row.amount),
            Cell::Money(row.cost),
            Cell::Money(row.overrun),
        ]
    });
    let columns = [
        "settled_at",
        "organization_id",
        "kind",
        "id",
        "request_id",
        "covered",
        "amount_usd",
        "cost_usd",
        "overrun_usd",
    ];
    Grid { columns: columns.to_vec(), rows: rows.collect(), bar: 8 }
}

fn usage_grid(names: &[&'static str], rows: Vec<Vec<Cell>>) -> Grid {
    let columns: Vec<_> = names.iter().copied().chain(SUMS).collect();
    Grid { bar: columns.len() - 1, columns, rows }
}

fn with_sums(names: &[&str], sums: &UsageSums) -> Vec<Cell> {
    let counts =
        [sums.events, sums.unpriced_events, sums.prompt_tokens, sums.completion_tokens, sums.cached_tokens];
    let names = names.iter().map(|name| text(name));
    names.chain(counts.map(Cell::Count)).chain([Cell::Money(sums.cost)]).collect()
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

/// RFC 3339 in UTC, with microseconds only where there are any.
fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
