//! Usage, spend, holds and overruns as typed rows.

use std::time::Duration;

use chrono::NaiveDate;
use iam_ledger::{MAX_REPORT_ROWS, ReportFilter};
use spend_queue::SpendEvent;

use crate::quota::company;
use crate::support::{Fixture, at, commit_time, entries, event, scope, usd};

fn all() -> ReportFilter {
    ReportFilter { organization_id: None, from: None, to: None, limit: 100 }
}

fn day(text: &str) -> Option<NaiveDate> {
    Some(text.parse().unwrap())
}

async fn filled() -> Fixture {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let make = |id: &str, start: &str, model: &str, organization: Option<&str>, cost| SpendEvent {
        organization_id: organization.map(str::to_owned),
        team_id: organization.map(|_| "red".to_owned()),
        key_id: Some("ada-key".into()),
        model: model.into(),
        started_at: Some(at(start)),
        ..event(id, &["organization/o", "team/red", "ghost/g"], cost)
    };
    for (id, amount) in [("r-2", "1"), ("open", "2")] {
        let subject = scope("key/ada-key");
        let ttl = Duration::from_secs(60);
        fixture.ledger.hold(id, &subject, usd(amount), ttl, commit_time()).await.unwrap();
    }
    fixture
        .commit(&entries(&[
            make("r-1", "2026-03-01T00:00:00Z", "small", Some("o"), Some("0.5")),
            make("r-2", "2026-03-02T23:59:59.999999Z", "large", Some("o"), Some("3.000000000001")),
            make("r-3", "2026-03-02T00:00:00Z", "small", Some("o"), None),
            make("r-4", "2026-02-28T00:00:00Z", "small", None, Some("8")),
        ]))
        .await;
    fixture
}

#[tokio::test]
async fn usage_by_day_model_and_scope_adds_up_to_the_daily_sums() {
    let fixture = filled().await;
    let ledger = &fixture.ledger;
    let days = ledger.usage_by_day(&all()).await.unwrap();
    let costs: Vec<_> =
        days.iter().map(|row| (row.day.to_string(), row.sums.cost, row.sums.unpriced_events)).collect();
    assert_eq!(
        costs,
        [
            ("2026-03-02".to_owned(), usd("3.000000000001"), 1),
            ("2026-03-01".to_owned(), usd("0.5"), 0),
            ("2026-02-28".to_owned(), usd("8"), 0)
        ]
    );
    let models = ledger.usage_by_model(&all()).await.unwrap();
    let costs: Vec<_> =
        models.iter().map(|row| (&*row.organization_id, &*row.model, row.sums.cost)).collect();
    assert_eq!(
        costs,
        [("", "small", usd("8")), ("o", "large", usd("3.000000000001")), ("o", "small", usd("0.5"))]
    );
    let scopes =
        ledger.usage_by_scope(&ReportFilter { organization_id: Some("o".into()), ..all() }).await.unwrap();
    let costs: Vec<_> =
        scopes.iter().map(|row| (row.scope.to_string(), row.sums.cost, row.sums.events)).collect();
    let expected = ["key/ada-key", "organization/o", "team/red"]
        .map(|scope| (scope.to_owned(), usd("3.500000000001"), 3));
    assert_eq!(costs, expected);
}

#[tokio::test]
async fn filters_take_days_organizations_and_a_number_of_rows() {
    let fixture = filled().await;
    let ledger = &fixture.ledger;
    let count = async |filter: ReportFilter| ledger.usage_by_day(&filter).await.unwrap().len();
    assert_eq!(count(ReportFilter { from: day("2026-03-01"), ..all() }).await, 2);
    assert_eq!(count(ReportFilter { to: day("2026-03-01"), ..all() }).await, 2);
    assert_eq!(count(ReportFilter { from: day("2026-03-01"), to: day("2026-03-01"), ..all() }).await, 1);
    assert_eq!(count(ReportFilter { to: Some(NaiveDate::MAX), ..all() }).await, 3);
    assert_eq!(count(ReportFilter { organization_id: Some(String::new()), ..all() }).await, 1);
    assert_eq!(count(ReportFilter { organization_id: Some("p".into()), ..all() }).await, 0);
    assert_eq!(count(ReportFilter { limit: 2, ..all() }).await, 2);
    for filter in [
        ReportFilter { limit: 0, ..all() },
        ReportFilter { limit: MAX_REPORT_ROWS + 1, ..all() },
        ReportFilter { from: day("2026-03-02"), to: day("2026-03-01"), ..all() },
    ] {
        assert!(ledger.usage_by_day(&filter).await.is_err(), "{filter:?}");
    }
}

#[tokio::test]
async fn spend_holds_and_overruns_are_read_back() {
    let fixture = filled().await;
    let ledger = &fixture.ledger;
    let periods = ledger.spend_by_period(&all()).await.unwrap();
    let rows: Vec<_> = periods
        .iter()
        .map(|row| (row.scope.to_string(), row.period_start.date_naive().to_string(), row.spend, row.budget))
        .collect();
    assert_eq!(
        rows,
        [
            ("organization/o".to_owned(), "2026-03-01".to_owned(), usd("3.500000000001"), Some(usd("100"))),
            ("organization/o".to_owned(), "2026-02-01".to_owned(), usd("8"), Some(usd("100"))),
            ("ghost/g".to_owned(), "1970-01-01".to_owned(), usd("11.500000000001"), None),
            ("team/red".to_owned(), "1970-01-01".to_owned(), usd("11.500000000001"), Some(usd("40"))),
        ]
    );
    assert_eq!(periods[2].budget_period, None, "no table knows the ghost");
    let holds = ledger.open_holds(&all()).await.unwrap();
    assert_eq!((holds.len(), &*holds[0].request_id, holds[0].amount), (1, "open", usd("2")));
    assert_eq!(holds[0].organization_id.as_deref(), Some("o"));
    let overruns = ledger.overruns(&all()).await.unwrap();
    assert_eq!(overruns.len(), 1);
    assert_eq!(
        (overruns[0].amount, overruns[0].cost, overruns[0].overrun),
        (usd("1"), usd("3.000000000001"), usd("2.000000000001"))
    );
    assert!(overruns[0].covered);
    let elsewhere = ReportFilter { from: day("2026-03-06"), ..all() };
    assert!(
        ledger.open_holds(&elsewhere).await.unwrap().is_empty()
            && ledger.overruns(&elsewhere).await.unwrap().is_empty()
    );
}
