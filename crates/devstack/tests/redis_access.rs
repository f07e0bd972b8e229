//! Who may talk to a private Redis: TLS with certificates, and users with rights.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod client;

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use client::{ask, ask_over, gone, places};
use devstack::{RedisServer, TlsAuthClients, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

/// What a client of TLS meets that trusts `trusted` and shows the certificate of `shown`.
fn ping(
    server: &RedisServer,
    name: &str,
    trusted: &TlsFiles,
    shown: Option<&TlsFiles>,
) -> Result<String, String> {
    use std::io::{Read, Write};
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.ca_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some(files) => {
            let cert = CertificateDer::from_pem_file(files.client_cert_path()).unwrap();
            let key = PrivateKeyDer::from_pem_file(files.client_key_path()).unwrap();
            config.with_client_auth_cert(vec![cert], key).unwrap()
        }
    };
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(b"PING\r\n").map_err(|e| e.to_string())?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

fn authority() -> (TempDir, TlsFiles) {
    let folder = TempDir::new().unwrap();
    let files = TlsFiles::generate(folder.path()).unwrap();
    (folder, files)
}

#[test]
fn under_tls_both_sides_check_each_other() {
    let ((_folder, files), (_other_folder, strangers)) = (authority(), authority());
    let mut server = RedisServer::builder().tls(files.clone()).start().unwrap();
    assert_eq!(server.url(), format!("rediss://127.0.0.1:{}/", server.port()));
    let pong = Ok("+PONG\r\n".to_owned());
    assert_eq!(ping(&server, "127.0.0.1", &files, Some(&files)), pong);
    assert_eq!(ping(&server, "localhost", &files, Some(&files)), pong);
    assert!(ping(&server, "example.org", &files, Some(&files)).unwrap_err().contains("not valid for name"));
    assert!(ping(&server, "localhost", &strangers, Some(&files)).unwrap_err().contains("certificate"));
    assert!(ping(&server, "localhost", &files, Some(&strangers)).is_err());
    assert!(ping(&server, "localhost", &files, None).is_err());
    server.kill();
    server.start_again().unwrap();
    assert_eq!(ping(&server, "localhost", &files, Some(&files)), pong);
}

#[test]
fn certificates_of_clients_may_be_optional_or_ignored() {
    let ((_folder, files), (_other_folder, strangers)) = (authority(), authority());
    let start =
        |clients| RedisServer::builder().tls(files.clone()).tls_auth_clients(clients).start().unwrap();
    let (optional, no) = (start(TlsAuthClients::Optional), start(TlsAuthClients::No));
    assert!(ping(&optional, "localhost", &files, None).is_ok());
    assert!(ping(&optional, "localhost", &files, Some(&strangers)).is_err());
    assert!(ping(&no, "localhost", &files, Some(&strangers)).is_ok());
}

#[test]
fn a_server_under_tls_has_no_plain_port_but_a_socket_in_its_own_folder() {
    let (_folder, files) = authority();
    let server = RedisServer::builder().tls(files).password("secret").start().unwrap();
    let socket = server.socket().unwrap();
    assert!(socket.starts_with(server.folder().unwrap()));
    let replies =
        ask_over(UnixStream::connect(&socket).unwrap(), &["PING", "AUTH secret", "CONFIG GET port"]);
    assert!(replies.starts_with("-NOAUTH") && replies.contains("$4\r\nport\r\n$1\r\n0\r\n"), "{replies}");
    let places = places([&server]);
    drop(server);
    assert!(gone(&places));
    assert_eq!(RedisServer::builder().start().unwrap().socket(), None);
}

#[test]
fn a_certificate_for_other_names_is_refused_by_whoever_checks_names() {
    let folder = TempDir::new().unwrap();
    let files = TlsFiles::generate_for(folder.path(), &["redis.example"]).unwrap();
    let server = RedisServer::builder().tls(files.clone()).start().unwrap();
    assert!(ping(&server, "127.0.0.1", &files, Some(&files)).is_err());
    assert!(ping(&server, "redis.example", &files, Some(&files)).is_ok());
}

#[test]
fn users_have_the_rights_of_their_lines_and_no_others() {
    let mut server = RedisServer::builder()
        .password("root secret")
        .acl_user("gateway on >hidden1 ~tallyweir:* +get +set")
        .acl_user("reader on >hidden2 %R~* +@read")
        .start()
        .unwrap();
    for _ in 0..2 {
        let replies = ask(&server, &["AUTH gateway hidden1", "SET tallyweir:a 1", "GET other", "PING"]);
        assert!(replies.starts_with("+OK\r\n+OK\r\n-NOPERM") && replies.matches("-NOPERM").count() == 2);
        assert!(ask(&server, &["AUTH reader hidden2", "SET a 1"]).contains("-NOPERM"));
        assert!(ask(&server, &["GET a"]).starts_with("-NOAUTH"));
        server.kill();
        server.start_again().unwrap();
    }
    let url = format!("redis://gateway:hidden1@127.0.0.1:{}/", server.port());
    assert_eq!(server.url_as("gateway", "hidden1"), url);
    let text = format!("{server:?}");
    assert!(text.contains("gateway") && !text.contains("hidden"), "{text}");
}
