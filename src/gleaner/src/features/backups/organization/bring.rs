//! Putting an organization in place behind its fence, and opening it.

use super::people::People;
use super::state::{Coming, STOPPED};
use super::survey::Survey;

use crate::features::auth::{ORGS, OrgEntryV1};
use crate::features::backups::place::{DERIVED, PAGES};
use crate::features::backups::rows::{COMING, ComingV1};
use crate::features::wiring;
use crate::features::{ALL, ComingRow, account};
use backup::{PartFile, Parts, RowsOf};
use base::audit::Action;
use base::codec;
use base::ids::OrgId;
use base::{Error, Result};
use blob::{BlobHash, BlobStore};
use bytes::Bytes;
use futures::future::try_join_all;
use serde_json::{Map, Value};
use server::task::TaskContext;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use store::{AUDIT_TABLES, AnyTable, BackupRow, Brought, Event, SysRead, SysWrite, System};
use tokio::runtime::Handle;
use uuid::Uuid;

/// What one write operation puts in place: rows, and bytes of them. Others' operations wait for one such at most.
const ROWS_PER_WRITE: usize = 400;
const BYTES_PER_WRITE: usize = 1 << 20;
/// What one write operation erases, as the store counts costs: some 500 rows.
const COST_PER_WRITE: usize = 4_096;
/// Pages that are written at once.
const PAGES_AT_ONCE: usize = 16;

/// What an organization is brought back with.
pub(super) struct Bringing<'b> {
    pub context: &'b TaskContext,
    pub parts: &'b Parts<'b>,
    pub data: &'b Path,
    pub coming: &'b Coming,
    pub survey: &'b Survey,
    pub people: &'b People,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Done {
    /// Tables of the backup that this release does not have.
    pub unknown: BTreeSet<String>,
    /// What slices did when it was opened.
    pub opened: Map<String, Value>,
}

/// Refuses where the organization is there, or is not gone yet.
pub(super) fn refuse_if_there(tx: &SysRead<'_>, entry: &OrgEntryV1) -> Result<()> {
    let (id, name) = (entry.id, &entry.name);
    if let Some(there) = tx.get(&ORGS, &id)? {
        return Err(Error::conflict(format!(
            "organization \"{}\" ({id}) is in this box, and a restore writes over nothing: have an owner erase it first (DELETE \
             /api/v1/orgs/current), or restore the whole backup into an empty folder and look there",
            there.name
        )));
    }
    if let Some(erasure) = account::open_erasure(tx, id)? {
        return Err(Error::conflict(format!(
            "organization \"{name}\" ({id}) is still being erased: wait until `gleaner admin erasures` shows {erasure} as done"
        )));
    }
    Ok(())
}

