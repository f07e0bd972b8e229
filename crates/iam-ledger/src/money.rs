//! `Usd` to `NUMERIC(30, 12)` and back, exactly.
//!
//! One event's cost travels as a `BIGINT` of picodollars, which the SQL multiplies by an exact numeric constant. Sums, which
//! may exceed that, travel as decimal text in both directions. Nothing is ever rounded: `rust_decimal` holds 96 bits
//! and rounds what does not fit, so it is not used.

use spend_queue::Usd;

use crate::LedgerError;

/// The first amount that `NUMERIC(30, 12)` cannot hold, in picodollars.
const NUMERIC_BOUND: i128 = 10_i128.pow(30);

/// An amount as text that PostgreSQL casts to `numeric`.
pub(crate) fn to_numeric(what: &'static str, amount: Usd) -> Result<String, LedgerError> {
    if amount.picos().unsigned_abs() >= NUMERIC_BOUND.unsigned_abs() {
        return Err(LedgerError::OutOfRange {
            what,
            value: format!("{amount} USD"),
            bound: format!("{} USD", Usd::from_picos(NUMERIC_BOUND - 1)),
        });
    }
    Ok(amount.to_string())
}

/// A `numeric` that was cast to text.
pub(crate) fn from_numeric(column: &'static str, text: &str) -> Result<Usd, LedgerError> {
    text.parse().map_err(|_| LedgerError::Unreadable { column, value: text.to_owned() })
}

/// One event's cost as the queue bounds it.
pub(crate) fn to_picos(amount: Usd) -> Result<i64, LedgerError> {
    amount.counter().map_err(|_| LedgerError::OutOfRange {
        what: "the cost of one event",
        value: format!("{amount} USD"),
        bound: format!("{} USD", Usd::from_picos(i64::MAX.into())),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_largest_amount_fits_and_one_picodollar_more_does_not() {
        let largest = Usd::from_picos(NUMERIC_BOUND - 1);
        assert_eq!(to_numeric("sum", largest).unwrap(), "999999999999999999.999999999999");
        let error = to_numeric("sum", Usd::from_picos(NUMERIC_BOUND)).unwrap_err();
        assert!(error.blames_data() && !error.is_transient(), "{error}");
    }

    #[test]
    fn numeric_text_with_trailing_zeros_is_read() {
        assert_eq!(from_numeric("cost", "0.027000000000").unwrap(), Usd::from_picos(27_000_000_000));
        assert!(from_numeric("cost", "NaN").is_err());
    }

    proptest! {
        #[test]
        fn text_and_back_is_the_same_amount(picos in -NUMERIC_BOUND + 1..NUMERIC_BOUND) {
            let amount = Usd::from_picos(picos);
            prop_assert_eq!(from_numeric("sum", &to_numeric("sum", amount).unwrap()).unwrap(), amount);
        }
    }
}
