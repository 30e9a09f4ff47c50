//! What went wrong with a server, in words for whoever owns it.

use fetch::FetchError;
use std::error::Error;
use std::fmt;

/// Characters of what a server says that are shown.
const SAID_MAX: usize = 200;

/// Whose matter a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SftpFaultKind {
    /// The server is away, slow, or speaks otherwise than it should.
    Away,
    /// It is not the server whose key is pinned.
    OtherServer,
    /// It does not let us in, or the address guard does not let us out.
    Refused,
    /// It does not do what it is asked.
    Files,
}

/// Why a file was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SftpFault {
    pub kind: SftpFaultKind,
    pub told: String,
}

impl SftpFault {
    pub(super) fn new(kind: SftpFaultKind, told: impl Into<String>) -> SftpFault {
        SftpFault { kind, told: told.into() }
    }

    pub(super) fn away(told: impl Into<String>) -> SftpFault {
        SftpFault::new(SftpFaultKind::Away, told)
    }

    pub(super) fn other(told: impl Into<String>) -> SftpFault {
        SftpFault::new(SftpFaultKind::Files, told)
    }

    pub(super) fn slow(what: &str, time: std::time::Duration) -> SftpFault {
        SftpFault::away(format!("the server did not {what} within {} s", time.as_secs()))
    }
}

/// What somebody else's server says: short, on one line.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SAID_MAX).collect()
}

impl fmt::Display for SftpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

impl Error for SftpFault {}

impl From<FetchError> for SftpFault {
    fn from(error: FetchError) -> SftpFault {
        let kind = match error {
            FetchError::Refused { .. } => SftpFaultKind::Refused,
            _ => SftpFaultKind::Away,
        };
        SftpFault::new(kind, error.to_string())
    }
}

impl From<russh::Error> for SftpFault {
    fn from(error: russh::Error) -> SftpFault {
        SftpFault::away(match error {
            russh::Error::HUP | russh::Error::Disconnect | russh::Error::IO(_) => {
                "the server has ended the connection".to_owned()
            }
            russh::Error::NoCommonAlgo { kind, .. } => {
                format!(
                    "the server and the box have no {kind:?} algorithm in common (RSA keys are not taken)"
                )
            }
            other => format!("SSH: {}", shown(&other.to_string())),
        })
    }
}
