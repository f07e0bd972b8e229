//! Figures, what they are compared with, and what they must reach.

use serde_json::{Value, json};

/// One figure a round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series(Vec<f64>);

impl Series {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
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

/// What a ratio, or a figure, must reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }

    fn to_json(self) -> Value {
        match self {
            Self::AtMost(bound) => json!({ "at_most": bound }),
            Self::AtLeast(bound) => json!({ "at_least": bound }),
        }
    }
}

/// The ratio of a figure to a baseline of the same run.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) baseline: String,
    pub(crate) ratio: f64,
    pub(crate) required: Option<Bound>,
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) series: Series,
    pub(crate) comparisons: Vec<Comparison>,
    /// What the figure itself must reach.
    pub(crate) required: Option<Bound>,
    pub(crate) note: String,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, series: Series) -> Self {
        Self { name: name.into(), unit, series, comparisons: Vec::new(), required: None, note: String::new() }
    }

    #[must_use]
    pub(crate) fn against(mut self, baseline: &str, series: &Series, required: Option<Bound>) -> Self {
        let ratio = self.series.ratio(series);
        self.comparisons.push(Comparison { baseline: baseline.to_owned(), ratio, required });
        self
    }

    #[must_use]
    pub(crate) fn required(mut self, bound: Bound) -> Self {
        self.required = Some(bound);
        self
    }

    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
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
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) how: &'static str,
    pub(crate) figures: Vec<Figure>,
}

impl Section {
    pub(crate) fn new(title: &'static str, how: &'static str) -> Self {
        Self { title, how, figures: Vec::new() }
    }

    pub(crate) fn push(&mut self, figure: Figure) {
        self.figures.push(figure);
    }
}

/// All of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// The bench's name.
    pub(crate) bench: &'static str,
    pub(crate) machine: Value,
    pub(crate) sections: Vec<Section>,
}

impl Report {
    pub(crate) fn new(bench: &'static str, machine: Value) -> Self {
        Self { bench, machine, sections: Vec::new() }
    }

    pub(crate) fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The figures that fall short of what they must reach.
    pub(crate) fn short(&self) -> Vec<String> {
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

    pub(crate) fn to_json(&self, quick: bool, rounds: usize) -> Value {
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
