//! No limit is exceeded in any minute.

use std::collections::HashMap;

use super::{Breach, Truth, Verdict};
use crate::tenants::Tenant;

/// Compares what was admitted in each minute with the limits of the tenants.
///
/// An admission whose answer was lost, or whose gateway died before writing it down, is missing here, and one that is to be
/// given back is left out; so what is seen can only be less than what Redis has counted.
pub(crate) fn check_limits(truth: &Truth, tenants: &[Tenant], verdict: &mut Verdict) {
    let subjects = tenants.iter().flat_map(|tenant| &tenant.subjects);
    let limits: HashMap<_, _> =
        subjects.map(|subject| (subject.name(), (subject.rpm, subject.tpm))).collect();
    for ((subject, minute), &(requests, tokens)) in truth.admitted() {
        if truth.minute_may_be_forgotten(*minute) {
            continue;
        }
        let (rpm, tpm) = limits.get(subject).copied().unwrap_or((Some(0), Some(0)));
        let over = |used: i64, limit: Option<u64>| {
            limit.is_some_and(|limit| u64::try_from(used).is_ok_and(|used| used > limit))
        };
        if over(requests, rpm) || over(tokens, tpm) {
            let detail = format!(
                "{subject} in minute {minute}: {requests} requests of {rpm:?}, {tokens} tokens of {tpm:?}"
            );
            verdict.add(Breach::LimitExceeded, detail);
        }
    }
}
