//! Identifiers: UUIDv7, so that document order, creation order and key order are one.

use crate::base::clock::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// When an id of this kind was made, by the clock of the machine; none of an id of another kind.
pub fn made_at(id: Uuid) -> Option<Timestamp> {
    let (sec, nanos) = id.get_timestamp()?.to_unix();
    i64::try_from(sec).ok()?.checked_mul(1_000)?.checked_add(i64::from(nanos / 1_000_000)).map(Timestamp)
}

/// Declares a newtype over a UUID, with text and serde forms.
#[macro_export]
macro_rules! id_type {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub ::uuid::Uuid);

        impl $name {
            /// A new id, later in order than every one this process made before.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self(::uuid::Uuid::now_v7())
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({ "type": "string", "format": "uuid" })
            }

            fn inline_schema() -> bool {
                true
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = ::uuid::Error;
            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                ::uuid::Uuid::parse_str(text).map(Self)
            }
        }

        impl ::std::convert::From<::uuid::Uuid> for $name {
            fn from(id: ::uuid::Uuid) -> Self {
                Self(id)
            }
        }

        impl ::std::convert::From<$name> for ::uuid::Uuid {
            fn from(id: $name) -> ::uuid::Uuid {
                id.0
            }
        }
    )*};
}

id_type! {
    /// An organization: the tenant.
    OrgId;
    /// A person.
    UserId;
    /// A long-lived key of an organization.
    ApiKeyId;
    /// A registered URL.
    UrlId;
    /// A scrape request.
    JobId;
    /// What one job extracted.
    ResultId;
    /// A submitted SQL statement.
    QueryId;
    /// A statement that was saved under a name.
    SavedQueryId;
    /// An agent, which is its conversation too.
    AgentId;
    /// A file made of a statement's result.
    BiExportId;
    /// A workflow's stable, logical id.
    WorkflowId;
    /// One immutable version row of a workflow.
    WorkflowVersionId;
    /// A schedule.
    ScheduleId;
    /// One firing of a schedule.
    ScheduleRunId;
    /// A benchmark.
    BenchmarkId;
    /// A connected provider.
    ProviderId;
    /// Where results are delivered to.
    OutputId;
    /// A better ranking that waits for somebody's word.
    SuggestionId;
    /// One row of the credit ledger.
    TransactionId;
    /// A request for more credits.
    RechargeId;
    /// A platform extraction schema.
    SchemaId;
    /// One line of the audit log.
    AuditId;
    /// An invitation into an organization.
    InviteId;
    /// An erasure of a person or an organization.
    ErasureId;
    /// An export of what is held on a person.
    AccountExportId;
    /// A message to a person.
    MailId;
}

/// The id of a request: a caller's own when it is 1-128 characters of `[A-Za-z0-9._-]`, else a new UUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestId(String);

impl RequestId {
    /// Longest id that is echoed.
    pub const CHARS_MAX: usize = 128;

    /// Echoes a well-formed id, replaces any other.
    pub fn accept(given: Option<&str>) -> RequestId {
        match given {
            Some(text)
                if (1..=Self::CHARS_MAX).contains(&text.len())
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) =>
            {
                RequestId(text.to_owned())
            }
            _ => RequestId(Uuid::now_v7().to_string()),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_echoed_only_when_it_is_well_formed() {
        assert_eq!(RequestId::accept(Some("a-B_9.z")).as_str(), "a-B_9.z");
        for bad in ["", "with space", "line\nbreak", "ü", &"x".repeat(129)] {
            assert_ne!(RequestId::accept(Some(bad)).as_str(), bad);
        }
    }

    #[test]
    fn ids_of_one_process_grow() {
        let ids: Vec<_> = (0..1000).map(|_| JobId::new()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
