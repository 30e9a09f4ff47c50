//! What each organization stores: rows and bytes by table, and of all tables together.
//!
//! Counted where rows are put and deleted (`tx.rs`), so no slice can forget it, and written with the commit that changes
//! the rows, so that counts and rows cannot disagree; `gleaner doctor` compares them. A row's bytes are those of its key
//! and its value, and what it stands for outside of the store (a page on the disk). Index entries are not counted: they
//! are as large as what rows say, at most. The box's own books (the ledger, the audit log, statements that lapse by
//! themselves) are not the organization's to delete and are not counted either: `Table::uncounted`.
//!
//! Whether an organization may store more is asked once at the end of each operation of a request ([`check`]), by a
//! function that the billing slice gives ([`Store::limit_room`](super::Store::limit_room)). What the box does by itself
//! (a job that ends, a task) is never refused: it asks before it begins.

use super::counts::{ALL_TABLES, Fix, Growth, PendingGrowth, TABLE, Used, count_fix, damaged};
use super::origin::Actor;
use super::passed::readable;
use super::quota::ViewCheck;
use super::raw::View;
use super::scope::OrgScope;
use super::tx::{OrgRead, OrgWrite, ReadTx, SysRead, SysWrite};
use super::view::WriteView;
use base::Result;
use base::clock::Now;
use base::ids::OrgId;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The migration that counts what there was before.
pub(super) const FIRST_COUNT: &str = "what organizations store";
/// Bytes of rows that one look of a first count reads.
const COUNT_BYTES: usize = 8 << 20;
/// Rows that one look of a first count reads.
const COUNT_ROWS: usize = 4_096;

/// Says whether an organization has room for what an operation adds; an error refuses the operation.
pub type QuotaCheck = dyn Fn(&OrgRead<'_>, &PendingGrowth) -> Result<()> + Send + Sync;

/// The check as it is asked within an operation.
pub(super) fn within_operations(room: Box<QuotaCheck>) -> Box<ViewCheck> {
    Box::new(move |view, org, now, adding| room(&ReadTx::new(view, OrgScope(org), now.clone()), adding))
}

/// Refuses an operation of somebody outside of the box that adds more than its organizations have room for.
pub(super) fn check(view: &WriteView<'_>, actor: Actor, now: &Now) -> Result<()> {
    let Some(room) = view.room() else { return Ok(()) };
    if matches!(actor, Actor::System | Actor::Operator) || view.is_exempt() {
        return Ok(());
    }
    let grown = view.grown();
    let adds = |growth: &Growth| growth.rows > 0 || growth.bytes > 0;
    for ((org, _), growth) in grown.iter().filter(|((_, table), growth)| *table == ALL_TABLES && adds(growth))
    {
        let own = grown.range((*org, ALL_TABLES)..).take_while(|((owner, _), _)| owner == org);
        let tables = own.filter(|((_, table), _)| *table != ALL_TABLES);
        let adding = PendingGrowth {
            total: view.used(*org, ALL_TABLES)?,
            growth: *growth,
            tables: tables
                .map(|((_, table), growth)| Ok((*table, view.used(*org, table)?, *growth)))
                .collect::<Result<_>>()?,
        };
        room.ask(view, *org, now, &adding)?;
    }
    Ok(())
}

impl OrgRead<'_> {
    /// What the organization stores in the table of this name.
    pub fn used(&self, table: &'static str) -> Result<Used> {
        self.view().used(self.org_id(), table)
    }

    /// What it stores in all tables.
    pub fn used_in_all(&self) -> Result<Used> {
        self.used(ALL_TABLES)
    }
}

impl OrgWrite<'_> {
    /// Refuses where the organization has no room for even one row more: asked by what is to begin work in its name.
    pub fn ask_room(&self) -> Result<()> {
        let Some(room) = self.raw().room() else { return Ok(()) };
        let growth = Growth { rows: 1, bytes: 1 };
        let adding = PendingGrowth { total: self.used_in_all()?.after(growth), growth, tables: Vec::new() };
        room.ask(self.raw(), self.org_id(), self.clock(), &adding)
    }
}

impl SysRead<'_> {
    /// What every organization stores in all tables, one after the other behind `after`.
    pub fn next_used(&self, after: Option<OrgId>) -> Result<Option<(OrgId, Used)>> {
        match self.next_org(TABLE, after)? {
            None => Ok(None),
            Some(org) => {
                let used = readable("what an organization stores", org, self.view().used(org, ALL_TABLES))?;
                Ok(Some((org, used.unwrap_or_default())))
            }
        }
    }
}

