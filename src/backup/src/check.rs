//! Checking backups: every byte of them.

use crate::manifest::Manifest;
use crate::object::{ObjectId, ObjectRef};
use crate::pages::List;
use crate::repository::Repository;
use crate::rows;
use base::{Error, Result};
use std::collections::HashSet;

/// What a check found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub objects: u64,
    pub bytes: u64,
    /// What is wrong, each with the file that it is about; empty where all is whole.
    pub findings: Vec<String>,
}

/// Findings that are told; the rest is a number.
const TOLD_MAX: usize = 50;

/// Reads every object of these backups, each once, and compares it with its checksum and with what should be in it.
pub fn check(repository: &Repository, backups: &[&Manifest], stop: &dyn Fn() -> bool) -> Result<Checked> {
    let mut checking =
        Checking { repository, stop, seen: HashSet::new(), checked: Checked::default(), untold: 0 };
    for backup in backups {
        checking.backup(backup)?;
    }
    let Checking { mut checked, untold, .. } = checking;
    if untold > 0 {
        checked.findings.push(format!("and {untold} more"));
    }
    Ok(checked)
}

struct Checking<'c> {
    repository: &'c Repository,
    stop: &'c dyn Fn() -> bool,
    seen: HashSet<ObjectId>,
    checked: Checked,
    untold: u64,
}

impl Checking<'_> {
    fn backup(&mut self, backup: &Manifest) -> Result<()> {
        for run in &backup.rows {
            self.object(run, |repository| rows::read(&repository.inflated(run)?).map(drop))?;
        }
        let mut named = HashSet::new();
        for list in &backup.pages {
            self.object(list, |repository| {
                named.extend(List::of(repository, list)?.packs);
                Ok(())
            })?;
        }
        let known: HashSet<_> = backup.packs.iter().copied().collect();
        if named.iter().any(|pack| !known.contains(pack)) {
            self.found(format!(
                "{}/{}: a list names a pack that it does not",
                self.repository.name(),
                backup.id.key()
            ));
        }
        for object in backup.objects() {
            self.object(object, |repository| repository.object(object).map(drop))?;
        }
        Ok(())
    }

    fn object(&mut self, of: &ObjectRef, look: impl FnOnce(&Repository) -> Result<()>) -> Result<()> {
        if (self.stop)() {
            return Err(Error::unavailable("the check was stopped"));
        }
        if self.seen.insert(of.id) {
            self.checked.objects += 1;
            self.checked.bytes += of.bytes;
            if let Err(error) = look(self.repository) {
                self.found(error.for_operator());
            }
        }
        Ok(())
    }

    fn found(&mut self, finding: String) {
        if self.checked.findings.len() < TOLD_MAX {
            self.checked.findings.push(finding);
        } else {
            self.untold += 1;
        }
    }
}
