//! Recorded admission cases: one JSON object a line, with a tree, steps, and the answers that are wanted.
//!
//! ```json
//! {"name":"full","nodes":[{"kind":"team","id":"t","parent":null,"rpm":1,"tpm":null}],
//!  "steps":[{"admit":{"node":0,"est":5,"minute":29000000}},{"admit":{"node":0,"est":5,"minute":29000000}},
//!           {"limits":{"node":0,"rpm":2,"tpm":null}}],
//!  "want":["ok","team rpm_limit"]}
//! ```
//!
//! (One line in a file.) `admit` names a node, whose path is it and everything above, or in a flat tree a `path` of
//! indices. `limits` changes the configuration; counters stay. `want` has one answer for each `admit`; it may be left
//! out.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use rate_plan::{Limits, Node, PathError, RateTree, Scope, ScopeError, TreeError};
use serde::{Deserialize, Deserializer};
use thiserror::Error;

/// A case that can be decided: its tree, nodes and paths exist.
#[derive(Clone, Debug)]
pub struct Case {
    /// What reports call it.
    pub name: String,
    /// The tree before the first step.
    pub tree: Arc<RateTree>,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// The wanted answers, one for each [`Step::Admit`].
    pub want: Option<Vec<String>>,
}

/// One step of a case.
#[derive(Clone, Debug)]
pub enum Step {
    /// A request asks for admission.
    Admit {
        /// Its path in the tree, leaf to root.
        path: rate_plan::Path,
        /// Its tokens; a negative number counts as 0.
        estimate: i64,
        /// The minute in which it asks.
        now: DateTime<Utc>,
    },
    /// The limits of one node change.
    SetLimits {
        /// The tree from now on.
        tree: Arc<RateTree>,
    },
}

/// Why a file of cases cannot be used: file, line (from 1), and column or field. A retry cannot help.
#[derive(Debug, Error)]
#[error("{file}{}: {problem}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct CaseError {
    /// The file as it was named.
    pub file: String,
    /// The line at fault, if it is about one.
    pub line: Option<u64>,
    /// What is wrong.
    pub problem: CaseProblem,
}

