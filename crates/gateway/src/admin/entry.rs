//! One entry of a tenant file, read field by field so that every complaint names entry and field.

use core::fmt;

use iam_ledger::{BudgetPeriod, MAX_BUDGET, MAX_NAME_BYTES, MAX_RATE_LIMIT};
use spend_queue::Usd;
use thiserror::Error;
use toml::{Table, Value};

/// All periods, by the words that the ledger uses.
const PERIODS: [BudgetPeriod; 4] =
    [BudgetPeriod::None, BudgetPeriod::Daily, BudgetPeriod::Weekly, BudgetPeriod::Monthly];

/// What is wrong with an entry. Nothing was written; a retry cannot help.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}, field {field}: {problem}")]
pub(crate) struct EntryError {
    /// Which entry.
    pub(super) place: Place,
    /// Which of its fields.
    pub(super) field: String,
    /// What is wrong, with the bound.
    pub(super) problem: String,
}

/// Where an entry is: its section, and its id or, without one, its number from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) section: &'static str,
    pub(super) label: String,
}

/// The fields that were not read yet.
pub(super) struct Entry {
    place: Place,
    fields: Table,
    known: Vec<&'static str>,
}

impl Place {
    pub(super) fn of_id(section: &'static str, id: &str) -> Self {
        Self { section, label: format!("{id:?}") }
    }

    /// A complaint about a field.
    pub(super) fn problem(&self, field: &str, problem: impl fmt::Display) -> EntryError {
        EntryError { place: self.clone(), field: field.to_owned(), problem: problem.to_string() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.section, self.label)
    }
}

impl Entry {
    pub(super) fn new(section: &'static str, index: usize, fields: Table) -> Self {
        let place = match fields.get("id").and_then(Value::as_str) {
            Some(id) => Place::of_id(section, &id.chars().take(40).collect::<String>()),
            None => Place { section, label: format!("number {}", index + 1) },
        };
        Self { place, fields, known: Vec::new() }
    }

    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// A text, if the field is there.
    pub(super) fn text(&mut self, field: &'static str) -> Result<Option<String>, EntryError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(field, "a string", &other)),
        }
    }

    /// A name: a text that people read.
    pub(super) fn name(&mut self) -> Result<String, EntryError> {
        let name = self.text("name")?.unwrap_or_default();
        if name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            let problem = format!("at most {MAX_NAME_BYTES} bytes without control characters are allowed");
            return Err(self.place.problem("name", problem));
        }
        Ok(name)
    }

    /// A limit per minute.
    pub(super) fn limit(&mut self, field: &'static str) -> Result<Option<u64>, EntryError> {
        let value = match self.take(field) {
            None => return Ok(None),
            Some(Value::Integer(value)) => value,
            Some(other) => return Err(self.wrong_type(field, "a whole number", &other)),
        };
        let limit = u64::try_from(value).ok().filter(|limit| *limit <= MAX_RATE_LIMIT);
        let problem = || self.place.problem(field, format!("{value}; 0 to {MAX_RATE_LIMIT} are allowed"));
        limit.map(Some).ok_or_else(problem)
    }

    /// An amount of money. A string, since TOML's numbers with a point are floats.
    pub(super) fn amount(&mut self, field: &'static str) -> Result<Option<Usd>, EntryError> {
        let text = match self.take(field) {
            None => return Ok(None),
            Some(Value::String(text)) => text,
            Some(other) => {
                return Err(self.wrong_type(field, "a string such as \"12.50\", exact US dollars,", &other));
            }
        };
        let amount: Usd = text.parse().map_err(|error| self.place.problem(field, error))?;
        if amount.is_negative() || amount > MAX_BUDGET {
            return Err(self.place.problem(field, format!("{amount}; 0 to {MAX_BUDGET} USD are allowed")));
        }
        Ok(Some(amount))
    }

    /// How often spend starts again at zero.
    pub(super) fn period(&mut self) -> Result<BudgetPeriod, EntryError> {
        let Some(word) = self.text("budget_period")? else { return Ok(BudgetPeriod::None) };
        PERIODS.into_iter().find(|period| period.as_str() == word).ok_or_else(|| {
            let words = PERIODS.map(BudgetPeriod::as_str).join(", ");
            self.place.problem("budget_period", format!("{word:?}; one of {words} is expected"))
        })
    }

    /// Ends the reading: whatever is left is no field.
    pub(super) fn finish(self) -> Result<(), EntryError> {
        let Some(field) = self.fields.keys().next() else { return Ok(()) };
        Err(self.place.problem(field, format!("unknown; there are {}", self.known.join(", "))))
    }

    fn take(&mut self, field: &'static str) -> Option<Value> {
        self.known.push(field);
        self.fields.remove(field)
    }

    fn wrong_type(&self, field: &str, expected: &str, found: &Value) -> EntryError {
        self.place.problem(field, format!("{expected} is expected, not {}", found.type_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry {
        Entry::new("teams", 2, text.parse().unwrap())
    }

    #[test]
    fn a_wrong_value_is_named_with_its_bound() {
        for (text, message) in [
            ("rpm = -1", "teams number 3, field rpm: -1; 0 to 2147483647 are allowed"),
            ("rpm = 2147483648", "teams number 3, field rpm: 2147483648; 0 to 2147483647 are allowed"),
            ("id = 'a'\nrpm = 1.5", "teams \"a\", field rpm: a whole number is expected, not float"),
            ("id = 'a'\nrpm = '60'", "teams \"a\", field rpm: a whole number is expected, not string"),
        ] {
            assert_eq!(entry(text).limit("rpm").unwrap_err().to_string(), message);
        }
        for (text, message) in [
            (
                "b = 12.5",
                "teams number 3, field b: a string such as \"12.50\", exact US dollars, is expected, not float",
            ),
            ("b = '-1'", "teams number 3, field b: -1; 0 to 999999999999999999.999999999999 USD are allowed"),
            ("b = '1 USD'", "teams number 3, field b: not a decimal amount: \"1 USD\""),
            ("b = '0.0000000000001'", "teams number 3, field b: finer than 10^-12 USD: \"0.0000000000001\""),
        ] {
            assert_eq!(entry(text).amount("b").unwrap_err().to_string(), message);
        }
        assert_eq!(
            entry("budget_period = 'day'").period().unwrap_err().to_string(),
            "teams number 3, field budget_period: \"day\"; one of none, daily, weekly, monthly is expected"
        );
    }

    #[test]
    fn a_field_that_is_none_is_named_beside_those_that_are() {
        let mut entry = entry("id = 'a'\nrpmm = 1");
        entry.text("id").unwrap();
        entry.limit("rpm").unwrap();
        assert_eq!(
            entry.finish().unwrap_err().to_string(),
            "teams \"a\", field rpmm: unknown; there are id, rpm"
        );
    }
}
