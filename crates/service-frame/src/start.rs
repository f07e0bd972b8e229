//! A service starts on servers that are fit for limits and money, or says in one line why not.
//!
//! What a supervisor learns from the exit code:
//!
//! | code | the service did not start because | a restart |
//! |---|---|---|
//! | 1 | a server cannot be reached, or its tables are of another release | helps, when the server is back or migrated |
//! | 2 | its command line or environment is wrong | no |
//! | 75 | a server is no primary now: a replica, a standby, a cluster without all its slots | helps, when it is promoted |
//! | 78 | a server is configured so that limits or bills are lost, is too old, or denies a right | no |
//!
//! 75 and 78 are `EX_TEMPFAIL` and `EX_CONFIG` of `sysexits.h`.

use std::fmt;
use std::process::ExitCode;

use anyhow::Error;
use clap::Args;
use spend_queue::{Finding, Severity};

/// Exit code: a server must not be used as it is now, which passes by itself.
pub const NOT_NOW: u8 = 75;
/// Exit code: a server must not be used, until somebody mends it.
pub const UNFIT: u8 = 78;

/// How strictly a service starts.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct StartOptions {
    /// Start although a server is unfit for limits or money (an evicting Redis, a missing right, a replica, ...): what the
    /// doctor calls fatal is logged as a warning
    #[arg(long, env = "TALLYWEIR_LENIENT_START", value_parser = yes_or_no)]
    lenient_start: bool,
}

/// A server on which a service refuses to start. One line without a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    server: &'static str,
    fatal: Vec<Finding>,
    /// Whether a lenient start would go on.
    tolerable: bool,
}

impl StartOptions {
    /// Logs what the doctor warns about `server`, and refuses what is fatal, unless the start is lenient.
    ///
    /// # Errors
    ///
    /// [`Unfit`], with every fatal finding.
    pub fn judge(self, server: &'static str, findings: Vec<Finding>) -> Result<(), Unfit> {
        let (fatal, others): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.severity == Severity::Fatal);
        let tolerated = if self.lenient_start { &fatal[..] } else { &[] };
        for finding in others.iter().filter(|finding| finding.severity == Severity::Warning).chain(tolerated)
        {
            let Finding { check, severity, what, why, mend, .. } = finding;
            tracing::warn!(check, %severity, why, mend, "{what}");
        }
        if fatal.is_empty() || self.lenient_start {
            Ok(())
        } else {
            Err(Unfit { server, fatal, tolerable: true })
        }
    }
}

impl Unfit {
    /// A refusal of a server that nobody can start on, however leniently: it does not even let itself be looked at.
    #[must_use]
    pub const fn new(server: &'static str, fatal: Vec<Finding>) -> Self {
        Self { server, fatal, tolerable: false }
    }

    /// The exit code: [`NOT_NOW`] when each finding may be over by itself, else [`UNFIT`].
    #[must_use]
    pub fn code(&self) -> u8 {
        if self.fatal.iter().all(|finding| finding.passes) { NOT_NOW } else { UNFIT }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this {} must not be used: ", self.server)?;
        for (at, Finding { check, what, mend, .. }) in self.fatal.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{check}: {what} ({mend})")?;
        }
        if self.tolerable { f.write_str("; --lenient-start starts nevertheless") } else { Ok(()) }
    }
}

impl std::error::Error for Unfit {}

/// The exit code of a program that failed so.
#[must_use]
pub fn exit_code(error: &Error) -> ExitCode {
    error.downcast_ref::<Unfit>().map_or(ExitCode::FAILURE, |unfit| ExitCode::from(unfit.code()))
}

/// Reads a switch as an environment says it.
fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("true or false is accepted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fatal(check: &'static str) -> Finding {
        Finding::new(check, Severity::Fatal, "what", "why", "mend")
    }

    #[test]
    fn what_is_fatal_is_refused_in_one_line_and_with_a_code_that_says_whether_a_restart_helps() {
        let strict = StartOptions::default();
        let warning = Finding::new("redis.persistence", Severity::Warning, "no", "why", "mend");
        assert_eq!(strict.judge("Redis", vec![warning.clone()]), Ok(()));
        for (findings, code) in [
            (vec![fatal("redis.eviction")], UNFIT),
            (vec![fatal("redis.replication").passing()], NOT_NOW),
            (vec![fatal("redis.replication").passing(), fatal("redis.eviction")], UNFIT),
        ] {
            let unfit = strict.judge("Redis", findings).unwrap_err();
            assert_eq!(unfit.code(), code, "{unfit}");
            assert!(unfit.to_string().starts_with("this Redis must not be used: redis."), "{unfit}");
            assert_eq!(unfit.to_string().lines().count(), 1);
            assert_eq!(format!("{:?}", exit_code(&unfit.into())), format!("{:?}", ExitCode::from(code)));
        }
        let lenient = StartOptions { lenient_start: true };
        assert_eq!(lenient.judge("Redis", vec![fatal("redis.eviction"), warning]), Ok(()));
        let other = format!("{:?}", exit_code(&Error::msg("connection refused")));
        assert_eq!(other, format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn a_switch_of_the_environment_says_yes_or_no() {
        assert_eq!(["true", "YES", "on", "1"].map(yes_or_no), [const { Ok(true) }; 4]);
        assert_eq!(["false", "no", "Off", "0"].map(yes_or_no), [const { Ok(false) }; 4]);
        assert!(["", "2", "maybe"].iter().all(|text| yes_or_no(text).is_err()));
    }
}
