//! A connection through a proxy: its address ([`address`]), how it is talked into a connection ([`tunnel`]), and what can go
//! wrong on that way. Which proxy a page takes is [`proxies`](super::proxies).

pub mod address;
pub mod tunnel;

use super::outcome::{Fault, Outcome};

pub use address::{Login, Proxy};

/// What was wrong with the way through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyFailure {
    /// It cannot be reached, or does not speak its protocol.
    Down,
    /// It does not accept the login.
    BadLogin,
    /// It wants to be paid.
    NoCredits,
    /// It was asked too often.
    Throttled,
    /// It does not connect to such a target; to others it does.
    Unsupported,
    /// It could not reach the target. Whose trouble that is nobody knows.
    Unreachable,
    /// Neither it nor the target said anything in time.
    Silent,
}

impl ProxyFailure {
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Unreachable => Outcome::NetworkError,
            Self::Silent => Outcome::Timeout,
            _ => Outcome::ProviderError,
        }
    }

    pub fn fault(self) -> Option<Fault> {
        match self {
            Self::Down => Some(Fault::Down),
            Self::BadLogin => Some(Fault::BadKey),
            Self::NoCredits => Some(Fault::NoCredits),
            Self::Throttled => Some(Fault::Throttled),
            Self::Unsupported => Some(Fault::Unsupported),
            Self::Unreachable | Self::Silent => None,
        }
    }

    /// Whether it is surely the proxy's own, so that another one may do better.
    pub(super) fn is_its_own(self) -> bool {
        matches!(self, Self::Down | Self::BadLogin | Self::NoCredits | Self::Throttled)
    }
}
