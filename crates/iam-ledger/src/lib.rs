//! IAM ledger.
