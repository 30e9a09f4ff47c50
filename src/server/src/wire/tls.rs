//! TLS from files: rustls with ring, HTTP/2 offered first. The files can be read again while connections go on.

use crate::settings::TlsSettings;
use arc_swap::ArcSwap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Why the files do not make a TLS server; names the file.
#[derive(Debug)]
pub struct TlsError {
    doing: &'static str,
    file: PathBuf,
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.file.display(), self.cause)
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.cause)
    }
}

/// The certificates that new connections are shown; clones are the same.
#[derive(Clone)]
pub struct Certificates(Arc<ArcSwap<ServerConfig>>);

impl Certificates {
    /// Reads the files.
    pub(crate) fn read(settings: &TlsSettings) -> Result<Certificates, TlsError> {
        let config = server_config(settings)?;
        Ok(Certificates(Arc::new(ArcSwap::from_pointee(config))))
    }

    /// Reads the files again. Connections that are open stay as they are; on an error so do new ones.
    pub fn renew(&self, settings: &TlsSettings) -> Result<(), TlsError> {
        self.0.store(Arc::new(server_config(settings)?));
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.load_full())
    }
}

/// Reads the chain and the key, and checks that they belong together.
fn server_config(settings: &TlsSettings) -> Result<ServerConfig, TlsError> {
    let failed = |doing, file: &PathBuf| {
        let file = file.clone();
        move |cause: Box<dyn std::error::Error + Send + Sync>| TlsError { doing, file, cause }
    };
    let chain = CertificateDer::pem_file_iter(&settings.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| failed("read the certificates in", &settings.cert)(e.into()))?;
    let key = PrivateKeyDer::from_pem_file(&settings.key)
        .map_err(|e| failed("read the private key in", &settings.key)(e.into()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|e: rustls::Error| failed("serve the certificates in", &settings.cert)(e.into()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
