//! The command `dead-letters`: what the ledger refused, for people and scripts, and a second try.

mod render;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use chrono::Utc;
use clap::{Args, Subcommand};
use iam_ledger::{DeadLetter, DeadLetterKind, DeadLetterPage, Ledger, LedgerError, LedgerOptions, Replayed};

use render::{Attempt, Outcome};
use service_frame::connection::DatabaseOptions;
use service_frame::values::whole;
use spend_queue::Entry;

#[derive(Debug, Args)]
pub(crate) struct DeadLettersOptions {
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Debug, Subcommand)]
enum DeadLettersCommand {
    /// List letters, oldest first: those that wait for somebody, or all
    List(ListOptions),
    /// Show one letter with its reason and its whole entry
    Show(ShowOptions),
    /// Settle refused letters whose cause is mended; without --yes, only say what would be done
    Replay(ReplayOptions),
}

#[derive(Debug, Args)]
struct ListOptions {
    #[command(flatten)]
    database: DatabaseOptions,
    /// Also those that are done with
    #[arg(long)]
    all: bool,
    /// Only letters with a greater number: the last one of the page before
    #[arg(long, value_name = "ID", default_value = "0", value_parser = whole::<i64>(0..=i64::MAX))]
    after: i64,
    /// Longest list, in letters (1 to 10000)
    #[arg(long, value_name = "N", default_value = "100", value_parser = whole::<u32>(1..=10_000))]
    limit: u32,
    /// Print one JSON object: letters, next (the --after of the next page, null at the end)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ShowOptions {
    #[command(flatten)]
    database: DatabaseOptions,
    /// The letter's number
    #[arg(value_parser = whole::<i64>(0..=i64::MAX))]
    id: i64,
    /// Print one JSON object: the letter, and raw (the entry as text, or raw_hex if it is none)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ReplayOptions {
    #[command(flatten)]
    database: DatabaseOptions,
    /// The letters' numbers
    #[arg(required = true, value_name = "ID", value_parser = whole::<i64>(0..=i64::MAX))]
    ids: Vec<i64>,
    /// Settle what this file holds in place of the letter's entry: the entry as `show --json` prints it (raw), with the value
    /// corrected and the same request id. For one letter
    #[arg(long, value_name = "FILE")]
    entry: Option<PathBuf>,
    /// Really do it
    #[arg(long)]
    yes: bool,
    /// Print one JSON object: attempts (id, outcome, detail), changed
    #[arg(long)]
    json: bool,
}

/// Answers whether all that was asked for was done or could be.
pub(crate) async fn run(options: DeadLettersOptions) -> Result<bool> {
    match options.command {
        DeadLettersCommand::List(options) => list(&options).await,
        DeadLettersCommand::Show(options) => show(&options).await,
        DeadLettersCommand::Replay(options) => replay(options).await,
    }
}

async fn connect(database: &DatabaseOptions) -> Result<Ledger> {
    let options = LedgerOptions { max_connections: 1, ..LedgerOptions::default() };
    let ledger = Ledger::connect(&database.url().required()?, options).await?;
    ledger.require_migrated().await?;
    Ok(ledger)
}

async fn list(options: &ListOptions) -> Result<bool> {
    let ledger = connect(&options.database).await?;
    let page = DeadLetterPage { after: options.after, limit: options.limit, open_only: !options.all };
    let letters = ledger.dead_letters(page).await?;
    // A page that is not full is the last one.
    let full = u32::try_from(letters.len()).is_ok_and(|length| length == options.limit);
    let next = letters.last().filter(|_| full).map(|letter| letter.id);
    match options.json {
        true => println!("{}", render::list_json(&letters, next)),
        false => print!("{}", render::table(&letters, next)),
    }
    ledger.close().await;
    Ok(true)
}

async fn show(options: &ShowOptions) -> Result<bool> {
    let ledger = connect(&options.database).await?;
    let content = ledger.dead_letter(options.id).await?;
    match options.json {
        true => println!("{}", render::content_json(&content)),
        false => print!("{}", render::content(&content)),
    }
    ledger.close().await;
    Ok(true)
}

async fn replay(mut options: ReplayOptions) -> Result<bool> {
    let mut seen = std::collections::BTreeSet::new();
    options.ids.retain(|id| seen.insert(*id));
    let corrected = corrected(&options)?;
    let ledger = connect(&options.database).await?;
    let mut attempts = Vec::with_capacity(options.ids.len());
    let mut failure = None;
    for &id in &options.ids {
        let outcome = match (options.yes, &corrected) {
            (true, None) => ledger.replay(id, Utc::now()).await.map(Outcome::of),
            (true, Some(entry)) => ledger.replay_corrected(id, entry, Utc::now()).await.map(Outcome::of),
            (false, _) => ledger.dead_letter(id).await.map(|content| forecast(&content.letter)),
        };
        match outcome {
            Ok(outcome) => attempts.push(Attempt { id, outcome }),
            Err(LedgerError::NoDeadLetter { .. }) => attempts.push(Attempt { id, outcome: Outcome::Missing }),
            Err(error) => {
                failure = Some((id, error));
                break;
            }
        }
    }
    // What was done before a failure stays done, and is said.
    match options.json {
        true => println!("{}", render::attempts_json(&attempts, options.yes)),
        false => print!("{}", render::attempts(&attempts, options.yes)),
    }
    ledger.close().await;
    match failure {
        Some((id, error)) => Err(error).with_context(|| format!("replaying dead letter {id}")),
        None => Ok(attempts.iter().all(|attempt| attempt.outcome.is_fine())),
    }
}

/// The bytes to settle in place of a letter's entry, if a file was given: without the line's end that an editor adds.
fn corrected(options: &ReplayOptions) -> Result<Option<Vec<u8>>> {
    let Some(file) = &options.entry else { return Ok(None) };
    if options.ids.len() != 1 {
        bail!("--entry: one letter is accepted with it, {} are named", options.ids.len());
    }
    let entry = std::fs::read(file)
        .with_context(|| format!("--entry {}: a file that can be read is accepted", file.display()))?;
    let entry = entry.trim_ascii_end().to_vec();
    Entry::decode(entry.clone())
        .with_context(|| format!("--entry {}: an entry of the queue is accepted", file.display()))?;
    Ok(Some(entry))
}

/// What a replay would try, from the letter alone.
fn forecast(letter: &DeadLetter) -> Outcome {
    match letter.replay.filter(|_| !letter.is_open()) {
        _ if letter.kind == DeadLetterKind::Conflict => Outcome::of(Replayed::NotReplayable),
        Some(replay) => Outcome::of(Replayed::AlreadyDone(replay)),
        None => Outcome::WouldReplay,
    }
}
