//! Amounts of money, against whole numbers of any size.

use num_bigint::BigInt;
use spend_queue::{Usd, UsdError};

use crate::lines;

/// Digits behind the point of an amount.
const SCALE: i64 = 12;
/// Exponents beyond this are not spelled out: no amount is that large or small.
const MAX_EXPONENT: i64 = 10_000;

/// Each text is read as its digits say, or refused for what is wrong with it; sums, differences and products are exact, or
/// refused because they do not fit.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let amounts: Vec<Usd> = lines(bytes).iter().filter_map(|text| read(text)).collect();
    for one in &amounts {
        assert_eq!(one.to_string().parse(), Ok(*one), "what is shown reads back");
        assert_eq!(one.counter().ok(), i64::try_from(one.picos()).ok());
        for other in &amounts {
            let (a, b) = (BigInt::from(one.picos()), BigInt::from(other.picos()));
            assert_eq!(one.checked_add(*other).map(picos), fitting(&a + &b), "{one} + {other}");
            assert_eq!(one.checked_sub(*other).map(picos), fitting(&a - &b), "{one} - {other}");
            let quantity = u64::from_le_bytes(core::array::from_fn(|at| other.picos().to_le_bytes()[at]));
            assert_eq!(one.checked_mul(quantity).map(picos), fitting(a * quantity), "{one} * {quantity}");
        }
    }
    let sum = amounts.iter().try_fold(BigInt::ZERO, |sum, amount| fitting(sum + amount.picos()));
    assert_eq!(Usd::checked_sum(amounts).map(picos), sum);
}

fn picos(amount: Usd) -> BigInt {
    amount.picos().into()
}

fn fitting(number: BigInt) -> Option<BigInt> {
    i128::try_from(&number).is_ok().then_some(number)
}

/// Reads a text both ways.
fn read(text: &str) -> Option<Usd> {
    let read = Usd::nearest(text);
    match (expected(text), &read) {
        (None, found) => assert!(matches!(found, Err(UsdError::NotDecimal(_))), "{text:?}: {found:?}"),
        (Some((number, exact)), found) => match fitting(number.clone()) {
            None => assert!(matches!(found, Err(UsdError::OutOfRange(_))), "{text:?}: {found:?}"),
            Some(number) => {
                let found = found.as_ref().unwrap_or_else(|error| panic!("{text:?}: {error}"));
                assert_eq!((picos(found.0), found.1), (number, exact), "{text:?}");
            }
        },
    }
    let strict = text.parse::<Usd>();
    match read {
        Ok((amount, true)) => assert_eq!(strict, Ok(amount)),
        Ok((_, false)) => assert!(matches!(strict, Err(UsdError::TooFine(_))), "{text:?}"),
        Err(error) => assert_eq!(strict, Err(error)),
    }
    strict.ok()
}

/// The picodollars that a text names, rounded half to even, and whether nothing was rounded; `None` when it is no decimal.
/// An exponent without end is one that is merely very large.
fn expected(text: &str) -> Option<(BigInt, bool)> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        None => (rest, 0),
        Some(at) => {
            let (exponent_sign, digits) = match rest[at + 1..].strip_prefix('-') {
                Some(digits) => (-1, digits),
                None => (1, rest[at + 1..].strip_prefix('+').unwrap_or(&rest[at + 1..])),
            };
            let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let size = digits.parse::<i64>().unwrap_or(MAX_EXPONENT).min(MAX_EXPONENT);
            (&rest[..at], all_digits.then_some(exponent_sign * size)?)
        }
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // The text says: digits * 10^power picodollars.
    let power = SCALE + exponent - i64::try_from(fraction.len()).ok()?;
    let digits = BigInt::parse_bytes(digits.as_bytes(), 10)?;
    let factor = BigInt::from(10).pow(u32::try_from(power.unsigned_abs()).ok()?);
    if power >= 0 {
        return Some((digits * factor * sign, true));
    }
    let (quotient, rest) = (&digits / &factor, &digits % &factor);
    let twice = &rest * 2;
    let up = twice > factor || (twice == factor && &quotient % 2 == BigInt::from(1));
    Some(((quotient + i32::from(up)) * sign, rest == BigInt::ZERO))
}
