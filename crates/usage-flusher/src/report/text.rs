//! Reports for programs: JSON and CSV.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::grid::{Cell, Grid};

/// One object on one line. Counts are numbers; amounts are decimal strings, since JSON numbers are floats to most readers.
pub(super) fn json(by: &str, grid: &Grid) -> Result<String> {
    let rows = grid.rows.iter().map(|row| {
        let fields = grid.columns.iter().zip(row).map(|(name, cell)| ((*name).to_owned(), value(cell)));
        Value::Object(fields.collect::<Map<_, _>>())
    });
    let report = json!({ "by": by, "rows": rows.collect::<Vec<_>>() });
    let mut text = serde_json::to_string(&report).context("writing JSON")?;
    text.push('\n');
    Ok(text)
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => text.as_str().into(),
        Cell::Count(count) => (*count).into(),
        Cell::Money(amount) => amount.to_string().into(),
        Cell::Yes(yes) => (*yes).into(),
        Cell::None => Value::Null,
    }
}

/// A header and one record a row, with CRLF and quotes as RFC 4180 has them.
pub(super) fn csv(grid: &Grid) -> Result<String> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(&grid.columns).context("writing CSV")?;
    for row in &grid.rows {
        writer.write_record(row.iter().map(Cell::plain)).context("writing CSV")?;
    }
    let bytes = writer.into_inner().context("writing CSV")?;
    String::from_utf8(bytes).context("writing CSV")
}

#[cfg(test)]
mod tests {
    use spend_queue::Usd;

    use super::*;

    fn grid() -> Grid {
        let rows = vec![
            vec![
                Cell::Text("a,b \"c\"".into()),
                Cell::Count(u64::MAX),
                Cell::Money(Usd::from_picos(1)),
                Cell::None,
            ],
            vec![
                Cell::Text("two\nlines".into()),
                Cell::Count(0),
                Cell::Money(Usd::from_picos(10_i128.pow(30))),
                Cell::Yes(true),
            ],
        ];
        Grid { columns: vec!["name", "events", "cost_usd", "covered"], rows, bar: 2 }
    }

    #[test]
    fn csv_quotes_what_must_be_and_keeps_every_digit() {
        assert_eq!(
            csv(&grid()).unwrap(),
            "name,events,cost_usd,covered\r\n\"a,b \"\"c\"\"\",18446744073709551615,0.000000000001,\r\n\
             \"two\nlines\",0,1000000000000000000,yes\r\n"
        );
    }

    #[test]
    fn json_is_one_line_with_exact_amounts_as_text() {
        let text = json("day", &grid()).unwrap();
        assert_eq!(text.trim_end().lines().count(), 1);
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["rows"][0]["cost_usd"], "0.000000000001");
        assert_eq!(report["rows"][0]["events"], u64::MAX);
        assert_eq!(
            (&report["rows"][0]["covered"], &report["rows"][1]["covered"]),
            (&Value::Null, &json!(true))
        );
    }
}
