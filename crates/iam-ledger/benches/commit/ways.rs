//! All ways, round by round, each in a database of its own.

use std::time::Duration;

use anyhow::Result;
use devstack::{Database, PostgresServer};
use iam_ledger::{Ledger, LedgerOptions};
use sqlx::{Connection, PgConnection};

use crate::production::Production;
use crate::program::Effort;
use crate::psql::Psql;
use crate::report::{Bound, Figure, Report, Section, Series};
use crate::row_by_row::RowByRow;
use crate::staging::Staging;
use crate::unnest::Unnest;
use crate::work::{self, Work};

const SIZES: [usize; 3] = [100, 1_000, 5_000];
/// The size at which the requirements hold.
const JUDGED: usize = 1_000;
/// What the deployed way must reach of one transaction an event.
const OF_ROW_BY_ROW: Bound = Bound::AtLeast(20.0);
/// What it must reach of the same work in bare SQL.
const OF_BARE_SQL: Bound = Bound::AtLeast(0.7);

const ROW_BY_ROW: &str = "row by row";
const UNNEST: &str = "arrays, UNNEST";
const STAGING: &str = "binary COPY into a staging table";
const DEPLOYED: &str = "binary COPY into the events (deployed)";
const BARE: &str = "bare SQL, psql";

/// A database for each, so that none finds the other's rows.
struct Ways {
    row_by_row: RowByRow,
    unnest: Unnest,
    staging: Staging,
    deployed: Production,
    psql: Psql,
    work: Work,
    _databases: Vec<Database>,
    _folder: tempfile::TempDir,
}

impl Ways {
    async fn new(server: &PostgresServer) -> Result<Self> {
        let mut databases = Vec::new();
        let mut ledgers = Vec::new();
        for way in ["rows", "unnest", "staging", "deployed", "psql"] {
            let database = server.database(way)?;
            let options = LedgerOptions { max_connections: 1, ..LedgerOptions::default() };
            let ledger = Ledger::connect(&database.url().into(), options).await?;
            ledger.migrate().await?;
            work::identities(&ledger).await?;
            ledgers.push(ledger);
            databases.push(database);
        }
        let folder = tempfile::tempdir()?;
        Ok(Self {
            row_by_row: RowByRow(PgConnection::connect(databases[0].url()).await?),
            unnest: Unnest(PgConnection::connect(databases[1].url()).await?),
            staging: Staging::new(PgConnection::connect(databases[2].url()).await?).await?,
            deployed: Production(ledgers.swap_remove(3)),
            psql: Psql::new(databases[4].url(), folder.path())?,
            work: Work::new(),
            _databases: databases,
            _folder: folder,
        })
    }

    async fn batched(&mut self, way: &str, batches: usize, size: usize) -> Result<Duration> {
        let work = &mut self.work;
        match way {
            UNNEST => self.unnest.commit(work, batches, size).await,
            STAGING => self.staging.commit(work, batches, size).await,
            DEPLOYED => self.deployed.commit(work, batches, size).await,
            _ => self.psql.commit(work, batches, size).await,
        }
    }
}

pub(crate) async fn measure(server: &PostgresServer, effort: Effort, mut report: Report) -> Result<Report> {
    let mut ways = Ways::new(server).await?;
    let order = [UNNEST, STAGING, DEPLOYED, BARE];
    // Statements prepared, tables in the cache.
    ways.row_by_row.commit(&mut ways.work, 50).await?;
    for way in order {
        ways.batched(way, 2, 500).await?;
    }
    let mut single = Series::default();
    let mut batched: Vec<Vec<Series>> = vec![vec![Series::default(); order.len()]; SIZES.len()];
    for round in 0..effort.rounds {
        let spent = ways.row_by_row.commit(&mut ways.work, effort.single_events).await?;
        single.push(rate(effort.single_events, spent));
        eprintln!("commit {}/{}: {ROW_BY_ROW}: {:.0}/s", round + 1, effort.rounds, single.last());
        for (size, series) in SIZES.into_iter().zip(&mut batched) {
            let batches = (effort.batched_events / size).max(2);
            for at in 0..order.len() {
                // Another one goes first each time.
                let at = (at + round) % order.len();
                let spent = ways.batched(order[at], batches, size).await?;
                series[at].push(rate(batches * size, spent));
                let label = format!("commit {}/{}, batches of {size}", round + 1, effort.rounds);
                eprintln!("{label}: {}: {:.0}/s", order[at], series[at].last());
            }
        }
    }
    for (size, series) in SIZES.into_iter().zip(&batched) {
        report.add(section_of(size, &single, &order, series));
    }
    Ok(report)
}

fn rate(events: usize, spent: Duration) -> f64 {
    events as f64 / spent.as_secs_f64()
}

fn section_of(size: usize, single: &Series, order: &[&'static str; 4], series: &[Series]) -> Section {
    let title = match size {
        100 => "Batches of 100",
        1_000 => "Batches of 1,000",
        _ => "Batches of 5,000",
    };
    let mut section = Section::new(title, "events a second, one connection, four scopes an event, fsync on");
    section.push(Figure::new(ROW_BY_ROW, "/s", single.clone()));
    let bare = &series[3];
    let unnest = &series[0];
    section.push(Figure::new(BARE, "/s", bare.clone()).against(ROW_BY_ROW, single, None));
    for (way, series) in order.iter().zip(series).take(3) {
        let judged = *way == DEPLOYED && size == JUDGED;
        let required = |bound| judged.then_some(bound);
        let mut figure = Figure::new(*way, "/s", series.clone())
            .against(ROW_BY_ROW, single, required(OF_ROW_BY_ROW))
            .against(BARE, bare, required(OF_BARE_SQL));
        if *way != UNNEST {
            figure = figure.against(UNNEST, unnest, None);
        }
        section.push(figure);
    }
    section
}
