//! What the earlier lives of a gateway left without an answer.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::bill::Bill;
use crate::journal::{Record, read_journals};

/// Bills that were to be sent, of which nothing was heard.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    pub(crate) bills: Vec<Bill>,
}

impl Unanswered {
    /// Reads the journals of a gateway's earlier lives.
    pub(crate) fn of(folder: &Path, gateway: &str) -> Result<Self> {
        let mut open = BTreeMap::new();
        for record in read_journals(folder, &format!("{gateway}."))? {
            match record {
                Record::Intent { bill, .. } => {
                    open.insert(bill.id.clone(), bill);
                }
                Record::Answered { id, .. } | Record::Unknown { id, .. } => {
                    open.remove(&id);
                }
                _ => {}
            }
        }
        Ok(Self { bills: open.into_values().collect() })
    }
}
