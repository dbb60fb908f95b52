//! The certificates of a cluster: a CA, and one certificate that identifies all components and the user.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::directories;

/// The names of the API server and of etcd.
const NAMES: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The group that RBAC permits everything.
const ADMINISTRATORS: &str = "system:masters";

/// The files of a cluster's certificates.
#[derive(Debug)]
pub struct Certificates {
    directory: PathBuf,
    /// The certificate of the CA.
    pub ca: PathBuf,
    /// The certificate of all components, for servers and clients.
    pub certificate: PathBuf,
    /// The key of the certificate. It also signs the tokens of service accounts.
    pub key: PathBuf,
}

impl Certificates {
    /// The files in a directory, which may not exist yet.
    pub fn in_directory(directory: &Path) -> Self {
        let file = |name| directory.join(name);
        let directory = directory.to_owned();
        let (ca, certificate) = (file("ca.crt"), file("admin.crt"));
        Self { ca, certificate, key: file("admin.key"), directory }
    }

    /// Writes a new CA and a new certificate. The key of the CA is not kept: nothing else is signed.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn create(&self) -> Result<()> {
        directories::create(&self.directory)?;
        let key = KeyPair::generate()?;
        let mut ca = named("opctl-ca", None);
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        write(&self.ca, &ca.self_signed(&key)?.pem())?;
        let issuer = Issuer::new(ca, key);

        let key = KeyPair::generate()?;
        let mut admin = named("opctl-admin", Some(ADMINISTRATORS));
        admin.subject_alt_names =
            CertificateParams::new(NAMES.map(str::to_owned))?.subject_alt_names;
        admin.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        admin.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        admin.use_authority_key_identifier_extension = true;
        write(&self.certificate, &admin.signed_by(&key, &issuer)?.pem())?;
        write(&self.key, &key.serialize_pem())
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))
}

fn named(name: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params
}
