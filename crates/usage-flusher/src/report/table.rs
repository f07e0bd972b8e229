//! Reports for people: aligned columns, and in a terminal a bar beside each amount.

use spend_queue::Usd;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::grid::{Cell, Grid};

/// Between two columns.
const GAP: &str = "  ";
/// A bar narrower than this says nothing, a wider one nothing more.
const BAR_WIDTH: core::ops::RangeInclusive<usize> = 8..=40;
/// A text column is not cut below this.
const LEAST_TEXT: usize = 8;
/// One to eight eighths of a cell.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The table. With a width it fits the terminal as far as it can (long texts end in `…`) and shows bars where there is
/// room; without one nothing is cut and nothing is drawn.
pub(super) fn render(grid: &Grid, terminal: Option<usize>) -> String {
    if grid.rows.is_empty() {
        return "no rows\n".to_owned();
    }
    let cells = texts(grid);
    let mut widths: Vec<usize> = grid.columns.iter().map(|name| name.width()).collect();
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let right: Vec<bool> = (0..grid.columns.len()).map(|column| is_number(grid, column)).collect();
    if let Some(terminal) = terminal {
        shrink(&mut widths, &right, terminal);
    }
    let bar = terminal.and_then(|terminal| {
        let room = terminal.checked_sub(total(&widths) + GAP.len())?;
        (room >= *BAR_WIDTH.start()).then(|| room.min(*BAR_WIDTH.end()))
    });

    let mut text = String::new();
    let names: Vec<String> = grid.columns.iter().map(|name| (*name).to_owned()).collect();
    line(&mut text, &names, &widths, &right, "");
    let most = grid.rows.iter().map(|row| amount(&row[grid.bar])).max().unwrap_or_default();
    for (row, cells) in grid.rows.iter().zip(&cells) {
        let drawn = bar.map(|width| blocks(amount(&row[grid.bar]), most, width)).unwrap_or_default();
        line(&mut text, cells, &widths, &right, &drawn);
    }
    text
}

/// Cells as texts; amounts of a column have their points below each other.
fn texts(grid: &Grid) -> Vec<Vec<String>> {
    let fraction = |cell: &Cell| match cell {
        // The point counts, so that a whole amount leaves its place free.
        Cell::Money(amount) => amount.to_string().split_once('.').map_or(0, |(_, digits)| digits.len() + 1),
        _ => 0,
    };
    let deepest: Vec<usize> = (0..grid.columns.len())
        .map(|column| grid.rows.iter().map(|row| fraction(&row[column])).max().unwrap_or_default())
        .collect();
    let show = |(cell, deepest): (&Cell, &usize)| match cell {
        Cell::Money(_) => format!("{}{}", cell.plain(), " ".repeat(deepest - fraction(cell))),
        // What the ledger holds has none; a terminal must not obey one that got in.
        _ => cell.plain().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect(),
    };
    grid.rows.iter().map(|row| row.iter().zip(&deepest).map(show).collect()).collect()
}

fn is_number(grid: &Grid, column: usize) -> bool {
    grid.rows.iter().any(|row| matches!(row[column], Cell::Count(_) | Cell::Money(_)))
}

fn amount(cell: &Cell) -> Usd {
    match cell {
        Cell::Money(amount) => *amount,
        _ => Usd::ZERO,
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

/// Cuts the widest text column, a cell at a time, until the table fits or no text can give any more. Numbers are never cut.
fn shrink(widths: &mut [usize], right: &[bool], terminal: usize) {
    while total(widths) > terminal {
        let texts = widths.iter_mut().zip(right).filter(|(width, right)| !**right && **width > LEAST_TEXT);
        match texts.map(|(width, _)| width).max() {
            Some(widest) => *widest -= 1,
            None => return,
        }
    }
}

fn line(text: &mut String, cells: &[String], widths: &[usize], right: &[bool], bar: &str) {
    let start = text.len();
    for (column, ((cell, width), right)) in cells.iter().zip(widths).zip(right).enumerate() {
        if column > 0 {
            text.push_str(GAP);
        }
        let cell = cut(cell, if *right { usize::MAX } else { *width });
        let padding = " ".repeat(width.saturating_sub(cell.width()));
        if *right {
            text.push_str(&padding);
        }
        text.push_str(&cell);
        if !*right {
            text.push_str(&padding);
        }
    }
    if !bar.is_empty() {
        text.push_str(GAP);
        text.push_str(bar);
    }
    text.truncate(start + text[start..].trim_end().len());
    text.push('\n');
}

/// A text that takes at most so many cells.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut taken) = (String::new(), 1);
    for c in text.chars() {
        taken += c.width().unwrap_or_default();
        if taken > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// A bar of the amount's share of the largest, to the eighth of a cell; at least one eighth for anything above zero.
fn blocks(amount: Usd, most: Usd, width: usize) -> String {
    if amount <= Usd::ZERO || most <= Usd::ZERO {
        return String::new();
    }
    let cells = i128::try_from(width).unwrap_or_default();
    let eighths = amount.picos().saturating_mul(cells * 8) / most.picos();
    let eighths = usize::try_from(eighths.max(1)).unwrap_or_default();
    let mut bar = EIGHTHS[7].to_string().repeat(eighths / 8);
    if let Some(rest) = (eighths % 8).checked_sub(1) {
        bar.push(EIGHTHS[rest]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let row = |model: &str, events, cost: &str| {
            vec![Cell::Text(model.into()), Cell::Count(events), Cell::Money(cost.parse().unwrap())]
        };
        Grid {
            columns: vec!["model", "events", "cost_usd"],
            rows: vec![row("large", 2, "10"), row("模型", 12345, "5.25"), row("free", 1, "0")],
            bar: 2,
        }
    }

    #[test]
    fn without_a_terminal_the_table_is_plain_and_points_stand_below_each_other() {
        assert_eq!(
            render(&grid(), None),
            "model  events  cost_usd\nlarge       2     10\n模型    12345      5.25\nfree        1      0\n"
        );
    }

    #[test]
    fn a_wide_terminal_shows_bars_in_proportion() {
        let text = render(&grid(), Some(33));
        let bars: Vec<_> = text
            .lines()
            .map(|line| line.chars().filter(|c| EIGHTHS.contains(c)).collect::<String>())
            .collect();
        assert_eq!(bars, ["", "████████", "████▏", ""], "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_while_texts_can_give() {
        let mut grid = grid();
        grid.rows[0][0] = Cell::Text("模".repeat(60));
        for width in 26..200 {
            let text = render(&grid, Some(width));
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
            assert_eq!(text.contains('…'), width < 138, "{width}: {text}");
        }
        assert!(render(&grid, Some(1)).contains("12345"), "numbers are never cut");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut grid = grid();
        grid.rows[0][0] = Cell::Text("a\u{1b}[2J".into());
        assert!(!render(&grid, None).contains('\u{1b}'));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        assert_eq!(render(&Grid { rows: Vec::new(), ..grid() }, Some(80)), "no rows\n");
    }

    #[test]
    fn the_largest_amounts_have_bars_too() {
        let most = iam_ledger::MAX_BUDGET;
        assert_eq!(blocks(most, most, 40).chars().count(), 40);
        assert_eq!(blocks(Usd::from_picos(1), most, 40), "▏");
    }
}
