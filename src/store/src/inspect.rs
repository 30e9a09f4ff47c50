//! Looking at a store that no process serves: what `gleaner doctor` reads.
//!
//! Nothing is migrated, and no byte of the file is written: what redb would write where a file was not closed, or is damaged,
//! stays in memory (`untouched.rs`).

use super::audit::{ChainReport, CheckSeal, ORG_TABLES, check_chain};
use super::changes;
use super::check::{AnyTable, CheckSnapshot, TableReport, sum_fixes};
use super::engine::{Backing, DatabaseHandle};
use super::export::{self, Exported, TakeRows};
use super::migrate;
use super::raw::View;
use super::scope::SystemScope;
use super::tx::SysRead;
use super::usage;
use super::wipe;
use super::{META, STORE_ID, System};
use base::clock::Timestamp;
use base::ids::OrgId;
use base::{Error, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A store that is looked at and not served.
pub struct Inspection {
    handle: DatabaseHandle,
}

impl Inspection {
    /// Opens the file; refuses one that is not there, and one that a process has open.
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Inspection> {
        let refused = |reason: String| Err(Error::invalid("storage.data_dir", reason));
        match path.metadata() {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let file = path.display();
                return refused(format!(
                    "{file} cannot be looked at: {error}. Whoever runs the box may look at its data"
                ));
            }
            Ok(about) if about.is_file() && about.len() == 0 => {
                let file = path.display();
                return refused(format!("the store {file} is empty (0 bytes): restore it from a backup"));
            }
            Ok(about) if about.is_file() => {}
            _ => return refused(format!("there is no store at {}", path.display())),
        }
        Ok(Inspection { handle: DatabaseHandle::open(Backing::Untouched(path.to_owned()), cache_bytes)? })
    }

    /// Files that a rewriting which was cut off has left beside the store: with rows, also erased ones. The next start
    /// overwrites and removes them; looking changes nothing.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        self.handle.path().map(wipe::leftovers).unwrap_or_default()
    }

    pub fn file_bytes(&self) -> u64 {
        self.handle.file_bytes()
    }

    /// Walks every page of the file and compares checksums; whether all are whole.
    pub fn pages_are_whole(&self) -> Result<bool> {
        self.handle.check_pages()
    }

    /// The number of the layout that the file has, and of the newest that this release knows.
    pub fn layout(&self) -> Result<(u32, u32)> {
        self.handle.read(|view| migrate::applied(view)).map(|done| (done, migrate::known()))
    }

    /// Gives every row of the file; see [`super::Store::export`].
    pub fn export(&self, stop: &dyn Fn() -> bool, take: TakeRows<'_>) -> Result<Exported> {
        export::run_at_rest(&self.handle, stop, take)
    }

    /// Walks every audit chain, the box's own first. `must_have` is the table that every organization has a row in: one
    /// without a chain has lost it.
    pub fn audit(&self, must_have: &'static str, seal: Option<CheckSeal<'_>>) -> Result<Vec<ChainReport>> {
        chains(&self.handle, must_have, seal)
    }

    /// Runs `run` on a snapshot.
    pub fn read<T>(&self, run: impl FnOnce(&SysRead<'_>) -> Result<T>) -> Result<T> {
        self.handle.read(|view| run(&SysRead::new(view, SystemScope, Timestamp(0).into())))
    }

    /// Compares what each organization is counted with in all tables with the sum of its tables.
    pub fn counts(&self) -> Result<Vec<String>> {
        self.handle.read(|view| match migrate::is_done(view, usage::FIRST_COUNT)? {
            true => Ok(sum_fixes(view)?.into_iter().map(|(finding, _)| finding).collect()),
            false => Ok(Vec::new()),
        })
    }

    /// The store's id, where it has one: what is made of it carries the same.
    pub fn id(&self) -> Result<Option<Uuid>> {
        let id = self.handle.read(|view| view.get(META, STORE_ID))?;
        Ok(id.and_then(|bytes| Uuid::from_slice(&bytes).ok()))
    }

    /// The number of the newest change record.
    pub fn newest_change(&self) -> Result<u64> {
        self.handle.read(|view| changes::last(view))
    }

    /// The migrations that the first start of this release runs, by name, with the rows that each reads and their bytes.
    pub fn migrations_due(&self) -> Result<Vec<(&'static str, u64, u64)>> {
        self.handle.read(|view| migrate::due(view))
    }

    /// Rows of a table of this name, or entries of an index; zero of none.
    pub fn entries(&self, table: &'static str) -> Result<u64> {
        self.handle.entries(table)
    }

    /// Compares the rows of a table with its indexes, and with what organizations are counted with.
    pub fn table(&self, table: &dyn AnyTable) -> Result<TableReport> {
        self.handle.read(|view| table.check(&CheckSnapshot::over(view)))
    }
}

