//! Holds: what a request may cost is reserved durably before it runs, at every level of its path or at none.
//!
//! ```text
//!                 hold                      event committed
//!   (nothing) ───────────────► held ─────────────────────────────► settled (cost, and by how much it is above)
//!                               │ │                                  ▲  ▲
//!                       release │ │ expires_at has passed            │  │
//!                               ▼ └──────────────► expired ──────────┘  │   an event that comes late is recorded,
//!                           released ───────────────────────────────────┘   although nothing was reserved any more
//! ```
//!
//! Only `held` reserves, and only until it expires: the sweep (`expire_holds`) writes down what is already true. A request id
//! is held once, for ever.
//!
//! # Why hot money is not asked
//!
//! A host that holds makes the hold before the request runs and sends the event after. Until a commit settles both in one
//! transaction, the hold covers whatever of the request is in the queue; adding hot money would count it twice. Where
//! every paid request is held, settled and held are therefore all there is, up to costs above what was held, which count from
//! their commit on. A host that runs paid requests without holds beside this has spend that no hold sees before its commit.

mod end;
mod error;
mod place;

use std::time::Duration;

use chrono::{DateTime, Utc};
use spend_queue::{ScopeRef, Usd};

pub use end::Released;
pub(crate) use end::settle;
pub use error::HoldError;
pub use place::HoldAnswer;

use crate::money::from_numeric;
use crate::quota::scope;
use crate::{Ledger, LedgerError};

/// The shortest time that money can be held.
pub const MIN_HOLD_TTL: Duration = Duration::from_millis(1);
/// The longest time that money can be held: a day.
pub const MAX_HOLD_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The largest amount of one hold: what one event can cost, 9223372.036854775807 USD.
pub const MAX_HOLD: Usd = Usd::from_picos(i64::MAX as i128);

/// Where a hold is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// It reserves money until it expires.
    Held,
    /// It was given back.
    Released,
    /// The request's event was committed.
    Settled,
    /// Its time passed.
    Expired,
}

/// A request's hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The request.
    pub request_id: String,
    /// For whom: the lowest level of the path.
    pub subject: ScopeRef,
    /// What is reserved at every level, above zero.
    pub amount: Usd,
    /// Where it is in its life.
    pub state: HoldState,
    /// When it was made.
    pub held_at: DateTime<Utc>,
    /// From this instant on it reserves nothing, swept or not.
    pub expires_at: DateTime<Utc>,
    /// When it ceased to reserve; `None` while it is held.
    pub ended_at: Option<DateTime<Utc>>,
    /// When the request's event was committed.
    pub settled_at: Option<DateTime<Utc>>,
    /// What the request cost; `None` before its event, and for an unpriced one.
    pub cost: Option<Usd>,
}

impl Hold {
    /// Whether it reserves money at this instant.
    #[must_use]
    pub fn reserves(&self, now: DateTime<Utc>) -> bool {
        self.state == HoldState::Held && now < self.expires_at
    }

    /// By how much the request cost more than was held; `None` when it did not.
    #[must_use]
    pub fn overrun(&self) -> Option<Usd> {
        self.cost?.checked_sub(self.amount).filter(|over| !over.is_negative() && !over.is_zero())
    }
}

impl HoldState {
    /// The word that the database uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Released => "released",
            Self::Settled => "settled",
            Self::Expired => "expired",
        }
    }

    fn from_word(word: &str) -> Result<Self, LedgerError> {
        [Self::Held, Self::Released, Self::Settled, Self::Expired]
            .into_iter()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| LedgerError::Unreadable { column: "state", value: word.to_owned() })
    }
}

impl Ledger {
    /// A request's hold, whatever became of it; `None` when there never was one.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn hold_of(&self, request_id: &str) -> Result<Option<Hold>, LedgerError> {
        let row = sqlx::query_file!("queries/hold_of.sql", request_id)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.failed("reading a hold", error))?;
        row.map(|row| {
            Ok(Hold {
                request_id: request_id.to_owned(),
                subject: scope(row.kind, row.id)?,
                amount: from_numeric("amount_usd", &row.amount_usd)?,
                state: HoldState::from_word(&row.state)?,
                held_at: row.held_at,
                expires_at: row.expires_at,
                ended_at: row.ended_at,
                settled_at: row.settled_at,
                cost: row.cost_usd.map(|cost| from_numeric("cost_usd", &cost)).transpose()?,
            })
        })
        .transpose()
    }
}