impl Bringing<'_> {
    /// Does all of it. Blocks; what fails leaves rows behind the fence.
    pub fn run(&self) -> Result<Done> {
        let (org, system) = (self.survey.entry.id, self.context.system());
        let mut done = Done::default();
        self.pages(org)?;
        self.files()?;
        let brought = self.rows(org, &mut done)?;
        self.coming.enter("search and tables");
        for feature in ALL {
            if let Some(files) = feature.comeback.files {
                files(self.context.services(), org);
            }
        }
        for consumer in wiring::consumers(self.context.services()) {
            self.check()?;
            consumer.recall(org)?;
        }
        self.coming.enter("opening");
        done.opened = self.open(system, org, brought)?;
        Ok(done)
    }

    fn check(&self) -> Result<()> {
        if self.context.stopping() { Err(Error::unavailable(STOPPED)) } else { Ok(()) }
    }

    fn pages(&self, org: OrgId) -> Result<()> {
        self.coming.enter("pages");
        let blobs = self.context.service::<BlobStore>().org(org.0);
        blobs.admit();
        let runtime = Handle::current();
        self.parts.pages(&self.survey.pages, &mut |pages| {
            let mut pages = pages.into_iter().peekable();
            while pages.peek().is_some() {
                self.check()?;
                let some: Vec<_> = pages.by_ref().take(PAGES_AT_ONCE).collect();
                let count = some.len() as u64;
                let kept = some.into_iter().map(|(hash, stored)| {
                    let blobs = blobs.clone();
                    async move { blobs.keep_stored(&BlobHash::from_bytes(hash), Bytes::from(stored)).await }
                });
                let kept = runtime.block_on(try_join_all(kept));
                kept.map_err(|e| Error::conflict(format!("a page could not be put in place: {e}")))?;
                self.coming.pages.fetch_add(count, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    fn files(&self) -> Result<()> {
        self.coming.enter("files");
        for file in &self.survey.files {
            self.check()?;
            let path = file.below(self.data)?;
            self.file(file, &path).map_err(|e| {
                Error::unavailable(format!(
                    "{} could not be put in place: {}",
                    path.display(),
                    e.for_operator()
                ))
            })?;
        }
        Ok(())
    }

    fn file(&self, file: &PartFile, path: &Path) -> Result<()> {
        let failed = |e: io::Error| Error::unavailable(e.to_string());
        disk::make_folder(disk::folder_of(path)).map_err(failed)?;
        disk::write_synced(path, &[], true).map_err(failed)?;
        let mut open = fs::OpenOptions::new().append(true).open(path).map_err(failed)?;
        self.parts.file(file, &mut |bytes| open.write_all(bytes).map_err(failed))?;
        open.sync_all().and_then(|()| disk::sync_name(path)).map_err(failed)
    }

    fn rows(&self, org: OrgId, done: &mut Done) -> Result<Brought> {
        self.coming.enter("rows");
        let tables: HashMap<&str, &'static dyn AnyTable> =
            ALL.iter().flat_map(|feature| feature.tables).map(|table| (table.name(), *table)).collect();
        let hooks: HashMap<_, _> = ALL.iter().filter_map(|feature| feature.comeback.rows).collect();
        let (ids, newest) = (self.people.ids(), *self.context.system().store().sequence().borrow());
        let mut brought = Brought::default();
        self.parts.rows(&mut |RowsOf { table, rows }| {
            let own: Vec<_> = rows.into_iter().filter(|(key, _)| key.starts_with(org.0.as_bytes())).collect();
            if own.is_empty() {
                return Ok(());
            }
            if AUDIT_TABLES.contains(&table.as_str()) {
                return self.audit(org, &table, own);
            }
            match tables.get(table.as_str()) {
                Some(known) if known.is_of_orgs() => {
                    let hook = hooks.get(table.as_str());
                    let own = own.into_iter().map(|row| arrived(row, &ids, hook, newest));
                    brought.add(self.put(org, *known, own.collect::<Result<_>>()?)?);
                }
                // Of people and of the box; what of it comes back is said in `super::WITHOUT_ORGANIZATION`.
                Some(_) => {}
                // An index is made of its rows, and the store's books are kept by the store.
                None if table.contains('.') || store::is_own_book(&table) => {}
                None => drop(done.unknown.insert(table)),
            }
            Ok(())
        })?;
        Ok(brought)
    }

    fn put(&self, org: OrgId, table: &'static dyn AnyTable, rows: Vec<BackupRow>) -> Result<Brought> {
        let mut brought = Brought::default();
        for rows in batches(rows) {
            self.check()?;
            self.coming.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
            let wrote = self.context.system().write_blocking(move |tx| {
                tx.unaudited("the operation that opens the organization says it");
                tx.bring_rows(org, table, &rows)
            });
            brought.add(wrote?);
        }
        Ok(brought)
    }

    fn audit(&self, org: OrgId, table: &str, rows: Vec<BackupRow>) -> Result<()> {
        for rows in batches(rows) {
            self.check()?;
            self.coming.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
            let table = table.to_owned();
            self.context.system().write_blocking(move |tx| {
                tx.unaudited("what is brought back is the audit log itself");
                tx.bring_audit(org, &table, &rows)
            })?;
        }
        Ok(())
    }

    /// Takes the fence away: from here on all of it is there, or, where this fails, nothing.
    fn open(&self, system: &System, org: OrgId, brought: Brought) -> Result<Map<String, Value>> {
        let (entry, members) = (self.survey.entry.clone(), self.survey.members.clone());
        let (people, backup) = (self.people.clone(), self.parts.backup.id.to_string());
        system.write_blocking(move |tx| {
            if people != People::of(tx, &members)? {
                let reason = "accounts of its members were made or changed meanwhile; begin again";
                return Err(Error::conflict(reason));
            }
            tx.open_fence(org, &brought)?;
            let mut told = Map::new();
            for (name, open) in ALL.iter().filter_map(|feature| feature.comeback.open) {
                told.insert(name.to_owned(), open(&tx.org(org))?.into());
            }
            people.join(tx, org, &members)?;
            let event = || Event::new(Action::OrgRestored).of(org).with("backup", backup.as_str());
            tx.org(org).audit(event())?;
            tx.audit(event())?;
            tx.delete(&COMING, &())?;
            // What opens the doors is written last.
            tx.insert(&ORGS, &org, &entry)?;
            Ok(told)
        })
    }
}

/// A row as it is put in place here.
fn arrived(
    (key, value): BackupRow,
    ids: &[(Uuid, Uuid)],
    hook: Option<&ComingRow>,
    newest: u64,
) -> Result<BackupRow> {
    let value = match (value, hook) {
        (Some(value), Some(hook)) => Some(hook(&value, newest)?),
        (value, _) => value,
    };
    if ids.is_empty() {
        return Ok((key, value));
    }
    Ok((codec::with_ids_in_key(&key, ids), value.map(|value| codec::with_ids(&value, ids))))
}

/// Rows in runs that one operation takes.
fn batches(rows: Vec<BackupRow>) -> Vec<Vec<BackupRow>> {
    let (mut all, mut run, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (key, value) in rows {
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        run.push((key, value));
        if run.len() == ROWS_PER_WRITE || bytes >= BYTES_PER_WRITE {
            all.push(std::mem::take(&mut run));
            bytes = 0;
        }
    }
    all.push(run);
    all.retain(|run| !run.is_empty());
    all
}

/// Notes that an organization comes back, and puts it behind its fence.
pub(super) fn begin(tx: &SysWrite<'_>, entry: &OrgEntryV1, coming: &ComingV1) -> Result<()> {
    tx.unaudited("the operator's own operation says it");
    refuse_if_there(tx, entry)?;
    tx.fence(entry.id);
    tx.put(&COMING, &(), coming)
}

/// Removes what is behind the fence of an organization that did not come back whole; its note goes last.
pub(super) async fn clear(context: &TaskContext, data: &Path, org: OrgId) -> Result<()> {
    context.system().store().check_place()?;
    for consumer in wiring::consumers(context.services()) {
        let forgotten = tokio::task::spawn_blocking(move || consumer.forget(org)).await;
        forgotten.map_err(|e| Error::internal("forget an organization", e))??;
    }
    erase_rows(context.system(), org).await?;
    let removed = context.service::<BlobStore>().org(org.0).delete_all().await;
    removed.map_err(|e| Error::unavailable(format!("pages could not be removed: {e}")))?;
    for folder in own_folders() {
        match fs::remove_dir_all(data.join(folder).join(org.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::unavailable(format!("files in {folder} could not be removed: {error}")));
            }
            _ => {}
        }
    }
    context
        .system()
        .write_freeing(move |tx| {
            tx.unaudited("nothing of it was there for anybody");
            tx.delete(&COMING, &()).map(drop)
        })
        .await
}

/// Erases what stands behind the fence, some in each operation.
pub(super) async fn erase_rows(system: &System, org: OrgId) -> Result<()> {
    let mut from = Vec::new();
    loop {
        let step = system
            .write_freeing(move |tx| {
                tx.unaudited("nothing of it was there for anybody");
                tx.erase_rows(org, &from, COST_PER_WRITE)
            })
            .await?;
        match step.next {
            Some(next) => from = next,
            None => return Ok(()),
        }
        tokio::task::yield_now().await;
    }
}

/// Folders in which an organization may have a folder of its own with files that backups hold.
fn own_folders() -> impl Iterator<Item = &'static str> {
    wiring::folders().map(|folder| folder.name).filter(|name| *name != PAGES && !DERIVED.contains(name))
}