/// What is wrong with a file of cases.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaseProblem {
    /// The operating system refused, or the bytes are no UTF-8.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// There is no case.
    #[error("holds no case")]
    Empty,
    /// The line is no JSON, or a field is missing, unknown or of another type.
    #[error("column {column}: {reason}")]
    Json {
        /// Where, in bytes from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// A field has a value that cannot be.
    #[error("{field}: {reason}")]
    Field {
        /// The field, such as `steps[3].admit.node`.
        field: String,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: String,
    nodes: Vec<RawNode>,
    steps: Vec<RawStep>,
    #[serde(default)]
    want: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    kind: String,
    id: String,
    #[serde(deserialize_with = "present")]
    parent: Option<usize>,
    #[serde(deserialize_with = "present")]
    rpm: Option<u64>,
    #[serde(deserialize_with = "present")]
    tpm: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawStep {
    Admit(RawAdmit),
    Limits(RawLimits),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAdmit {
    node: Option<usize>,
    path: Option<Vec<usize>>,
    est: i64,
    minute: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    node: usize,
    #[serde(deserialize_with = "present")]
    rpm: Option<u64>,
    #[serde(deserialize_with = "present")]
    tpm: Option<u64>,
}

/// A field that may be null but must be there: a misspelt limit would otherwise be no limit at all.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// Reads and validates a whole file, so that a malformed one is found before anything is decided.
///
/// # Errors
///
/// The first [`CaseError`].
pub fn read_file(path: &Path) -> Result<Vec<Case>, CaseError> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => read(BufReader::new(file), &name),
        Err(error) => Err(CaseError { file: name, line: None, problem: error.into() }),
    }
}

/// [`read_file`] of any input; `file` is what errors call it. Blank lines are passed over.
///
/// # Errors
///
/// The first [`CaseError`].
pub fn read(input: impl BufRead, file: &str) -> Result<Vec<Case>, CaseError> {
    let failed = |line, problem| CaseError { file: file.to_owned(), line, problem };
    let mut cases = Vec::new();
    for (text, line) in input.lines().zip(1..) {
        let text = text.map_err(|error| failed(Some(line), error.into()))?;
        if !text.trim().is_empty() {
            cases.push(parse(&text).map_err(|problem| failed(Some(line), problem))?);
        }
    }
    if cases.is_empty() {
        return Err(failed(None, CaseProblem::Empty));
    }
    Ok(cases)
}

fn parse(text: &str) -> Result<Case, CaseProblem> {
    let raw: RawCase = serde_json::from_str(text).map_err(|error| {
        let whole = error.to_string();
        // The library appends the place, in which the line is always 1.
        let reason = whole.rsplit_once(" at line ").map_or(&*whole, |(reason, _)| reason).to_owned();
        CaseProblem::Json { column: error.column(), reason }
    })?;
    let nodes: Result<Vec<Node>, CaseProblem> = raw.nodes.into_iter().enumerate().map(node).collect();
    let tree =
        RateTree::new(nodes?).map_err(|error: TreeError| field("nodes".to_owned(), error.to_string()))?;
    let tree = Arc::new(tree);
    let mut now = Arc::clone(&tree);
    let mut steps = Vec::with_capacity(raw.steps.len());
    for (place, step) in raw.steps.into_iter().enumerate() {
        steps.push(match step {
            RawStep::Admit(admit) => admit_step(place, admit, &now)?,
            RawStep::Limits(RawLimits { node, rpm, tpm }) => {
                let changed = now
                    .with_limits(node, Limits { rpm, tpm })
                    .map_err(|error| field(format!("steps[{place}].limits"), error.to_string()))?;
                now = Arc::new(changed);
                Step::SetLimits { tree: Arc::clone(&now) }
            }
        });
    }
    let admits = steps.iter().filter(|step| matches!(step, Step::Admit { .. })).count();
    match raw.want {
        Some(want) if want.len() != admits => {
            Err(field("want".to_owned(), format!("{} answers for {admits} admit steps", want.len())))
        }
        want => Ok(Case { name: raw.name, tree, steps, want }),
    }
}

fn node((place, raw): (usize, RawNode)) -> Result<Node, CaseProblem> {
    let scope = Scope::new(raw.kind, raw.id)
        .map_err(|error: ScopeError| field(format!("nodes[{place}]"), error.to_string()))?;
    Ok(Node { scope, parent: raw.parent, limits: Limits { rpm: raw.rpm, tpm: raw.tpm } })
}

fn admit_step(place: usize, raw: RawAdmit, tree: &RateTree) -> Result<Step, CaseProblem> {
    let in_path = |error: PathError| field(format!("steps[{place}].admit"), error.to_string());
    let path = match (raw.node, raw.path) {
        (Some(node), None) => tree.path_from(node).map_err(in_path)?,
        (None, Some(path)) => tree.path(path).map_err(in_path)?,
        _ => return Err(field(format!("steps[{place}].admit"), "exactly one of node and path is needed")),
    };
    let now = raw.minute.checked_mul(60).and_then(DateTime::from_timestamp_secs);
    let now = now.ok_or_else(|| {
        field(format!("steps[{place}].admit.minute"), format!("{} is no minute of the calendar", raw.minute))
    })?;
    Ok(Step::Admit { path, estimate: raw.est, now })
}

fn field(field: String, reason: impl Into<String>) -> CaseProblem {
    CaseProblem::Field { field, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = r#"[{"kind":"org","id":"o","parent":null,"rpm":1,"tpm":null}]"#;

    fn error(line: &str) -> String {
        read(format!("\n{line}\n").as_bytes(), "cases.jsonl").unwrap_err().to_string()
    }

    #[test]
    fn a_case_is_read_with_its_steps() {
        let line = format!(
            r#"{{"name":"n","nodes":{NODES},"steps":[{{"admit":{{"node":0,"est":-5,"minute":2}}}},
               {{"limits":{{"node":0,"rpm":null,"tpm":7}}}},{{"admit":{{"path":[0],"est":1,"minute":3}}}}],
               "want":["ok","ok"]}}"#
        );
        let cases = read(line.replace('\n', " ").as_bytes(), "f").unwrap();
        assert_eq!((cases[0].name.as_str(), cases[0].steps.len()), ("n", 3));
        let Step::Admit { estimate, now, .. } = &cases[0].steps[0] else { panic!("an admit") };
        assert_eq!((*estimate, now.timestamp()), (-5, 120));
        let Step::SetLimits { tree } = &cases[0].steps[1] else { panic!("limits") };
        assert_eq!(tree.nodes()[0].limits, Limits { rpm: None, tpm: Some(7) });
    }

    #[test]
    fn a_malformed_line_is_named_by_line_and_column_or_field() {
        let case = |nodes: &str, steps: &str, want: &str| {
            format!(r#"{{"name":"n","nodes":{nodes},"steps":[{steps}],"want":{want}}}"#)
        };
        let admit = r#"{"admit":{"node":0,"est":1,"minute":1}}"#;
        for (line, wanted) in [
            ("{\"name\":".to_owned(), ":2: column 8: EOF while parsing a value"),
            ("[]".to_owned(), ":2: column 2: invalid length 0"),
            (case(r#"[{"kind":"o","id":"o","parent":null,"rpm":1}]"#, "", "[]"), "missing field `tpm`"),
            (
                case(r#"[{"kind":"o","id":"o","parent":-1,"rpm":1,"tpm":1}]"#, "", "[]"),
                "invalid value: integer `-1`",
            ),
            (
                case(r#"[{"kind":"o","id":"o","parent":null,"rpm":1.5,"tpm":1}]"#, "", "[]"),
                "floating point `1.5`",
            ),
            (
                case(r#"[{"kind":"o","id":"","parent":null,"rpm":1,"tpm":1}]"#, "", "[]"),
                ":2: nodes[0]: scope id is empty",
            ),
            (
                case(r#"[{"kind":"o","id":"o","parent":3,"rpm":1,"tpm":1}]"#, "", "[]"),
                ":2: nodes: node 0 (o/o)",
            ),
            (
                case(r#"[{"kind":"o","id":"o","parent":0,"rpm":1,"tpm":1}]"#, "", "[]"),
                ":2: nodes: node 0 (o/o)",
            ),
            (case(NODES, r#"{"refund":{}}"#, "[]"), "unknown variant `refund`"),
            (case(NODES, r#"{"admit":{"node":9,"est":1,"minute":1}}"#, "[]"), ":2: steps[0].admit: "),
            (case(NODES, r#"{"admit":{"est":1,"minute":1}}"#, "[]"), "exactly one of node and path"),
            (case(NODES, r#"{"admit":{"path":[0,0],"est":1,"minute":1}}"#, "[]"), ":2: steps[0].admit: "),
            (
                case(NODES, r#"{"admit":{"node":0,"est":1,"minute":9223372036854775807}}"#, "[]"),
                ":2: steps[0].admit.minute: ",
            ),
            (case(NODES, r#"{"limits":{"node":5,"rpm":1,"tpm":1}}"#, "[]"), ":2: steps[0].limits: "),
            (case(NODES, r#"{"limits":{"node":0,"rpm":1}}"#, "[]"), "missing field `tpm`"),
            (case(NODES, admit, "[]"), ":2: want: 0 answers for 1 admit steps"),
            (case(NODES, admit, r#"["ok"],"wnat":[]"#), "unknown field `wnat`"),
        ] {
            let error = error(&line);
            assert!(error.starts_with("cases.jsonl:2: ") && error.contains(wanted), "{line}\n{error}");
            assert!(!error.contains('\n') && !error.contains("at line 1"), "{error}");
        }
    }

    #[test]
    fn a_file_without_a_case_or_without_text_is_refused() {
        assert_eq!(read(&b"\n \n"[..], "f").unwrap_err().to_string(), "f: holds no case");
        assert!(read(&b"\xff\n"[..], "f").unwrap_err().to_string().starts_with("f:1: cannot be read: "));
        let error = read_file(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(error.starts_with("/no/such/file: cannot be read: "), "{error}");
    }
}
