//! Money as an integer number of picodollars.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

/// Digits after the decimal point that an amount can hold: 1 USD is 10^12 picodollars.
const SCALE: u32 = 12;
const PICOS_PER_USD: i128 = 10_i128.pow(SCALE);

/// An exact amount of US dollars, counted in picodollars (10^-12 USD).
///
/// The range is that of `i128`, far beyond any ledger; one event and one Redis counter must fit `i64`
/// (about 9.2 million USD), which [`Usd::counter`] checks. There is no conversion from or to a float on
/// purpose: prices arrive as decimal digits and stay exact.
///
/// ```
/// use spend_queue::Usd;
///
/// let price: Usd = "0.0000027".parse()?;
/// assert_eq!(price.checked_mul(10_000), Some("0.027".parse()?));
/// assert_eq!(price.picos(), 2_700_000);
/// # Ok::<(), spend_queue::UsdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Usd(i128);

/// Why a text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UsdError {
    /// The text is no finite decimal number (`NaN`, `inf`, an empty text, a stray character).
    #[error("not a decimal amount: {0:?}")]
    NotDecimal(String),
    /// The amount has digits below one picodollar.
    #[error("finer than 10^-12 USD: {0:?}")]
    TooFine(String),
    /// The amount does not fit the type that must hold it.
    #[error("amount out of range: {0}")]
    OutOfRange(String),
}

impl Usd {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// The amount of so many picodollars.
    #[must_use]
    pub const fn from_picos(picos: i128) -> Self {
        Self(picos)
    }

    /// The amount in picodollars.
    #[must_use]
    pub const fn picos(self) -> i128 {
        self.0
    }

    /// The amount in picodollars as one event or one Redis counter holds it.
    ///
    /// # Errors
    ///
    /// [`UsdError::OutOfRange`] when it does not fit `i64`; a retry cannot help.
    pub fn counter(self) -> Result<i64, UsdError> {
        i64::try_from(self.0)
            .map_err(|_| UsdError::OutOfRange(format!("{self} USD (bound: 9223372.036854775807)")))
    }

    /// The sum, or `None` when it does not fit.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(picos) => Some(Self(picos)),
            None => None,
        }
    }

    /// The difference, or `None` when it does not fit.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(picos) => Some(Self(picos)),
            None => None,
        }
    }

    /// A price times a quantity, or `None` when it does not fit.
    #[must_use]
    pub fn checked_mul(self, quantity: u64) -> Option<Self> {
        self.0.checked_mul(i128::from(quantity)).map(Self)
    }

    /// The sum of all amounts, or `None` when it does not fit.
    pub fn checked_sum(amounts: impl IntoIterator<Item = Self>) -> Option<Self> {
        amounts.into_iter().try_fold(Self::ZERO, Self::checked_add)
    }

    /// Reads what [`FromStr`] reads; digits below one picodollar are rounded to the nearest, half to even. Also says
    /// whether the amount is exact. For amounts that another program computed with floats; everything else should
    /// be refused when it is too fine.
    ///
    /// # Errors
    ///
    /// When the text is no finite decimal number, or does not fit.
    pub fn nearest(text: &str) -> Result<(Self, bool), UsdError> {
        let not_decimal = || UsdError::NotDecimal(excerpt(text));
        let out_of_range = || UsdError::OutOfRange(excerpt(text));
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent_of(exponent).ok_or_else(not_decimal)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(not_decimal());
        }
        let Some(first) = digits.iter().position(|digit| *digit != b'0') else {
            return Ok((Self::ZERO, true));
        };
        let last = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(first);
        // The last significant digit stands for 10^(power) picodollars.
        let behind = i64::try_from(digits.len() - 1 - last).unwrap_or(i64::MAX);
        let fraction_digits = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let power =
            i64::from(SCALE).saturating_add(exponent).saturating_sub(fraction_digits).saturating_add(behind);
        // Of a number that ends below a picodollar only the digits above that are kept, however many there are.
        let significant = &digits[first..=last];
        let below = usize::try_from(power.min(0).unsigned_abs()).unwrap_or(usize::MAX);
        let (whole, fine) = significant.split_at(significant.len().saturating_sub(below));
        let mut magnitude: u128 = 0;
        for digit in whole {
            let grown = magnitude.checked_mul(10).and_then(|sum| sum.checked_add(u128::from(digit - b'0')));
            magnitude = grown.ok_or_else(out_of_range)?;
        }
        let factor = u32::try_from(power.max(0)).ok().and_then(|power| 10_u128.checked_pow(power));
        let magnitude = factor.and_then(|factor| magnitude.checked_mul(factor)).ok_or_else(out_of_range)?;
        let up = below <= significant.len() && rounds_up(fine, magnitude % 2 == 1);
        let magnitude = magnitude.checked_add(u128::from(up)).ok_or_else(out_of_range)?;
        let picos = if negative {
            0_i128.checked_sub_unsigned(magnitude)
        } else {
            0_i128.checked_add_unsigned(magnitude)
        };
        Ok((Self(picos.ok_or_else(out_of_range)?), fine.is_empty()))
    }

    /// Whether the amount is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether there is no money at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Usd {
    /// The shortest exact decimal: `0`, `0.027`, `-3.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let (whole, fraction) =
            (magnitude / PICOS_PER_USD.unsigned_abs(), magnitude % PICOS_PER_USD.unsigned_abs());
        let mut digits = format!("{whole}.{fraction:012}");
        digits.truncate(digits.trim_end_matches('0').trim_end_matches('.').len());
        f.pad_integral(self.0 >= 0, "", &digits)
    }
}

