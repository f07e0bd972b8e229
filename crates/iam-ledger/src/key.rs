//! Keys: making, replacing and checking their secrets.

mod identity;
mod keyring;
mod pepper;
mod secret;

pub use identity::{Identity, IdentityScope};
pub use keyring::Keyring;
pub(crate) use pepper::SecretHmac;
pub use pepper::{MIN_PEPPER_BYTES, Pepper, PepperTooShort};
pub use secret::{KEY_SECRET_PREFIX, KeySecret};
