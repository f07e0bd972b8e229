//! What strict reads ask for, checked, and how much of it one script call takes.

use spend_queue::{Millis, ORGANIZATION, PendingQuery, ScopeRef};

use crate::error::LiveRedisError;
use crate::input;

/// What one call takes, in queries without an instant. The server does nothing else meanwhile: about 0.4 ms for so many with
/// the index proven, where a path of budgets needs 4 and a few hundred beside it. No less, since a queue whose index is in
/// doubt is gone through once a call.
const ROOM: usize = 512;

/// What a query with an instant takes of it: it reads all that is older, 1 to 2 us for each millisecond of events.
const ROOM_SINCE: usize = 64;

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

    const fn room(&self) -> usize {
        if self.since.is_some() { ROOM_SINCE } else { 1 }
    }
}

fn scope(kind: &str, field: &'static str, id: &str) -> Result<ScopeRef, LiveRedisError> {
    input::id(field, id)?;
    ScopeRef::new(kind, id).map_err(|error| LiveRedisError::Damaged(error.to_string()))
}

/// The queries in their order, in as few pieces as calls are needed.
pub(super) fn pieces(mut asked: &[Asked]) -> Vec<&[Asked]> {
    let mut pieces = Vec::new();
    while !asked.is_empty() {
        let mut taken = 0;
        let fitting = asked.iter().take_while(|asked| {
            taken += asked.room();
            taken <= ROOM
        });
        let (piece, rest) = asked.split_at(fitting.count());
        pieces.push(piece);
        asked = rest;
    }
    pieces
}

// A single query always fits, or no piece would be made of it.
const _: () = assert!(ROOM_SINCE <= ROOM);

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(queries: &[(usize, bool)]) -> Vec<usize> {
        let asked: Vec<_> = queries
            .iter()
            .flat_map(|&(times, since)| {
                let since = since.then_some(Millis::EPOCH);
                vec![Asked { scope: ScopeRef::new(ORGANIZATION, "o").unwrap(), since }; times]
            })
            .collect();
        let pieces = pieces(&asked);
        assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), asked.len());
        pieces.iter().map(|piece| piece.len()).collect()
    }

    #[test]
    fn a_call_takes_512_amounts_or_8_since_an_instant() {
        assert_eq!(sizes(&[]), Vec::<usize>::new());
        assert_eq!(sizes(&[(1, true)]), [1]);
        assert_eq!(sizes(&[(260, false)]), [260]);
        assert_eq!(sizes(&[(512, false)]), [512]);
        assert_eq!(sizes(&[(1_025, false)]), [512, 512, 1]);
        assert_eq!(sizes(&[(17, true)]), [8, 8, 1]);
        assert_eq!(sizes(&[(448, false), (1, true)]), [449]);
        assert_eq!(sizes(&[(449, false), (2, true), (384, false), (1, false)]), [449, 386, 1]);
    }
}
