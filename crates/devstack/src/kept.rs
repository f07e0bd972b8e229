//! What a person needs to know about a server that outlives us.

use std::fmt;

use crate::service::Service;

/// A server that was left running on purpose: where it is, and how to end it.
///
/// `Display` prints the URL with its password, since a person needs it; `Debug` does not.
#[derive(Clone)]
pub struct Kept {
    pub(crate) service: Service,
    pub(crate) url: String,
    pub(crate) stop: Vec<String>,
}

impl Kept {
    /// The URL, with its password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Shell commands that stop the server and remove its data, to be typed in this order.
    pub fn stop_commands(&self) -> &[String] {
        &self.stop
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keeps running at {}\nto end it: {}", self.service, self.url, self.stop.join("; "))
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("service", &self.service)
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}