impl SysWrite<'_> {
    /// Counts what these tables of organizations hold; for a folder from before there were counts.
    pub(super) fn count_first(&self, tables: &[&'static str]) -> Result<()> {
        // What another migration has changed before is counted with everything else.
        for (key, _) in self.raw().scan(TABLE, Bound::Unbounded, Bound::Unbounded, false, usize::MAX)? {
            self.raw().set(TABLE, key, None);
        }
        // Looking into a table that is not there would make it.
        let there = self.raw().tables()?;
        for table in tables.iter().copied().filter(|table| there.contains(table)) {
            let mut counts = BTreeMap::<OrgId, Used>::new();
            let mut after = None::<Vec<u8>>;
            loop {
                let low = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let rows =
                    self.raw().scan_within(table, low, Bound::Unbounded, false, COUNT_ROWS, COUNT_BYTES)?;
                let Some((last, _)) = rows.last() else { break };
                after = Some(last.clone());
                for (key, value) in &rows {
                    if let Some(org) = key.get(..16).and_then(|id| uuid::Uuid::from_slice(id).ok()) {
                        counts.entry(OrgId(org)).or_default().add((key.len() + value.len()) as u64);
                    }
                }
            }
            for (org, used) in counts {
                let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                let all = Growth { rows: signed(used.rows), bytes: signed(used.bytes) };
                self.raw().grow(org, table, all);
            }
        }
        Ok(())
    }
}

/// The counts that are kept for a table, by organization, without those that are being erased; none of one that cannot be
/// read.
fn kept(view: &dyn View, of: &str) -> Result<BTreeMap<OrgId, Option<Used>>> {
    let mut counts = BTreeMap::new();
    for (org, table, used) in all_counts(view)? {
        if table == of {
            counts.insert(org, used);
        }
    }
    Ok(counts)
}

/// Every count, with its organization and table, without those of organizations that are being erased.
fn all_counts(view: &dyn View) -> Result<Vec<(OrgId, String, Option<Used>)>> {
    let mut counts = Vec::new();
    for (key, value) in view.scan(TABLE, Bound::Unbounded, Bound::Unbounded, false, usize::MAX)? {
        let (org, table) = key.split_at_checked(16).ok_or_else(damaged)?;
        let org = OrgId(uuid::Uuid::from_slice(org).map_err(|_| damaged())?);
        if !view.is_fenced(org) {
            counts.push((org, String::from_utf8_lossy(table).into_owned(), Used::decode(&value).ok()));
        }
    }
    Ok(counts)
}

/// The rows of a table and their bytes, counted one by one.
pub(super) fn weigh(view: &dyn View, table: &'static str) -> Result<(u64, u64)> {
    let (mut rows, mut bytes, mut after) = (0, 0, None::<Vec<u8>>);
    loop {
        let low = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let some = view.scan_within(table, low, Bound::Unbounded, false, COUNT_ROWS, COUNT_BYTES)?;
        let Some((last, _)) = some.last() else { return Ok((rows, bytes)) };
        after = Some(last.clone());
        rows += some.len() as u64;
        bytes += some.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
    }
}

/// A difference: whose, in words, and what puts it right.
pub(super) type Difference = (Option<OrgId>, String, Fix);

/// Where counts and rows of a table differ. `found` is what its rows come to. Not of a folder that no release with
/// counts has opened yet: it has none ([`FIRST_COUNT`]).
pub(super) fn differences(
    view: &dyn View,
    table: &str,
    found: &BTreeMap<OrgId, Used>,
) -> Result<Vec<Difference>> {
    let kept = kept(view, table)?;
    let orgs: std::collections::BTreeSet<_> = kept.keys().chain(found.keys()).collect();
    let mut differences = Vec::new();
    for org in orgs {
        let found = found.get(org).copied().unwrap_or_default();
        let kept = kept.get(org).copied().unwrap_or(Some(Used::default()));
        if kept == Some(found) {
            continue;
        }
        let counted = match kept {
            Some(kept) => format!("is counted with {} rows of {} bytes", kept.rows, kept.bytes),
            None => "has a count that is damaged".to_owned(),
        };
        let finding = format!("organization {org} {counted} and has {} of {}", found.rows, found.bytes);
        differences.push((Some(*org), finding, count_fix(*org, table, found)));
    }
    Ok(differences)
}

