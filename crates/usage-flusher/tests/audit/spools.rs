//! Bills on gateways' disks, as far as gateways say that they hold them.

use iam_ledger::SpoolAnnouncement;

use crate::support::{Stack, now};
use crate::{audit, enqueue, flush, only};

fn announcement(events: u64) -> SpoolAnnouncement {
    let oldest = (events > 0).then(now);
    SpoolAnnouncement { instance: "host-1:/var/lib/spool".into(), events, bytes: events * 300, oldest }
}

#[tokio::test]
async fn a_spool_that_says_it_holds_bills_is_named_and_so_is_its_silence() {
    let stack = Stack::start().await;
    enqueue(&stack, 0..2).await;
    flush(&stack).await;
    stack.ledger.announce_spool(&announcement(14)).await.unwrap();
    let report = audit(&stack);
    let what = only(&report, "spools");
    assert!(what.contains("host-1:/var/lib/spool holds 14 bills (4200 bytes"), "{what}");
    assert!(!report["differences"][0]["means"].as_str().unwrap().contains("not been heard since"));

    let hours_ago = "update spool_announcements set announced_at = announced_at - interval '3 hours'";
    stack.database.execute("a gateway that is silent", hours_ago).unwrap();
    let report = audit(&stack);
    assert!(only(&report, "spools").contains("as it said 108"), "{report}");
    assert!(report["differences"][0]["means"].as_str().unwrap().contains("not been heard since"), "{report}");

    stack.ledger.announce_spool(&announcement(0)).await.unwrap();
    assert_eq!(audit(&stack)["verdict"], "exact");
}
