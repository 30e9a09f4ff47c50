//! Identifiers: UUIDv7, so that document order, creation order and key order are one.

use crate::clock::{Clock, Moment, Timestamp};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::{ContextV7, Uuid};

/// The moment at which an id of this kind was made; none of an id of another kind.
pub fn made_at(id: Uuid) -> Option<Moment> {
    let (sec, nanos) = id.get_timestamp()?.to_unix();
    i64::try_from(sec).ok()?.checked_mul(1_000)?.checked_add(i64::from(nanos / 1_000_000)).map(Moment)
}

/// Makes ids in order, also where the time it is given goes back.
struct IdGenerator {
    order: ContextV7,
    /// The clock whose moments they are of; until there is one, dates of the machine serve.
    clock: Option<Clock>,
    /// Ids of an earlier process are of before.
    not_before_ms: u64,
    newest_ms: u64,
}

static GENERATOR: Mutex<IdGenerator> =
    Mutex::new(IdGenerator { order: ContextV7::new(), clock: None, not_before_ms: 0, newest_ms: 0 });

/// Ids follow this clock from now on: a process has one, whose store outlives it.
pub fn follow(clock: &Clock) {
    GENERATOR.lock().clock = Some(clock.clone());
}

/// Ids made from now on are later in order than what was made in that millisecond.
pub fn go_on_from(newest_ms: u64) {
    let mut generator = GENERATOR.lock();
    generator.not_before_ms = generator.not_before_ms.max(newest_ms.saturating_add(1));
}

/// A text that is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an id such as 0198c1d2-6b3e-7c4a-9f10-2a4b6c8d0e1f")
    }
}

impl std::error::Error for NotAnId {}

/// The millisecond of the newest id.
pub fn newest_ms() -> u64 {
    GENERATOR.lock().newest_ms
}

/// A new id, later in order than every one made before, here or by a process whose data this one goes on with.
pub fn next() -> Uuid {
    let mut generator = GENERATOR.lock();
    let ms = match &generator.clock {
        Some(clock) => u64::try_from(clock.moment().millis()).unwrap_or(0),
        None => u64::try_from(Timestamp::by_machine().millis()).unwrap_or(0),
    };
    let ms = ms.max(generator.not_before_ms);
    let id = Uuid::new_v7(uuid::Timestamp::from_unix(
        &generator.order,
        ms / 1_000,
        (ms % 1_000) as u32 * 1_000_000,
    ));
    let made_ms = made_at(id).and_then(|made| u64::try_from(made.millis()).ok()).unwrap_or(ms);
    generator.newest_ms = generator.newest_ms.max(made_ms);
    id
}

/// Hands every kind of id to another macro, for what is made of all of them: the types here, the keys of the store, and of those
/// that stand in a path, with the noun of their `not_found`, the path's parameters.
#[macro_export]
macro_rules! each_id {
    ($then:ident) => {
        $then! {
            /// An organization: the tenant.
            OrgId;
            /// A person.
            UserId "Member";
            /// A long-lived key of an organization.
            ApiKeyId "API key";
            /// A registered URL.
            UrlId "URL";
            /// A scrape request.
            JobId "Job";
            /// What one job extracted.
            ResultId "Result";
            /// A submitted SQL statement.
            QueryId "Query";
            /// A statement that was saved under a name.
            SavedQueryId "Saved query";
            /// An agent, which is its conversation too.
            AgentId "Agent";
            /// A message of a conversation; the first of a turn is the turn's id.
            MessageId;
            /// Something that an assistant shows in a conversation, with what can be clicked.
            CardId;
            /// A file made of a statement's result.
            BiExportId "Export";
            /// A workflow's stable, logical id.
            WorkflowId "Workflow";
            /// One immutable version row of a workflow.
            WorkflowVersionId "Workflow version";
            /// A schedule.
            ScheduleId "Schedule";
            /// One firing of a schedule.
            ScheduleRunId "Schedule run";
            /// A benchmark.
            BenchmarkId "Benchmark";
            /// Jobs that were submitted together.
            BatchId "Batch";
            /// Something that happened in an organization.
            EventId;
            /// A connected provider.
            ProviderId "Provider";
            /// A source of URLs.
            InputId "Input";
            /// One run of an input.
            InputRunId;
            /// Cookies or headers for a site.
            SiteSessionId "Site session";
            /// Where results are delivered to.
            OutputId "Output";
            /// One event on its way to an output.
            DeliveryId "Delivery";
            /// A statement with a condition.
            MonitorId "Monitor";
            /// Saved queries on one page.
            DashboardId "Dashboard";
            /// A better ranking that waits for somebody's word.
            SuggestionId "Suggestion";
            /// One row of the credit ledger.
            TransactionId;
            /// A request for more credits.
            RechargeId;
            /// A platform extraction schema.
            SchemaId;
            /// A schema that is to be found out.
            DiscoveryId "Discovery";
            /// One line of the audit log.
            AuditId "Audit entry";
            /// An invitation into an organization.
            InviteId "Invite";
            /// An erasure of a person or an organization.
            ErasureId;
            /// An export of what is held on a person.
            AccountExportId "Export";
            /// A login of a person. Random and not in order: it is a part of the login's refresh token.
            SessionId "Session";
            /// A message to a person.
            MailId;
        }
    };
}

/// Newtypes over a UUID, with text and serde forms.
macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident $($noun:literal)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new id, later in order than every one made before.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self(next())
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

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = NotAnId;
            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self).map_err(|_| NotAnId)
            }
        }

        impl ::std::convert::From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl ::std::convert::From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }
    )*};
}

each_id!(id_types);

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
    fn a_text_that_is_no_id_is_refused_in_plain_words() {
        let id = JobId::new();
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "123", "not-an-id", "0198c1d2-6b3e-7c4a-9f10-2a4b6c8d0e1g"] {
            let refused = bad.parse::<JobId>().unwrap_err().to_string();
            let example = refused.strip_prefix("not an id such as ").unwrap();
            assert!(example.parse::<JobId>().is_ok(), "{refused}");
        }
    }

    #[test]
    fn ids_go_on_from_those_of_another_process() {
        // A second ahead of what there is: other tests of this process go on from here, too.
        let ahead = newest_ms().max(JobId::new().0.get_timestamp().unwrap().to_unix().0 * 1_000) + 1_000;
        go_on_from(ahead);
        let first = JobId::new();
        assert!(made_at(first.0).unwrap().millis() as u64 > ahead);
        assert!(JobId::new() > first && newest_ms() > ahead);
        go_on_from(1);
        assert!(JobId::new() > first);
    }

    #[test]
    fn ids_of_one_process_grow() {
        let ids: Vec<_> = (0..1000).map(|_| JobId::new()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
