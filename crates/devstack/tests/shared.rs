//! The servers that the tests of a process share.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use devstack::DevstackError;
use postgres::{Client, NoTls};
use url::Url;

fn exists(name: &str) -> bool {
    let mut client = Client::connect(devstack::postgres().unwrap().url(), NoTls).unwrap();
    client.query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).unwrap().is_some()
}

/// Waits until a database is gone: the server may be busy with the sessions of other tests.
fn goes(name: &str) -> bool {
    let begun = Instant::now();
    while exists(name) {
        if begun.elapsed() > Duration::from_secs(90) {
            return false;
        }
    }
    true
}

#[test]
fn every_thread_gets_the_same_servers_and_a_place_of_its_own() {
    let places: Vec<(String, String, String, String)> = std::thread::scope(|scope| {
        let users: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let redis = devstack::redis().unwrap().test();
                    let database = devstack::postgres().unwrap().database("shared").unwrap();
                    let mut client = Client::connect(database.url(), NoTls).unwrap();
                    client.batch_execute("CREATE TABLE same_name (n int)").unwrap();
                    let server = devstack::postgres().unwrap().url();
                    (
                        redis.url().to_owned(),
                        redis.prefix().to_owned(),
                        server.to_owned(),
                        database.name().to_owned(),
                    )
                })
            })
            .collect();
        users.into_iter().map(|user| user.join().unwrap()).collect()
    });
    let distinct = |part: fn(&(String, String, String, String)) -> &String| {
        places.iter().map(part).collect::<HashSet<_>>().len()
    };
    assert_eq!(
        (distinct(|p| &p.0), distinct(|p| &p.1), distinct(|p| &p.2), distinct(|p| &p.3)),
        (1, 8, 1, 8)
    );
    assert!(places.iter().all(|place| place.1.bytes().all(|b| b.is_ascii_alphanumeric())));
}

#[test]
fn a_database_goes_with_its_value_even_if_a_session_is_still_open() {
    let database = devstack::postgres().unwrap().database("dropped").unwrap();
    let name = database.name().to_owned();
    let _session = Client::connect(database.url(), NoTls).unwrap();
    assert!(exists(&name));
    drop(database);
    assert!(goes(&name));
}

#[test]
fn a_session_that_this_thread_has_yet_to_authenticate_does_not_hold_it_up() {
    let database = devstack::postgres().unwrap().database("handshake").unwrap();
    let (name, url) = (database.name().to_owned(), Url::parse(database.url()).unwrap());
    let mut session = TcpStream::connect((url.host_str().unwrap(), url.port().unwrap())).unwrap();
    // PostgreSQL's documentation, "Message Formats", StartupMessage: length, version 3.0, names and values.
    let names = format!("user\0{}\0database\0postgres\0\0", url.username());
    session.write_all(&u32::try_from(names.len() + 8).unwrap().to_be_bytes()).unwrap();
    session.write_all(&[&[0, 3, 0, 0], names.as_bytes()].concat()).unwrap();
    let mut asked = [0];
    session.read_exact(&mut asked).unwrap();
    assert_eq!(asked, *b"R", "the server waits for a proof of the password");
    let begun = Instant::now();
    drop(database);
    assert!(begun.elapsed() < Duration::from_secs(30), "half of what the server allows a handshake");
    drop(session);
    assert!(goes(&name));
}

#[test]
fn the_database_of_a_failed_test_stays() {
    let mut name = String::new();
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let database = devstack::postgres().unwrap().database("failed").unwrap();
        name = database.name().to_owned();
        panic!("the test fails");
    }));
    assert!(failed.is_err());
    assert!(exists(&name));
}

#[test]
fn prefixes_that_are_no_plain_identifiers_are_refused() {
    let postgres = devstack::postgres().unwrap();
    for prefix in ["", "Upper", "1st", "a-b", "a\"; DROP DATABASE postgres; --", "é", &"a".repeat(25)] {
        assert!(matches!(postgres.database(prefix), Err(DevstackError::BadPrefix(_))), "{prefix:?}");
    }
    // The longest one still fits PostgreSQL's 63 bytes.
    let longest = postgres.database(&"a".repeat(24)).unwrap();
    assert!(exists(longest.name()));
}

#[test]
fn debug_output_holds_no_password() {
    let postgres = devstack::postgres().unwrap();
    let database = postgres.database("debug").unwrap();
    let password = postgres.url().split([':', '@']).nth(2).unwrap();
    assert_eq!(password.len(), 32);
    assert!(!format!("{postgres:?} {database:?}").contains(password));
}

#[tokio::test]
async fn the_blocking_calls_may_be_made_inside_an_async_test() {
    let database = devstack::postgres().unwrap().database("in_async").unwrap();
    let name = database.name().to_owned();
    drop(database);
    assert!(!tokio::task::spawn_blocking(move || exists(&name)).await.unwrap());
}
