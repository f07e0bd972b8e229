//! The series that a program must export for the rules that watch it.

use std::collections::BTreeSet;

/// The series of ours that the rules of `alerts` name, and that the table of `metrics` says come from `program`: a letter of its
/// column *from*. Parts of histograms are named as the rules do.
pub fn watched_series<'a>(alerts: &'a str, metrics: &str, program: char) -> BTreeSet<&'a str> {
    let cells = |line: &str| {
        let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned());
        Some((cells.nth(1)?, cells.nth(3)?))
    };
    let rows: Vec<_> =
        metrics.lines().filter(|line| line.starts_with("| `tallyweir_")).filter_map(cells).collect();
    let words = alerts.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let comes_from_it = |word: &&str| {
        let parts = ["_bucket", "_sum", "_count"];
        let base = parts.iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word);
        rows.iter().any(|(name, from)| [base, *word].contains(&name.as_str()) && from.contains(program))
    };
    words.filter(|word| word.starts_with("tallyweir_")).filter(comes_from_it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_watched_if_a_rule_names_it_and_the_program_exports_it() {
        let metrics = "| `tallyweir_a` | gauge | | s | F | a |\n| `tallyweir_b` | histogram | `x` | s | FG | b |\n\
                       | `tallyweir_c_count` | gauge | | s | G | c |\n";
        let alerts = "expr: tallyweir_a > rate(tallyweir_b_bucket[5m]) or tallyweir_c_count{x=\"y\"}";
        assert_eq!(
            watched_series(alerts, metrics, 'F'),
            BTreeSet::from(["tallyweir_a", "tallyweir_b_bucket"])
        );
        assert_eq!(
            watched_series(alerts, metrics, 'G'),
            BTreeSet::from(["tallyweir_b_bucket", "tallyweir_c_count"])
        );
    }
}
