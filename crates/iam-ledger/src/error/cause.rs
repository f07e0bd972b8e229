//! What PostgreSQL and its driver say, and what each SQLSTATE is worth: `docs/operations/errors-postgresql.md` says the same.

use core::fmt;

/// `read_only_sql_transaction`: what every write on a standby or a fenced primary is refused with.
pub(super) const READ_ONLY: &str = "25006";

/// A server that stops, crashes, starts, or was told to end the session.
pub(super) const UNAVAILABLE: [&str; 4] = ["57P01", "57P02", "57P03", "57P05"];

/// What a smaller batch may not run into: time-outs, and memory.
pub(super) const TOO_SLOW: [&str; 5] = ["57014", "55P03", "25P03", "25P04", "53200"];

/// Conflicts with others, which pass with their transactions. 40003: nobody knows what became of the statement.
const CONFLICTS: [&str; 3] = ["40001", "40P01", "40003"];

/// What the driver or the server said, on one line and without row values.
///
/// PostgreSQL's *detail* quotes whole rows, so it is left out of both `Display` and `Debug`.
pub struct Cause(sqlx::Error);

impl Cause {
    pub(crate) const fn new(error: sqlx::Error) -> Self {
        Self(error)
    }

    pub(crate) fn sqlstate(&self) -> Option<String> {
        self.0.as_database_error()?.code().map(std::borrow::Cow::into_owned)
    }

    pub(super) fn constraint(&self) -> Option<&str> {
        self.0.as_database_error()?.constraint()
    }

    pub(super) fn is_transient(&self) -> bool {
        match &self.0 {
            sqlx::Error::Io(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => true,
            sqlx::Error::Database(_) => self.sqlstate().is_some_and(|code| is_transient_sqlstate(&code)),
            _ => false,
        }
    }

    /// A handshake that broke off: what a server or a proxy that starts, stops or is replaced leaves behind. Whatever else
    /// answers in a protocol of its own looks the same, so it is asked again too; the message says what came.
    pub(super) fn is_broken_handshake(&self) -> bool {
        match &self.0 {
            sqlx::Error::Protocol(_) => true,
            sqlx::Error::Tls(error) => {
                let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
                std::iter::from_fn(|| {
                    let this = cause?;
                    cause = this.source();
                    Some(this)
                })
                .any(|error| error.is::<std::io::Error>())
            }
            _ => false,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0.as_database_error() {
            Some(error) => error.message().to_owned(),
            None => self.0.to_string(),
        };
        for (index, line) in text.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            f.write_str(line)?;
        }
        match self.sqlstate() {
            Some(code) => write!(f, " (SQLSTATE {code})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cause({self})")
    }
}

/// Connections (class 08) and resources (class 53), and those above.
fn is_transient_sqlstate(code: &str) -> bool {
    let all = UNAVAILABLE.iter().chain(&TOO_SLOW).chain(&CONFLICTS).chain([&READ_ONLY]);
    code.starts_with("08") || code.starts_with("53") || all.into_iter().any(|known| *known == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table that operators read: a SQLSTATE or a class, and whether it passes by itself.
    fn documented() -> Vec<(&'static str, bool)> {
        let page = include_str!("../../../../docs/operations/errors-postgresql.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")).map(|row| {
            let (code, rest) = row.split_once("` | ").unwrap();
            let passes = match rest.split(" | ").nth(1).unwrap() {
                "yes" => true,
                "no" => false,
                other => panic!("{code}: {other}"),
            };
            (code, passes)
        });
        rows.collect()
    }

    #[test]
    fn the_operators_page_says_of_each_sqlstate_what_the_code_does() {
        let rows = documented();
        for (code, passes) in &rows {
            // A class stands for each of its codes.
            let code = code.replace("xxx", "000");
            assert_eq!(is_transient_sqlstate(&code), *passes, "{code}");
        }
        let is_there = |code: &str| rows.iter().any(|(row, _)| *row == code);
        for code in UNAVAILABLE.iter().chain(&TOO_SLOW).chain(&CONFLICTS).chain([&READ_ONLY]) {
            assert!(is_there(code), "{code} is not on the page");
        }
        assert!(is_there("08xxx") && is_there("53xxx"));
    }

    #[test]
    fn a_cause_of_several_lines_becomes_one() {
        let cause = Cause(sqlx::Error::Protocol("one\n\n  two\r\n".into()));
        assert_eq!(cause.to_string(), "encountered unexpected or invalid data: one; two");
    }
}
