//! Devstack.