impl System {
    /// The same of a store that is served, each chain at a moment of its own.
    pub fn check_audit(
        &self,
        must_have: &'static str,
        seal: Option<CheckSeal<'_>>,
    ) -> Result<Vec<ChainReport>> {
        chains(&self.store.inner.handle, must_have, seal)
    }
}

fn chains(
    handle: &DatabaseHandle,
    must_have: &'static str,
    seal: Option<CheckSeal<'_>>,
) -> Result<Vec<ChainReport>> {
    let (orgs, chained) = handle.read(|view| {
        let tx = SysRead::new(view, SystemScope, Timestamp(0).into());
        let (mut orgs, mut chained) = (orgs_of(&tx, &[must_have])?, orgs_of(&tx, ORG_TABLES)?);
        // Of an organization that is being erased nothing need be whole.
        orgs.retain(|org| !tx.is_fenced(*org));
        chained.retain(|org| !tx.is_fenced(*org));
        Ok((orgs, chained))
    })?;
    let chain = |org: Option<OrgId>| {
        handle.read(|view| {
            let tx = SysRead::new(view, SystemScope, Timestamp(0).into());
            let (view, chain) = tx.audit_chain(org);
            check_chain(view, &chain, org, seal)
        })
    };
    let mut reports = vec![chain(None)?];
    for org in orgs.union(&chained) {
        let mut report = chain(Some(*org))?;
        if !chained.contains(org) {
            report.findings.push("the whole chain is missing".to_owned());
        }
        reports.push(report);
    }
    Ok(reports)
}

/// Every organization that has a row in one of these tables.
fn orgs_of(tx: &SysRead<'_>, tables: &[&'static str]) -> Result<BTreeSet<OrgId>> {
    let mut orgs = BTreeSet::new();
    for table in tables {
        let mut last = None;
        while let Some(org) = tx.next_org(table, last)? {
            orgs.insert(org);
            last = Some(org);
        }
    }
    Ok(orgs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use base::clock::Clock;
    use std::os::unix::fs::PermissionsExt;

    fn refusal(path: &Path) -> String {
        let refused = Inspection::open(path, 1 << 20).err().expect("it is refused");
        refused.for_operator()
    }

    #[test]
    fn what_is_no_store_is_said_with_its_path_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gleaner.redb");
        let name = path.display().to_string();
        assert!(refusal(&path).contains(&format!("there is no store at {name}")));
        // Other bytes, a text, and what a disk that was full has left: none of them may be called a disk that fails.
        let noise: Vec<u8> = (0..400_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for bytes in [noise, b"not a store".to_vec(), vec![0; 4096]] {
            std::fs::write(&path, &bytes).unwrap();
            let said = refusal(&path);
            assert!(said.contains("not a Gleaner store") && !said.contains("disk"), "{said}");
            let said = Store::open(&path, 1 << 20, Clock::system()).err().unwrap().for_operator();
            assert!(said.contains(&name) && said.contains("not a Gleaner store"), "{said}");
            assert!(said.contains("restore a backup"), "{said}");
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "it is left as it is");
        }
    }

    #[test]
    fn a_store_that_is_open_elsewhere_is_named_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gleaner.redb");
        Store::found(&path).unwrap();
        let open = Store::open(&path, 1 << 20, Clock::system()).unwrap();
        let said = refusal(&path);
        assert!(said.starts_with("another process has the data folder open"), "{said}");
        assert!(
            said.contains(&path.display().to_string()) && said.contains("gleaner admin status"),
            "{said}"
        );
        open.close();
    }

    #[test]
    fn a_folder_that_may_not_be_looked_into_is_not_called_empty() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("theirs");
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("gleaner.redb");
        std::fs::write(&path, b"x").unwrap();
        // For root nothing is closed, so a path through a file stands for one that cannot be looked at.
        let within = path.join("gleaner.redb");
        let said = refusal(&within);
        assert!(said.contains("cannot be looked at"), "{said}");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o000)).unwrap();
        if std::fs::metadata(&path).is_err() {
            let said = refusal(&path);
            assert!(said.contains("ermission denied"), "{said}");
        }
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}
