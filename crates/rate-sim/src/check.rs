//! Decides recorded cases with one backend and compares the answers with those that are wanted.

use std::collections::HashMap;
use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use live_redis::{LiveRedis, LiveRedisError};
use rate_plan::{Decision, PathError, RatePlan, Usage, UsageError, Window, admit, minute_of};
use serde::Serialize;
use thiserror::Error;

use crate::cases::{Case, Step};

/// Something that decides admissions and counts them.
pub trait Backend {
    /// Why a decision was not made.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Begins a case: from now on all counters are zero.
    fn begin(&mut self, case: usize);

    /// Decides one request at `now`, and counts it if it is admitted.
    ///
    /// # Errors
    ///
    /// When no decision was made.
    fn admit(
        &mut self,
        plan: &RatePlan,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<Decision, Self::Error>>;
}

/// The algorithm in memory, over the whole tree.
#[derive(Debug, Default)]
pub struct Reference {
    minutes: HashMap<i64, Vec<Usage>>,
}

impl Backend for Reference {
    type Error = UsageError;

    fn begin(&mut self, _case: usize) {
        self.minutes.clear();
    }

    async fn admit(
        &mut self,
        plan: &RatePlan,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> Result<Decision, UsageError> {
        let minute = minute_of(now.timestamp());
        let usage = self.minutes.entry(minute).or_insert_with(|| vec![Usage::default(); plan.tree().len()]);
        admit(plan, usage, estimate)
    }
}

/// The algorithm in memory, over the path alone.
#[derive(Debug, Default)]
pub struct Incremental {
    minutes: HashMap<i64, Window>,
}

impl Backend for Incremental {
    type Error = UsageError;

    fn begin(&mut self, _case: usize) {
        self.minutes.clear();
    }

    async fn admit(
        &mut self,
        plan: &RatePlan,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> Result<Decision, UsageError> {
        let minute = minute_of(now.timestamp());
        let fresh = || Window::new(Arc::clone(plan.tree()));
        let window = self.minutes.entry(minute).or_insert_with(fresh);
        // Another tree is another configuration, which finds the counters of the minute as they are.
        if !Arc::ptr_eq(window.tree(), plan.tree()) {
            window.rebuild(Arc::clone(plan.tree()));
        }
        window.admit(plan, estimate)
    }
}

/// The script in Redis.
#[derive(Debug)]
pub struct Redis {
    redis: LiveRedis,
    run_id: String,
    partition: String,
}

impl Redis {
    /// Uses this connection. `run_id` must not be used by another run on the same server within two minutes: the
    /// counters of a case are found by it.
    #[must_use]
    pub fn new(redis: LiveRedis, run_id: String) -> Self {
        Self { redis, run_id, partition: String::new() }
    }
}

impl Backend for Redis {
    type Error = LiveRedisError;

    fn begin(&mut self, case: usize) {
        self.partition = format!("check/{}/{case}", self.run_id);
    }

