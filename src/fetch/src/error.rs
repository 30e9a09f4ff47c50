//! What can keep a page from arriving, in words that a customer may read.
//!
//! The words name what the customer asked for (the host, the limit, the encoding) and never what the box knows
//! beside that: a name that resolves to an inner address gets the same words, and the same outcome, as one that does not
//! resolve, so nobody learns from here which names there are inside. The underlying error, which tells them apart, is
//! reachable through `source()` for the log only.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use super::body::BodyError;
use super::guard::Refused;
use super::outcome::{Fault, Outcome};
use super::proxy::ProxyFailure;
use base::health::Part;
use base::web::UrlError;

/// Why a fetch ended without an answer to hand over. [`Outcome::of_error`] says what follows from it.
#[derive(Debug)]
pub enum FetchError {
    /// The guard refused every address of the host. `literal`: the customer wrote the address themselves.
    Refused {
        host: String,
        literal: bool,
        refused: Refused,
    },
    /// The name has no address, or DNS failed.
    Resolve {
        host: String,
        source: Option<std::io::Error>,
    },
    /// No address accepted a connection.
    Connect {
        authority: String,
        source: std::io::Error,
    },
    /// No address accepted a connection in time.
    ConnectTimeout {
        authority: String,
    },
    /// The TLS handshake failed; the text is rustls's own account of the peer.
    Tls {
        host: String,
        source: std::io::Error,
    },
    /// The connection broke, or what came over it was not HTTP.
    Exchange {
        host: String,
        source: hyper::Error,
    },
    /// The head of the answer is larger than allowed.
    HeadTooLarge {
        host: String,
        source: hyper::Error,
    },
    TooManyRedirects {
        max: u32,
    },
    /// A redirect leads to something that is not a web URL.
    BadRedirect {
        source: UrlError,
    },
    /// A redirect leads to a host that is not to be visited before `until`: it asked for that, or as many are there as may
    /// be.
    LeftAlone {
        host: String,
        until: Instant,
    },
    /// The URL cannot be written into a request.
    BadTarget {
        source: UrlError,
    },
    Body(BodyError),
    /// robots.txt forbids the path.
    RobotsDisallow {
        host: String,
    },
    /// robots.txt could not be read, which forbids everything for a while (RFC 9309, section 2.3.1.4).
    RobotsUnreachable {
        host: String,
        reason: String,
        outcome: Outcome,
    },
    /// The proxy on the way. `proxy` is shown without its login; `reason` completes a sentence about it.
    Proxy {
        proxy: String,
        trouble: ProxyFailure,
        reason: String,
        retry_after: Option<Duration>,
    },
    /// The whole time was used up.
    TimedOut {
        timeout: Duration,
    },
}

impl FetchError {
    /// What the box itself had none of, when that is what failed.
    pub fn lack(&self) -> Option<Part> {
        match self {
            Self::Connect { source, .. } | Self::Tls { source, .. } => Part::lacking(source),
            // The system's resolver says of a socket that it could not open that the name is unknown for now.
            Self::Resolve { source: Some(source), .. } => Part::lacking(source).or_else(no_descriptors),
            _ => None,
        }
    }

