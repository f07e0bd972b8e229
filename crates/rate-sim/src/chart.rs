//! A bar chart of admitted and refused requests over time, for terminals.

use std::collections::BTreeMap;
use std::fmt::Write;

use chrono::DateTime;

/// The most rows that are drawn.
const MAX_ROWS: i64 = 60;
const BAR_WIDTH: u64 = 50;
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Counts by minute, merged into ever wider spans of time as a run gets longer.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Minutes that one row stands for, a power of two.
    width: i64,
    /// Admitted and refused, by minute divided by the width.
    rows: BTreeMap<i64, [u64; 2]>,
}

impl Default for Chart {
    fn default() -> Self {
        Self { width: 1, rows: BTreeMap::new() }
    }
}

impl Chart {
    /// Counts one request of a minute (since the Unix epoch).
    pub fn count(&mut self, minute: i64, admitted: bool) {
        let row = self.rows.entry(minute.div_euclid(self.width)).or_default();
        row[usize::from(!admitted)] += 1;
        self.narrow();
    }

    /// Adds the counts of another chart.
    pub fn merge(&mut self, mut other: Self) {
        while other.width < self.width {
            other.widen();
        }
        while self.width < other.width {
            self.widen();
        }
        for (row, [admitted, refused]) in other.rows {
            let sum = self.rows.entry(row).or_default();
            sum[0] += admitted;
            sum[1] += refused;
        }
        self.narrow();
    }

    fn narrow(&mut self) {
        let span = |rows: &BTreeMap<i64, [u64; 2]>| match (rows.first_key_value(), rows.last_key_value()) {
            (Some((first, _)), Some((last, _))) => last - first + 1,
            _ => 0,
        };
        while span(&self.rows) > MAX_ROWS {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.width *= 2;
        for (row, [admitted, refused]) in std::mem::take(&mut self.rows) {
            let sum = self.rows.entry(row.div_euclid(2)).or_default();
            sum[0] += admitted;
            sum[1] += refused;
        }
    }

    /// Draws it: a row a minute, or as many minutes as make at most 60 rows; `█` admitted, `░` refused.
    #[must_use]
    pub fn draw(&self) -> String {
        let (Some((&first, _)), Some((&last, _))) = (self.rows.first_key_value(), self.rows.last_key_value())
        else {
            return String::new();
        };
        let largest = self.rows.values().map(|[admitted, refused]| admitted + refused).max().unwrap_or(1);
        let mut text = match self.width {
            1 => "requests a minute (UTC): █ admitted ░ refused\n".to_owned(),
            width => format!("requests in {width} minutes (UTC): █ admitted ░ refused\n"),
        };
        for row in first..=last {
            let [admitted, refused] = self.rows.get(&row).copied().unwrap_or_default();
            let at = DateTime::from_timestamp(row.saturating_mul(self.width).saturating_mul(60), 0);
            let time = at.map(|at| at.format("%Y-%m-%d %H:%M").to_string()).unwrap_or_default();
            let bar = bar(admitted, refused, largest);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", format!("  {time} {bar} {admitted} + {refused}").trim_end());
        }
        text
    }
}

/// Both parts together are [`BAR_WIDTH`] wide for the largest row.
fn bar(admitted: u64, refused: u64, largest: u64) -> String {
    let eighths = |count: u64| {
        let scaled = u128::from(count) * u128::from(BAR_WIDTH * 8) / u128::from(largest.max(1));
        usize::try_from(scaled).unwrap_or(usize::MAX)
    };
    let (solid, whole) = (eighths(admitted), eighths(admitted + refused));
    let mut bar = "█".repeat(solid / 8);
    let shaded_from = match solid % 8 {
        0 => solid / 8,
        part => {
            bar.push(EIGHTHS[part]);
            solid / 8 + 1
        }
    };
    // Something refused is always seen.
    let shaded = (whole.div_ceil(8)).saturating_sub(shaded_from).max(usize::from(refused > 0));
    bar + &"░".repeat(shaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_both_counts_to_scale() {
        let mut chart = Chart::default();
        for n in 0..100 {
            chart.count(29_000_000, n % 4 != 0);
        }
        chart.count(29_000_002, true);
        let text = chart.draw();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(rows.len(), 3, "{text}");
        assert_eq!(rows[0], format!("  2025-02-19 21:20 {}▌{} 75 + 25", "█".repeat(37), "░".repeat(12)));
        assert_eq!(rows[1], "  2025-02-19 21:21  0 + 0");
        assert_eq!(rows[2], "  2025-02-19 21:22 ▌ 1 + 0");
    }

    #[test]
    fn few_refusals_are_still_seen() {
        assert!(bar(10_000, 1, 10_001).ends_with('░'));
    }

    #[test]
    fn a_long_run_is_drawn_in_wider_spans_and_loses_no_count() {
        let mut chart = Chart::default();
        for minute in -5..10_000 {
            chart.count(minute, minute % 3 == 0);
        }
        assert!(chart.draw().lines().count() <= 61);
        assert_eq!(chart.rows.values().flatten().sum::<u64>(), 10_005);
    }

    #[test]
    fn the_ends_of_time_need_no_more_memory() {
        let mut chart = Chart::default();
        chart.count(0, true);
        chart.count(253_402_300_799 / 60, false);
        assert!(chart.rows.len() == 2 && chart.draw().lines().count() <= 61);
    }

    #[test]
    fn charts_of_different_width_add_up() {
        let (mut long, mut short) = (Chart::default(), Chart::default());
        (0..1000).for_each(|minute| long.count(minute, true));
        (0..10).for_each(|minute| short.count(minute, false));
        let mut other = short.clone();
        other.merge(long.clone());
        long.merge(short);
        assert_eq!(long.rows, other.rows);
        assert_eq!(long.rows.values().flatten().sum::<u64>(), 1010);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(Chart::default().draw(), "");
    }
}
