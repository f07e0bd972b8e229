//! Authenticated identities in memory: how many, how long, and whose.

use std::time::Duration;

use iam_ledger::{
    IdentityCache, IdentityCacheOptions, IdentityPatch, KeySecret, Keyring, LedgerError, NewIdentity,
    ScopeKind,
};
use secrecy::SecretString;

use crate::support::{Fixture, commit_time};

const KEYS: usize = 6;

async fn with_keys() -> (Fixture, Keyring, Vec<KeySecret>) {
    let fixture = Fixture::new().await;
    fixture.ledger.create(&NewIdentity::organization("o", "")).await.unwrap();
    let keyring = fixture.keyring();
    let mut secrets = Vec::new();
    for n in 0..KEYS {
        let key = NewIdentity::key(format!("k{n}"), "").of_organization("o");
        secrets.push(keyring.create_key(&key).await.unwrap());
    }
    (fixture, keyring, secrets)
}

fn text(secret: &KeySecret) -> SecretString {
    secret.expose_secret().into()
}

#[tokio::test]
async fn a_known_identity_is_found_without_the_database() {
    let (fixture, keyring, secrets) = with_keys().await;
    let cache = IdentityCache::new(keyring, IdentityCacheOptions::default());
    let first = cache.authenticate(&text(&secrets[0]), commit_time()).await.unwrap();
    fixture.ledger.close().await;
    let again = cache.authenticate(&text(&secrets[0]), commit_time()).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &again));
    let error = cache.authenticate(&text(&secrets[1]), commit_time()).await.unwrap_err();
    assert!(
        !matches!(error, LedgerError::NotAuthenticated),
        "an outage says nothing about a secret: {error}"
    );
    let error = cache.authenticate(&"tw_x".into(), commit_time()).await.unwrap_err();
    assert!(matches!(error, LedgerError::NotAuthenticated), "{error}");
}

#[tokio::test]
async fn an_identity_is_asked_for_again_at_its_highest_age() {
    let (fixture, keyring, secrets) = with_keys().await;
    let max_age = Duration::from_secs(10);
    let cache = IdentityCache::new(keyring, IdentityCacheOptions { max_age, ..Default::default() });
    let blocked = |at| {
        let (cache, secret) = (cache.clone(), text(&secrets[0]));
        async move { cache.authenticate(&secret, at).await.unwrap().blocked().count() }
    };
    let now = commit_time();
    assert_eq!(blocked(now).await, 0);
    fixture.ledger.update(ScopeKind::Key, "k0", &IdentityPatch::new().set_blocked(true)).await.unwrap();
    assert_eq!(blocked(now + Duration::from_millis(9_999)).await, 0, "nobody watches for changes here");
    assert_eq!(blocked(now + max_age).await, 1);
    assert_eq!(blocked(now).await, 1, "a clock that went backwards");
}

#[tokio::test]
async fn a_replaced_secret_ends_on_time_in_memory_too() {
    let (_fixture, keyring, secrets) = with_keys().await;
    let cache = IdentityCache::new(keyring.clone(), IdentityCacheOptions::default());
    let until = commit_time() + Duration::from_secs(5);
    keyring.rotate_key("k0", Some(until)).await.unwrap();
    cache.authenticate(&text(&secrets[0]), commit_time()).await.unwrap();
    let late = cache.authenticate(&text(&secrets[0]), until).await;
    assert!(matches!(late, Err(LedgerError::NotAuthenticated)), "{late:?}");
    assert!(cache.is_empty(), "what is known to be refused is not kept");
}

#[tokio::test]
async fn it_holds_no_more_than_it_may_and_no_unknown_secret() {
    let (_fixture, keyring, secrets) = with_keys().await;
    let options = IdentityCacheOptions { max_identities: 4, ..Default::default() };
    let cache = IdentityCache::new(keyring, options);
    for secret in &secrets {
        cache.authenticate(&text(secret), commit_time()).await.unwrap();
        assert!(cache.len() <= 4);
    }
    let full = cache.len();
    for guess in ["A", "E"] {
        let guess = format!("tw_{}{guess}", "A".repeat(42));
        assert!(cache.authenticate(&guess.into(), commit_time()).await.is_err());
    }
    assert_eq!(cache.len(), full);
    assert!(!format!("{cache:?}").contains("tw_"));
}
