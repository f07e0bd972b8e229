//! Where the requests of a replay come from.

use std::path::PathBuf;

use chrono::{DateTime, Utc};

use crate::generator::Generator;
use crate::trace::{self, TraceError, TraceReader, TraceRequest};

/// A small trace of our own, made by `rate-sim generate --events 200 --seed 1`.
const SAMPLE: &str = include_str!("../data/sample.csv");
/// How many requests the sample has.
pub const SAMPLE_REQUESTS: u64 = 200;

/// Requests in the order of a trace, read as they are needed.
pub type Requests = Box<dyn Iterator<Item = Result<TraceRequest, TraceError>> + Send>;

/// Where requests come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A trace file, or its first so many requests.
    Trace {
        /// The file.
        path: PathBuf,
        /// The most requests that are taken.
        limit: u64,
    },
    /// The built-in sample for up to 200 requests, the generator for more.
    BuiltIn {
        /// How many requests.
        requests: u64,
        /// The generator's seed.
        seed: u64,
    },
}

impl Source {
    /// How many requests there are, and the requests. A trace file is validated to its end first; `now` bounds its
    /// times.
    ///
    /// # Errors
    ///
    /// [`TraceError`] for a file that is no valid trace. The requests can still fail, if the file changes meanwhile.
    pub fn open(&self, now: DateTime<Utc>) -> Result<(u64, Requests), TraceError> {
        match self {
            Self::Trace { path, limit } => {
                let summary = trace::validate(trace::open(path, now)?, *limit)?;
                let requests = trace::open(path, now)?.take(count(summary.requests));
                Ok((summary.requests, Box::new(requests)))
            }
            Self::BuiltIn { requests, .. } if *requests <= SAMPLE_REQUESTS => {
                let sample = TraceReader::new(SAMPLE.as_bytes(), "built-in sample", now)?;
                Ok((*requests, Box::new(sample.take(count(*requests)))))
            }
            Self::BuiltIn { requests, seed } => {
                Ok((*requests, Box::new(Generator::new(*seed).take(count(*requests)).map(Ok))))
            }
        }
    }
}

fn count(requests: u64) -> usize {
    usize::try_from(requests).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &Source) -> (u64, Vec<TraceRequest>) {
        let (count, requests) = source.open("2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
        (count, requests.map(Result::unwrap).collect())
    }

    #[test]
    fn the_sample_is_what_the_generator_makes() {
        let (count, sample) = read(&Source::BuiltIn { requests: SAMPLE_REQUESTS, seed: 99 });
        assert_eq!(count, SAMPLE_REQUESTS);
        assert!(Generator::new(1).take(200).eq(sample));
    }

    #[test]
    fn more_requests_than_the_sample_has_are_generated() {
        let (count, requests) = read(&Source::BuiltIn { requests: 201, seed: 5 });
        assert_eq!(count, 201);
        assert!(Generator::new(5).take(201).eq(requests));
    }

    #[test]
    fn a_file_is_taken_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        trace::write(std::fs::File::create(&path).unwrap(), Generator::new(3).take(30)).unwrap();
        let (count, requests) = read(&Source::Trace { path: path.clone(), limit: 20 });
        assert_eq!((count, requests.len()), (20, 20));
        assert_eq!(read(&Source::Trace { path, limit: u64::MAX }).0, 30);
    }
}
