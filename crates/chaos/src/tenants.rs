//! Who sends requests, and what each may send in a minute: plain data for the gateways and for the checker.

/// One subject of an allocation tree.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) parent: Option<usize>,
    /// Requests a minute; `None`: no limit of its own.
    pub(crate) rpm: Option<u64>,
    /// Tokens a minute.
    pub(crate) tpm: Option<u64>,
}

impl Subject {
    /// `kind/id`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.kind, self.id)
    }
}

/// An organization with its teams and keys.
#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) subjects: Vec<Subject>,
}

impl Tenant {
    /// A subject and all above it, the subject first.
    pub(crate) fn path(&self, leaf: usize) -> Vec<&Subject> {
        std::iter::successors(self.subjects.get(leaf), |s| self.subjects.get(s.parent?)).collect()
    }

    /// The places of the keys.
    pub(crate) fn keys(&self) -> Vec<usize> {
        let keys = self.subjects.iter().enumerate().filter(|(_, subject)| subject.kind == "key");
        keys.map(|(place, _)| place).collect()
    }
}

/// Two tenants whose limits bind every minute, two that have room: refusals and throughput are both wanted.
pub(crate) fn tenants() -> Vec<Tenant> {
    [(Some(240), Some(90_000)), (Some(900), None), (None, None), (None, Some(40_000_000))]
        .into_iter()
        .enumerate()
        .map(|(number, (rpm, tpm))| tenant(number, rpm, tpm))
        .collect()
}

fn tenant(number: usize, rpm: Option<u64>, tpm: Option<u64>) -> Tenant {
    let subject =
        |kind: &str, id: String, parent, rpm, tpm| Subject { kind: kind.into(), id, parent, rpm, tpm };
    let mut subjects = vec![subject("organization", format!("o{number}"), None, rpm, tpm)];
    for team in 0..2 {
        // One team has a share of its own, the other takes what is left.
        let share = rpm.filter(|_| team == 0).map(|rpm| rpm / 2);
        let at = subjects.len();
        subjects.push(subject("team", format!("o{number}-t{team}"), Some(0), share, None));
        for key in 0..3 {
            let own = share.filter(|_| key == 0).map(|share| share / 3);
            subjects.push(subject("key", format!("o{number}-t{team}-k{key}"), Some(at), own, None));
        }
    }
    Tenant { subjects }
}
