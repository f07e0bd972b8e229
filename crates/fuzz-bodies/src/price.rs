//! Prices, and what calls cost by them.

use gateway::{PriceError, Prices, TokenPrice, Usage};
use num_bigint::BigInt;
use spend_queue::{MAX_TOKENS, Usd, UsdError};

use crate::lines;

/// A price that is read is exact and shown as it was; the cost of a call is the sum of its tokens, and never above its ceiling.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let lines = lines(bytes);
    let prices: Vec<TokenPrice> = lines.iter().filter_map(|text| read(text)).collect();
    let counts: Vec<u64> =
        lines.iter().filter_map(|text| text.parse().ok()).map(|n: u64| n % (MAX_TOKENS + 1)).collect();
    let ([input, cached_input, output, ..], [prompt, cached, completion, ..]) = (&prices[..], &counts[..])
    else {
        return;
    };
    let all = Prices { input: *input, cached_input: *cached_input, output: *output };
    let usage = Usage { prompt: *prompt, cached: *cached, completion: *completion };
    let cost = all.cost(usage).expect("the dearest call fits");
    let from_cache = usage.cached.min(usage.prompt);
    let expected = BigInt::from(input.picos_per_token()) * (usage.prompt - from_cache)
        + BigInt::from(cached_input.picos_per_token()) * from_cache
        + BigInt::from(output.picos_per_token()) * usage.completion;
    assert_eq!(BigInt::from(cost.picos()), expected);
    assert!(cost <= all.ceiling(usage.prompt, usage.completion).expect("the dearest call fits"));
}

fn read(text: &str) -> Option<TokenPrice> {
    let price = TokenPrice::per_million(text);
    match (text.parse::<Usd>(), &price) {
        (Ok(amount), Ok(price)) => {
            assert_eq!(price.picos_per_token() * 1_000_000, amount.picos(), "{text:?}");
            assert_eq!(TokenPrice::per_million(&price.to_string()), Ok(*price), "what is shown reads back");
        }
        (Ok(amount), Err(PriceError::OutOfRange(_))) => {
            assert!(!(0..=10_000 * 1_000_000_000_000).contains(&amount.picos()), "{text:?}");
        }
        (Ok(amount), Err(PriceError::TooFine(_))) => assert!(amount.picos() % 1_000_000 != 0, "{text:?}"),
        (Ok(_), Err(PriceError::NotDecimal(_))) => panic!("{text:?} is a decimal"),
        (Err(UsdError::TooFine(_)), found) => {
            assert!(matches!(found, Err(PriceError::TooFine(_))), "{text:?}: {found:?}");
        }
        (Err(UsdError::OutOfRange(_)), found) => {
            assert!(matches!(found, Err(PriceError::OutOfRange(_))), "{text:?}: {found:?}");
        }
        (Err(_), found) => assert!(matches!(found, Err(PriceError::NotDecimal(_))), "{text:?}: {found:?}"),
    }
    price.ok()
}