/// Where the counts of the tables do not come to that of all tables, by organization.
pub(super) fn sums(view: &dyn View) -> Result<Vec<Difference>> {
    let mut sums = BTreeMap::<OrgId, Used>::new();
    for (org, table, used) in all_counts(view)? {
        if let (false, Some(used)) = (table.is_empty(), used) {
            let sum = sums.entry(org).or_default();
            sum.rows += used.rows;
            sum.bytes += used.bytes;
        }
    }
    differences(view, ALL_TABLES, &sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultyDisk;
    use crate::{AnyTable, Index, MIGRATIONS, OrgTable, Origin, Store};
    use base::clock::Clock;
    use base::codec::Record;
    use base::ids::{JobId, RequestId};
    use base::{Code, Error};
    use serde::{Deserialize, Serialize};
    use std::net::{IpAddr, Ipv4Addr};

    #[derive(Clone, Serialize, Deserialize)]
    struct NoteV1 {
        text: String,
    }

    impl Record for NoteV1 {}

    static BY_TEXT: Index<String, NoteV1> = Index::unique("notes.by_text", |note, keys| keys.add(&note.text));
    // Names of tables that the first count knows.
    static NOTES: OrgTable<JobId, NoteV1> = OrgTable::new("urls", "Note").indexed(&[&BY_TEXT]);
    static PLAIN: OrgTable<String, NoteV1> = OrgTable::new("jobs", "Note");
    static FILES: OrgTable<u64, NoteV1> =
        OrgTable::new("files", "File").weighing(|note| note.text.len() as u64 * 1_000);
    static BOOK: OrgTable<u64, NoteV1> = OrgTable::new("book", "Line").uncounted();

    fn open(disk: &FaultyDisk, steps: &'static [crate::Migration]) -> Store {
        let disk = disk.clone();
        Store::open_backend(move || disk.backend(), Clock::system(), steps).unwrap()
    }

    fn note(text: &str) -> NoteV1 {
        NoteV1 { text: text.to_owned() }
    }

    /// Counts and rows agree, by the doctor's own look.
    fn agree(store: &Store) {
        let tables: [&dyn AnyTable; 4] = [&NOTES, &PLAIN, &FILES, &BOOK];
        for table in tables {
            let report =
                store.inner.handle.read(|view| table.check(&crate::check::CheckSnapshot::over(view)));
            assert_eq!(report.unwrap().findings, Vec::<String>::new(), "{}", table.name());
        }
        assert_eq!(store.inner.handle.read(|view| sums(view)).unwrap(), Vec::new());
    }

    async fn fill(store: &Store, org: OrgId) -> JobId {
        let id = JobId::new();
        let rows = store.system().org(org);
        rows.write(move |tx| {
            tx.put(&NOTES, &id, &note("one"))?;
            tx.put(&NOTES, &id, &note("one again"))?;
            tx.put(&NOTES, &JobId::new(), &note("two"))?;
            tx.put(&PLAIN, &"a".to_owned(), &note("first"))?;
            tx.put(&PLAIN, &"a".to_owned(), &note("second, longer"))?;
            tx.put(&FILES, &7, &note("four"))?;
            tx.put(&BOOK, &1, &note("not counted"))
        })
        .await
        .unwrap();
        id
    }

    #[tokio::test]
    async fn rows_are_counted_as_they_come_change_and_go() {
        let disk = FaultyDisk::new();
        let store = open(&disk, MIGRATIONS);
        let (org, other) = (OrgId::new(), OrgId::new());
        let id = fill(&store, org).await;
        fill(&store, other).await;
        let rows = store.system().org(org);
        let used = |table| rows.read(|tx| tx.used(table)).unwrap();
        assert_eq!((used("urls").rows, used("jobs").rows, used("files").rows), (2, 1, 1));
        assert_eq!(used("book"), Used::default());
        assert!(used("files").bytes > 4_000 && used("files").bytes < 4_100, "{:?}", used("files"));
        assert_eq!(rows.read(|tx| tx.used_in_all()).unwrap().rows, 4);
        agree(&store);
        // What is refused, by itself or by an index, counts nothing; and a view sees its own changes.
        let refused = rows.write(move |tx| {
            tx.put(&PLAIN, &"b".to_owned(), &note("gone"))?;
            assert_eq!(tx.used("jobs")?.rows, 2);
            tx.put(&NOTES, &JobId::new(), &note("two"))
        });
        assert_eq!(refused.await.unwrap_err().code(), Code::AlreadyExists);
        agree(&store);
        rows.write(move |tx| {
            assert!(tx.delete(&NOTES, &id)? && tx.delete(&FILES, &7)? && !tx.delete(&FILES, &8)?);
            tx.delete(&BOOK, &1)
        })
        .await
        .unwrap();
        assert_eq!((used("urls").rows, used("files")), (1, Used::default()));
        agree(&store);
        store.close();
        let store = open(&disk, MIGRATIONS);
        agree(&store);
        assert_eq!(
            store.system().read(|tx| tx.next_used(None)).unwrap().map(|(org, _)| org),
            Some(org.min(other))
        );
    }

    #[tokio::test]
    async fn an_old_folder_is_counted_once_and_the_doctor_sees_what_differs() {
        let disk = FaultyDisk::new();
        let (org, other) = (OrgId::new(), OrgId::new());
        // As before there were counts: the layout of then, and no counts.
        let store = open(&disk, &MIGRATIONS[..2]);
        fill(&store, org).await;
        fill(&store, other).await;
        let system = store.system();
        let write = system.write(|tx| {
            for (key, _) in tx.raw().scan(TABLE, Bound::Unbounded, Bound::Unbounded, false, 1_000)? {
                tx.raw().set(TABLE, key, None);
            }
            Ok(())
        });
        write.await.unwrap();
        // A table that a later release brought is not in the list of the first count.
        for of in [org, other] {
            store.system().org(of).write(|tx| tx.delete(&FILES, &7)).await.unwrap();
        }
        let write = system.write(|tx| {
            for (key, _) in tx.raw().scan(TABLE, Bound::Unbounded, Bound::Unbounded, false, 1_000)? {
                tx.raw().set(TABLE, key, None);
            }
            Ok(())
        });
        write.await.unwrap();
        store.close();
        let store = open(&disk, MIGRATIONS);
        agree(&store);
        assert_eq!(store.system().org(org).read(|tx| tx.used_in_all()).unwrap().rows, 3);
        // A row that comes in beside the counts is found.
        let system = store.system();
        let raw = system.write(move |tx| {
            let value = base::codec::encode(&note("smuggled")).map_err(|e| Error::internal("encode", e))?;
            tx.raw().set("jobs", [org.0.as_bytes().as_slice(), b"x"].concat(), Some(value));
            Ok(())
        });
        raw.await.unwrap();
        let report =
            store.inner.handle.read(|view| PLAIN.check(&crate::check::CheckSnapshot::over(view))).unwrap();
        assert!(
            report.findings[0].contains("is counted with 1 rows") && report.findings[0].contains("and has 2")
        );
    }

    #[tokio::test]
    async fn room_is_asked_of_requests_only_and_by_what_they_add() {
        let disk = FaultyDisk::new();
        let store = open(&disk, MIGRATIONS);
        let org = OrgId::new();
        store.limit_room(Box::new(|_, adding| match adding.total.rows > 2 && adding.growth.rows > 0 {
            true => Err(Error::new(Code::QuotaExceeded)),
            false => Ok(()),
        }));
        let rows = store.system().org(org);
        let put = |n: u64| {
            rows.write(move |tx| {
                tx.unaudited("a test");
                tx.put(&FILES, &n, &note("x"))
            })
        };
        let request = || Origin::request(IpAddr::V4(Ipv4Addr::LOCALHOST), RequestId::accept(None));
        for n in 0..2 {
            request().scope(put(n)).await.unwrap();
        }
        assert_eq!(request().scope(put(2)).await.unwrap_err().code(), Code::QuotaExceeded);
        request().scope(put(1)).await.unwrap();
        assert_eq!(rows.write(|tx| tx.ask_room()).await.unwrap_err().code(), Code::QuotaExceeded);
        // The box's own work is not refused in the middle, and what ends something goes through.
        put(3).await.unwrap();
        let exempt = rows.write(|tx| {
            tx.unaudited("a test");
            tx.needs_no_room();
            tx.put(&FILES, &4, &note("x"))
        });
        request().scope(exempt).await.unwrap();
        agree(&store);
    }
}
