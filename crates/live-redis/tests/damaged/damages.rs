//! What another hand may do to a queue and its index, and which calls must fail then.

use crate::TYPES;
use crate::common::Hot;

/// Every call that touches the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Enqueue,
    Ack,
    Peek,
    /// Of an organization that every event charges.
    Pending,
    /// Of the same since an instant between the events' starts.
    PendingSince,
    Backlog,
    Status,
    Repair,
    Quarantine,
    Restore,
    ListQuarantine,
}
use Call::{
    Ack, Backlog, Enqueue, ListQuarantine, Peek, Pending, PendingSince, Quarantine, Repair, Restore, Status,
};

impl Call {
    pub(crate) const ALL: [Self; 11] = [
        Enqueue,
        Ack,
        Peek,
        Pending,
        PendingSince,
        Backlog,
        Status,
        Repair,
        Quarantine,
        Restore,
        ListQuarantine,
    ];
}

/// Commands by another hand; the second word of each is a key's name in the shard.
pub(crate) struct Damage {
    pub(crate) what: String,
    commands: Vec<Vec<Vec<u8>>>,
    /// The calls that must fail; every other one must succeed.
    pub(crate) fails: &'static [Call],
}

impl Damage {
    pub(crate) async fn inflict(&self, hot: &Hot) {
        for words in &self.commands {
            let key = hot.key(std::str::from_utf8(&words[1]).unwrap());
            let mut command: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            command[1] = key.as_bytes();
            let _: redis::Value = hot.run(&command).await;
        }
    }
}

fn damage(fails: &'static [Call], commands: &[&[&[u8]]]) -> Damage {
    let shown = |words: &&[&[u8]]| {
        words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
    };
    Damage {
        what: commands.iter().map(shown).collect::<Vec<_>>().join("; "),
        commands: commands.iter().map(|words| words.iter().map(|word| word.to_vec()).collect()).collect(),
        fails,
    }
}

pub(crate) const SCOPE: &[u8] = b"organization/o";
/// The place in the index by time of the events that started first.
pub(crate) const EARLY: &[u8] = b"o\x1f001772366400000";

/// Not what a script writes as an amount.
const NO_AMOUNT: [&[u8]; 14] = [
    b"x",
    b"",
    b"-5",
    b"0",
    b"05",
    b"+5",
    b" 5",
    b"1.5",
    b"1e3",
    b"0x5",
    b"5\0",
    b"9223372036854775808",
    b"99999999999999999999",
    b"nan",
];
/// Not what a script writes as a number of events or a sequence number.
const NO_COUNT: [&[u8]; 10] =
    [b"x", b"", b"-1", b"0", b"01", b" 1", b"1.0", b"1e3", b"0x1", b"1000000000000000"];
const NO_CHAIN: [&[u8]; 6] = [
    b"x",
    b"",
    b"0000",
    b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    b"00000000000000000000000000000000000000000",
    b"0000000000000000000000000000000000000000\0x",
];

