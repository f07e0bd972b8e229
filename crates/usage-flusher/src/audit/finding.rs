//! What an audit says: what it looked at, what it did not, and what does not agree.

use std::process::ExitCode;

use serde::Serialize;

/// How an audit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Everything that was looked at agrees.
    Exact,
    /// Something does not.
    Differs,
    /// Nothing contradicts, but the ledger has no batch of this epoch to compare with.
    NothingToCompare,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Exact => Self::SUCCESS,
            Verdict::Differs => Self::FAILURE,
            // 2 is that of a wrong command line.
            Verdict::NothingToCompare => Self::from(3),
        }
    }
}

/// Something that does not agree.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    /// A stable name, for scripts: that of the check.
    pub(super) check: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shard: Option<String>,
    pub(super) what: String,
    pub(super) means: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) verdict: Verdict,
    /// Whether the verdict is `exact`.
    pub(super) exact: bool,
    pub(super) prefix: String,
    pub(super) shards: u16,
    /// Host, port and name of the ledger's database.
    pub(super) database: String,
    /// Entries that wait in Redis: no difference, but not in the ledger yet either.
    pub(super) pending_entries: u64,
    /// The checks that were made.
    pub(super) looked_at: Vec<&'static str>,
    /// What was not, in words.
    pub(super) not_looked_at: Vec<String>,
    /// What somebody may want to know and is no difference.
    pub(super) remarks: Vec<String>,
    pub(super) differences: Vec<Difference>,
}

impl Report {
    pub(super) fn differ(
        &mut self,
        check: &'static str,
        shard: Option<String>,
        what: String,
        means: &'static str,
    ) {
        self.differences.push(Difference { check, shard, what, means });
    }

    /// Notes that a check was made, once.
    pub(super) fn looked_at(&mut self, checks: &[&'static str]) {
        for check in checks {
            if !self.looked_at.contains(check) {
                self.looked_at.push(check);
            }
        }
    }

    pub(super) fn print(&self) {
        let waiting = match self.pending_entries {
            0 => "nothing waits in Redis".to_owned(),
            1 => "1 entry waits in Redis".to_owned(),
            entries => format!("{entries} entries wait in Redis"),
        };
        match (self.verdict, self.differences.len()) {
            (Verdict::Exact, _) => println!("exact: Redis, flush log and ledger agree; {waiting}"),
            (Verdict::NothingToCompare, _) => println!("nothing to compare; {waiting}"),
            (Verdict::Differs, 1) => println!("1 difference; {waiting}"),
            (Verdict::Differs, differences) => println!("{differences} differences; {waiting}"),
        }
        for Difference { check, shard, what, means } in &self.differences {
            let place = shard.as_ref().map_or_else(String::new, |shard| format!(" (shard {shard})"));
            println!("\n{check}{place}: {what}\n  means: {means}");
        }
        if !self.differences.is_empty() {
            println!();
        }
        for remark in &self.remarks {
            println!("remark: {remark}");
        }
        println!("looked at: {}", self.looked_at.join(", "));
        for left_out in &self.not_looked_at {
            println!("not looked at: {left_out}");
        }
    }
}
