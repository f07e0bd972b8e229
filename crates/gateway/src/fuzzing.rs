//! Where bytes from outside are read, for who tries to break it. No API: it changes with what it shows.

use axum::response::IntoResponse;
use bytes::Bytes;

use crate::asked::Asked;
use crate::config::{Config, Kind};
use crate::sse::{self, Events, TooLong};

/// Cuts a stream that came in these chunks into its events, each of at most so many bytes, and says whether one was
/// longer; behind that nothing is cut.
pub fn events<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, most: usize) -> (Vec<Bytes>, bool) {
    let mut events = Events::new(most);
    let mut found = Vec::new();
    for chunk in chunks {
        events.push(chunk);
        loop {
            match events.next() {
                Ok(Some(event)) => found.push(event),
                Ok(None) => break,
                Err(TooLong) => return (found, true),
            }
        }
    }
    found.extend(events.last());
    (found, false)
}

/// The data of an event.
#[must_use]
pub fn data(event: &[u8]) -> Option<Vec<u8>> {
    sse::data(event).map(std::borrow::Cow::into_owned)
}

/// What is understood of a client's body.
#[derive(Debug)]
pub struct Understood {
    /// The body as an upstream gets it that calls the model `upstream_model`.
    pub upstream_body: Bytes,
    /// Whether the answer is to be a stream.
    pub stream: bool,
    /// The most tokens that admission counts.
    pub estimate: u64,
}

/// Reads a client's body.
///
/// # Errors
///
/// What the client is told: the status.
pub fn ask(kind: Kind, body: &Bytes, config: &Config, upstream_model: &str) -> Result<Understood, u16> {
    let asked = Asked::read(kind, body, config).map_err(|error| error.into_response().status().as_u16())?;
    Ok(Understood {
        upstream_body: asked.body_for(upstream_model),
        stream: asked.stream,
        estimate: asked.estimate(),
    })
}
