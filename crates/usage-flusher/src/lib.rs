//! Usage flusher.
