//! The course of the backlog and the latencies, drawn.

use std::path::Path;

use anyhow::Result;
use bench_frame::plot::{self, Line, Panel};

use crate::backlog::Sample;
use crate::latency::percentile;

pub(crate) fn draw(file: &Path, samples: &[Sample], latencies: &[f64]) -> Result<()> {
    let panel =
        |title, across, up, points| Panel { title, across, up, lines: vec![Line { label: title, points }] };
    let since = "seconds since the flusher was started";
    let settled = samples.iter().map(|sample| (sample.at, sample.settled as f64 / 1_000.0)).collect();
    let rss = samples.iter().map(|sample| (sample.at, sample.rss)).collect();
    let waits = (0..=200_u8)
        .map(|half| (f64::from(half) / 2.0, percentile(latencies, f64::from(half) / 200.0)))
        .collect();
    plot::draw(
        file,
        &[
            panel("A backlog is settled", since, "thousand events", settled),
            panel("Resident memory of the flusher meanwhile", since, "MiB", rss),
            panel(
                "500 events/s: from the enqueue until the ledger shows the event",
                "percent of the events",
                "ms, at most",
                waits,
            ),
        ],
    )
}
