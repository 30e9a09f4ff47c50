//! TLS towards others: which certificates the box trusts, and which versions it speaks.

use std::sync::Arc;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// TLS 1.2 and 1.3 by rustls on ring, trusting the machine's certificates, or Mozilla's where the machine has none
/// (a container from scratch), and the operator's own beside them. `alpn` is what is spoken inside, most wanted first.
///
/// Reads the machine's trusted certificates, which takes some ten milliseconds and reads files.
pub fn client_config(extra_roots: &[CertificateDer<'static>], alpn: &[&[u8]]) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default TLS versions")
        .with_root_certificates(trusted(extra_roots))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

/// The authorities that [`client_config`] trusts, read anew.
pub fn trusted(extra_roots: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::warn!(%error, "a trusted certificate of this machine could not be read");
    }
    roots.add_parsable_certificates(native.certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let (_, ignored) = roots.add_parsable_certificates(extra_roots.iter().cloned());
    if ignored > 0 {
        tracing::warn!(ignored, "certificates of the configuration are not certificate authorities");
    }
    roots
}
