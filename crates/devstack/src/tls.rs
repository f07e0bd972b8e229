//! A certificate authority of one's own, for servers that are reached by TLS.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::error::{DevstackError, Result};

/// Whether a TLS server asks its clients for a certificate; `tls-auth-clients` of `redis.conf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsAuthClients {
    /// A client without a certificate of the authority is refused.
    Yes,
    /// Certificates of clients are not asked for.
    No,
    /// A client needs no certificate; one that it shows must be of the authority.
    Optional,
}

impl TlsAuthClients {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Optional => "optional",
        }
    }
}

/// A certificate with its private key: where the PEM files are, and the certificate's text.
#[derive(Clone)]
struct Pair {
    cert_path: PathBuf,
    cert: String,
    key_path: PathBuf,
    key: String,
}

/// A self-made authority, a server's certificate and a client's, as PEM files and texts.
///
/// The authority's own key is thrown away: nobody can make further certificates. The files belong to the caller, who
/// keeps their folder for as long as servers are started with them. `Debug` shows no key.
#[derive(Clone)]
pub struct TlsFiles {
    ca_path: PathBuf,
    ca: String,
    server: Pair,
    client: Pair,
}

impl TlsFiles {
    /// Writes `ca.pem`, `server.pem`, `server.key`, `client.pem` and `client.key` into `folder`, which is created
    /// if necessary. The server's certificate is for `localhost` and 127.0.0.1, the client's for the name `client`.
    ///
    /// # Errors
    ///
    /// [`DevstackError::Certificate`], or [`DevstackError::Io`] when the files cannot be written.
    pub fn generate(folder: &Path) -> Result<Self> {
        Self::generate_for(folder, &["localhost", "127.0.0.1"])
    }

    /// As [`generate`](Self::generate), with other names or addresses in the server's certificate: a client that
    /// checks names must refuse a server that it reaches by a name which is not among them.
    ///
    /// # Errors
    ///
    /// As [`generate`](Self::generate); a name that is no DNS name, too.
    pub fn generate_for(folder: &Path, server_names: &[&str]) -> Result<Self> {
        fs::create_dir_all(folder)
            .map_err(DevstackError::io(format!("create the folder {}", folder.display())))?;
        // Relative paths would be looked for in the server's own folder.
        let folder = folder
            .canonicalize()
            .map_err(DevstackError::io(format!("find the folder {}", folder.display())))?;
        let mut params = params("devstack test authority", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(certificate)?;
        let ca = params.self_signed(&key).map_err(certificate)?.pem();
        let issuer = Issuer::new(params, key);
        // The nodes of a Cluster are each other's clients, with the same certificate.
        let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let server = Pair::issue(&issuer, &folder, "server", server_names, &both)?;
        let client = Pair::issue(&issuer, &folder, "client", &[], &[ExtendedKeyUsagePurpose::ClientAuth])?;
        let ca_path = folder.join("ca.pem");
        write(&ca_path, &ca)?;
        Ok(Self { ca_path, ca, server, client })
    }

    /// The file of the authority's certificate.
    pub fn ca_path(&self) -> &Path {
        &self.ca_path
    }

    /// The authority's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// The file of the server's certificate.
    pub fn server_cert_path(&self) -> &Path {
        &self.server.cert_path
    }

    /// The server's certificate.
    pub fn server_cert_pem(&self) -> &str {
        &self.server.cert
    }

    /// The file of the server's private key (PKCS #8).
    pub fn server_key_path(&self) -> &Path {
        &self.server.key_path
    }

    /// The server's private key (PKCS #8).
    pub fn server_key_pem(&self) -> &str {
        &self.server.key
    }

    /// The file of the client's certificate.
    pub fn client_cert_path(&self) -> &Path {
        &self.client.cert_path
    }

    /// The client's certificate.
    pub fn client_cert_pem(&self) -> &str {
        &self.client.cert
    }

    /// The file of the client's private key (PKCS #8).
    pub fn client_key_path(&self) -> &Path {
        &self.client.key_path
    }

    /// The client's private key (PKCS #8).
    pub fn client_key_pem(&self) -> &str {
        &self.client.key
    }
}

impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsFiles").field("ca_path", &self.ca_path).finish_non_exhaustive()
    }
}

impl Pair {
    fn issue(
        issuer: &Issuer<'_, KeyPair>,
        folder: &Path,
        name: &str,
        names: &[&str],
        usages: &[ExtendedKeyUsagePurpose],
    ) -> Result<Self> {
        let mut params = params(name, names)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        let key = KeyPair::generate().map_err(certificate)?;
        let pair = Self {
            cert_path: folder.join(format!("{name}.pem")),
            cert: params.signed_by(&key, issuer).map_err(certificate)?.pem(),
            key_path: folder.join(format!("{name}.key")),
            key: key.serialize_pem(),
        };
        write(&pair.cert_path, &pair.cert)?;
        write(&pair.key_path, &pair.key)?;
        Ok(pair)
    }
}

fn params(common_name: &str, names: &[&str]) -> Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).map_err(certificate)?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn certificate(error: rcgen::Error) -> DevstackError {
    DevstackError::Certificate { reason: error.to_string() }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let write = || File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    write()
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(DevstackError::io(format!("write {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_hold_the_texts_and_only_their_owner_reads_them() {
        let folder = tempfile::TempDir::new().unwrap();
        let files = TlsFiles::generate(&folder.path().join("new")).unwrap();
        for (path, text) in [
            (files.ca_path(), files.ca_pem()),
            (files.server_cert_path(), files.server_cert_pem()),
            (files.server_key_path(), files.server_key_pem()),
            (files.client_cert_path(), files.client_cert_pem()),
            (files.client_key_path(), files.client_key_pem()),
        ] {
            assert_eq!(fs::read_to_string(path).unwrap(), text);
            assert!(text.starts_with("-----BEGIN "), "{text}");
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(!format!("{files:?}").contains("BEGIN"));
    }

    #[test]
    fn a_name_that_cannot_be_in_a_certificate_and_a_folder_that_cannot_be_made_are_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let error = TlsFiles::generate_for(folder.path(), &["é"]).unwrap_err();
        assert!(matches!(error, DevstackError::Certificate { .. }), "{error}");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = TlsFiles::generate(&file.join("below")).unwrap_err();
        assert!(matches!(error, DevstackError::Io { .. }), "{error}");
    }
}
