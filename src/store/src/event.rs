//! Something that is to be written into the audit log.

use super::origin::Actor;
use base::audit::Action;
use base::ids::UserId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Characters of one text in a row's details.
const DETAIL_CHARS_MAX: usize = 200;
/// Ids that one detail names; beyond them the count beside it speaks.
const DETAIL_IDS_MAX: usize = 20;

/// Something to be written down.
#[derive(Clone, Debug)]
#[must_use = "an event is written by tx.audit"]
pub struct Event {
    pub(super) action: Action,
    pub(super) resource: ResourceV1,
    pub(super) actor: Option<Actor>,
    pub(super) person: Option<UserId>,
    pub(super) details: Vec<(&'static str, Detail)>,
    pub(super) personal: Vec<(&'static str, String)>,
}

impl Event {
    pub fn new(action: Action) -> Event {
        Event {
            action,
            resource: ResourceV1::None,
            actor: None,
            person: None,
            details: Vec::new(),
            personal: Vec::new(),
        }
    }

    /// What it was done to.
    pub fn of(mut self, id: impl Into<Uuid>) -> Event {
        self.resource = ResourceV1::Id(id.into());
        self
    }

    /// What it was done to, where things have names of the box's or the organization's own (an operation, a domain);
    /// never a person's.
    pub fn named(mut self, name: impl Into<String>) -> Event {
        self.resource = ResourceV1::Name(shortened(name.into()));
        self
    }

    /// Who did it, where they proved who they are in the request's body (a password, a token from a message).
    pub fn by(mut self, user: UserId) -> Event {
        self.actor = Some(Actor::User(user));
        self
    }

    /// Whose account it concerns, where the caller is unknown: the row's personal part may be theirs.
    pub fn about(mut self, user: UserId) -> Event {
        self.person = Some(user);
        self
    }

    /// A detail: a number, a word of a vocabulary, an id. Nothing that tells a person.
    pub fn with(mut self, name: &'static str, value: impl Into<Detail>) -> Event {
        let value = match value.into() {
            Detail::Text(text) => Detail::Text(shortened(text)),
            other => other,
        };
        self.details.push((name, value));
        self
    }

    /// The first ids of several things that it was done to.
    pub fn ids(mut self, name: &'static str, ids: impl IntoIterator<Item = impl Into<Uuid>>) -> Event {
        let ids = ids.into_iter().take(DETAIL_IDS_MAX).map(Into::into).collect();
        self.details.push((name, Detail::Ids(ids)));
        self
    }

    /// A detail that tells a person (an e-mail address); it goes when they are erased.
    pub fn personal(mut self, name: &'static str, text: impl Into<String>) -> Event {
        self.personal.push((name, shortened(text.into())));
        self
    }
}

pub(super) fn shortened(text: String) -> String {
    match text.char_indices().nth(DETAIL_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

impl From<&str> for Detail {
    fn from(text: &str) -> Detail {
        Detail::Text(text.to_owned())
    }
}

impl From<String> for Detail {
    fn from(text: String) -> Detail {
        Detail::Text(text)
    }
}

impl From<bool> for Detail {
    fn from(flag: bool) -> Detail {
        Detail::Flag(flag)
    }
}

impl From<usize> for Detail {
    fn from(number: usize) -> Detail {
        Detail::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u64> for Detail {
    fn from(number: u64) -> Detail {
        Detail::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Detail {
    fn from(number: u32) -> Detail {
        Detail::Number(i64::from(number))
    }
}

impl From<Uuid> for Detail {
    fn from(id: Uuid) -> Detail {
        Detail::Id(id)
    }
}

/// What it was done to, stored by position: add at the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum ResourceV1 {
    None,
    Id(Uuid),
    Name(String),
}

/// One value of a row's details, stored by position: add at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Detail {
    Text(String),
    Number(i64),
    Flag(bool),
    Id(Uuid),
    Ids(Vec<Uuid>),
}
