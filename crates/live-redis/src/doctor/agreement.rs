//! Whether the gateways of a deployment agree on the settings that no gateway alone can judge.
//!
//! Each enqueue compares the settings of its gateway with those that its shard's state records, and replaces others. So the state
//! says what is in force, since when, and what was before; two gateways that disagree replace each other's again and again.

use chrono::{DateTime, TimeDelta, Utc};
use spend_queue::{Finding, Severity};

use super::Role;
use crate::Options;
use crate::settings::AgreedSettings;

const OPTIONS: &str = "redis.options";

/// The fields of a shard's state that say it, in the order of [`Recorded`].
pub(super) const FIELDS: [&str; 3] = ["settings", "settings_since", "settings_before"];

/// What one shard's state says.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The settings of the gateway that enqueued last.
    pub(super) settings: Option<String>,
    /// The millisecond since which they are recorded.
    pub(super) since: Option<i64>,
    /// Those that they replaced.
    pub(super) before: Option<String>,
}

/// Settings that were replaced within this may be in use still: a change is over after it.
const CHANGE: TimeDelta = TimeDelta::minutes(5);

const WHY: &str = "gateways with different clocks count one moment in two minutes, and one that remembers request ids otherwise \
                   takes a retry that another has queued: until it is settled, pending spend counts it twice";
const MEND: &str = "start every gateway with one --window-clock and one --dedup-retention; after a change on purpose this is over \
                    five minutes after the last gateway of before has stopped";

/// What is in force: the record of the shard in which it is newest. A shard that nobody used since a change has an older one.
pub(super) fn judge(role: Role, options: &Options, recorded: &[Recorded], now: DateTime<Utc>) -> Finding {
    let ours = AgreedSettings::of(options);
    let newest = recorded
        .iter()
        .filter_map(|one| Some((one.since.unwrap_or(0), one.settings.as_deref()?)))
        .max_by_key(|(since, _)| *since);
    let Some((_, in_force)) = newest else {
        return Finding::ok(
            OPTIONS,
            format!("no gateway has enqueued yet; as this client is set: {}", own(ours, options)),
        );
    };
    let replaced = recorded.iter().find_map(|Recorded { settings, since, before }| {
        let ago = now - DateTime::from_timestamp_millis((*since)?)?;
        (ago < CHANGE).then_some((settings.as_deref()?, before.as_deref()?, ago))
    });
    if let Some((after, before, ago)) = replaced {
        let what = format!(
            "gateways of different settings enqueued: {}; and, from {} s ago, {}",
            words(before),
            ago.num_seconds().max(0),
            words(after)
        );
        return Finding::new(OPTIONS, Severity::Warning, what, WHY, MEND);
    }
    if in_force == ours.to_string() {
        return Finding::ok(OPTIONS, format!("in force, and as this client is set: {}", own(ours, options)));
    }
    let what = format!("in force: {}; as this client is set: {}", words(in_force), own(ours, options));
    if role == Role::Gateway {
        return Finding::new(OPTIONS, Severity::Warning, what, WHY, MEND);
    }
    // Only gateways use them.
    Finding::ok(OPTIONS, format!("{what}, which the role {role} does not use"))
}

fn words(recorded: &str) -> String {
    AgreedSettings::parse(recorded).map_or_else(
        || format!("`{}`, which no gateway writes", recorded.escape_debug()),
        AgreedSettings::in_words,
    )
}

/// With what each gateway may choose for itself.
fn own(ours: AgreedSettings, options: &Options) -> String {
    let (most, connections) = (options.micro_batch, options.hot_connections);
    format!("{} ({most} admissions at most go together, on {connections} connections)", ours.in_words())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn judged(role: Role, recorded: &[(&str, i64, Option<&str>)]) -> Finding {
        let recorded: Vec<_> = recorded
            .iter()
            .map(|(settings, ago, before)| Recorded {
                settings: Some((*settings).to_owned()),
                since: Some(NOW - ago),
                before: before.map(str::to_owned),
            })
            .collect();
        let now = DateTime::from_timestamp_millis(NOW).unwrap();
        judge(role, &Options::default(), &recorded, now)
    }

    #[test]
    fn a_change_is_a_warning_for_five_minutes_and_then_only_where_a_gateway_was_left_out() {
        let minutes = 60_000;
        for (recorded, gateway, flusher) in [
            (&[][..], Severity::Ok, Severity::Ok),
            (&[("local 0", 0, None)], Severity::Ok, Severity::Ok),
            (&[("redis 0", 0, None)], Severity::Warning, Severity::Ok),
            (&[("local 0", 4 * minutes, Some("redis 0"))], Severity::Warning, Severity::Warning),
            (&[("local 0", 6 * minutes, Some("redis 0"))], Severity::Ok, Severity::Ok),
            (&[("redis 0", 6 * minutes, Some("local 0"))], Severity::Warning, Severity::Ok),
            // Nobody used the second shard since the change.
            (
                &[("local 0", 6 * minutes, Some("redis 0")), ("redis 0", 90 * minutes, None)],
                Severity::Ok,
                Severity::Ok,
            ),
            (&[("nonsense", 0, None)], Severity::Warning, Severity::Ok),
        ] {
            for (role, severity) in [(Role::Gateway, gateway), (Role::Flusher, flusher)] {
                let finding = judged(role, recorded);
                assert_eq!(finding.severity, severity, "{role}: {recorded:?}: {finding:?}");
            }
        }
    }

    #[test]
    fn what_is_in_force_is_said_in_words() {
        assert_eq!(
            judged(Role::Gateway, &[("local 0", 0, None)]).what,
            "in force, and as this client is set: the minute is by each gateway's clock, request ids are remembered for ever \
             (64 admissions at most go together, on 2 connections)"
        );
        let what = judged(Role::Gateway, &[("redis 7200000", 0, None)]).what;
        assert!(what.contains("for 7200 s at least") && what.contains("the server's clock"), "{what}");
    }
}
