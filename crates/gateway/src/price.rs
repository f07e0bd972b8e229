//! What tokens cost, exactly.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer};
use spend_queue::Usd;
use thiserror::Error;

use crate::usage::Usage;

/// Prices are told for so many tokens, as providers do.
const TOKENS_PER_PRICE: i128 = 1_000_000;

/// The highest price: 10,000 USD per million tokens. With the largest event (2^40 tokens of each kind) a cost still fits
/// `i128` by far; whether it fits an event is checked when it is billed.
const MAX_PICOS_PER_MILLION: i128 = 10_000 * 1_000_000_000_000;

/// The price of one token: a whole number of picodollars, so that no bill is ever rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TokenPrice(Usd);

/// Why a text is no price. Nothing is rounded to make it one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PriceError {
    /// Not a decimal number.
    #[error("{0:?} is no decimal number of USD, such as \"0.15\"")]
    NotDecimal(String),
    /// Below zero, or above the bound.
    #[error("{0:?} USD per million tokens; 0 to 10000 are possible")]
    OutOfRange(String),
    /// One token would cost a fraction of a picodollar.
    #[error(
        "{0:?} USD per million tokens is not a whole number of picodollars (10^-12 USD) a token: at most 6 digits may follow \
         the point"
    )]
    TooFine(String),
}

impl TokenPrice {
    /// A price as providers tell it: decimal USD per million tokens, 0 to 10,000, with at most 6 digits after the point.
    ///
    /// # Errors
    ///
    /// [`PriceError`].
    pub fn per_million(text: &str) -> Result<Self, PriceError> {
        let price: Usd = text.parse().map_err(|error| match error {
            spend_queue::UsdError::TooFine(_) => PriceError::TooFine(text.to_owned()),
            spend_queue::UsdError::OutOfRange(_) => PriceError::OutOfRange(text.to_owned()),
            _ => PriceError::NotDecimal(text.to_owned()),
        })?;
        let picos = price.picos();
        if !(0..=MAX_PICOS_PER_MILLION).contains(&picos) {
            return Err(PriceError::OutOfRange(text.to_owned()));
        }
        if picos % TOKENS_PER_PRICE != 0 {
            return Err(PriceError::TooFine(text.to_owned()));
        }
        Ok(Self(Usd::from_picos(picos / TOKENS_PER_PRICE)))
    }

    /// What so many tokens cost; `None` beyond `i128`.
    #[must_use]
    pub fn of(self, tokens: u64) -> Option<Usd> {
        self.0.checked_mul(tokens)
    }

    /// Picodollars a token.
    #[must_use]
    pub const fn picos_per_token(self) -> i128 {
        self.0.picos()
    }
}

/// Per million tokens, as it was written.
impl fmt::Display for TokenPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Usd::from_picos(self.0.picos() * TOKENS_PER_PRICE).fmt(f)
    }
}

impl<'de> Deserialize<'de> for TokenPrice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A string: a TOML float would have been rounded before it is seen.
        let text = String::deserialize(deserializer)?;
        Self::per_million(&text).map_err(de::Error::custom)
    }
}

/// What a deployment asks for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prices {
    /// An input token.
    pub input: TokenPrice,
    /// An input token that the upstream had in its cache.
    pub cached_input: TokenPrice,
    /// An output token.
    pub output: TokenPrice,
}

impl Prices {
    /// The exact cost of a call: cached input tokens at their price, all other input at that of input. `None` beyond `i128`.
    #[must_use]
    pub fn cost(&self, usage: Usage) -> Option<Usd> {
        // An upstream that claims more cached than there were cannot make a bill smaller than all of them cached.
        let cached = usage.cached.min(usage.prompt);
        Usd::checked_sum([
            self.input.of(usage.prompt - cached)?,
            self.cached_input.of(cached)?,
            self.output.of(usage.completion)?,
        ])
    }

    /// The most that a call of so many tokens can cost, whatever is cached.
    #[must_use]
    pub fn ceiling(&self, prompt: u64, completion: u64) -> Option<Usd> {
        let input = self.input.max(self.cached_input);
        input.of(prompt)?.checked_add(self.output.of(completion)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn price(text: &str) -> TokenPrice {
        TokenPrice::per_million(text).unwrap()
    }

    #[test]
    fn a_price_per_million_is_a_whole_number_of_picodollars_a_token_or_refused() {
        assert_eq!(price("0.15").picos_per_token(), 150_000);
        assert_eq!(price("0").picos_per_token(), 0);
        assert_eq!(price("0.000001").picos_per_token(), 1);
        assert_eq!(price("10000").picos_per_token(), 10_000_000_000);
        for fine in ["0.0000015", "0.0000000000001"] {
            assert_eq!(TokenPrice::per_million(fine), Err(PriceError::TooFine(fine.into())));
        }
        for out in ["-0.1", "10000.000001", "1e40"] {
            assert_eq!(TokenPrice::per_million(out), Err(PriceError::OutOfRange(out.into())));
        }
        for no in ["", "NaN", "1,5", "cheap"] {
            assert_eq!(TokenPrice::per_million(no), Err(PriceError::NotDecimal(no.into())));
        }
    }

    #[test]
    fn cached_input_has_its_own_price_and_more_cached_than_sent_is_all_cached() {
        let prices = Prices { input: price("0.15"), cached_input: price("0.075"), output: price("0.60") };
        let usage = |prompt, cached, completion| Usage { prompt, cached, completion };
        assert_eq!(prices.cost(usage(10, 4, 3)).unwrap().picos(), 6 * 150_000 + 4 * 75_000 + 3 * 600_000);
        assert_eq!(prices.cost(usage(10, 99, 0)), prices.cost(usage(10, 10, 0)));
    }

    proptest! {
        #[test]
        fn what_is_displayed_reads_back(picos in 0..=10_000_000_000_i128) {
            let price = TokenPrice(Usd::from_picos(picos));
            prop_assert_eq!(TokenPrice::per_million(&price.to_string()), Ok(price));
        }

        #[test]
        fn no_call_costs_more_than_its_ceiling(
            prices in prop::array::uniform3(0..=10_000_000_000_i128),
            prompt in 0..1_u64 << 40, cached in 0..1_u64 << 40, completion in 0..1_u64 << 40,
        ) {
            let [input, cached_input, output] = prices.map(|picos| TokenPrice(Usd::from_picos(picos)));
            let prices = Prices { input, cached_input, output };
            let cost = prices.cost(Usage { prompt, cached, completion }).unwrap();
            prop_assert!(cost <= prices.ceiling(prompt, completion).unwrap());
        }
    }
}
