//! Lines in panels, one above the other, as an SVG file.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

const WIDTH: u32 = 800;
const HEIGHT: u32 = 280;
const CAPTION: (&str, u32) = ("sans-serif", 20);
const LABEL: (&str, u32) = ("sans-serif", 16);
/// One a line, in their order; told apart in grey, too.
const COLOURS: [RGBColor; 4] =
    [RGBColor(31, 98, 168), RGBColor(217, 119, 6), RGBColor(22, 128, 92), RGBColor(120, 120, 120)];

/// One panel: its lines, and what its axes are.
#[derive(Debug, Clone)]
pub struct Panel<'a> {
    /// What is seen.
    pub title: &'a str,
    /// What goes from left to right, with its unit.
    pub across: &'a str,
    /// What goes up, with its unit.
    pub up: &'a str,
    /// The lines.
    pub lines: Vec<Line<'a>>,
}

/// One line of a panel.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    /// What it is; shown where a panel has several.
    pub label: &'a str,
    /// From left to right, none below zero.
    pub points: Vec<(f64, f64)>,
}

/// Draws the panels.
///
/// # Errors
///
/// When the file cannot be written.
pub fn draw(file: &Path, panels: &[Panel<'_>]) -> Result<()> {
    let height = HEIGHT * u32::try_from(panels.len()).context("too many panels")?;
    let root = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    for (panel, area) in panels.iter().zip(root.split_evenly((panels.len(), 1))) {
        fill(panel, &area)?;
    }
    root.present().map_err(failed).with_context(|| format!("drawing {}", file.display()))
}

fn fill(panel: &Panel<'_>, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
    let end = |of: fn(&(f64, f64)) -> f64| {
        panel.lines.iter().flat_map(|line| &line.points).map(of).fold(0.0, f64::max).max(1.0)
    };
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, CAPTION)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end(|point| point.0), 0.0..end(|point| point.1) * 1.1)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(panel.across)
        .y_desc(panel.up)
        .y_labels(6)
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .label_style(LABEL)
        .axis_desc_style(LABEL)
        .draw()
        .map_err(failed)?;
    for (line, colour) in panel.lines.iter().zip(COLOURS.into_iter().cycle()) {
        let drawn = LineSeries::new(line.points.iter().copied(), colour.stroke_width(2));
        let drawn = chart.draw_series(drawn).map_err(failed)?;
        if panel.lines.len() > 1 {
            let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], colour.stroke_width(2));
            drawn.label(line.label).legend(key);
        }
    }
    if panel.lines.len() > 1 {
        let labels = &mut chart.configure_series_labels();
        labels
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .label_font(LABEL)
            .draw()
            .map_err(failed)?;
    }
    Ok(())
}

/// The error of a drawing borrows what it drew on.
fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_their_names_are_drawn() {
        let folder = std::env::temp_dir().join(format!("bench-frame-{}.svg", std::process::id()));
        let line = |label| Line { label, points: vec![(0.0, 1.0), (2.0, 3.0)] };
        let panel = Panel { title: "Title", across: "s", up: "MiB", lines: vec![line("one"), line("two")] };
        draw(&folder, &[panel]).unwrap();
        let text = std::fs::read_to_string(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        for word in ["Title", "MiB", "one", "two"] {
            assert!(text.contains(word), "{word}");
        }
    }
}
