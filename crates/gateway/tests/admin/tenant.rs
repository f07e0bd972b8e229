//! `tenant` makes the ledger what the file says, and a second time changes nothing.

use iam_ledger::{BudgetPeriod, ScopeKind};
use rate_plan::Limits;
use serde_json::json;

use crate::office::Office;

const ACME: &str = r#"
[[organizations]]
id = "acme"
name = "Acme"
rpm = 100
budget_usd = "50"
budget_period = "monthly"
budget_time_zone = "Europe/Berlin"

[[teams]]
id = "web"
organization = "acme"
rpm = 60

[[users]]
id = "ada"
organization = "acme"
team = "web"

[[keys]]
id = "laptop"
name = "Ada's laptop"
organization = "acme"
team = "web"
user = "ada"
rpm = 30
tpm = 5000
budget_usd = "0.000000000001"
"#;

#[tokio::test]
async fn what_is_missing_is_created_and_a_second_time_nothing_changes() {
    let office = Office::open().await;
    let report = office.applied(ACME);
    assert_eq!(report["created"], json!(["organization/acme", "team/web", "user/ada", "key/laptop"]));
    let secret = report["keys"][0]["secret"].as_str().unwrap();
    assert_eq!(report["keys"], json!([{ "id": "laptop", "secret": secret }]));
    let identity = office.who(secret).await.unwrap();
    assert_eq!(identity.scopes().len(), 4, "{identity:?}");

    let acme = office.record(ScopeKind::Organization, "acme").await;
    assert_eq!((acme.name.as_str(), acme.limits), ("Acme", Limits { rpm: Some(100), tpm: None }));
    assert_eq!(acme.budget.amount, Some("50".parse().unwrap()));
    assert_eq!(
        (acme.budget.period, acme.budget.time_zone.as_str()),
        (BudgetPeriod::Monthly, "Europe/Berlin")
    );

    let again = office.applied(ACME);
    assert_eq!((&again["created"], &again["updated"], &again["keys"]), (&json!([]), &json!([]), &json!([])));
    assert_eq!(again["unchanged"].as_array().unwrap().len(), 4);
    assert!(office.who(secret).await.is_ok(), "the secret stays");
}

#[tokio::test]
async fn what_differs_is_patched_and_what_is_left_out_is_cleared() {
    let office = Office::open().await;
    office.applied(ACME);
    let changed = ACME
        .replace("name = \"Acme\"", "name = \"Acme Inc.\"")
        .replace("tpm = 5000\n", "")
        .replace("rpm = 30", "rpm = 31")
        .replace("budget_usd = \"0.000000000001\"", "budget_usd = \"2\"");
    let report = office.applied(&changed);
    assert_eq!(
        report["updated"],
        json!([
            { "scope": "organization/acme", "changes": [
                { "field": "name", "was": "\"Acme\"", "now": "\"Acme Inc.\"" },
            ] },
            { "scope": "key/laptop", "changes": [
                { "field": "rpm", "was": "30", "now": "31" },
                { "field": "tpm", "was": "5000", "now": "none" },
                { "field": "budget_usd", "was": "0.000000000001", "now": "2" },
            ] },
        ])
    );
    let laptop = office.record(ScopeKind::Key, "laptop").await;
    assert_eq!(laptop.limits, Limits { rpm: Some(31), tpm: None });
    assert_eq!(laptop.budget.amount, Some("2".parse().unwrap()));
}

/// Two teams of one organization: rpm of all three.
fn shares(organization: u32, red: u32, blue: u32) -> String {
    format!(
        "[[organizations]]\nid = 'o'\nrpm = {organization}\n\
         [[teams]]\nid = 'red'\norganization = 'o'\nrpm = {red}\n\
         [[teams]]\nid = 'blue'\norganization = 'o'\nrpm = {blue}\n"
    )
}

#[tokio::test]
async fn allocations_move_in_whatever_order_the_file_has_them() {
    let office = Office::open().await;
    for (organization, red, blue) in
        [(100, 60, 40), (100, 40, 60), (50, 20, 30), (200, 150, 50), (100, 10, 90), (100, 90, 10)]
    {
        office.applied(&shares(organization, red, blue));
        for (kind, id, rpm) in [
            (ScopeKind::Organization, "o", organization),
            (ScopeKind::Team, "red", red),
            (ScopeKind::Team, "blue", blue),
        ] {
            assert_eq!(office.record(kind, id).await.limits.rpm, Some(rpm.into()), "{id}");
        }
    }
}

#[tokio::test]
async fn secrets_are_shown_once_on_standard_output_alone() {
    let office = Office::open().await;
    let first = office.tenant(ACME, &[]);
    assert!(first.status.success(), "{first:?}");
    let text = String::from_utf8(first.stdout).unwrap();
    let secret = text.split_whitespace().find(|word| word.starts_with("tw_")).unwrap();
    assert!(office.who(secret).await.is_ok());
    assert_eq!(text.matches("tw_").count(), 1, "{text}");
    assert!(text.contains("created    key/laptop\n"), "{text}");
    let second = office.tenant(ACME, &[]);
    for bytes in [first.stderr, second.stdout, second.stderr] {
        assert!(!String::from_utf8(bytes).unwrap().contains("tw_"));
    }
}

#[tokio::test]
async fn owners_may_be_in_the_ledger_already() {
    let office = Office::open().await;
    office.applied(ACME);
    let report = office.applied("[[keys]]\nid = 'ci'\norganization = 'acme'\nteam = 'web'\n");
    assert_eq!(report["created"], json!(["key/ci"]));
    office.applied("[[users]]\nid = 'alone'\n[[keys]]\nid = 'own'\nuser = 'alone'\n");
}
