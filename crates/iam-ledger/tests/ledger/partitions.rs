//! Monthly partitions: made ahead, watched, and never needed for an event to be kept.

use chrono::NaiveDate;
use spend_queue::SpendEvent;

use crate::support::{Fixture, at, entries, event};

fn day(year: i32, month: u32) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(year, month, 17)
}

#[tokio::test]
async fn headroom_counts_the_months_ahead_without_a_gap() {
    let fixture = Fixture::new().await;
    let headroom = |from| fixture.ledger.partition_headroom(from);
    // `migrate` made this month and the next two.
    assert_eq!(headroom(None).await.unwrap(), 3);
    assert_eq!(headroom(day(2040, 1)).await.unwrap(), 0);
    fixture.ledger.ensure_partitions(day(2040, 1), 2).await.unwrap();
    fixture.ledger.ensure_partitions(day(2040, 4), 1).await.unwrap();
    for (month, expected) in [(1, 2), (2, 1), (3, 0), (4, 1), (5, 0)] {
        assert_eq!(headroom(day(2040, month)).await.unwrap(), expected, "2040-{month}");
    }
    // A table of the right name that belongs to nothing takes no event.
    fixture.run("create table usage_events_2040_03 ()").await;
    assert_eq!(headroom(day(2040, 3)).await.unwrap(), 0);
}

#[tokio::test]
async fn the_default_partition_is_counted_and_emptied_by_making_the_month() {
    let fixture = Fixture::new().await;
    let events = ["2028-02-28T23:59:59.999999Z", "2028-02-29T00:00:00Z", "2028-02-29T23:59:59.999999Z"];
    let events: Vec<SpendEvent> = (0..)
        .zip(events)
        .map(|(n, start)| SpendEvent {
            started_at: Some(at(start)),
            ..event(&format!("r-{n}"), &["team/a"], None)
        })
        .collect();
    let mut leap = entries(&[event("x", &["team/a"], None)]);
    leap[0].event = events[0].clone();
    // The clock of these tests stands in 2026, and an event of the future is refused at the queue's door only.
    for event in &events {
        leap[0].event = event.clone();
        assert_eq!(fixture.commit(&leap).await.new, 1);
    }
    assert_eq!(fixture.ledger.default_partition_rows().await.unwrap(), 3);
    assert_eq!(fixture.ledger.ensure_partitions(day(2028, 2), 1).await.unwrap(), 1);
    assert_eq!(fixture.ledger.default_partition_rows().await.unwrap(), 0);
    assert_eq!(fixture.number("select count(*) from usage_events_2028_02").await, 3);
    assert_eq!(
        fixture.text("select string_agg(day || ' ' || events, ', ' order by day) from usage_daily").await,
        "2028-02-28 1, 2028-02-29 2"
    );
}

#[tokio::test]
async fn partitions_have_the_constraints_and_indexes_of_the_whole() {
    let fixture = Fixture::new().await;
    let differing = "select coalesce(string_agg(c.relname, ' '), '') from pg_inherits i join pg_class c on c.oid = i.inhrelid \
                     where i.inhparent = 'usage_events'::regclass and \
                     ((select count(*) from pg_index where indrelid = c.oid) <> \
                      (select count(*) from pg_index where indrelid = i.inhparent) or \
                      (select count(*) from pg_constraint where conrelid = c.oid) <> \
                      (select count(*) from pg_constraint where conrelid = i.inhparent))";
    assert_eq!(fixture.text(differing).await, "");
    assert_eq!(
        fixture.number("select count(*) from pg_inherits where inhparent = 'usage_events'::regclass").await,
        4
    );
}
