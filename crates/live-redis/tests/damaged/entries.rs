//! Entries that no script wrote, while the index is in doubt: what strict reads and repairs take for an entry is what the
//! flusher takes for one.

use live_redis::LiveRedisError;
use spend_queue::{Entry, PendingQuery, PendingSpend, Reindexed, SpendQueue, Usd};

use crate::common::{Hot, event, now, shard, team};
use crate::refused;

const LINK: &str = r#"{"seq":2,"chain":"0000000000000000000000000000000000000000","queued":5,"#;
const BODY: &str = r#""format":2,"spend":"0.000000000005","request_id":"b","scopes":["team/t"],"model":"m","prompt_tokens":1,"completion_tokens":1,"spend_pusd":5}"#;

/// An entry that reads well, and what is put in place of a part of it to make one that does not.
fn bad_entries() -> Vec<String> {
    let good = format!("{LINK}{BODY}");
    assert!(Entry::decode(good.clone().into_bytes()).is_ok());
    let changes = [
        (r#""seq":2"#, r#""seq":02"#),
        (r#""seq":2"#, r#""seq":-2"#),
        (r#""seq":2"#, r#""seq":"2""#),
        (r#""seq":2"#, r#""seq": 2"#),
        (r#""chain":"0000"#, r#""chain":"000"#),
        (r#""chain":"0000"#, r#""chain":"AAAA"#),
        (r#""chain":"0000"#, r#""chain":"zzzz"#),
        (r#""queued":5"#, r#""queued":05"#),
        (r#""queued":5"#, r#""queued":999999999999999999"#),
        (r#""queued":5,"#, ""),
        (r#""format":2"#, r#""format":1"#),
        (r#""format":2"#, r#""format":3"#),
        (r#"["team/t"]"#, "[]"),
        (r#"["team/t"]"#, "{}"),
        (r#"["team/t"]"#, r#"{"team/t":1}"#),
        (r#"["team/t"]"#, r#""team/t""#),
        (r#"["team/t"]"#, "[7]"),
        (r#"["team/t"]"#, "[null]"),
        (r#"["team/t"]"#, r#"["team/t",null]"#),
        (r#"["team/t"]"#, r#"[["team/t"]]"#),
        (r#"["team/t"]"#, r#"["team"]"#),
        (r#"["team/t"]"#, r#"["/t"]"#),
        (r#"["team/t"]"#, r#"["team/"]"#),
        (r#"["team/t"]"#, r#"["team/t","team/t"]"#),
        (r#"["team/t"]"#, r#"["team/\u001f"]"#),
        (r#""spend":"0.000000000005""#, r#""spend":"0.000000000006""#),
        (r#""spend":"0.000000000005""#, r#""spend":0.000000000005"#),
        (r#""spend":"0.000000000005","#, ""),
        (r#""spend_pusd":5"#, r#""spend_pusd":"5""#),
        (r#""spend_pusd":5"#, r#""spend_pusd":-5"#),
        (r#""spend_pusd":5"#, r#""spend_pusd":5.5"#),
        (r#""spend_pusd":5"#, r#""spend_pusd":9223372036854775808"#),
        (r#","spend_pusd":5"#, ""),
        (r#""model":"m""#, r#""model":"m","start":5"#),
        (r#""model":"m""#, r#""model":"m","start":"yesterday""#),
        (r#""model":"m""#, r#""model":"m","start":"2026-13-01T00:00:00.000000Z""#),
        (r#""model":"m""#, r#""model":"m","start":"2026-01-01T24:00:00.000000Z""#),
        ("}", ""),
        ("}", "}x"),
    ];
    let changed = changes.iter().map(|(part, other)| {
        assert!(good.contains(part), "{part}");
        good.replacen(part, other, 1)
    });
    changed.chain(["", "x", "{}", "null"].map(str::to_owned)).collect()
}

async fn with_tail(hot: &Hot, raw: &str) {
    let _: String = hot.run(&[b"FLUSHALL"]).await;
    hot.redis.enqueue(&event("a", 5)).await.unwrap();
    let _: u64 = hot.run(&[b"RPUSH", hot.key("queue").as_bytes(), raw.as_bytes()]).await;
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_never_left_out_of_a_sum_and_stops_a_repair() {
    let hot = Hot::private().await;
    let bad = bad_entries();
    for raw in &bad {
        assert!(Entry::decode(raw.clone().into_bytes()).is_err(), "the flusher reads {raw}");
        with_tail(&hot, raw).await;
        let queries = [PendingQuery::Scope(team()), PendingQuery::Key("other".into())];
        for error in [
            refused(&hot, raw, hot.redis.pending_all(&queries)).await,
            refused(&hot, raw, hot.redis.pending(&team())).await,
            refused(&hot, raw, hot.redis.pending_key("k")).await,
            refused(&hot, raw, hot.redis.pending_since("o", now())).await,
        ] {
            assert!(matches!(error, LiveRedisError::Damaged(_)), "{raw}: {error}");
        }
        let digest = hot.digest().await;
        assert_eq!(hot.redis.reindex(shard()).await, Ok(Reindexed::Blocked { position: 1 }), "{raw}");
        assert_eq!(hot.redis.repair_index(shard()).await, Ok(Reindexed::Blocked { position: 1 }), "{raw}");
        assert_eq!(hot.digest().await, digest);
    }
    println!("{} entries that cannot be read tried", bad.len());
}

#[tokio::test]
async fn an_entry_of_another_hand_that_can_be_read_counts_and_its_broken_link_stops_a_repair() {
    let hot = Hot::private().await;
    let raw = format!("{LINK}{BODY}");
    assert!(Entry::decode(raw.clone().into_bytes()).is_ok());
    with_tail(&hot, &raw).await;
    assert_eq!(hot.redis.pending(&team()).await, Ok(Usd::from_picos(10)));
    let digest = hot.digest().await;
    assert_eq!(hot.redis.reindex(shard()).await, Ok(Reindexed::Blocked { position: 1 }));
    assert_eq!(hot.digest().await, digest);
}