impl fmt::Debug for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Usd({self})")
    }
}

impl FromStr for Usd {
    type Err = UsdError;

    /// Reads `[-+]digits[.digits][e[-+]digits]` exactly, as JSON and price lists write amounts.
    fn from_str(text: &str) -> Result<Self, UsdError> {
        match Self::nearest(text)? {
            (amount, true) => Ok(amount),
            (_, false) => Err(UsdError::TooFine(excerpt(text))),
        }
    }
}

/// Whether digits below the last one that is kept round it up, half to even. The last of them is not zero.
fn rounds_up(fine: &[u8], is_odd: bool) -> bool {
    match fine {
        [] | [b'0'..=b'4', ..] => false,
        [b'5'] => is_odd,
        _ => true,
    }
}

/// A decimal exponent; one of absurd size saturates, so that it is reported as out of range or too fine.
fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// The start of a hostile text, so that an error stays one line.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

impl Serialize for Usd {
    /// As decimal text: JSON numbers are floats to most readers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn picos(text: &str) -> Result<i128, UsdError> {
        text.parse::<Usd>().map(Usd::picos)
    }

    #[test]
    fn digits_below_a_picodollar_are_rounded_half_to_even_where_that_is_asked_for() {
        for (text, expected) in [
            ("1e-12", (1, true)),
            ("0.5e-12", (0, false)),
            ("1.5e-12", (2, false)),
            ("2.5e-12", (2, false)),
            ("2.51e-12", (3, false)),
            ("-1.5e-12", (-2, false)),
            ("9e-60", (0, false)),
            ("6e-13", (1, false)),
            // More digits than any amount has.
            ("0.3333333333333333333333333333333333333333333333333333", (333_333_333_333, false)),
            ("1.0000000000005000000000000000000000000000000000000001", (1_000_000_000_001, false)),
        ] {
            assert_eq!(
                Usd::nearest(text).map(|(amount, exact)| (amount.picos(), exact)),
                Ok(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn decimal_text_is_read_exactly() {
        for (text, expected) in [
            ("0", 0),
            ("-0.0", 0),
            ("0e999999999999999999999", 0),
            ("0.0000027", 2_700_000),
            ("2.7e-6", 2_700_000),
            ("2.70E-06", 2_700_000),
            ("1e-12", 1),
            ("0.000000000001000", 1),
            ("+1", 1_000_000_000_000),
            ("-3.5", -3_500_000_000_000),
            ("9223372.036854775807", i128::from(i64::MAX)),
            ("-170141183460469231731687303.715884105728", i128::MIN),
            ("170141183460469231731687303.715884105727", i128::MAX),
            (".5", 500_000_000_000),
            ("5.", 5_000_000_000_000),
        ] {
            assert_eq!(picos(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_finite_exact_amount_is_refused() {
        for text in
            ["", "-", ".", "NaN", "inf", "-Infinity", "1,5", "1e", "1e+", "0x10", " 1", "1 ", "1_000", "１"]
        {
            assert!(matches!(picos(text), Err(UsdError::NotDecimal(_))), "{text:?}: {:?}", picos(text));
        }
        let many = format!("0.{}1", "3".repeat(50));
        for text in ["1e-13", "0.0000000000001", "1e-99999999999999999999", &many] {
            assert!(matches!(picos(text), Err(UsdError::TooFine(_))), "{text}");
        }
        for text in [
            "1e400",
            "1e27",
            "170141183460469231731687303.715884105728",
            "99999999999999999999999999999999999999999",
            "1e99999999999999999999",
        ] {
            assert!(matches!(picos(text), Err(UsdError::OutOfRange(_))), "{text}");
        }
    }

    #[test]
    fn an_error_about_a_huge_text_stays_short() {
        let error = "x".repeat(1 << 20).parse::<Usd>().unwrap_err();
        assert!(error.to_string().len() < 100);
    }

    #[test]
    fn one_counter_holds_no_more_than_an_i64() {
        assert_eq!(Usd::from_picos(i64::MAX.into()).counter(), Ok(i64::MAX));
        assert!(Usd::from_picos(i128::from(i64::MAX) + 1).counter().is_err());
    }

    #[test]
    fn ten_thousand_tiny_charges_add_up_without_drift() {
        let charge: Usd = "0.0000027".parse().unwrap();
        let sum = Usd::checked_sum(std::iter::repeat_n(charge, 10_000));
        assert_eq!(sum, Some("0.027".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn text_and_back_is_the_same_amount(picos in any::<i128>()) {
            let amount = Usd::from_picos(picos);
            prop_assert_eq!(amount.to_string().parse::<Usd>(), Ok(amount));
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "[-+]?[0-9.eE]{0,40}|.{0,20}") {
            let _ = text.parse::<Usd>();
        }
    }
}
