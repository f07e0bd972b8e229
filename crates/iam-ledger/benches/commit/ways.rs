//! All ways, round by round, each in a database of its own.

use std::time::Duration;

use anyhow::Result;
use devstack::{Database, PostgresServer};
use iam_ledger::{Ledger, LedgerOptions};
use sqlx::{Connection, PgConnection};

use crate::copy::Copy;
use crate::production::Production;
use crate::program::Effort;
use crate::psql::Psql;
use crate::report::{Bound, Figure, Section, Series};
use crate::row_by_row::RowByRow;
use crate::staging::Staging;
use crate::unnest::Unnest;
use crate::work::{self, Work};

/// The section in which the requirements hold.
const JUDGED: &str = "Batches of 1,000, TCP";
const HOW: &str = "events a second, one connection, four scopes an event, fsync on";
/// What the deployed way must reach of one transaction an event.
const OF_ROW_BY_ROW: Bound = Bound::AtLeast(20.0);
/// What it must reach of the same work in bare SQL.
const OF_BARE_SQL: Bound = Bound::AtLeast(0.7);

const ROW_BY_ROW: &str = "row by row";
const UNNEST: &str = "one array a column";
const COPY: &str = "binary COPY into the events";
const STAGING: &str = "binary COPY into a staging table";
const DEPLOYED: &str = "one array of binary rows (deployed)";
const BARE: &str = "bare SQL, psql";
/// In the order of the report, but for the first round.
const BATCHED: [&str; 5] = [BARE, UNNEST, STAGING, COPY, DEPLOYED];

/// A database for each, so that none finds the other's rows.
pub(crate) struct Ways {
    row_by_row: RowByRow,
    unnest: Unnest,
    copy: Copy,
    staging: Staging,
    deployed: Production,
    psql: Psql,
    work: Work,
    _databases: Vec<Database>,
    _folder: tempfile::TempDir,
}

impl Ways {
    /// All connections are made by what `through` makes of a URL.
    pub(crate) async fn new(
        server: &PostgresServer,
        through: impl Fn(&str) -> Result<String>,
    ) -> Result<Self> {
        let mut databases = Vec::new();
        let mut urls = Vec::new();
        for way in ["rows", "unnest", "copy", "staging", "psql", "deployed"] {
            let database = server.database(way)?;
            let ledger = Ledger::connect(&database.url().into(), LedgerOptions::default()).await?;
            ledger.migrate().await?;
            work::identities(&ledger).await?;
            ledger.close().await;
            urls.push(through(database.url())?);
            databases.push(database);
        }
        let options = LedgerOptions { max_connections: 1, ..LedgerOptions::default() };
        let folder = tempfile::tempdir()?;
        let mut ways = Self {
            row_by_row: RowByRow(PgConnection::connect(&urls[0]).await?),
            unnest: Unnest(PgConnection::connect(&urls[1]).await?),
            copy: Copy(PgConnection::connect(&urls[2]).await?),
            staging: Staging::new(PgConnection::connect(&urls[3]).await?).await?,
            psql: Psql::new(&urls[4], folder.path())?,
            deployed: Production(Ledger::connect(&urls[5].as_str().into(), options).await?),
            work: Work::new(),
            _databases: databases,
            _folder: folder,
        };
        // Statements prepared, tables in the cache.
        ways.row_by_row.commit(&mut ways.work, 50).await?;
        for way in BATCHED {
            ways.batched(way, 2, 500).await?;
        }
        Ok(ways)
    }

    async fn batched(&mut self, way: &str, batches: usize, size: usize) -> Result<Duration> {
        let work = &mut self.work;
        match way {
            UNNEST => self.unnest.commit(work, batches, size).await,
            COPY => self.copy.commit(work, batches, size).await,
            STAGING => self.staging.commit(work, batches, size).await,
            DEPLOYED => self.deployed.commit(work, batches, size).await,
            _ => self.psql.commit(work, batches, size).await,
        }
    }

    /// Every way at every size; a section each.
    pub(crate) async fn measure(
        &mut self,
        sections: &[(usize, &'static str)],
        effort: Effort,
    ) -> Result<Vec<Section>> {
        let mut single = Series::default();
        let mut batched = vec![vec![Series::default(); BATCHED.len()]; sections.len()];
        for round in 0..effort.rounds {
            let spent = self.row_by_row.commit(&mut self.work, effort.single_events).await?;
            single.push(rate(effort.single_events, spent));
            eprintln!("commit {}/{}: {ROW_BY_ROW}: {:.0}/s", round + 1, effort.rounds, single.last());
            for ((size, title), series) in sections.iter().zip(&mut batched) {
                let batches = (effort.batched_events / size).max(2);
                for at in 0..BATCHED.len() {
                    // Another one goes first each time.
                    let at = (at + round) % BATCHED.len();
                    let spent = self.batched(BATCHED[at], batches, *size).await?;
                    series[at].push(rate(batches * size, spent));
                    let label = format!("commit {}/{}, {title}", round + 1, effort.rounds);
                    eprintln!("{label}: {}: {:.0}/s", BATCHED[at], series[at].last());
                }
            }
        }
        let sections = sections.iter().zip(&batched);
        Ok(sections.map(|((_, title), series)| section_of(title, &single, series)).collect())
    }
}

fn rate(events: usize, spent: Duration) -> f64 {
    events as f64 / spent.as_secs_f64()
}

fn section_of(title: &'static str, single: &Series, batched: &[Series]) -> Section {
    let mut section = Section::new(title, HOW);
    section.push(Figure::new(ROW_BY_ROW, "/s", single.clone()));
    let of = |way| BATCHED.iter().position(|name| *name == way).map(|at| &batched[at]);
    for (way, series) in BATCHED.into_iter().zip(batched) {
        let deployed = way == DEPLOYED;
        let required = |bound| (deployed && title == JUDGED).then_some(bound);
        let figure = Figure::new(way, "/s", series.clone());
        let mut figure = figure.against(ROW_BY_ROW, single, required(OF_ROW_BY_ROW));
        let baselines: &[_] = if deployed { &[BARE, UNNEST, STAGING, COPY] } else { &[BARE] };
        for baseline in baselines.iter().filter(|baseline| **baseline != way) {
            let bound = if *baseline == BARE { required(OF_BARE_SQL) } else { None };
            if let Some(base) = of(*baseline) {
                figure = figure.against(baseline, base, bound);
            }
        }
        section.push(figure);
    }
    section
}