    /// The moment before which the host of a redirect is left alone, when that is what failed.
    pub fn left_alone_until(&self) -> Option<Instant> {
        match self {
            Self::LeftAlone { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// Whether the answer is larger than the box takes: what another provider makes of it may be smaller.
    pub fn is_beyond_limits(&self) -> bool {
        matches!(
            self,
            Self::HeadTooLarge { .. }
                | Self::Body(BodyError::TooLarge { .. } | BodyError::InflatedTooLarge { .. })
        )
    }
}

/// Tries whether a file can be opened.
fn no_descriptors() -> Option<Part> {
    std::fs::File::open("/dev/null").err().as_ref().and_then(Part::lacking)
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { literal: true, refused, .. } => refused.fmt(f),
            Self::Refused { host, .. } | Self::Resolve { host, .. } => write!(
                f,
                "the name {host} has no address to fetch from: it does not resolve, or only to addresses that \
                 network.allow keeps closed"
            ),
            Self::Connect { authority, source } => {
                let reason = match source.kind() {
                    std::io::ErrorKind::ConnectionRefused => "refused the connection",
                    std::io::ErrorKind::HostUnreachable | std::io::ErrorKind::NetworkUnreachable => {
                        "is not reachable"
                    }
                    _ => "did not accept a connection",
                };
                write!(f, "{authority} {reason}")
            }
            Self::ConnectTimeout { authority } => {
                write!(f, "{authority} did not accept a connection in time")
            }
            Self::Tls { host, source } => write!(f, "the TLS handshake with {host} failed: {source}"),
            Self::Exchange { host, source } if source.is_parse() => {
                write!(f, "{host} answered with something that is not HTTP")
            }
            Self::Exchange { host, .. } => write!(f, "{host} closed the connection before answering"),
            Self::HeadTooLarge { host, .. } => {
                write!(f, "{host} answered with too many or too large headers")
            }
            Self::TooManyRedirects { max } => write!(f, "redirects more than {max} times"),
            Self::BadRedirect { source } => {
                write!(f, "redirects to a URL that cannot be fetched: the URL {source}")
            }
            Self::LeftAlone { host, until } => {
                let seconds = until.saturating_duration_since(Instant::now()).as_secs() + 1;
                write!(f, "{host} is left alone for another {seconds} s, to keep the pace it is visited at")
            }
            Self::BadTarget { source } => write!(f, "the URL {source}"),
            Self::Body(error) => error.fmt(f),
            Self::RobotsDisallow { host } => write!(f, "robots.txt of {host} disallows this path"),
            Self::RobotsUnreachable { host, reason, .. } => {
                write!(
                    f,
                    "robots.txt of {host} could not be read, so the site is left alone for now: {reason}"
                )
            }
            Self::Proxy { proxy, reason, .. } => write!(f, "the proxy {proxy} {reason}"),
            Self::TimedOut { timeout } => write!(f, "took longer than {} ms", timeout.as_millis()),
        }
    }
}

impl Error for FetchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused { refused, .. } => Some(refused),
            Self::Resolve { source, .. } => source.as_ref().map(|e| e as _),
            Self::Connect { source, .. } | Self::Tls { source, .. } => Some(source),
            Self::Exchange { source, .. } | Self::HeadTooLarge { source, .. } => Some(source),
            Self::BadRedirect { source } | Self::BadTarget { source } => Some(source),
            Self::Body(error) => error.source(),
            Self::ConnectTimeout { .. }
            | Self::TooManyRedirects { .. }
            | Self::LeftAlone { .. }
            | Self::RobotsDisallow { .. }
            | Self::RobotsUnreachable { .. }
            | Self::Proxy { .. }
            | Self::TimedOut { .. } => None,
        }
    }
}

impl From<BodyError> for FetchError {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}

impl Outcome {
    /// What a failure on the way to a hosted provider means: what would be the target's trouble is the provider's own.
    pub fn of_provider_error(error: &FetchError) -> (Self, Option<Fault>) {
        match error {
            FetchError::TimedOut { .. } => (Self::Timeout, None),
            _ if error.is_beyond_limits() => (Self::ProviderError, Some(Fault::Unsupported)),
            // It had begun to answer, so it is there.
            FetchError::Body(_) => (Self::of_error(error), None),
            _ => (Self::ProviderError, Some(Fault::Down)),
        }
    }

    /// What a failure means.
    pub fn of_error(error: &FetchError) -> Self {
        match error {
            FetchError::TimedOut { .. } | FetchError::ConnectTimeout { .. } => Self::Timeout,
            // A name that leads inside is one that does not resolve, to whoever asks.
            FetchError::Resolve { .. }
            | FetchError::Refused { literal: false, .. }
            | FetchError::Connect { .. }
            | FetchError::LeftAlone { .. }
            | FetchError::Tls { .. }
            | FetchError::Exchange { .. }
            | FetchError::Body(BodyError::Interrupted(_) | BodyError::Corrupt { .. }) => Self::NetworkError,
            FetchError::RobotsUnreachable { outcome, .. } => *outcome,
            FetchError::Proxy { trouble, .. } => trouble.outcome(),
            FetchError::HeadTooLarge { .. }
            | FetchError::Body(BodyError::TooLarge { .. } | BodyError::InflatedTooLarge { .. }) => {
                Self::ProviderError
            }
            FetchError::Refused { .. }
            | FetchError::TooManyRedirects { .. }
            | FetchError::BadRedirect { .. }
            | FetchError::BadTarget { .. }
            | FetchError::RobotsDisallow { .. }
            | FetchError::Body(_) => Self::TargetError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_cannot_be_reached_is_at_fault_itself() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let dead = FetchError::Connect { authority: "api.test:443".to_owned(), source: refused };
        assert_eq!(Outcome::of_provider_error(&dead), (Outcome::ProviderError, Some(Fault::Down)));
        assert_eq!(Outcome::of_error(&dead), Outcome::NetworkError, "of a target it is another thing");
        let silent = FetchError::TimedOut { timeout: std::time::Duration::from_secs(1) };
        assert_eq!(Outcome::of_provider_error(&silent), (Outcome::Timeout, None));
        let large = FetchError::Body(BodyError::TooLarge { max: 1 });
        let unfit = (Outcome::ProviderError, Some(Fault::Unsupported));
        assert_eq!(Outcome::of_provider_error(&large), unfit, "the next one may bring it smaller");
    }
}
