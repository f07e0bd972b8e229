//! Figures, what they are compared with, and what they must reach.

use serde_json::{Value, json};

/// One figure a round.
#[derive(Debug, Clone, Default)]
pub struct Series(Vec<f64>);

impl Series {
    /// Adds a round.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The latest round; not a number when there is none.
    #[must_use]
    pub fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    /// The middle one, or the mean of the middle two; not a number when there is none.
    #[must_use]
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            even if even % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        }
    }

    /// Round by round, so that what disturbs a whole round disturbs neither side alone.
    fn ratio(&self, baseline: &Self) -> f64 {
        Self(self.0.iter().zip(&baseline.0).map(|(value, base)| value / base).collect()).median()
    }
}

/// Of sorted values, the one that this share of them does not exceed; not a number when there is none.
#[must_use]
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list in memory")]
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// What a ratio, or a figure, must reach.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
    /// From the first to the second.
    Between(f64, f64),
}

impl Bound {
    /// Whether the value reaches it. What is not a number reaches nothing.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
            Self::Between(low, high) => (low..=high).contains(&value),
        }
    }

    fn to_json(self) -> Value {
        match self {
            Self::AtMost(bound) => json!({ "at_most": bound }),
            Self::AtLeast(bound) => json!({ "at_least": bound }),
            Self::Between(low, high) => json!({ "at_least": low, "at_most": high }),
        }
    }
}

/// The ratio of a figure to a baseline of the same run.
#[derive(Debug)]
pub struct Comparison {
    /// The baseline's name.
    pub baseline: String,
    /// The median of the rounds' ratios.
    pub ratio: f64,
    /// What the ratio must reach.
    pub required: Option<Bound>,
}

/// What was measured.
#[derive(Debug)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// Its unit, such as `us` or `/s`.
    pub unit: &'static str,
    /// Its rounds; the median counts.
    pub series: Series,
    /// What it is compared with.
    pub comparisons: Vec<Comparison>,
    /// What the figure itself must reach.
    pub required: Option<Bound>,
    /// What the reader should know beside it.
    pub note: String,
}

impl Figure {
    /// A figure of these rounds, which stands against nothing yet.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: &'static str, series: Series) -> Self {
        Self { name: name.into(), unit, series, comparisons: Vec::new(), required: None, note: String::new() }
    }

    /// A figure that was measured once.
    #[must_use]
    pub fn once(name: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self::new(name, unit, Series(vec![value]))
    }

    /// Compares it with a baseline of the same rounds.
    #[must_use]
    pub fn against(mut self, baseline: &str, series: &Series, required: Option<Bound>) -> Self {
        let ratio = self.series.ratio(series);
        self.comparisons.push(Comparison { baseline: baseline.to_owned(), ratio, required });
        self
    }

    /// Says what it must reach by itself.
    #[must_use]
    pub fn required(mut self, bound: Bound) -> Self {
        self.required = Some(bound);
        self
    }

    /// Adds what the reader should know.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn to_json(&self) -> Value {
        let comparisons = self.comparisons.iter().map(|comparison| {
            json!({
                "baseline": comparison.baseline,
                "ratio": comparison.ratio,
                "required": comparison.required.map(Bound::to_json),
                "ok": comparison.required.map(|bound| bound.holds(comparison.ratio)),
            })
        });
        let median = self.series.median();
        json!({
            "name": self.name,
            "unit": self.unit,
            "median": median,
            "rounds": self.series.0,
            "required": self.required.map(Bound::to_json),
            "ok": self.required.map(|bound| bound.holds(median)),
            "comparisons": comparisons.collect::<Vec<_>>(),
            "note": self.note,
        })
    }
}

/// Figures that are measured alike.
#[derive(Debug)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// How they were measured.
    pub how: &'static str,
    /// The figures, in the order of the report.
    pub figures: Vec<Figure>,
}

impl Section {
    /// A section without figures yet.
    #[must_use]
    pub const fn new(title: &'static str, how: &'static str) -> Self {
        Self { title, how, figures: Vec::new() }
    }

    /// Adds a figure.
    pub fn push(&mut self, figure: Figure) {
        self.figures.push(figure);
    }
}

/// All of a run.
#[derive(Debug)]
pub struct Report {
    /// The bench's name.
    pub bench: &'static str,
    /// What [`crate::machine::describe`] says.
    pub machine: Value,
    /// The sections, in order.
    pub sections: Vec<Section>,
}

impl Report {
    /// A report without sections yet.
    #[must_use]
    pub const fn new(bench: &'static str, machine: Value) -> Self {
        Self { bench, machine, sections: Vec::new() }
    }

    /// Adds a section.
    pub fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The figures that fall short of what they must reach.
    #[must_use]
    pub fn short(&self) -> Vec<String> {
        let mut short = Vec::new();
        for figure in self.sections.iter().flat_map(|section| &section.figures) {
            if figure.required.is_some_and(|bound| !bound.holds(figure.series.median())) {
                short.push(figure.name.clone());
            }
            for comparison in &figure.comparisons {
                if comparison.required.is_some_and(|bound| !bound.holds(comparison.ratio)) {
                    short.push(format!("{} : {}", figure.name, comparison.baseline));
                }
            }
        }
        short
    }

    /// Everything, each round included.
    #[must_use]
    pub fn to_json(&self, quick: bool, rounds: usize) -> Value {
        let sections = self.sections.iter().map(|section| {
            let figures: Vec<_> = section.figures.iter().map(Figure::to_json).collect();
            json!({ "title": section.title, "how": section.how, "figures": figures })
        });
        json!({
            "bench": self.bench,
            "quick": quick,
            "rounds": rounds,
            "machine": self.machine,
            "sections": sections.collect::<Vec<_>>(),
            "short": self.short(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Series {
        Series(values.to_vec())
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(series(&[4.0, 1.0, 2.0, 8.0]).median().to_bits(), 3.0_f64.to_bits());
        assert!(Series::default().median().is_nan());
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values = [1.0, 2.0, 3.0, 4.0];
        for (share, expected) in [(0.0, 1.0), (0.5, 2.0), (0.51, 3.0), (0.99, 4.0), (1.0, 4.0)] {
            assert_eq!(percentile(&values, share).to_bits(), f64::to_bits(expected), "{share}");
        }
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // A round that was disturbed as a whole moves neither side alone.
        let figure = Figure::new("ours", "/s", series(&[100.0, 10.0, 100.0]));
        let figure = figure.against("theirs", &series(&[50.0, 5.0, 50.0]), None);
        assert_eq!(figure.comparisons[0].ratio.to_bits(), 2.0_f64.to_bits());
    }

    #[test]
    fn what_falls_short_is_named() {
        let mut report = Report::new("bench", Value::Null);
        let mut section = Section::new("title", "how");
        section.push(Figure::once("slow", "ms", 3.0).required(Bound::AtMost(2.0)));
        section.push(Figure::once("flat", "MiB", 9.0).against(
            "before",
            &series(&[10.0]),
            Some(Bound::Between(0.95, 1.05)),
        ));
        section.push(Figure::once("unknown", "ms", f64::NAN).required(Bound::AtLeast(0.0)));
        section.push(Figure::once("fine", "/s", 3.0).required(Bound::AtLeast(3.0)));
        report.add(section);
        assert_eq!(report.short(), ["slow", "flat : before", "unknown"]);
    }
}
