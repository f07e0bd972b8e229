//! What models cost.

use std::fmt;

use spend_queue::{Usd, UsdError};
use thiserror::Error;

/// What one model costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The name that requests ask for.
    pub name: &'static str,
    /// Who runs it.
    pub provider: &'static str,
    /// USD per token, or none for a model that nobody has priced yet.
    pub price: Option<TokenPrice>,
}

/// The price of one token of each sort, exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPrice {
    input: Usd,
    cached_input: Usd,
    output: Usd,
}

/// A list price that cannot be used. A retry cannot help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PriceError {
    /// The text is no amount.
    #[error("price per million tokens: {0}")]
    Amount(#[from] UsdError),
    /// A millionth of the amount has digits below one picodollar, or the amount is negative.
    #[error("price per million tokens {0} USD: must be 0 or more, with at most 6 decimal places")]
    Inexact(Usd),
}

/// USD per million tokens (name, provider, input, cached input, output), as their vendors listed them for the
/// standard tier in spring 2026, without discounts for batches and surcharges for long contexts.
///
/// Real figures make the sums look like real bills; nothing here follows the market.
const LISTED: [(&str, &str, [&str; 3]); 5] = [
    ("gpt-4.1", "openai", ["2.00", "0.50", "8.00"]),
    ("gpt-4.1-nano", "openai", ["0.10", "0.025", "0.40"]),
    ("gpt-4o-mini", "openai", ["0.15", "0.075", "0.60"]),
    ("claude-sonnet-4-5", "anthropic", ["3.00", "0.30", "15.00"]),
    ("claude-haiku-4-5", "anthropic", ["1.00", "0.10", "5.00"]),
];

/// A model on the host's own machines, for which nobody is charged.
const FREE: (&str, &str) = ("house-llama", "self-hosted");
/// A model that is in use before anybody entered its price.
const UNPRICED: (&str, &str) = ("preview-model", "self-hosted");

impl TokenPrice {
    /// Reads USD per million tokens as decimal text, in the order input, cached input, output.
    ///
    /// # Errors
    ///
    /// [`PriceError`] when the text is no amount or a single token's price is not a whole number of picodollars.
    pub fn per_million(listed: [&str; 3]) -> Result<Self, PriceError> {
        const MILLION: i128 = 1_000_000;
        let per_token = |text: &str| -> Result<Usd, PriceError> {
            let amount: Usd = text.parse()?;
            if amount.is_negative() || amount.picos() % MILLION != 0 {
                return Err(PriceError::Inexact(amount));
            }
            Ok(Usd::from_picos(amount.picos() / MILLION))
        };
        let [input, cached_input, output] = listed;
        Ok(Self {
            input: per_token(input)?,
            cached_input: per_token(cached_input)?,
            output: per_token(output)?,
        })
    }

    /// What a call costs, or `None` when the sum does not fit. Cached tokens are a part of the prompt's and never
    /// more than those.
    #[must_use]
    pub fn cost(&self, prompt: u64, cached: u64, completion: u64) -> Option<Usd> {
        let cached = cached.min(prompt);
        let fresh = self.input.checked_mul(prompt - cached)?;
        let reused = self.cached_input.checked_mul(cached)?;
        fresh.checked_add(reused)?.checked_add(self.output.checked_mul(completion)?)
    }
}

/// Every model of the simulation: the priced ones, one free, one unpriced.
///
/// # Errors
///
/// [`PriceError`] when the built-in table is wrong.
pub fn models() -> Result<Vec<Model>, PriceError> {
    let priced = LISTED.iter().map(|&(name, provider, listed)| {
        Ok(Model { name, provider, price: Some(TokenPrice::per_million(listed)?) })
    });
    let free = Ok(Model { name: FREE.0, provider: FREE.1, price: Some(TokenPrice::per_million(["0"; 3])?) });
    let unpriced = Ok(Model { name: UNPRICED.0, provider: UNPRICED.1, price: None });
    priced.chain([free, unpriced]).collect()
}

impl Model {
    /// What a call costs: nothing known for an unpriced model, zero for a free one.
    #[must_use]
    pub fn cost(&self, prompt: u64, cached: u64, completion: u64) -> Option<Usd> {
        self.price?.cost(prompt, cached, completion)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    #[test]
    fn a_million_tokens_of_each_sort_cost_exactly_the_listed_price() {
        for (name, _, [input, cached, output]) in LISTED {
            let price = models().unwrap().into_iter().find(|model| model.name == name).unwrap();
            assert_eq!(price.cost(1_000_000, 0, 0), Some(usd(input)), "{name}");
            assert_eq!(price.cost(1_000_000, 1_000_000, 0), Some(usd(cached)), "{name}");
            assert_eq!(price.cost(0, 0, 1_000_000), Some(usd(output)), "{name}");
        }
    }

    #[test]
    fn one_token_is_a_whole_number_of_picodollars() {
        let price = TokenPrice::per_million(["0.10", "0.025", "0.000001"]).unwrap();
        assert_eq!(price.cost(1, 0, 0).map(Usd::picos), Some(100_000));
        assert_eq!(price.cost(1, 1, 0).map(Usd::picos), Some(25_000));
        assert_eq!(price.cost(0, 0, 1).map(Usd::picos), Some(1));
    }

    #[test]
    fn a_price_that_one_token_cannot_carry_exactly_is_refused() {
        for text in ["0.0000001", "-1"] {
            assert!(
                matches!(TokenPrice::per_million([text, "1", "1"]), Err(PriceError::Inexact(_))),
                "{text}"
            );
        }
        assert!(matches!(TokenPrice::per_million(["1", "x", "1"]), Err(PriceError::Amount(_))));
    }

    #[test]
    fn a_free_model_costs_zero_and_an_unpriced_one_nothing_known() {
        let models = models().unwrap();
        let cost = |name| models.iter().find(|model| model.name == name).unwrap().cost(1000, 10, 50);
        assert_eq!(cost(FREE.0), Some(Usd::ZERO));
        assert_eq!(cost(UNPRICED.0), None);
    }

    #[test]
    fn more_cached_than_prompt_tokens_are_charged_as_all_of_the_prompt() {
        let price = TokenPrice::per_million(["2", "1", "0"]).unwrap();
        assert_eq!(price.cost(10, 11, 0), price.cost(10, 10, 0));
    }
}
