//! Findings as they come.

use spend_queue::{Finding, Severity};

/// A list of findings that is being made.
#[derive(Debug, Default)]
pub(super) struct Report(Vec<Finding>);

impl Report {
    pub(super) fn add(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// Takes over the findings about one node of several; of the same check the worst is kept. A server that is the only
    /// one has no name.
    pub(super) fn merge(&mut self, node: &str, of_node: Self) {
        for mut finding in of_node.0 {
            if !node.is_empty() {
                finding.what = format!("{} (node {node})", finding.what);
            }
            match self.0.iter_mut().find(|known| known.check == finding.check) {
                Some(known) if known.severity < finding.severity => *known = finding,
                Some(_) => {}
                None => self.0.push(finding),
            }
        }
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.0
    }

    /// What could not be asked is not known to be well.
    pub(super) fn unknown(&mut self, check: &'static str, question: &str, reason: &str, grant: &str) {
        self.add(Finding::new(
            check,
            Severity::Warning,
            format!("{question} is not known: {reason}"),
            "what cannot be asked may be wrong, and nobody would notice",
            format!("let this user call {grant}, or run the doctor as one who may"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_nodes_the_worst_is_kept_and_named() {
        let mut report = Report::default();
        for (node, severity) in [("a:1", Severity::Ok), ("b:2", Severity::Fatal), ("c:3", Severity::Note)] {
            let of_node = Report(vec![Finding::new("redis.eviction", severity, "policy", "", "")]);
            report.merge(node, of_node);
        }
        let findings = report.into_findings();
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].severity, &*findings[0].what), (Severity::Fatal, "policy (node b:2)"));
    }
}
