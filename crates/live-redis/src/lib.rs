//! Live Redis.
