//! Flags of `report`. They are read here and not by the parser of the command line, so that each refusal is one line.

use anyhow::{Result, bail};
use chrono::NaiveDate;
use clap::Args;
use iam_ledger::{MAX_REPORT_ROWS, ReportFilter};
use spend_queue::{ScopeRef, ScopeRefError};

use service_frame::connection::DatabaseOptions;

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    #[command(flatten)]
    pub(crate) database: DatabaseOptions,
    /// What to show: day, model or scope (usage), period (spend by budget period), holds (open ones) or overruns
    #[arg(long, default_value = "day", allow_hyphen_values = true)]
    by: String,
    /// First day, YYYY-MM-DD in UTC
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    from: Option<String>,
    /// Last day, included, YYYY-MM-DD in UTC
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    to: Option<String>,
    /// One organization only; an empty id for what has none
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    organization: Option<String>,
    /// At most so many rows, 1 to 100000
    #[arg(long, value_name = "ROWS", default_value = "100", allow_hyphen_values = true)]
    limit: String,
    /// Print one JSON object: by, rows; amounts are exact decimal strings in USD
    #[arg(long)]
    json: bool,
    /// Print CSV (RFC 4180) with a header; amounts are exact decimals in USD
    #[arg(long)]
    csv: bool,
}

/// What a report shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Day,
    Model,
    Scope,
    Period,
    Holds,
    Overruns,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Table,
    Json,
    Csv,
}

impl By {
    const ALL: [Self; 6] = [Self::Day, Self::Model, Self::Scope, Self::Period, Self::Holds, Self::Overruns];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Model => "model",
            Self::Scope => "scope",
            Self::Period => "period",
            Self::Holds => "holds",
            Self::Overruns => "overruns",
        }
    }
}

impl ReportOptions {
    pub(super) fn by(&self) -> Result<By> {
        match By::ALL.into_iter().find(|by| by.as_str() == self.by) {
            Some(by) => Ok(by),
            None => bail!("--by {:?}: day, model, scope, period, holds or overruns is accepted", self.by),
        }
    }

    pub(super) fn form(&self) -> Result<Form> {
        match (self.json, self.csv) {
            (true, true) => bail!("--json and --csv: one of them is accepted"),
            (true, false) => Ok(Form::Json),
            (false, true) => Ok(Form::Csv),
            (false, false) => Ok(Form::Table),
        }
    }

    pub(super) fn filter(&self) -> Result<ReportFilter> {
        let (from, to) = (date("--from", self.from.as_deref())?, date("--to", self.to.as_deref())?);
        if let (Some(from), Some(to)) = (from, to)
            && to < from
        {
            bail!("--to {to}: a day not before --from {from} is accepted");
        }
        let organization_id = self.organization.clone();
        if let Some(id) = organization_id.as_deref().filter(|id| !id.is_empty())
            && let Err(ScopeRefError::Id(problem)) = ScopeRef::new("organization", id)
        {
            bail!("--organization {:?} {problem}; an id of at most 128 bytes is accepted", excerpt(id));
        }
        let limit = match self.limit.parse() {
            Ok(limit @ 1..=MAX_REPORT_ROWS) => limit,
            _ => bail!(
                "--limit {:?}: a whole number from 1 to {MAX_REPORT_ROWS} is accepted",
                excerpt(&self.limit)
            ),
        };
        Ok(ReportFilter { organization_id, from, to, limit })
    }
}

/// Exactly `YYYY-MM-DD`: no other spelling of the same day.
fn date(flag: &str, text: Option<&str>) -> Result<Option<NaiveDate>> {
    let Some(text) = text else { return Ok(None) };
    match text.parse::<NaiveDate>() {
        Ok(date) if text.len() == 10 && date.to_string() == text => Ok(Some(date)),
        _ => bail!("{flag} {:?}: a day as YYYY-MM-DD, such as 2026-03-31, is accepted", excerpt(text)),
    }
}

/// The start of a long value, so that its error stays readable.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}
