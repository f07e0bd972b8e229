//! Tells the ledger what this gateway's spool holds, so that an audit can name bills that neither Redis nor the ledger knows. While
//! PostgreSQL is away nobody can be told; it is said as soon as it is back.

use std::path::Path;
use std::time::Duration;

use iam_ledger::{Ledger, SpoolAnnouncement};
use spend_queue::Millis;
use spend_spool::{Spool, SpoolStatus};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// How often the spool is looked at, which costs nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a number that changes is said anew. From nothing to something, or back, is said at once.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// How often a number that stays is said anew, so that it is seen who is still there. An audit calls two minutes of silence stale.
const REPEAT_EVERY: Duration = Duration::from_secs(30);
/// The longest wait for the last word.
const LAST_WITHIN: Duration = Duration::from_millis(500);
/// The longest name that the ledger keeps, in bytes.
const NAME_BYTES: usize = 256;

/// What was said last, and when.
struct Said {
    events: u64,
    at: Instant,
}

/// Says it until told to stop.
pub(crate) async fn run(ledger: &Ledger, spool: &Spool, stop: CancellationToken) {
    let instance = name_of(spool.path());
    let (mut said, mut quiet) = (None, false);
    while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
        let now = announcement(&instance, spool);
        if !is_due(said.as_ref(), now.events) {
            continue;
        }
        match ledger.announce_spool(&now).await {
            Ok(()) => (said, quiet) = (Some(Said { events: now.events, at: Instant::now() }), false),
            Err(error) if !quiet => {
                quiet = true;
                tracing::warn!(%error, events = now.events, "the ledger cannot be told what the spool holds");
            }
            Err(error) => {
                tracing::debug!(%error, events = now.events, "the ledger cannot be told what the spool holds");
            }
        }
    }
}

/// Says it for the last time, after the last bill; the process ends whether or not it is heard.
pub(crate) async fn last(ledger: &Ledger, spool: &Spool) {
    let said = announcement(&name_of(spool.path()), spool);
    match timeout(LAST_WITHIN, ledger.announce_spool(&said)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, events = said.events, "the ledger was not told what the spool holds");
        }
        Err(_) => {
            tracing::warn!(events = said.events, "the ledger was not told in time what the spool holds");
        }
    }
}

fn announcement(instance: &str, spool: &Spool) -> SpoolAnnouncement {
    // Conflicts too: each is the bill of a call, and nobody else knows it.
    let SpoolStatus { events, conflicts, bytes, conflict_bytes, oldest, .. } = spool.status();
    SpoolAnnouncement {
        instance: instance.to_owned(),
        events: events.saturating_add(conflicts),
        bytes: bytes.saturating_add(conflict_bytes),
        oldest: oldest.map(Millis::instant),
    }
}

fn is_due(said: Option<&Said>, events: u64) -> bool {
    let Some(said) = said else { return true };
    let crossed = (said.events == 0) != (events == 0);
    let waited = said.at.elapsed();
    crossed || (said.events != events && waited >= SAY_EVERY) || (events > 0 && waited >= REPEAT_EVERY)
}

/// Host and file: one name a spool, the same after a restart.
fn name_of(path: &Path) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::env::var("HOSTNAME").map_err(std::io::Error::other))
        .unwrap_or_else(|_| "gateway".to_owned());
    let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let name = format!("{}:{}", host.trim(), file.display());
    // The end of a path tells spools of one host apart.
    let cut =
        name.char_indices().map(|(at, _)| at).find(|at| name.len() - at <= NAME_BYTES).unwrap_or_default();
    name[cut..].replace('\0', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(events: u64, ago: Duration) -> Said {
        Said { events, at: Instant::now().checked_sub(ago).unwrap() }
    }

    #[test]
    fn crossing_zero_is_said_at_once_other_changes_every_few_seconds_and_silence_is_broken() {
        assert!(is_due(None, 0), "a restart says what it found");
        assert!(is_due(Some(&said(0, Duration::ZERO)), 1));
        assert!(is_due(Some(&said(1, Duration::ZERO)), 0));
        assert!(!is_due(Some(&said(1, Duration::ZERO)), 2));
        assert!(is_due(Some(&said(1, SAY_EVERY)), 2));
        assert!(!is_due(Some(&said(2, SAY_EVERY)), 2));
        assert!(is_due(Some(&said(2, REPEAT_EVERY)), 2));
        assert!(!is_due(Some(&said(0, REPEAT_EVERY)), 0));
    }

    #[test]
    fn a_long_path_keeps_its_end() {
        let name = name_of(Path::new(&format!("/{}/spool.redb", "x".repeat(400))));
        assert!(name.len() <= NAME_BYTES && name.ends_with("/spool.redb"), "{name}");
    }
}
