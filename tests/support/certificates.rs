//! Certificates of servers that trust one authority.

use std::{fs, path::PathBuf};

use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// An authority, and the directory with the files of the certificates that it signed.
pub struct Authority {
    directory: TempDir,
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// The files of a server, in PEM.
pub struct ServerFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Self { directory, certificate, issuer: Issuer::new(params, key) };
        authority.write("ca.pem", &authority.certificate.pem());
        authority
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// The path of the authority's certificate.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Signs the certificate of a server that is called by this address.
    pub fn sign(&self, address: &str) -> ServerFiles {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![address.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        ServerFiles {
            certificate: self.write(&format!("{address}-cert.pem"), &certificate.pem()),
            key: self.write(&format!("{address}-key.pem"), &key.serialize_pem()),
        }
    }
}
