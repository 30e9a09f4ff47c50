//! Which server and which table.

use base::web::WebUrl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Characters of a host's name (RFC 1035).
const HOST_CHARS_MAX: usize = 253;

base::words! {
    /// How far a connection is secured: the words of libpq's `sslmode`.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum SslMode {
        /// Never.
        Disable "disable",
        /// Only if the server insists.
        Allow "allow",
        /// If the server can.
        Prefer "prefer",
        /// Always; with a certificate authority given, as `verify-ca`.
        Require "require",
        /// Always, with a certificate of a trusted authority.
        VerifyCa "verify-ca",
        /// Always, with a certificate of a trusted authority for this very host.
        VerifyFull "verify-full",
    }
}

base::words! {
    /// What becomes of a page that comes again.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum WriteMode {
        /// A row for each result.
        Append "append",
        /// A row for each URL, with the newest result.
        Upsert "upsert",
    }
}

/// Where rows go, and as whom. It has no `Debug`: the password is for nobody's eyes.
#[derive(Clone, PartialEq)]
pub struct Settings {
    pub host: String,
    pub port: u16,
    pub database: String,
    pub user: String,
    pub password: Option<String>,
    pub ssl: SslMode,
    /// Certificates in PEM of the authorities that are trusted; none: those that the machine trusts.
    pub authorities: Option<String>,
    pub schema: String,
    pub table: String,
    pub mode: WriteMode,
    /// Whether columns that the table lacks are added.
    pub adds_columns: bool,
}

/// A host and a port as the address guard takes them.
pub fn place(host: &str, port: u16) -> Result<WebUrl, String> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if bare.is_empty() || host.chars().count() > HOST_CHARS_MAX || !bare.chars().all(is_plain) || port == 0 {
        return Err("is the name or the address of a host, without a port".to_owned());
    }
    let text = if bare.contains(':') {
        format!("http://[{bare}]:{port}/")
    } else {
        format!("http://{bare}:{port}/")
    };
    WebUrl::parse(&text).map_err(|e| e.to_string())
}

/// Whether a text has certificates of authorities.
pub fn check_certificates(pem: &str) -> Result<(), String> {
    certificates(pem).map(|_| ())
}

/// The certificates in a text; at least one.
pub(super) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match read {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err("has no certificate in PEM (-----BEGIN CERTIFICATE-----)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_host_and_nothing_more() {
        for (host, url) in [
            ("db.example.com", "http://db.example.com:5432/"),
            ("DB.example.com", "http://db.example.com:5432/"),
            ("127.0.0.1", "http://127.0.0.1:5432/"),
            ("::1", "http://[::1]:5432/"),
            ("[2001:db8::1]", "http://[2001:db8::1]:5432/"),
        ] {
            assert_eq!(place(host, 5432).unwrap().as_str(), url, "{host}");
        }
        for bad in [
            "",
            "a b",
            "user@host",
            "host/path",
            "host?x",
            "host#x",
            "/var/run/postgresql",
            "host:5432",
            "a,b",
            "\\x",
        ] {
            assert!(place(bad, 5432).is_err(), "{bad}");
        }
        assert!(place("host", 0).is_err() && place(&"a".repeat(300), 1).is_err());
    }
}
