//! What an operator moved aside is named until somebody dealt with it, and its record stays.

use serde_json::Value;
use spend_queue::SpendQueue;

use crate::support::{Stack, event};
use crate::{audit, enqueue, flush, only, redis, run, says, text};

const PAGE: &str = include_str!("../../../../docs/operations/runbook.md");

/// The commands under a heading of the page, as words, without comments.
fn commands(heading: &str) -> Vec<Vec<String>> {
    let section = PAGE.split_once(&format!("### {heading}\n")).unwrap().1;
    let section = section.split("\n### ").next().unwrap();
    let lines = section.lines().map(str::trim).filter_map(|line| line.strip_prefix("usage-flusher "));
    lines
        .map(|line| {
            let line = line.split(" #").next().unwrap().trim();
            // What stands between single quotes is one word.
            let parts = line.split('\'').enumerate();
            parts
                .flat_map(|(place, part)| match place % 2 {
                    0 => part.split_whitespace().map(str::to_owned).collect(),
                    _ => vec![part.to_owned()],
                })
                .collect()
        })
        .collect()
}

fn done(stack: &Stack, words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let output = run(stack, &words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Moves the head aside as the page on heads that cannot be read says.
fn move_aside(stack: &Stack) {
    let shown: Value = serde_json::from_slice(&run(stack, &["quarantine", "--json"]).stdout).unwrap();
    let sha1 = shown["sha1"].as_str().unwrap();
    let output = run(stack, &["quarantine", "--head", sha1, "--reason", "a test", "--yes"]);
    assert!(output.status.success(), "{output:?}");
}

/// Number 4 is moved aside: as the last entry and before another, readable and not.
#[tokio::test]
async fn who_follows_the_page_on_what_was_moved_aside_ends_with_an_exact_audit_and_the_record() {
    let page = commands("EntriesQuarantined");
    let [list, restore, acknowledge] = &page[..] else { panic!("{page:?}") };
    for waiting in [1, 2] {
        for unreadable in [false, true] {
            let stack = Stack::start().await;
            enqueue(&stack, 0..3).await;
            flush(&stack).await;
            enqueue(&stack, 3..3 + waiting).await;
            if unreadable {
                let _: String = redis(&stack, "LSET", &["queue", "0", "cut o"]).await;
            }
            move_aside(&stack);
            flush(&stack).await;
            let report = audit(&stack);
            assert_eq!(only(&report, "queue.quarantine"), "1 entries were moved aside", "{report}");

            assert!(done(&stack, list).contains("a test"));
            stack.hot.enqueue(&event("r3-again", 5)).await.unwrap();
            flush(&stack).await;
            let shown = &acknowledge[..acknowledge.len() - 1];
            assert!(done(&stack, shown).contains("--yes"), "only shown");
            only(&audit(&stack), "queue.quarantine");
            assert!(done(&stack, acknowledge).contains("marked"));
            let report = audit(&stack);
            assert_eq!(report["verdict"], "exact", "{waiting} {unreadable}: {report}");
            let note = acknowledge.iter().find(|word| word.contains(' ')).unwrap();
            assert!(says(&report, "remarks", &["number 4 was moved aside (a test)", note]), "{report}");
            let listed = text(&stack, &["quarantine", "--list"]);
            assert!(listed.contains("a test") && listed.contains(&note[..10]), "the record stays: {listed}");

            let words: Vec<_> = restore.iter().map(String::as_str).collect();
            let refused = run(&stack, &words);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && said.contains("charged twice"), "{said}");
        }
    }
}

#[tokio::test]
async fn what_is_put_back_as_the_page_says_is_settled_and_leaves_nothing_to_name() {
    let page = commands("EntriesQuarantined");
    let stack = Stack::start().await;
    enqueue(&stack, 0..3).await;
    move_aside(&stack);
    only(&audit(&stack), "queue.quarantine");
    done(&stack, &page[1]);
    flush(&stack).await;
    let report = audit(&stack);
    assert_eq!(
        (&report["verdict"], &report["remarks"]),
        (&"exact".into(), &Value::Array(vec![])),
        "{report}"
    );
}