    async fn admit(
        &mut self,
        plan: &RatePlan,
        estimate: i64,
        now: DateTime<Utc>,
    ) -> Result<Decision, LiveRedisError> {
        Ok(self.redis.admit_rate_plan_in(&self.partition, plan, estimate, now).await?.into_decision())
    }
}

/// Why a check did not come to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckError<E> {
    /// The backend did not decide.
    #[error("case {case:?}, step {step}: {source}")]
    Backend {
        /// The case's name.
        case: String,
        /// The step's place in it.
        step: usize,
        /// The backend's error.
        source: E,
    },
    /// A path that its tree does not have; reading the case rules it out.
    #[error("case {case:?}, step {step}: {source}")]
    Path {
        /// The case's name.
        case: String,
        /// The step's place in it.
        step: usize,
        /// What is wrong.
        source: PathError,
    },
    /// The results cannot be written.
    #[error("cannot write the results: {0}")]
    Output(#[from] io::Error),
}

/// An answer that is not the wanted one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("case {case:?}, step {step}: wanted {want:?}, got {got:?}")]
pub struct Difference {
    /// The case's name.
    pub case: String,
    /// The step's place in it, from 0, limit changes counted.
    pub step: usize,
    /// The wanted answer.
    pub want: String,
    /// The given answer.
    pub got: String,
}

/// What a check found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Cases decided.
    pub cases: u64,
    /// Decisions made.
    pub decisions: u64,
    /// Cases with at least one difference.
    pub differing_cases: u64,
    /// Decisions that differ.
    pub differences: u64,
    /// Cases that want nothing.
    pub without_want: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    got: &'a [String],
}

/// Decides all cases. One JSON line for each goes to `output`; each difference goes to `report` as soon as it is known.
///
/// # Errors
///
/// [`CheckError`] ends the check; what was written before stands.
pub async fn run<B: Backend>(
    backend: &mut B,
    cases: &[Case],
    mut output: impl Write,
    mut report: impl FnMut(&Difference),
) -> Result<CheckSummary, CheckError<B::Error>> {
    let mut summary = CheckSummary::default();
    for (number, case) in cases.iter().enumerate() {
        backend.begin(number);
        let (got, steps) = decide(backend, case).await?;
        serde_json::to_writer(&mut output, &Line { name: &case.name, got: &got }).map_err(io::Error::from)?;
        output.write_all(b"\n")?;
        summary.cases += 1;
        summary.decisions += got.len() as u64;
        let want = case.want.as_deref().unwrap_or_default();
        summary.without_want += u64::from(case.want.is_none());
        let before = summary.differences;
        for ((want, got), step) in want.iter().zip(&got).zip(steps) {
            if want != got {
                summary.differences += 1;
                report(&Difference { case: case.name.clone(), step, want: want.clone(), got: got.clone() });
            }
        }
        summary.differing_cases += u64::from(summary.differences > before);
    }
    output.flush()?;
    Ok(summary)
}

/// The answers of a case, and which step each belongs to.
async fn decide<B: Backend>(
    backend: &mut B,
    case: &Case,
) -> Result<(Vec<String>, Vec<usize>), CheckError<B::Error>> {
    let mut tree = &case.tree;
    let (mut got, mut steps) = (Vec::new(), Vec::new());
    for (step, what) in case.steps.iter().enumerate() {
        match what {
            Step::SetLimits { tree: changed } => tree = changed,
            Step::Admit { path, estimate, now } => {
                let plan = RatePlan::new(Arc::clone(tree), path.clone())
                    .map_err(|source| CheckError::Path { case: case.name.clone(), step, source })?;
                let decision = backend
                    .admit(&plan, *estimate, *now)
                    .await
                    .map_err(|source| CheckError::Backend { case: case.name.clone(), step, source })?;
                got.push(decision.rejection().map_or_else(|| "ok".to_owned(), ToString::to_string));
                steps.push(step);
            }
        }
    }
    Ok((got, steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    const CASE: &str = concat!(
        r#"{"name":"n","nodes":[{"kind":"team","id":"t","parent":null,"rpm":1,"tpm":null}],"steps":["#,
        r#"{"admit":{"node":0,"est":1,"minute":1}},{"admit":{"node":0,"est":1,"minute":1}},"#,
        r#"{"limits":{"node":0,"rpm":2,"tpm":0}},{"admit":{"node":0,"est":1,"minute":1}},"#,
        r#"{"admit":{"node":0,"est":1,"minute":2}}],"want":"#
    );

    async fn check(want: &str, times: usize) -> (CheckSummary, Vec<Difference>, String) {
        let text = format!("{CASE}{want}}}\n").repeat(times);
        let cases = cases::read(text.as_bytes(), "f").unwrap();
        let (mut output, mut differences) = (Vec::new(), Vec::new());
        let report = |difference: &Difference| differences.push(difference.clone());
        let summary = run(&mut Reference::default(), &cases, &mut output, report).await.unwrap();
        let mut incremental = Vec::new();
        let same = run(&mut Incremental::default(), &cases, &mut incremental, |_| ()).await.unwrap();
        assert_eq!((same, &incremental), (summary, &output), "both algorithms answer alike");
        (summary, differences, String::from_utf8(output).unwrap())
    }

    #[tokio::test]
    async fn answers_are_written_and_counters_outlive_a_change_of_limits_but_not_a_case() {
        let want = r#"["ok","team rpm_limit","team tpm_limit","team tpm_limit"]"#;
        let (summary, differences, output) = check(want, 2).await;
        assert_eq!(output, format!("{{\"name\":\"n\",\"got\":{want}}}\n").repeat(2));
        assert_eq!(differences, []);
        assert_eq!(summary, CheckSummary { cases: 2, decisions: 8, ..CheckSummary::default() });
    }

    #[tokio::test]
    async fn a_difference_names_case_and_step() {
        let (summary, differences, _) = check(r#"["ok","ok","ok","team tpm_limit"]"#, 1).await;
        let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                r#"case "n", step 1: wanted "ok", got "team rpm_limit""#,
                r#"case "n", step 3: wanted "ok", got "team tpm_limit""#
            ]
        );
        assert_eq!((summary.differing_cases, summary.differences), (1, 2));
    }

    #[tokio::test]
    async fn a_case_that_wants_nothing_is_counted() {
        let (summary, differences, _) = check("null", 1).await;
        assert_eq!((summary.without_want, differences.len()), (1, 0));
    }
}
