//! `Usd` to `NUMERIC(30, 12)` and back, exactly.
//!
//! One event's cost travels in PostgreSQL's own binary form, sums as decimal text in both directions. Nothing is ever
//! rounded: `rust_decimal` holds 96 bits and rounds what does not fit, so it is not used.

use bytes::{BufMut, BytesMut};
use postgres_types::{IsNull, ToSql, Type};
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

/// An amount in the binary form of `numeric`: groups of four decimal digits, and the power of 10,000 of the first. Twelve
/// decimals are three groups, so picodollars are the digits themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numeric(pub(crate) Usd);

/// Decimals of an amount.
const SCALE: i16 = 12;
/// Decimal digits of a group.
const GROUP_DIGITS: i16 = 4;
const GROUP: u128 = 10_000;
/// Groups behind the decimal point.
const FRACTION_GROUPS: i16 = SCALE / GROUP_DIGITS;
/// Groups of the largest `i128`.
const MAX_GROUPS: usize = 10;
const NEGATIVE: u16 = 0x4000;

impl ToSql for Numeric {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let mut rest = self.0.picos().unsigned_abs();
        let mut groups = [0_u16; MAX_GROUPS];
        let mut used = 0_i16;
        // From the end: the last group is the least significant.
        for group in groups.iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *group = u16::try_from(rest % GROUP)?;
            rest /= GROUP;
            used += 1;
        }
        out.put_i16(used);
        out.put_i16(used - 1 - FRACTION_GROUPS);
        out.put_u16(if self.0.is_negative() { NEGATIVE } else { 0 });
        out.put_i16(SCALE);
        for group in &groups[MAX_GROUPS - usize::try_from(used)?..] {
            out.put_u16(*group);
        }
        Ok(IsNull::No)
    }

    postgres_types::accepts!(NUMERIC);
    postgres_types::to_sql_checked!();
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

    fn binary(picos: i128) -> Vec<u8> {
        let mut out = BytesMut::new();
        Numeric(Usd::from_picos(picos)).to_sql_checked(&Type::NUMERIC, &mut out).unwrap();
        out.to_vec()
    }

    /// What `numeric_send` of PostgreSQL 15 answers for these amounts, but for zeros at the end, which a receiver may be
    /// sent.
    #[test]
    fn the_binary_form_is_the_servers_own() {
        for (picos, hex) in [
            (0, "0000fffc0000000c"),
            (1, "0001fffd0000000c0001"),
            (-1, "0001fffd4000000c0001"),
            (1_000_000_000_000, "000400000000000c0001000000000000"),
            (12_345_678_000_000_000_001, "000500010000000c04d2162e000000000001"),
        ] {
            let text: String = binary(picos).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(text, hex, "{picos}");
        }
        assert_eq!(binary(i128::MIN).len(), 8 + 2 * MAX_GROUPS);
    }

    proptest! {
        #[test]
        fn the_binary_form_has_the_digits_of_the_amount(picos in any::<i128>()) {
            let bytes = binary(picos);
            let word = |at: usize| i16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]);
            let digits = bytes[8..].chunks(2).map(|pair| u128::from(u16::from_be_bytes([pair[0], pair[1]])));
            prop_assert_eq!(digits.fold(0, |sum, digit| sum * GROUP + digit), picos.unsigned_abs());
            prop_assert_eq!(word(1), word(0) - 1 - FRACTION_GROUPS);
            prop_assert_eq!(word(2) != 0, picos < 0);
        }

        #[test]
        fn text_and_back_is_the_same_amount(picos in -NUMERIC_BOUND + 1..NUMERIC_BOUND) {
            let amount = Usd::from_picos(picos);
            prop_assert_eq!(from_numeric("sum", &to_numeric("sum", amount).unwrap()).unwrap(), amount);
        }
    }
}