/// Keys that hold another type.
pub(crate) fn of_type() -> Vec<Damage> {
    let keys: [(&[u8], &[u8], &'static [Call]); 8] = [
        (
            b"queue",
            b"RPUSH",
            &[Enqueue, Ack, Peek, Pending, PendingSince, Backlog, Status, Repair, Quarantine, Restore],
        ),
        (
            b"state",
            b"HSET",
            &[Enqueue, Ack, Peek, Pending, PendingSince, Status, Repair, Quarantine, Restore],
        ),
        // Reads doubt the index and go through the entries; a repair replaces it.
        (b"hot", b"HSET", &[Enqueue, Ack, Status]),
        (b"count", b"HSET", &[Enqueue, Ack, Status]),
        (b"since", b"ZADD", &[Enqueue, Ack]),
        (b"since:amount", b"HSET", &[Enqueue, Ack]),
        (b"quarantine", b"RPUSH", &[Status, Quarantine, Restore, ListQuarantine]),
        (b"lost", b"RPUSH", &[Status]),
    ];
    let mut damages = Vec::new();
    for (key, own, fails) in keys {
        for put in TYPES.iter().filter(|put| put[0] != own) {
            let mut words = vec![put[0], key];
            words.extend(&put[1..]);
            damages.push(damage(fails, &[&[b"DEL", key], &words]));
        }
    }
    damages
}

/// Fields that hold nonsense.
pub(crate) fn of_value() -> Vec<Damage> {
    let mut damages = Vec::new();
    let mut set = |key: &[u8], field: &[u8], values: &[&[u8]], fails| {
        damages.extend(values.iter().map(|value| damage(fails, &[&[b"HSET", key, field, value]])));
    };
    // The proof has no room for single counters: whoever needs one, checks it.
    set(b"hot", SCOPE, &NO_AMOUNT, &[Enqueue, Ack, Pending, PendingSince]);
    set(b"count", SCOPE, &NO_COUNT, &[Enqueue, Ack, Pending, PendingSince]);
    set(b"since:amount", EARLY, &NO_AMOUNT, &[Enqueue, Ack, PendingSince]);
    set(b"state", b"head", &NO_COUNT, &[Ack]);
    set(b"state", b"head", &[b"1", b"900"], &[]);
    set(b"state", b"next", &NO_COUNT, &[Enqueue, Ack]);
    set(b"state", b"next", &[b"1", b"900"], &[]);
    set(b"state", b"chain", &NO_CHAIN, &[Enqueue]);
    set(b"state", b"chain", &[b"0000000000000000000000000000000000000000"], &[]);
    set(b"state", b"doubt", &[b"", b"x", b"0"], &[]);
    set(b"state", b"scopes", &NO_COUNT, &[]);
    set(b"state", b"starts", &NO_COUNT, &[]);
    set(b"state", b"shards", &[b"x", b"", b"0", b"-1", b"2", b"1.0"], &[Enqueue]);
    set(b"state", b"format", &[b"x", b"", b"3"], &[]);
    set(b"state", b"settings", &[b"x", b"", b"local"], &[]);
    damages
}

/// Parts that are gone, or there without their counterpart.
pub(crate) fn of_absence() -> Vec<Damage> {
    let lone = b"o\x1f000000000000001";
    vec![
        damage(&[Enqueue], &[&[b"HDEL", b"count", SCOPE]]),
        damage(&[Enqueue], &[&[b"HDEL", b"hot", SCOPE]]),
        damage(&[], &[&[b"HDEL", b"hot", SCOPE], &[b"HDEL", b"count", SCOPE]]),
        // As many counters as before, each without its counterpart.
        damage(
            &[Enqueue, Pending, PendingSince],
            &[&[b"HDEL", b"hot", SCOPE], &[b"HSET", b"hot", b"team/other", b"5"]],
        ),
        damage(
            &[Enqueue, Pending, PendingSince],
            &[&[b"HDEL", b"count", SCOPE], &[b"HSET", b"count", b"team/other", b"1"]],
        ),
        damage(&[Enqueue], &[&[b"DEL", b"hot"]]),
        damage(&[Enqueue], &[&[b"DEL", b"count"]]),
        damage(&[], &[&[b"DEL", b"hot"], &[b"DEL", b"count"]]),
        damage(&[], &[&[b"DEL", b"since"]]),
        damage(&[], &[&[b"DEL", b"since:amount"]]),
        damage(&[], &[&[b"DEL", b"since"], &[b"DEL", b"since:amount"]]),
        damage(
            &[],
            &[&[b"DEL", b"hot"], &[b"DEL", b"count"], &[b"DEL", b"since"], &[b"DEL", b"since:amount"]],
        ),
        damage(&[], &[&[b"ZREM", b"since", EARLY]]),
        damage(&[], &[&[b"HDEL", b"since:amount", EARLY]]),
        damage(&[], &[&[b"ZADD", b"since", b"0", lone]]),
        damage(&[], &[&[b"HSET", b"since:amount", lone, b"5"]]),
        damage(&[], &[&[b"ZADD", b"since", b"0", lone], &[b"HSET", b"since:amount", lone, b"5"]]),
        damage(&[PendingSince], &[&[b"ZREM", b"since", EARLY], &[b"ZADD", b"since", b"0", lone]]),
        damage(&[], &[&[b"HSET", b"hot", b"team/other", b"5"], &[b"HSET", b"count", b"team/other", b"1"]]),
        // Another score breaks the order of the members.
        damage(&[], &[&[b"ZADD", b"since", b"5", EARLY]]),
        damage(&[], &[&[b"ZADD", b"since", b"-5", EARLY]]),
        damage(&[Enqueue], &[&[b"HDEL", b"state", b"next"]]),
        damage(&[Enqueue], &[&[b"HDEL", b"state", b"chain"]]),
        damage(&[], &[&[b"HDEL", b"state", b"next", b"chain"]]),
        damage(&[], &[&[b"HDEL", b"state", b"head"]]),
        damage(&[], &[&[b"HDEL", b"state", b"scopes", b"starts"]]),
        damage(&[], &[&[b"DEL", b"state"]]),
        damage(&[Pending, PendingSince], &[&[b"RPUSH", b"queue", b"garbage"]]),
        damage(&[Pending, PendingSince], &[&[b"LSET", b"queue", b"-1", b""]]),
        damage(&[], &[&[b"RPOP", b"queue"]]),
        damage(&[Restore], &[&[b"DEL", b"quarantine"]]),
        damage(&[Restore], &[&[b"LSET", b"quarantine", b"0", b"x"]]),
    ]
}
