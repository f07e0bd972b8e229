//! Response headers that tell a client where it stands, for any web framework.

use alloc::{format, string::String, vec::Vec};

use crate::minute::SECONDS_PER_MINUTE;
use crate::{Decision, Dimension, seconds_until_next_minute};

/// The largest integer of an HTTP structured field: 15 decimal digits (RFC 9651, section 3.3.1).
const MAX_FIELD_INTEGER: u64 = 999_999_999_999_999;

/// What one dimension is called in headers, and what is known of it.
struct Standing {
    name: &'static str,
    limit: u64,
    remaining: u64,
}

/// Names and values of the response headers for a decision made at this instant, in a fixed order.
///
/// Names are lower-case, as HTTP/2 has them; values are ASCII and name no tenant. Per limited dimension (an admission
/// tells both, a rejection the one that refused):
///
/// - `x-ratelimit-limit-requests`, `-remaining-requests`, `-reset-requests`, and the same with `-tokens`: as
///   OpenAI's clients read them. The limit is that of the tightest node of the path; reset is a duration, `18s`.
/// - `ratelimit-policy` and `ratelimit`: the structured fields of draft-ietf-httpapi-ratelimit-headers-11, with the
///   policies `"requests"` and `"tokens"`. Quotas above the largest integer of such a field, 10^15 - 1, are shown as that.
/// - `retry-after`, in whole seconds, on a rejection that waiting can help
///   ([`Rejection::retry_after`](crate::Rejection::retry_after)).
#[must_use]
pub fn response_headers(decision: &Decision, unix_seconds: i64) -> Vec<(&'static str, String)> {
    let reset = seconds_until_next_minute(unix_seconds);
    let (mut headers, mut policies, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for dimension in Dimension::ALL {
        let Some(Standing { name, limit, remaining }) = standing(decision, dimension) else { continue };
        let names = openai_names(dimension);
        let values = [format!("{limit}"), format!("{remaining}"), duration(reset)];
        headers.extend(names.into_iter().zip(values));
        let (quota, rest) = (limit.min(MAX_FIELD_INTEGER), remaining.min(MAX_FIELD_INTEGER));
        // Requests are the unit that is meant when none is named.
        let unit = if dimension == Dimension::Rpm { "" } else { ";qu=\"tokens\"" };
        policies.push(format!("\"{name}\";q={quota};w={SECONDS_PER_MINUTE}{unit}"));
        limits.push(format!("\"{name}\";r={rest};t={reset}"));
    }
    if !policies.is_empty() {
        headers.push(("ratelimit-policy", policies.join(", ")));
        headers.push(("ratelimit", limits.join(", ")));
    }
    if let Some(seconds) = decision.retry_after(unix_seconds) {
        headers.push(("retry-after", format!("{seconds}")));
    }
    headers
}

fn standing(decision: &Decision, dimension: Dimension) -> Option<Standing> {
    let name = match dimension {
        Dimension::Rpm => "requests",
        Dimension::Tpm => "tokens",
    };
    match decision {
        Decision::Admitted(admitted) => admitted.headroom(dimension).map(|headroom| Standing {
            name,
            limit: headroom.limit,
            remaining: headroom.remaining,
        }),
        Decision::Rejected(rejection) => (rejection.dimension == dimension).then(|| Standing {
            name,
            limit: rejection.limit,
            remaining: rejection.remaining(),
        }),
    }
}

const fn openai_names(dimension: Dimension) -> [&'static str; 3] {
    match dimension {
        Dimension::Rpm => {
            ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"]
        }
        Dimension::Tpm => {
            ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"]
        }
    }
}

/// A duration of 1 to 60 seconds in OpenAI's notation, which counts minutes from 60 seconds on.
fn duration(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{Admitted, Headroom, MAX_LIMIT, Rejection, Scope};

    fn admitted(rpm: Option<(u64, u64)>, tpm: Option<(u64, u64)>) -> Decision {
        let headroom = |(limit, remaining)| Headroom { node: 0, limit, remaining };
        let (rpm, tpm) = (rpm.map(headroom), tpm.map(headroom));
        Decision::Admitted(Admitted { usage: vec![], rpm, tpm })
    }

    fn rejected(limit: u64, used: u64, demand: u64) -> Decision {
        let scope = Scope::new("team", "geheim-\u{e9}").unwrap();
        let dimension = Dimension::Tpm;
        Decision::Rejected(Rejection { node: 0, scope, dimension, limit, used, held_for_siblings: 0, demand })
    }

    fn text(decision: &Decision, now: i64) -> Vec<String> {
        response_headers(decision, now).iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn an_admission_tells_both_dimensions() {
        let headers = text(&admitted(Some((100, 50)), Some((40_000, 0))), 60 * 7 + 42);
        assert_eq!(
            headers,
            [
                "x-ratelimit-limit-requests: 100",
                "x-ratelimit-remaining-requests: 50",
                "x-ratelimit-reset-requests: 18s",
                "x-ratelimit-limit-tokens: 40000",
                "x-ratelimit-remaining-tokens: 0",
                "x-ratelimit-reset-tokens: 18s",
                r#"ratelimit-policy: "requests";q=100;w=60, "tokens";q=40000;w=60;qu="tokens""#,
                r#"ratelimit: "requests";r=50;t=18, "tokens";r=0;t=18"#,
            ]
        );
    }

    #[test]
    fn a_dimension_without_a_limit_is_left_out() {
        assert_eq!(text(&admitted(None, None), 0), Vec::<String>::new());
        let headers = text(&admitted(None, Some((5, 5))), 0);
        assert_eq!(headers[2], "x-ratelimit-reset-tokens: 1m0s");
        assert_eq!(headers[3], r#"ratelimit-policy: "tokens";q=5;w=60;qu="tokens""#);
        assert_eq!(headers[4..], [r#"ratelimit: "tokens";r=5;t=60"#]);
    }

    #[test]
    fn a_rejection_tells_the_limit_that_refused_and_when_to_come_back() {
        let headers = text(&rejected(100, 95, 10), 59);
        assert_eq!(headers[1], "x-ratelimit-remaining-tokens: 5");
        assert_eq!(headers.last().map(String::as_str), Some("retry-after: 1"));
        assert!(headers.iter().all(|header| header.is_ascii() && !header.contains("geheim")));
    }

    #[test]
    fn a_rejection_that_waiting_cannot_help_names_no_time_and_remaining_is_never_negative() {
        let headers = text(&rejected(100, 300, 101), 59);
        assert_eq!(headers[1], "x-ratelimit-remaining-tokens: 0");
        assert!(headers.iter().all(|header| !header.starts_with("retry-after")));
    }

    #[test]
    fn structured_fields_stay_within_their_integers() {
        let headers = text(&admitted(Some((MAX_LIMIT, MAX_LIMIT)), None), 1);
        assert_eq!(headers[0], "x-ratelimit-limit-requests: 9007199254740991");
        assert_eq!(headers[3], r#"ratelimit-policy: "requests";q=999999999999999;w=60"#);
        assert_eq!(headers[4], r#"ratelimit: "requests";r=999999999999999;t=59"#);
    }
}
