//! A connection that ends in mid-handshake, as a server that stops or a proxy that is replaced ends it, is worth another try.

use std::time::Duration;

use iam_ledger::{Ledger, LedgerError, LedgerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{batch, commit_time, database, entries, event, secret};

/// `AuthenticationOk`.
const AUTHENTICATED: &[u8] = &[b'R', 0, 0, 0, 8, 0, 0, 0, 0];

/// How far a server goes before it closes.
#[derive(Debug, Clone, Copy)]
enum Until {
    Accepted,
    TlsAsked,
    TlsAccepted,
    Greeted,
    Authenticated,
    HalfAMessage,
}

const ALL: [Until; 6] = [
    Until::Accepted,
    Until::TlsAsked,
    Until::TlsAccepted,
    Until::Greeted,
    Until::Authenticated,
    Until::HalfAMessage,
];

/// Takes one message of a client that has no type byte yet.
async fn read_greeting(stream: &mut TcpStream) -> std::io::Result<()> {
    let length = stream.read_i32().await?;
    let mut rest = vec![0; usize::try_from(length - 4).unwrap()];
    stream.read_exact(&mut rest).await.map(drop)
}

async fn serve(mut stream: TcpStream, until: Until) -> std::io::Result<()> {
    if matches!(until, Until::Accepted) {
        return Ok(());
    }
    read_greeting(&mut stream).await?;
    match until {
        Until::Accepted | Until::TlsAsked => return Ok(()),
        Until::TlsAccepted => {
            stream.write_all(b"S").await?;
            // The first bytes of the client's hello.
            return stream.read_exact(&mut [0; 5]).await.map(drop);
        }
        Until::Greeted | Until::Authenticated | Until::HalfAMessage => stream.write_all(b"N").await?,
    }
    read_greeting(&mut stream).await?;
    match until {
        Until::Authenticated => stream.write_all(AUTHENTICATED).await,
        Until::HalfAMessage => stream.write_all(&AUTHENTICATED[..6]).await,
        _ => Ok(()),
    }
}

/// A server that goes so far with everybody, and its address.
async fn server(until: Until) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The client may be gone already.
            let _ = serve(stream, until).await;
        }
    });
    address
}

#[tokio::test]
async fn a_connection_that_is_closed_in_mid_handshake_is_transient() {
    for until in ALL {
        let url = secret(&format!("postgres://u:p@{}/d", server(until).await));
        let error = Ledger::connect(&url, LedgerOptions::default()).await.unwrap_err();
        assert!(matches!(error, LedgerError::Connect { .. }), "{until:?}: {error:?}");
        assert!(error.is_transient(), "{until:?}: {error:?}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_where_tls_is_required_is_not() {
    let url = secret(&format!("postgres://u:p@{}/d?sslmode=require", server(Until::Greeted).await));
    let error = Ledger::connect(&url, LedgerOptions::default()).await.unwrap_err();
    assert!(!error.is_transient(), "{error:?}");
}

/// Forwards to a server until it is told to break off in mid-handshake.
struct Proxy {
    address: String,
    broken: tokio::sync::watch::Sender<bool>,
}

impl Proxy {
    async fn before(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (broken, is_broken) = tokio::sync::watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (target, mut is_broken) = (target.clone(), is_broken.clone());
                tokio::spawn(async move {
                    if *is_broken.borrow() {
                        let _ = serve(client, Until::HalfAMessage).await;
                        return;
                    }
                    let mut server = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = is_broken.wait_for(|broken| *broken) => {}
                    }
                });
            }
        });
        Self { address, broken }
    }
}

#[tokio::test]
async fn a_batch_whose_new_connection_breaks_off_is_run_again_later() {
    let database = database();
    let mut url = url::Url::parse(database.url()).unwrap();
    let proxy = Proxy::before(format!("{}:{}", url.host_str().unwrap(), url.port().unwrap())).await;
    let (host, port) = proxy.address.split_once(':').unwrap();
    url.set_host(Some(host)).unwrap();
    url.set_port(Some(port.parse().unwrap())).unwrap();
    let options = LedgerOptions { acquire_timeout: Duration::from_secs(60), ..LedgerOptions::default() };
    let ledger = Ledger::connect(&secret(url.as_str()), options).await.unwrap();
    ledger.migrate().await.unwrap();
    let events = entries(&[event("r", &["team/t"], Some("1"))]);
    proxy.broken.send_replace(true);
    // The first may meet the connection that broke while nobody used it.
    let mut errors = Vec::new();
    for _ in 0..2 {
        errors.extend(ledger.commit(&batch(&events)).await.err());
    }
    assert!(!errors.is_empty() && errors.iter().all(LedgerError::is_transient), "{errors:?}");
    assert!(errors.iter().all(|error| !error.blames_data()), "{errors:?}");
    proxy.broken.send_replace(false);
    assert_eq!(ledger.commit(&batch(&events)).await.unwrap().new, 1);
    assert_eq!(ledger.expire_holds(commit_time(), 1).await.unwrap(), 0);
}
