//! A report before it has a form: named columns and typed cells.

use spend_queue::Usd;

/// Rows under names. All rows are as long as the list of names.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// The column that a terminal shows as bars.
    pub(super) bar: usize,
}

/// One value. Amounts keep every digit in every form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Text(String),
    Count(u64),
    Money(Usd),
    Yes(bool),
    /// Nothing: an empty field, a JSON null.
    None,
}

impl Cell {
    pub(super) fn money(amount: Option<Usd>) -> Self {
        amount.map_or(Self::None, Self::Money)
    }

    pub(super) fn text(text: Option<&str>) -> Self {
        text.map_or(Self::None, |text| Self::Text(text.to_owned()))
    }

    /// The value as a table or CSV shows it.
    pub(super) fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Money(amount) => amount.to_string(),
            Self::Yes(yes) => if *yes { "yes" } else { "no" }.to_owned(),
            Self::None => String::new(),
        }
    }
}
