//! What can go wrong with a storage, in words for whoever set it up.

use std::error::Error;
use std::fmt;

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum S3Fault {
    /// A setting cannot be.
    Setting,
    /// The address guard keeps the endpoint closed, or its name does not resolve.
    Closed,
    /// Nobody answers there, or TLS fails.
    Unreachable,
    /// It did not answer in time.
    TimedOut,
    NoBucket,
    /// The access key id is unknown.
    BadKey,
    BadSecret,
    /// The key may not do this.
    Denied,
    /// The bucket is in another region, or at another endpoint.
    WrongRegion,
    /// The clocks of the two machines differ too much for a signature.
    WrongClock,
    /// It asks for fewer requests.
    SlowDown,
    /// It has no room left.
    Full,
    /// It does not know what was asked of it: conditional puts, or a checksum.
    Unsupported,
    /// It failed itself (5xx).
    Failing,
    /// What answers there is no S3.
    NotS3,
    /// The object is larger than what is read.
    TooLarge,
    /// Another refusal.
    Refused,
}

impl S3Fault {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            S3Fault::Setting => "bad_setting",
            S3Fault::Closed => "address_refused",
            S3Fault::Unreachable => "unreachable",
            S3Fault::TimedOut => "timed_out",
            S3Fault::NoBucket => "no_such_bucket",
            S3Fault::BadKey => "bad_access_key",
            S3Fault::BadSecret => "bad_secret",
            S3Fault::Denied => "access_denied",
            S3Fault::WrongRegion => "wrong_region",
            S3Fault::WrongClock => "wrong_clock",
            S3Fault::SlowDown => "slow_down",
            S3Fault::Full => "full",
            S3Fault::Unsupported => "unsupported",
            S3Fault::Failing => "failing",
            S3Fault::NotS3 => "not_s3",
            S3Fault::TooLarge => "too_large",
            S3Fault::Refused => "refused",
        }
    }

    /// Whether it may go by itself, without anybody changing a setting.
    pub fn is_temporary(self) -> bool {
        matches!(
            self,
            S3Fault::Unreachable | S3Fault::TimedOut | S3Fault::SlowDown | S3Fault::Full | S3Fault::Failing
        )
    }
}

/// A storage that did not do what it was asked.
#[derive(Clone, Debug)]
pub struct S3Error {
    pub fault: S3Fault,
    /// What the server calls it (`NoSuchBucket`), or what failed on the way; bounded, and never a secret.
    pub detail: String,
}

/// The longest detail, in characters.
const DETAIL_MAX: usize = 200;

impl S3Error {
    /// An error that whoever uses the storage has found.
    pub fn of(fault: S3Fault, detail: &str) -> S3Error {
        S3Error::new(fault, detail)
    }

    pub(crate) fn new(fault: S3Fault, detail: impl Into<String>) -> S3Error {
        let detail: String = detail.into();
        let shown = detail.chars().map(|c| if c.is_control() { ' ' } else { c }).take(DETAIL_MAX);
        S3Error { fault, detail: shown.collect() }
    }
}

impl fmt::Display for S3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = match self.fault {
            S3Fault::Setting => "the settings of the storage cannot be",
            S3Fault::Closed => "the endpoint of the storage may not be connected to",
            S3Fault::Unreachable => "the storage cannot be reached",
            S3Fault::TimedOut => "the storage did not answer in time",
            S3Fault::NoBucket => "the bucket does not exist",
            S3Fault::BadKey => "the access key id is unknown to the storage",
            S3Fault::BadSecret => "the secret is wrong",
            S3Fault::Denied => "the access key may not do this in the bucket",
            S3Fault::WrongRegion => "the bucket is in another region or at another endpoint",
            S3Fault::WrongClock => "the clock of this machine or of the storage is wrong",
            S3Fault::SlowDown => "the storage asks to slow down",
            S3Fault::Full => "the storage has no room left",
            S3Fault::Unsupported => {
                "the storage does not know what it was asked (conditional puts, checksum)"
            }
            S3Fault::Failing => "the storage failed itself",
            S3Fault::NotS3 => "what answers at the endpoint is no S3-compatible storage",
            S3Fault::TooLarge => "the object is larger than what is read",
            S3Fault::Refused => "the storage refused the request",
        };
        f.write_str(says)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

impl Error for S3Error {}

/// What an answer of this status and code means.
pub(crate) fn fault_of_answer(status: u16, code: &str) -> S3Fault {
    match code {
        "NoSuchBucket" => S3Fault::NoBucket,
        "InvalidAccessKeyId" | "InvalidClientTokenId" => S3Fault::BadKey,
        "SignatureDoesNotMatch" => S3Fault::BadSecret,
        "RequestTimeTooSkewed" | "RequestExpired" => S3Fault::WrongClock,
        "AuthorizationHeaderMalformed"
        | "PermanentRedirect"
        | "TemporaryRedirect"
        | "IllegalLocationConstraintException" => S3Fault::WrongRegion,
        "SlowDown" | "ServiceUnavailable" | "TooManyRequests" | "RequestLimitExceeded" | "Throttling" => {
            S3Fault::SlowDown
        }
        "QuotaExceeded" | "InsufficientCapacity" | "XMinioStorageFull" | "XMinioAdminBucketQuotaExceeded" => {
            S3Fault::Full
        }
        "NotImplemented" | "InvalidDigest" | "XAmzContentChecksumMismatch" => S3Fault::Unsupported,
        "EntityTooLarge" => S3Fault::TooLarge,
        "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => S3Fault::Denied,
        _ => match status {
            301 | 302 | 307 | 308 => S3Fault::WrongRegion,
            401 | 403 => S3Fault::Denied,
            429 | 503 => S3Fault::SlowDown,
            501 => S3Fault::Unsupported,
            507 => S3Fault::Full,
            500..=599 => S3Fault::Failing,
            _ if code.is_empty() => S3Fault::NotS3,
            _ => S3Fault::Refused,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_can_be_done_about_it() {
        let cases: &[(u16, &str, S3Fault)] = &[
            (404, "NoSuchBucket", S3Fault::NoBucket),
            (403, "SignatureDoesNotMatch", S3Fault::BadSecret),
            (403, "InvalidAccessKeyId", S3Fault::BadKey),
            (403, "AccessDenied", S3Fault::Denied),
            (403, "", S3Fault::Denied),
            (301, "PermanentRedirect", S3Fault::WrongRegion),
            (400, "AuthorizationHeaderMalformed", S3Fault::WrongRegion),
            (403, "RequestTimeTooSkewed", S3Fault::WrongClock),
            (503, "SlowDown", S3Fault::SlowDown),
            (429, "", S3Fault::SlowDown),
            (507, "", S3Fault::Full),
            (501, "NotImplemented", S3Fault::Unsupported),
            (500, "InternalError", S3Fault::Failing),
            (404, "", S3Fault::NotS3),
            (400, "SomethingElse", S3Fault::Refused),
        ];
        for (status, code, fault) in cases {
            assert_eq!(fault_of_answer(*status, code), *fault, "{status} {code}");
        }
        let shown = S3Error::new(S3Fault::NoBucket, "NoSuch\nBucket").to_string();
        assert_eq!(shown, "the bucket does not exist (NoSuch Bucket)");
        assert_eq!(S3Error::new(S3Fault::Refused, "x".repeat(999)).detail.len(), DETAIL_MAX);
    }
}
