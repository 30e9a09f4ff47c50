//! For what follows the log and is no stream: where it begins and ends, what is behind a place, and which kinds there are.

use super::kind::{KINDS, subject_of};
use super::log;
use super::rows::{EVENTS, EventV1};
use base::clock::Timestamp;
use base::permission::Permissions;
use base::{Code, Error, Result};
use std::collections::BTreeSet;
use store::{OrgRead, readable};

/// Where an organization's log begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnds {
    /// Events up to this place are gone.
    pub trimmed: u64,
    /// The place of the newest event.
    pub last: u64,
}

pub fn log_ends(tx: &OrgRead<'_>) -> Result<LogEnds> {
    let log = log::log(tx)?;
    Ok(LogEnds { trimmed: log.trimmed, last: log.last })
}

/// Some of the events behind a place, oldest first, and the place up to which was looked.
pub fn events_behind(tx: &OrgRead<'_>, place: u64, limit: usize) -> Result<(Vec<EventV1>, u64)> {
    let (events, until) = log::behind(tx, place, limit)?;
    Ok((events, until.unwrap_or(place)))
}

/// The place in front of the first event that is not from before a date, of those that are kept.
pub fn place_before(tx: &OrgRead<'_>, since: Timestamp) -> Result<u64> {
    let LogEnds { mut trimmed, mut last } = log_ends(tx)?;
    // Everything up to `trimmed` is earlier, everything behind `last` is not.
    while trimmed < last {
        let middle = trimmed + (last - trimmed).div_ceil(2);
        let row = readable("an event", middle, tx.get(&EVENTS, &middle))?.flatten();
        match row.is_none_or(|row| row.at < since) {
            true => trimmed = middle,
            false => last = middle - 1,
        }
    }
    Ok(trimmed)
}

/// What an event happened to: the part of its kind before the point.
pub fn sort_of(kind: &str) -> &str {
    subject_of(kind)
}

/// The kinds that are named, `job.*` being every one of its subject, as far as they are known and who asks may be told of
/// them. `field` is where they stand in the request.
pub fn kinds_named(
    field: &str,
    names: &[String],
    permissions: Permissions,
) -> Result<BTreeSet<&'static str>> {
    let mut kinds = BTreeSet::new();
    for name in names {
        let known: Vec<_> = match name.strip_suffix(".*") {
            Some(subject) => KINDS.values().filter(|kind| subject_of(kind.name) == subject).collect(),
            None => KINDS.get(name.as_str()).into_iter().collect(),
        };
        if known.is_empty() {
            let name: String = name.chars().take(64).collect();
            let all: Vec<_> = KINDS.keys().copied().collect();
            let message = format!("\"{name}\" is no kind of events; known are {}", all.join(", "));
            return Err(Error::invalid(field, message));
        }
        if let Some(lacking) = known.iter().find(|kind| !permissions.contains(kind.permission)) {
            let message = format!("{} needs the permission {}.", lacking.name, lacking.permission.name());
            return Err(Error::new(Code::AuthForbidden).message(message));
        }
        kinds.extend(known.iter().map(|kind| kind.name));
    }
    Ok(kinds)
}
