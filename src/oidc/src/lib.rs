//! Sign-in with OpenID Connect, as far as it is bytes in memory: the provider's document, its keys, the way there and back
//! (authorization code with PKCE), and whether the ID token that comes of it holds.
//!
//! - [`metadata`]: the discovery document (OpenID Connect Discovery 1.0);
//! - [`keys`]: the provider's keys (RFC 7517), and signatures under them; asymmetric ones only, so that a token is never
//!   checked with something that its maker may choose;
//! - [`token`]: ID tokens (OpenID Connect Core 1.0, section 3.1.3.7), and logout tokens (Back-Channel Logout 1.0, section 2.6);
//! - [`flow`]: the request that a browser is sent with (RFC 6749, RFC 7636), what comes back by it (RFC 9207), and the request
//!   for the tokens.
//!
//! Whoever uses it moves the bytes, bounds them and keeps the time.

pub mod flow;
pub mod keys;
pub mod metadata;
pub mod token;

pub use flow::{Arrived, Attempt, Client, TokenAnswer};
pub use keys::Keys;
pub use metadata::Metadata;
pub use token::{Claims, Expected, Logout};

use std::fmt;

/// Why something of a provider's does not hold. The text is for the operator's log: it names what was expected, and no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A document or an answer that is not what the protocol says.
    Malformed(String),
    /// The token is signed by a key that the provider does not show (any more, or yet).
    UnknownKey,
    /// A token that does not hold.
    Token(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Malformed(what) => write!(f, "the provider's answer is malformed: {what}"),
            Fault::UnknownKey => f.write_str("the token is signed by a key that the provider does not show"),
            Fault::Token(what) => write!(f, "the token does not hold: {what}"),
        }
    }
}

impl std::error::Error for Fault {}

pub(crate) fn malformed(what: impl fmt::Display) -> Fault {
    Fault::Malformed(what.to_string())
}

pub(crate) fn refused(what: impl fmt::Display) -> Fault {
    Fault::Token(what.to_string())
}
