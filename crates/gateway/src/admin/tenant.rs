//! `tenant`: the ledger becomes what a file says. Nothing is deleted.

use anyhow::Result;
use iam_ledger::{
    AllocationDimension, IdentityPatch, Keyring, Ledger, LedgerError, NewIdentity, OverAllocation, ScopeKind,
};

use super::TenantOptions;
use super::difference::Difference;
use super::owners::{self, of_kind};
use super::tenant_file::{self, Wanted, owner_kinds};
use super::tenant_report::Report;

/// What is to be done, owners first.
#[derive(Default)]
struct Plan<'a> {
    missing: Vec<&'a Wanted>,
    different: Vec<(&'a Wanted, Difference)>,
}

pub(super) async fn run(options: &TenantOptions) -> Result<()> {
    let wanted = tenant_file::read(&options.file)?;
    let (keyring, ledger) = options.keyring.keyring().await?;
    let mut report = Report::default();
    let done = apply(&ledger, &keyring, &wanted, &mut report).await;
    // Also when it stopped half-way: a secret that is not shown now is lost.
    report.print(options.json)?;
    done
}

async fn apply(ledger: &Ledger, keyring: &Keyring, wanted: &[Wanted], report: &mut Report) -> Result<()> {
    owners::check(ledger, wanted).await?;
    let plan = Plan::of(ledger, wanted, report).await?;
    for (one, difference) in plan.different.iter().rev() {
        patch(ledger, one, &difference.lower).await?;
    }
    for (one, difference) in plan.different {
        patch(ledger, one, &difference.raise).await?;
        report.updated(one, difference.changes);
    }
    for one in plan.missing {
        create(ledger, keyring, one, report).await?;
    }
    Ok(())
}

impl<'a> Plan<'a> {
    async fn of(ledger: &Ledger, wanted: &'a [Wanted], report: &mut Report) -> Result<Self> {
        let mut plan = Self::default();
        for one in wanted {
            let identity = &one.identity;
            let record = match ledger.identity(identity.kind, &identity.id).await {
                Ok(record) => record,
                Err(LedgerError::NotFound { .. }) => {
                    plan.missing.push(one);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for kind in owner_kinds(identity.kind) {
                let (has, named) = (of_kind(&record.owners, *kind), of_kind(&identity.owners, *kind));
                if has != named {
                    let has = has.map_or_else(|| "none".to_owned(), |id| format!("{id:?}"));
                    let problem = format!("owners never change, and it has {has}");
                    return Err(one.place.problem(kind.as_str(), problem).into());
                }
            }
            let difference = Difference::between(&record, identity);
            if difference.is_none() {
                report.unchanged(one);
            } else {
                plan.different.push((one, difference));
            }
        }
        Ok(plan)
    }
}

async fn patch(ledger: &Ledger, one: &Wanted, patch: &IdentityPatch) -> Result<()> {
    if *patch == IdentityPatch::new() {
        return Ok(());
    }
    let NewIdentity { kind, id, .. } = &one.identity;
    ledger.update(*kind, id, patch).await.map_err(|error| blame(one, error))
}

async fn create(ledger: &Ledger, keyring: &Keyring, one: &Wanted, report: &mut Report) -> Result<()> {
    let identity = &one.identity;
    // A key together with its secret: one that was made without would never get to anybody.
    let secret = if identity.kind == ScopeKind::Key {
        Some(keyring.create_key(identity).await.map_err(|error| blame(one, error))?)
    } else {
        ledger.create(identity).await.map_err(|error| blame(one, error))?;
        None
    };
    report.created(one, secret);
    Ok(())
}

/// The ledger's refusal under the name of the entry and of the field that it is about.
fn blame(one: &Wanted, error: LedgerError) -> anyhow::Error {
    let field = match &error {
        LedgerError::OverAllocated(over) => allocated_field(over),
        LedgerError::TimeZone(_) => "budget_time_zone",
        LedgerError::Identity { .. } => "team",
        _ => return anyhow::Error::new(error).context(one.place.to_string()),
    };
    one.place.problem(field, error).into()
}

const fn allocated_field(over: &OverAllocation) -> &'static str {
    match over.dimension {
        AllocationDimension::Rpm => "rpm",
        AllocationDimension::Tpm => "tpm",
        AllocationDimension::Usd => "budget_usd",
    }
}
