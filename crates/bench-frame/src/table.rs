//! The report for people.

use std::fmt::Write;

use crate::report::{Bound, Report};

/// A heading, the sections' tables, and a verdict.
#[must_use]
pub fn of(report: &Report) -> String {
    let mut text = String::new();
    let part = |name: &str| report.machine[name].as_str().unwrap_or("unknown").to_owned();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}, {}: {}, {}, {} cores, {}",
        report.bench,
        part("date"),
        part("server"),
        part("cpu"),
        report.machine["cores"],
        if report.machine["pinned"] == true {
            "client and server pinned to one each"
        } else {
            "nothing pinned"
        }
    );
    for section in &report.sections {
        let _ = writeln!(text, "\n{} ({})\n", section.title, section.how);
        let _ = writeln!(
            text,
            "{:<48} {:>12} {:<5} {:>9} {:>10}  {:<6} ratio to / note",
            "figure", "median", "unit", "ratio", "required", ""
        );
        for figure in &section.figures {
            let median = figure.series.median();
            let (required, verdict) = judge(figure.required, median);
            let mut first = (number(median), figure.unit);
            let mut name = figure.name.as_str();
            if figure.comparisons.is_empty() || figure.required.is_some() {
                line(&mut text, name, first, "", &required, verdict, &figure.note);
                (first, name) = ((String::new(), ""), "");
            }
            for comparison in &figure.comparisons {
                let (required, verdict) = judge(comparison.required, comparison.ratio);
                let about = match figure.note.is_empty() || name.is_empty() {
                    true => comparison.baseline.clone(),
                    false => format!("{} ({})", comparison.baseline, figure.note),
                };
                line(&mut text, name, first, &ratio(comparison.ratio), &required, verdict, &about);
                (first, name) = ((String::new(), ""), "");
            }
        }
    }
    let short = report.short();
    let _ = match short.is_empty() {
        true => writeln!(text, "\nEvery required figure is reached."),
        false => writeln!(text, "\nSHORT of what is required: {}", short.join("; ")),
    };
    text
}

fn line(
    text: &mut String,
    name: &str,
    (value, unit): (String, &str),
    ratio: &str,
    required: &str,
    verdict: &str,
    about: &str,
) {
    let line = format!("{name:<48} {value:>12} {unit:<5} {ratio:>9} {required:>10}  {verdict:<6} {about}");
    let _ = writeln!(text, "{}", line.trim_end());
}

fn judge(required: Option<Bound>, value: f64) -> (String, &'static str) {
    match required {
        Some(bound) => {
            let shown = match bound {
                Bound::AtMost(bound) => format!("<= {}", ratio(bound)),
                Bound::AtLeast(bound) => format!(">= {}", ratio(bound)),
                Bound::Between(low, high) => format!("{}-{}", ratio(low), ratio(high)),
            };
            (shown, if bound.holds(value) { "ok" } else { "SHORT" })
        }
        None => (String::new(), ""),
    }
}

/// Small ratios as fractions, which is how they are spoken of.
fn ratio(value: f64) -> String {
    match value {
        none if none.abs() < f64::EPSILON => "0".to_owned(),
        small if small < 0.1 => format!("1/{:.0}", 1.0 / small),
        large if large >= 100.0 => format!("{large:.0}"),
        _ => format!("{value:.2}"),
    }
}

fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
