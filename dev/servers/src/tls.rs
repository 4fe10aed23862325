//! A certificate for local servers, and the file by which a client trusts it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A certificate for `localhost` and `127.0.0.1` that signs itself, in files that are gone on drop.
#[derive(Debug)]
pub struct Certificate {
    directory: TempDir,
}

impl Certificate {
    /// # Errors
    /// When files cannot be written.
    pub fn new() -> io::Result<Self> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
        let certificate = Self { directory: TempDir::with_prefix("certificate-")? };
        fs::write(certificate.path(), made.cert.pem())?;
        fs::write(certificate.key_path(), made.signing_key.serialize_pem())?;
        Ok(certificate)
    }

    /// The certificate as PEM: for `SSL_CERT_FILE` of a process that shall trust it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    fn key_path(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    /// Arguments of `redis-server` for TLS on this port, beside its plain one.
    pub(crate) fn redis_arguments(&self, port: u16) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let (certificate, key) = (text(&self.path()), text(&self.key_path()));
        let arguments = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", certificate.clone()),
            ("--tls-key-file", key),
            ("--tls-ca-cert-file", certificate),
            ("--tls-auth-clients", "no".to_owned()),
        ];
        arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}
