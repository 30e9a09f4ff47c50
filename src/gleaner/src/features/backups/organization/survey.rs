//! Looking through a backup for one organization, before anything of it is put anywhere.
//!
//! Every object is read that holds anything of it, so a backup that is damaged where it matters is refused while nothing has
//! happened yet.

use crate::features::auth::{ORGS, OrgEntryV1, USERS, UserV1};
use backup::{PagesOf, PartFile, Parts, RowsOf};
use base::codec::{self, CodecError};
use base::ids::OrgId;
use base::similar::{did_you_mean, nearest};
use base::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use store::META_TABLE;

/// Names of organizations that are told where one was not found.
const NAMED_MAX: usize = 3;

/// What a backup has of an organization.
pub(super) struct Survey {
    pub entry: OrgEntryV1,
    /// The accounts of its members.
    pub members: Vec<UserV1>,
    pub pages: PagesOf,
    pub files: Vec<PartFile>,
}

/// The rows of the few tables that are looked into whole.
#[derive(Default)]
struct Known(BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>);

impl Known {
    fn take(&mut self, part: RowsOf) {
        if ![META_TABLE, ORGS.name(), USERS.name()].contains(&part.table.as_str()) {
            return;
        }
        let rows = self.0.entry(part.table).or_default();
        for (key, value) in part.rows {
            match value {
                Some(value) => drop(rows.insert(key, value)),
                None => drop(rows.remove(&key)),
            }
        }
    }

    fn of(&self, table: &str) -> impl Iterator<Item = &Vec<u8>> {
        self.0.get(table).into_iter().flat_map(BTreeMap::values)
    }
}

impl Survey {
    /// Looks for the organization of this id or name.
    pub fn of(parts: &Parts<'_>, named: &str) -> Result<Survey> {
        let mut known = Known::default();
        parts.rows(&mut |part| {
            known.take(part);
            Ok(())
        })?;
        store::backup_layout(&known.0.remove(META_TABLE).unwrap_or_default())?;
        let unread = |e: CodecError| Error::conflict(format!("a row of the backup cannot be read: {e}"));
        let entries = known.of(ORGS.name()).map(|row| codec::decode(row).map_err(unread));
        let entry = choose(&entries.collect::<Result<Vec<_>>>()?, named, parts)?;
        let mut members = Vec::new();
        for row in known.of(USERS.name()) {
            let user: UserV1 = codec::decode(row).map_err(unread)?;
            if user.membership.is_some_and(|(org, _)| org == entry.id) {
                members.push(user);
            }
        }
        let pages = parts.pages_of(entry.id.0)?;
        parts.pages(&pages, &mut |_| Ok(()))?;
        let id = entry.id.to_string();
        let files = parts.files(&|path| path.iter().any(|part| part == OsStr::new(&id)));
        for file in &files {
            parts.file(file, &mut |_| Ok(()))?;
        }
        Ok(Survey { entry, members, pages, files })
    }
}

fn choose(entries: &[OrgEntryV1], named: &str, parts: &Parts<'_>) -> Result<OrgEntryV1> {
    let named = named.trim();
    let id = named.parse::<OrgId>().ok();
    if let Some(entry) = entries.iter().find(|entry| Some(entry.id) == id) {
        return Ok(entry.clone());
    }
    let name = named.to_lowercase();
    let found: Vec<_> = entries.iter().filter(|entry| entry.name.to_lowercase() == name).collect();
    let backup = &parts.backup.id;
    match found.as_slice() {
        [only] => Ok((*only).clone()),
        [] => {
            let like = nearest(named, entries.iter().map(|entry| entry.name.clone()), NAMED_MAX);
            let like: Vec<String> = like.into_iter().map(|name| format!("\"{name}\"")).collect();
            let reason =
                format!("names none in backup {backup}: no organization has the id or the name \"{named}\"");
            Err(Error::invalid("--organization", format!("{reason}{}", did_you_mean(&like))))
        }
        several => {
            let ids: Vec<String> = several.iter().map(|entry| entry.id.to_string()).collect();
            let reason = format!("names {} organizations of backup {backup}; give the id: ", ids.len());
            Err(Error::invalid("--organization", format!("{reason}{}", ids.join(", "))))
        }
    }
}
