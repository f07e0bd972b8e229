//! The settings in which all gateways of a deployment must agree, as the queue records them.

use std::fmt;

use crate::{Options, WindowClock};

/// Whose clock says the minute, and how long request ids are remembered. As text, in a shard's state: `local` or `redis`, a
/// blank, and milliseconds, 0 for ever. It is compared as text, so it must stay the same for the same settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AgreedSettings {
    clock: WindowClock,
    /// The length of a generation of request ids; `None` for ever.
    remembered_millis: Option<u64>,
}

impl AgreedSettings {
    pub(crate) fn of(options: &Options) -> Self {
        Self { clock: options.window_clock, remembered_millis: options.dedup_retention.generation_millis() }
    }

    /// What a queue recorded; `None` for what no client writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (clock, millis) = text.split_once(' ')?;
        let clock = match clock {
            "local" => WindowClock::Local,
            "redis" => WindowClock::Redis,
            _ => return None,
        };
        let millis: u64 = millis.parse().ok()?;
        Some(Self { clock, remembered_millis: (millis > 0).then_some(millis) })
    }

    /// For people.
    pub(crate) fn in_words(self) -> String {
        let clock = match self.clock {
            WindowClock::Local => "each gateway's",
            WindowClock::Redis => "the server's",
        };
        let remembered = self
            .remembered_millis
            .map_or_else(|| "for ever".to_owned(), |millis| format!("for {} s at least", millis / 1000));
        format!("the minute is by {clock} clock, request ids are remembered {remembered}")
    }
}

impl fmt::Display for AgreedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = match self.clock {
            WindowClock::Local => "local",
            WindowClock::Redis => "redis",
        };
        write!(f, "{clock} {}", self.remembered_millis.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::DedupRetention;

    #[test]
    fn what_is_recorded_is_read_back_and_other_text_is_not() {
        let shorter = DedupRetention::AtLeast(Duration::from_secs(1));
        for (clock, retention, text) in [
            (WindowClock::Local, DedupRetention::Permanent, "local 0"),
            (WindowClock::Redis, DedupRetention::AtLeast(Duration::from_secs(7200)), "redis 7200000"),
            (WindowClock::Local, shorter, "local 60000"),
        ] {
            let options = Options::default().with_window_clock(clock).with_dedup_retention(retention);
            let settings = AgreedSettings::of(&options);
            assert_eq!(settings.to_string(), text);
            assert_eq!(AgreedSettings::parse(text), Some(settings));
        }
        for text in ["", "local", "sun 0", "local -1", "local 1 2"] {
            assert_eq!(AgreedSettings::parse(text), None, "{text:?}");
        }
    }
}
