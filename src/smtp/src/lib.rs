//! Mail: writing a message from a template, and handing it to the operator's mail server over SMTP (RFC 5321).
//!
//! Messages, commands and the encodings are lettre's. The dialogue is our own, in `session.rs`, on the runtime and the TLS
//! of the rest of the box: so that every answer has a time limit, that a send can be given up at any point of it, and
//! that a failure says whom it concerns ([`Fault`]).
//!
//! Nothing here is stored or tried again; that is the mail slice's.

mod message;
mod session;
mod template;
#[cfg(test)]
mod tests;

pub use lettre::message::Mailbox;
pub use message::Outgoing;
pub use session::Session;
pub use template::{Rendered, Template};

use fetch::tls::client_config;
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// How the way to the mail server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// TLS after a greeting in the clear; a server that does not offer it gets nothing (RFC 3207).
    Starttls,
    /// TLS from the first byte (RFC 8314).
    Tls,
    /// No TLS: for a server on this machine.
    None,
}

impl Security {
    /// The port that servers of this kind listen at.
    pub fn usual_port(self) -> u16 {
        match self {
            Security::Starttls => 587,
            Security::Tls => 465,
            Security::None => 25,
        }
    }
}

/// A password; it does not show in logs.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { "\"…\"" })
    }
}

/// Which server takes the box's messages, and how.
#[derive(Clone, Debug)]
pub struct SmtpSettings {
    /// A name or an address.
    pub host: String,
    pub port: u16,
    pub security: Security,
    /// User name and password, when the server asks for them.
    pub login: Option<(String, Password)>,
    /// Certificate authorities trusted beside the machine's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    pub from: Mailbox,
    pub reply_to: Option<Mailbox>,
    /// The name by which the box greets the server; none where it has no name.
    pub hello: Option<String>,
    /// How long an answer may take. The answer to a whole message gets [`MESSAGE_TIMES`] as long.
    pub timeout: Duration,
}

/// A server may look a message over before it takes it, and who gives up while it does makes a duplicate (RFC 1047).
const MESSAGE_TIMES: u32 = 5;

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server cannot be used: it does not answer, or does not let the box in. Concerns every message.
    Server(String),
    /// The server does not take this message now (4yz).
    Temporary(String),
    /// The server never takes this message from the box (5yz), or it cannot be written.
    Permanent(String),
    /// The server never takes this message for this person: it refused the address, or the message for it (5yz at RCPT TO or
    /// later).
    Recipient(String),
}

impl Fault {
    /// What happened, in a line.
    pub fn reason(&self) -> &str {
        match self {
            Fault::Server(reason)
            | Fault::Temporary(reason)
            | Fault::Permanent(reason)
            | Fault::Recipient(reason) => reason,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Fault {}

/// The way to one mail server.
pub struct Smtp {
    settings: SmtpSettings,
    tls: TlsConnector,
}

impl Smtp {
    /// Reads the machine's trusted certificates.
    pub fn new(settings: SmtpSettings) -> Smtp {
        let tls = TlsConnector::from(Arc::new(client_config(&settings.extra_roots, &[])));
        Smtp { settings, tls }
    }

    /// The server as `host:port`.
    pub fn server(&self) -> String {
        format!("{}:{}", self.settings.host, self.settings.port)
    }

    /// Connects and logs in. Every failure is a [`Fault::Server`].
    pub async fn connect(&self) -> Result<Session<'_>, Fault> {
        Session::open(self).await
    }
}

/// Whether `host` is this machine, as far as its text tells.
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
