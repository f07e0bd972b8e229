//! What strict reads ask for, checked, and how much of it one script call takes.

use spend_queue::{Millis, ORGANIZATION, PendingQuery, ScopeRef};

use crate::error::LiveRedisError;
use crate::input;

/// What one call takes, in queries without an instant. The server does nothing else meanwhile: about 0.4 ms for so many with
/// the index proven, where a path of budgets needs 4 and a few hundred beside it. No less, since a queue whose index is in
/// doubt is gone through once a call.
const ROOM: usize = 512;

/// How many starts before their instants the queries of one call read at most, unless a single one may read more: 1.3 us each,
/// so about 0.7 ms.
const STARTS: usize = 512;

/// A query whose ids are known to be good.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) scope: ScopeRef,
    /// The first millisecond that counts; `None` counts everything.
    pub(super) since: Option<Millis>,
}

impl Asked {
    pub(super) fn check(query: &PendingQuery) -> Result<Self, LiveRedisError> {
        Ok(match query {
            PendingQuery::Scope(scope) => Self { scope: scope.clone(), since: None },
            PendingQuery::Organization { id, since } => {
                Self { scope: scope(ORGANIZATION, "organization_id", id)?, since: Some(Millis::of(*since)) }
            }
            PendingQuery::Key(id) => Self { scope: scope("key", "key_id", id)?, since: None },
        })
    }
}

fn scope(kind: &str, field: &'static str, id: &str) -> Result<ScopeRef, LiveRedisError> {
    input::id(field, id)?;
    ScopeRef::new(kind, id).map_err(|error| LiveRedisError::Damaged(error.to_string()))
}

/// The queries in their order, in as few pieces as calls are needed, when each with an instant may read `since_bound` starts.
pub(super) fn pieces(mut asked: &[Asked], since_bound: u32) -> Vec<&[Asked]> {
    let each = usize::try_from(since_bound).unwrap_or(STARTS).clamp(1, STARTS);
    let mut pieces = Vec::new();
    while !asked.is_empty() {
        let (mut taken, mut starts) = (0, 0);
        let fitting = asked.iter().take_while(|asked| {
            taken += 1;
            starts += if asked.since.is_some() { each } else { 0 };
            taken <= ROOM && starts <= STARTS
        });
        let (piece, rest) = asked.split_at(fitting.count());
        pieces.push(piece);
        asked = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(since_bound: u32, queries: &[(usize, bool)]) -> Vec<usize> {
        let asked: Vec<_> = queries
            .iter()
            .flat_map(|&(times, since)| {
                let since = since.then_some(Millis::EPOCH);
                vec![Asked { scope: ScopeRef::new(ORGANIZATION, "o").unwrap(), since }; times]
            })
            .collect();
        let pieces = pieces(&asked, since_bound);
        assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), asked.len());
        pieces.iter().map(|piece| piece.len()).collect()
    }

    #[test]
    fn a_call_takes_512_amounts_and_so_many_since_an_instant_as_read_512_starts() {
        assert_eq!(sizes(512, &[]), Vec::<usize>::new());
        assert_eq!(sizes(512, &[(512, false)]), [512]);
        assert_eq!(sizes(512, &[(1_025, false)]), [512, 512, 1]);
        assert_eq!(sizes(512, &[(3, false), (1, true), (3, false)]), [7]);
        assert_eq!(sizes(512, &[(2, true), (9, false)]), [1, 10]);
        assert_eq!(sizes(64, &[(17, true)]), [8, 8, 1]);
        assert_eq!(sizes(64, &[(511, false), (2, true)]), [512, 1]);
        // What a single one may read, it may whatever it is.
        for bound in [0, 513, u32::MAX] {
            assert_eq!(sizes(bound, &[(1, true)]), [1]);
        }
    }
}
