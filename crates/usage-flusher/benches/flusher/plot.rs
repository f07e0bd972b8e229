//! The course of the backlog and the latencies, drawn.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::backlog::Sample;
use crate::latency::percentile;

const SIZE: (u32, u32) = (800, 840);
const CAPTION: (&str, u32) = ("sans-serif", 20);
const LABEL: (&str, u32) = ("sans-serif", 16);
const LINE: RGBColor = RGBColor(31, 98, 168);

/// One panel: a line, and what its axes are.
struct Panel<'a> {
    title: &'a str,
    across: &'a str,
    up: &'a str,
    points: Vec<(f64, f64)>,
}

pub(crate) fn draw(file: &Path, samples: &[Sample], latencies: &[f64]) -> Result<()> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let panels = [
        Panel {
            title: "A backlog is settled",
            across: "seconds since the flusher was started",
            up: "thousand events",
            points: samples.iter().map(|sample| (sample.at, sample.settled as f64 / 1_000.0)).collect(),
        },
        Panel {
            title: "Resident memory of the flusher meanwhile",
            across: "seconds since the flusher was started",
            up: "MiB",
            points: samples.iter().map(|sample| (sample.at, sample.rss)).collect(),
        },
        Panel {
            title: "500 events/s: from the enqueue until the ledger shows the event",
            across: "percent of the events",
            up: "ms, at most",
            points: (0..=200_u8)
                .map(|half| (f64::from(half) / 2.0, percentile(latencies, f64::from(half) / 200.0)))
                .collect(),
        },
    ];
    for (panel, area) in panels.into_iter().zip(root.split_evenly((3, 1))) {
        line(&panel, &area)?;
    }
    root.present().map_err(failed)
}

fn line(panel: &Panel<'_>, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
    let end = |of: fn(&(f64, f64)) -> f64| panel.points.iter().map(of).fold(0.0, f64::max).max(1.0);
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
    chart.draw_series(LineSeries::new(panel.points.iter().copied(), LINE.stroke_width(2))).map_err(failed)?;
    Ok(())
}

/// The error of a drawing borrows what it drew on.
fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}
