use super::*;

fn bill(id: &str) -> Bill {
    Bill {
        id: id.to_owned(),
        organization: "o".into(),
        team: "t".into(),
        key: "k".into(),
        model: "m".into(),
        cost: Some(5),
        prompt_tokens: 1,
        completion_tokens: 2,
        started_at: 0,
        scopes: vec![("team".into(), "t".into())],
    }
}

fn intent(id: &str) -> Record {
    Record::Intent { at: 0, bill: bill(id) }
}

fn answered(id: &str, at: i64, altered: bool, answer: Answer) -> Record {
    Record::Answered { at, id: id.to_owned(), altered, answer }
}

fn owes(durability: Durability, stops: &[RedisStop], answers: &[i64]) -> bool {
    let heard = answers.iter().map(|at| answered("r", *at, false, Answer::Accepted));
    let records = std::iter::once(intent("r")).chain(heard);
    let truth = Truth::of(records, durability, stops.to_vec()).unwrap();
    truth.is_owed(truth.get("r").unwrap())
}

const KILL: RedisStop = RedisStop { from: 10_000_000, until: 10_100_000, killed: true };

#[test]
fn an_answer_is_owed_and_silence_is_not() {
    assert!(owes(Durability::Always, &[], &[1]));
    assert!(!owes(Durability::Always, &[], &[]));
}

#[test]
fn a_file_that_is_flushed_before_each_reply_excuses_nothing() {
    assert!(owes(Durability::Always, &[KILL], &[KILL.from]));
}

#[test]
fn a_file_that_is_flushed_every_second_excuses_the_two_seconds_before_a_kill() {
    let every = Durability::EverySecond;
    assert!(owes(every, &[KILL], &[KILL.from - 2_000_001]));
    assert!(!owes(every, &[KILL], &[KILL.from - 2_000_000]));
    assert!(!owes(every, &[KILL], &[KILL.until]));
    assert!(owes(every, &[KILL], &[KILL.until + 1]));
    assert!(owes(every, &[RedisStop { killed: false, ..KILL }], &[KILL.from]), "a graceful stop flushes");
    assert!(owes(every, &[KILL], &[KILL.from, KILL.until + 1]), "a later answer counts by itself");
}

#[test]
fn without_a_file_everything_before_any_stop_is_excused() {
    let graceful = RedisStop { killed: false, ..KILL };
    assert!(!owes(Durability::None, &[graceful], &[1]));
    assert!(owes(Durability::None, &[graceful], &[KILL.until + 1]));
}

fn breaches(records: Vec<Record>) -> Vec<Breach> {
    let mut verdict = Verdict::default();
    Truth::of(records, Durability::Always, Vec::new()).unwrap().check_answers(&mut verdict);
    verdict.breaches().collect()
}

#[test]
fn answers_that_contradict_each_other_are_breaches() {
    let altered = Record::Altered { at: 1, bill: bill("r").altered() };
    let accepted = answered("r", 1, false, Answer::Accepted);
    let right = vec![
        intent("r"),
        accepted.clone(),
        answered("r", 2, false, Answer::Duplicate),
        altered.clone(),
        answered("r", 3, true, Answer::Conflict),
    ];
    assert_eq!(breaches(right.clone()), []);
    let with = |record| right.iter().cloned().chain([record]).collect();
    assert_eq!(breaches(with(accepted)), [Breach::AcceptedTwice]);
    for (altered, answer) in [(false, Answer::Conflict), (true, Answer::Accepted), (true, Answer::Duplicate)]
    {
        assert_eq!(breaches(with(answered("r", 4, altered, answer))), [Breach::WrongAnswer]);
    }
}

#[test]
fn the_other_payload_is_legal_only_where_the_first_may_have_been_forgotten() {
    let records = || {
        let altered = Record::Altered { at: 1, bill: bill("r").altered() };
        [intent("r"), altered, answered("r", 2, true, Answer::Accepted)]
    };
    for (durability, count) in [(Durability::Always, 1), (Durability::EverySecond, 2), (Durability::None, 2)]
    {
        let truth = Truth::of(records(), durability, vec![KILL]).unwrap();
        assert_eq!(truth.legal(truth.get("r").unwrap()).count(), count);
    }
}

#[test]
fn journals_that_are_not_sound_are_an_error() {
    let error = |records: Vec<Record>| Truth::of(records, Durability::Always, Vec::new()).unwrap_err();
    assert!(error(vec![intent("r"), intent("r")]).to_string().contains("two intents"));
    assert!(error(vec![answered("r", 1, false, Answer::Accepted)]).to_string().contains("before"));
}

#[test]
fn admissions_over_a_limit_are_breaches_and_refunds_make_room() {
    let tenants = crate::tenants::tenants();
    let admitted = |count: usize| {
        let subjects = vec!["organization/o0".to_owned()];
        vec![Record::Admitted { at: 0, minute: 7, subjects, tokens: 1 }; count]
    };
    let refunding =
        Record::Refunding { at: 0, minute: 7, subjects: vec!["organization/o0".into()], tokens: 1 };
    let over = |records: Vec<Record>| {
        let mut verdict = Verdict::default();
        let truth = Truth::of(records, Durability::Always, Vec::new()).unwrap();
        super::super::check_limits(&truth, &tenants, &mut verdict);
        verdict.count(Breach::LimitExceeded)
    };
    assert_eq!(over(admitted(240)), 0);
    assert_eq!(over(admitted(241)), 1);
    assert_eq!(over(admitted(241).into_iter().chain([refunding]).collect()), 0);
}
