//! Decimal text to integer picodollars.

use anyhow::{Result, bail};

/// Digits after the point of a picodollar.
const PLACES: usize = 12;

/// Reads PostgreSQL's `numeric` exactly; what is finer than a picodollar is an error.
pub(super) fn picos(text: &str) -> Result<i128> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let kept = &fraction[..fraction.len().min(PLACES)];
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fine = fraction.bytes().skip(PLACES).any(|byte| byte != b'0');
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fine {
        bail!("{text:?} is not an amount of whole picodollars");
    }
    let picos: i128 = format!("{whole}{kept:0<PLACES$}").parse()?;
    Ok(if negative { -picos } else { picos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_to_the_last_picodollar() {
        for (text, want) in [
            ("0", 0),
            ("0.000000000001", 1),
            ("12.5", 12_500_000_000_000),
            ("-3.000000000002", -3_000_000_000_002),
            ("900719925474099312345.123456789012", 900_719_925_474_099_312_345_123_456_789_012),
            ("1.0000000000000000", 1_000_000_000_000),
        ] {
            assert_eq!(picos(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_an_error() {
        for text in ["", ".", "NaN", "1e3", "1,0", "0.0000000000001", "--1", " 1"] {
            assert!(picos(text).is_err(), "{text:?}");
        }
    }
}
