//! The command `report`: usage, spend, holds and overruns, for people, spreadsheets and programs.

mod args;
mod grid;
mod rows;
mod table;
mod text;

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result};
use chrono::Utc;
use iam_ledger::{Ledger, LedgerOptions};

pub(crate) use args::ReportOptions;
use args::{By, Form};
use grid::Grid;

/// Reads one report and prints it.
pub(crate) async fn run(options: ReportOptions) -> Result<()> {
    let (by, form, filter) = (options.by()?, options.form()?, options.filter()?);
    let ledger = Ledger::connect(&options.database.url().required()?, LedgerOptions::default()).await?;
    ledger.require_migrated().await?;
    let grid = match by {
        By::Day => rows::days(&ledger.usage_by_day(&filter).await?),
        By::Model => rows::models(&ledger.usage_by_model(&filter).await?),
        By::Scope => rows::scopes(&ledger.usage_by_scope(&filter).await?),
        By::Period => rows::periods(&ledger.spend_by_period(&filter).await?),
        By::Holds => rows::holds(&ledger.open_holds(&filter).await?, Utc::now()),
        By::Overruns => rows::overruns(&ledger.overruns(&filter).await?),
    };
    ledger.close().await;
    print(&write(by, form, &grid)?)
}

fn write(by: By, form: Form, grid: &Grid) -> Result<String> {
    match form {
        Form::Json => text::json(by.as_str(), grid),
        Form::Csv => text::csv(grid),
        Form::Table => Ok(table::render(grid, terminal_width())),
    }
}

/// Columns of the terminal; `None` when standard output is none.
fn terminal_width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (width, _) = terminal_size::terminal_size()?;
    Some(width.0.into())
}

/// A reader that has seen enough (`| head`) is no failure.
fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing the report"),
    }
}
