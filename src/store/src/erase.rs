//! Takes everything of an organization out of the store, without knowing any slice.
//!
//! Every key of an organization begins with its id, in tables and in their indexes; only entries of global indexes and
//! change records do not. So an erasure walks, in this order,
//! 1. the registered global indexes, whose entries point to rows that begin with the id: from then on no queue leads
//!    to them;
//! 2. the change records, which keep their numbers and lose what they told of;
//! 3. every table that the file has, under the id as a prefix. A table that is new is walked like the others.
//!
//! The organization stands behind a fence, so nothing comes in behind the walk. A walk is a chain of operations of
//! bounded cost, each of which says where the next goes on; begun anew it removes what is left.
//!
//! Removing a row leaves its bytes in pages that the file does not use any more; see `rewrite.rs`.

use super::changes;
use super::key::after_prefix;
use super::known::{FENCES, GLOBALS, interned};
use super::raw::View;
use super::tx::SysWrite;
use super::view::WriteView;
use base::ids::OrgId;
use base::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Bound;

/// What removing an entry costs, in looks at one.
const REMOVAL_COST: usize = 8;

/// What one operation of an erasure did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasedRows {
    /// Rows, or entries of indexes, that it removed, by table.
    pub removed: Vec<(String, u64)>,
    /// Where the next operation goes on; none at the end.
    pub next: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EraseStage {
    Globals,
    Changes,
    Rows,
}

impl EraseStage {
    const ALL: [EraseStage; 3] = [EraseStage::Globals, EraseStage::Changes, EraseStage::Rows];
}

/// Where a walk stands: behind a key of a table.
#[derive(Debug, PartialEq, Eq)]
struct EraseCursor {
    stage: EraseStage,
    table: String,
    after: Vec<u8>,
}

impl EraseCursor {
    /// stage (1) | length of the table's name (1) | name | key
    fn encode(&self) -> Vec<u8> {
        let length = u8::try_from(self.table.len()).expect("a table's name is a short literal");
        [&[self.stage as u8, length], self.table.as_bytes(), &self.after].concat()
    }

    fn decode(bytes: &[u8]) -> Option<EraseCursor> {
        let (&[stage, length], rest) = bytes.split_first_chunk::<2>()?;
        let (table, after) = rest.split_at_checked(usize::from(length))?;
        Some(EraseCursor {
            stage: *EraseStage::ALL.get(usize::from(stage))?,
            table: String::from_utf8(table.to_vec()).ok()?,
            after: after.to_vec(),
        })
    }
}

/// A key and its new value; none where it goes.
type NewRow = (Vec<u8>, Option<Vec<u8>>);

struct EraseWalk<'w> {
    view: &'w WriteView<'w>,
    org: OrgId,
    stages: &'static [EraseStage],
    budget: usize,
    removed: BTreeMap<&'static str, u64>,
}

impl SysWrite<'_> {
    /// Puts the organization behind a fence: from here on it shows no rows and takes none, whoever still holds a way to it.
    /// What it has is erased by [`SysWrite::erase_rows`]. The fence stays, unless a backup brings the organization back
    /// (`returning.rs`).
    pub fn fence(&self, org: OrgId) {
        self.raw().fence(org, true);
    }

    /// Erases up to about `cost_max` of what the store holds of a fenced organization, wherever it stands: queues and
    /// other global indexes, change records, the rows and indexes of every table, whether or not this release knows it.
    /// `from` is empty at first and then [`ErasedRows::next`]. What is left is found again when it is called anew from
    /// the beginning.
    pub fn erase_rows(&self, org: OrgId, from: &[u8], cost_max: usize) -> Result<ErasedRows> {
        self.erase(org, from, cost_max, &EraseStage::ALL)
    }

    fn erase(
        &self,
        org: OrgId,
        from: &[u8],
        cost_max: usize,
        stages: &'static [EraseStage],
    ) -> Result<ErasedRows> {
        if !self.is_fenced(org) {
            return Err(Error::internal("erase an organization", "it stands behind no fence"));
        }
        rows(self.raw(), org, from, cost_max, stages)
    }

    /// The first part of [`SysWrite::erase_rows`] alone: entries of queues and other global indexes, so that nobody is led
    /// to rows behind a fence while they still stand.
    pub fn erase_queues(&self, org: OrgId, from: &[u8], cost_max: usize) -> Result<ErasedRows> {
        self.erase(org, from, cost_max, &[EraseStage::Globals])
    }

    /// Names indexes that reach across organizations and were filled before such a register was kept.
    pub(super) fn register_globals(&self, indexes: &[&'static str]) {
        indexes.iter().for_each(|index| self.raw().register_global(index));
    }
}

/// One operation of the walk.
fn rows(
    view: &WriteView<'_>,
    org: OrgId,
    from: &[u8],
    cost_max: usize,
    stages: &'static [EraseStage],
) -> Result<ErasedRows> {
    let damaged = || Error::internal("erase an organization", "the place to go on is damaged");
    let begin = match from {
        [] => EraseCursor { stage: EraseStage::Globals, table: String::new(), after: Vec::new() },
        from => EraseCursor::decode(from).ok_or_else(damaged)?,
    };
    let mut walk =
        EraseWalk { view, org, stages, budget: cost_max.max(REMOVAL_COST), removed: BTreeMap::new() };
    let next = walk.go(&begin)?;
    let removed = walk.removed.into_iter().map(|(table, count)| (table.to_owned(), count)).collect();
    Ok(ErasedRows { removed, next: next.map(|place| place.encode()) })
}

impl EraseWalk<'_> {
    /// Goes on from `begin` until the budget is used up; gives where.
    fn go(&mut self, begin: &EraseCursor) -> Result<Option<EraseCursor>> {
        for stage in self.stages.iter().copied().filter(|stage| *stage >= begin.stage) {
            let resumed = stage == begin.stage;
            for table in self.tables(stage)? {
                if resumed && table < begin.table.as_str() {
                    continue;
                }
                let after: &[u8] = if resumed && table == begin.table { &begin.after } else { &[] };
                if self.budget == 0 {
                    return Ok(Some(EraseCursor { stage, table: table.to_owned(), after: after.to_vec() }));
                }
                if let Some(after) = self.table(stage, table, after)? {
                    return Ok(Some(EraseCursor { stage, table: table.to_owned(), after }));
                }
            }
        }
        Ok(None)
    }

    fn tables(&self, stage: EraseStage) -> Result<Vec<&'static str>> {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        match stage {
            EraseStage::Globals => {
                let names = self.view.scan(GLOBALS, everything.0, everything.1, false, usize::MAX)?;
                names
                    .iter()
                    .map(|(name, _)| std::str::from_utf8(name).map(interned))
                    .collect::<Result<_, _>>()
                    .map_err(|e| Error::internal("read the register of global indexes", e))
            }
            EraseStage::Changes => Ok(vec![changes::TABLE]),
            EraseStage::Rows => {
                let mut tables = self.view.tables()?;
                tables.retain(|table| ![FENCES, GLOBALS, changes::TABLE, super::META].contains(table));
                Ok(tables)
            }
        }
    }

    /// Walks one table behind `after`; the last key when the budget ended first.
    fn table(&mut self, stage: EraseStage, table: &'static str, after: &[u8]) -> Result<Option<Vec<u8>>> {
        match stage {
            EraseStage::Globals => self.look_through(table, after, |key, value, org| {
                value.starts_with(org.0.as_bytes()).then(|| (key.to_vec(), None))
            }),
            EraseStage::Changes => self.look_through(table, after, |key, value, org| {
                changes::blanked(value, org).map(|blank| (key.to_vec(), Some(blank)))
            }),
            EraseStage::Rows => self.remove_under_prefix(table, after),
        }
    }

    /// Looks at every entry and does to it what `change` says.
    fn look_through(
        &mut self,
        table: &'static str,
        after: &[u8],
        change: fn(&[u8], &[u8], OrgId) -> Option<NewRow>,
    ) -> Result<Option<Vec<u8>>> {
        let low = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(after) };
        // Fewer than this means that the end was seen; as many use the budget up.
        let entries = self.view.scan(table, low, Bound::Unbounded, false, self.budget)?;
        for (key, value) in entries {
            self.budget = self.budget.saturating_sub(1);
            if let Some((key, value)) = change(&key, &value, self.org) {
                self.view.set(table, key, value);
                *self.removed.entry(table).or_default() += 1;
                self.budget = self.budget.saturating_sub(REMOVAL_COST);
            }
            if self.budget == 0 {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    fn remove_under_prefix(&mut self, table: &'static str, after: &[u8]) -> Result<Option<Vec<u8>>> {
        let prefix = self.org.0.as_bytes().as_slice();
        let end = after_prefix(prefix);
        let low = if after.is_empty() { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let high = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let limit = self.budget.div_ceil(REMOVAL_COST);
        let keys = self.view.keys_before(table, low, high, limit)?;
        if keys.is_empty() {
            return Ok(None);
        }
        *self.removed.entry(table).or_default() += keys.len() as u64;
        self.budget = self.budget.saturating_sub(keys.len() * REMOVAL_COST);
        let last = keys.last().cloned().filter(|_| keys.len() == limit);
        for key in keys {
            self.view.set(table, key, None);
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultyDisk;
    use crate::{Index, MIGRATIONS, Order, OrgStore, OrgTable, Store, SysTable};
    use base::Code;
    use base::clock::Clock;
    use base::codec::Record;
    use base::ids::JobId;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct CardV1 {
        title: String,
    }

    impl Record for CardV1 {}

    static BY_TITLE: Index<String, CardV1> =
        Index::unique("cards.by_title", |card, keys| keys.add(&card.title));
    static BY_LENGTH: Index<u64, CardV1> =
        Index::new("cards.by_length", |card, keys| keys.add(card.title.len() as u64));
    static QUEUE: Index<String, CardV1> = Index::global("cards.queue", |card, keys| keys.add(&card.title));
    static TOKENS: Index<String, CardV1> = Index::global_unique("cards.tokens", |card, keys| {
        if card.title.starts_with("token") {
            keys.add(&card.title);
        }
    });
    static CARDS: OrgTable<JobId, CardV1> =
        OrgTable::new("cards", "Card").indexed(&[&BY_TITLE, &BY_LENGTH, &QUEUE, &TOKENS]).fed();
    static NAMED: OrgTable<String, CardV1> = OrgTable::new("named_cards", "Card");
    static REGISTRY: SysTable<OrgId, CardV1> = SysTable::new("registry", "Organization");

    fn store_on(disk: &FaultyDisk) -> Store {
        let disk = disk.clone();
        Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap()
    }

    fn card(title: &str) -> CardV1 {
        CardV1 { title: title.to_owned() }
    }

    async fn seed(store: &Store, org: OrgId, cards: usize) {
        store
            .system()
            .write(move |tx| {
                tx.put(&REGISTRY, &org, &card("registered"))?;
                let rows = tx.org(org);
                for i in 0..cards {
                    rows.put(&CARDS, &JobId::new(), &card(&format!("card {i}")))?;
                    rows.put(&NAMED, &format!("name {i}"), &card("named"))?;
                }
                rows.put(&CARDS, &JobId::new(), &card(&format!("token of {org}")))
            })
            .await
            .unwrap();
    }

    type Dump = Vec<(&'static str, Vec<u8>, Vec<u8>)>;

    /// Every entry of every table whose key or value has the organization's id in it.
    fn entries_naming(store: &Store, org: OrgId) -> Dump {
        let handle = &store.inner.handle;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let tx = redb::ReadableDatabase::begin_read(&*handle.database().unwrap()).unwrap();
        let names: Vec<_> =
            tx.list_tables().unwrap().map(|table| interned(redb::TableHandle::name(&table))).collect();
        let names_it = |bytes: &[u8]| bytes.windows(16).any(|part| part == org.0.as_bytes());
        let mut found = Vec::new();
        for table in names {
            let rows = handle.read(|view| view.scan(table, all.0, all.1, false, usize::MAX)).unwrap();
            found.extend(
                rows.into_iter()
                    .filter(|(key, value)| names_it(key) || names_it(value))
                    .map(|(key, value)| (table, key, value)),
            );
        }
        found
    }

    async fn fence(store: &Store, org: OrgId) {
        store
            .system()
            .write(move |tx| {
                tx.fence(org);
                Ok(())
            })
            .await
            .unwrap();
    }

    async fn erase(store: &Store, org: OrgId, cost_max: usize) -> BTreeMap<String, u64> {
        let (mut from, mut removed) = (Vec::new(), BTreeMap::new());
        for _ in 0..10_000 {
            let step = store.system().write(move |tx| tx.erase_rows(org, &from, cost_max)).await.unwrap();
            for (table, count) in step.removed {
                *removed.entry(table).or_default() += count;
            }
            match step.next {
                Some(next) => from = next,
                None => return removed,
            }
        }
        panic!("the walk does not end");
    }

    /// What the seed of an organization with forty cards has in queues.
    fn in_queues() -> Vec<(String, u64)> {
        vec![("cards.queue".to_owned(), 41), ("cards.tokens".to_owned(), 1)]
    }

    #[tokio::test]
    async fn everything_goes_wherever_it_stands_and_nothing_else_does() {
        for cost_max in [1, 50, 1_000_000] {
            let store = store_on(&FaultyDisk::new());
            let (gone, kept) = (OrgId::new(), OrgId::new());
            seed(&store, gone, 40).await;
            seed(&store, kept, 25).await;
            let before = entries_naming(&store, kept);
            let tables: std::collections::BTreeSet<_> =
                entries_naming(&store, gone).into_iter().map(|(table, ..)| table).collect();
            let expected = [
                "cards",
                "cards.by_length",
                "cards.by_title",
                "cards.queue",
                "cards.tokens",
                "changes",
                "named_cards",
                "registry",
                "usage",
            ];
            assert_eq!(tables.into_iter().collect::<Vec<_>>(), expected, "the test can fail");
            let last = *store.sequence().borrow();
            fence(&store, gone).await;
            let queues = store.system().write(move |tx| tx.erase_queues(gone, &[], 1_000_000)).await.unwrap();
            assert_eq!(queues, ErasedRows { removed: in_queues(), next: None });
            let removed = erase(&store, gone, cost_max).await;
            let counts: Vec<_> = removed.iter().map(|(table, count)| (table.as_str(), *count)).collect();
            let rest =
                expected.into_iter().filter(|table| !in_queues().iter().any(|(known, _)| known == table));
            assert_eq!(counts, rest.zip([41, 41, 41, 41, 40, 1, 3]).collect::<Vec<_>>());
            let left: Vec<_> = entries_naming(&store, gone).into_iter().map(|(table, ..)| table).collect();
            assert_eq!(left, [FENCES]);
            assert_eq!(entries_naming(&store, kept), before);
            assert!(erase(&store, gone, cost_max).await.is_empty(), "once more does nothing");
            // Consumers find every number, and new records go on behind the last.
            let told = store.system().read(|tx| tx.changes(0, 1_000)).unwrap();
            assert_eq!(
                told.iter().map(|change| change.sequence).collect::<Vec<_>>(),
                (1..=last).collect::<Vec<_>>()
            );
            assert!(
                told.iter().all(|change| change.org == kept || (change.table.is_empty() && change.deleted))
            );
            seed(&store, OrgId::new(), 1).await;
            assert_eq!(*store.sequence().borrow(), last + 2);
        }
    }

    /// A slice of a later release: its table and its index are named nowhere but in it.
    #[tokio::test]
    async fn a_table_that_nobody_declared_here_is_covered() {
        static LATER_QUEUE: Index<String, CardV1> = Index::global("later.queue", |card, keys| {
            keys.add(&card.title);
        });
        static LATER: OrgTable<u64, CardV1> = OrgTable::new("later", "Later").indexed(&[&LATER_QUEUE]);
        let disk = FaultyDisk::new();
        let org = OrgId::new();
        let store = store_on(&disk);
        store.system().org(org).write(|tx| tx.put(&LATER, &1, &card("later"))).await.unwrap();
        store.close();
        // Opened by a process that has never used the table.
        let store = store_on(&disk);
        fence(&store, org).await;
        let removed = erase(&store, org, 1_000).await;
        assert_eq!(
            removed.into_iter().collect::<Vec<_>>(),
            [("later".to_owned(), 1), ("later.queue".to_owned(), 1), ("usage".to_owned(), 2)]
        );
    }

    fn looks_empty(store: &Store, org: &OrgStore, id: JobId, token: &str) {
        org.read(|tx| {
            assert_eq!(tx.get(&CARDS, &id)?, None);
            assert_eq!(tx.lookup(&CARDS, &BY_TITLE, token)?, None);
            assert!(tx.scan(&CARDS, None, Order::Ascending, 10)?.is_empty());
            assert!(tx.keys("cards", None, 10)?.is_empty());
            assert!(!tx.exists(&BY_TITLE, token)?);
            assert_eq!(tx.count(&CARDS, 10)?, 0);
            Ok(())
        })
        .unwrap();
        let system = store.system();
        let by_token = system.read(|tx| tx.lookup_global(&CARDS, &TOKENS, token)).unwrap();
        assert!(by_token.is_none());
        assert!(system.read(|tx| Ok(tx.is_fenced(org.id()))).unwrap());
    }

    /// A commit that failed at its last step is answered as failed, and may be in the file all the same: then its fence
    /// holds from the reopening on.
    #[tokio::test]
    async fn a_fence_in_the_file_holds_also_when_its_commit_failed() {
        let mut reached = 0;
        for sound in 0..4 {
            let disk = FaultyDisk::new();
            let store = store_on(&disk);
            let org = OrgId::new();
            seed(&store, org, 1).await;
            disk.fail_syncs_after(Some(sound));
            let fenced = store
                .system()
                .write(move |tx| {
                    tx.fence(org);
                    Ok(())
                })
                .await;
            disk.fail_syncs_after(None);
            // Writes are answered again when the file is open again.
            let mut written = Err(Error::unavailable("not tried"));
            for _ in 0..1_000 {
                written = store.system().write(|tx| tx.forget_changes(0, 1)).await;
                if written.is_ok() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            written.unwrap();
            let in_file = store.inner.handle.read(|view| {
                use crate::raw::View;
                view.scan(FENCES, std::ops::Bound::Unbounded, std::ops::Bound::Unbounded, false, 10)
            });
            let in_file = !in_file.unwrap().is_empty();
            assert_eq!(store.system().read(|tx| Ok(tx.is_fenced(org))).unwrap(), in_file);
            assert!(in_file || fenced.is_err());
            reached += usize::from(in_file && fenced.is_err());
        }
        assert!(reached > 0, "the test can fail: a commit that failed has reached the file");
    }

    #[tokio::test]
    async fn behind_a_fence_nothing_is_seen_and_nothing_gets_in() {
        let disk = FaultyDisk::new();
        let mut store = store_on(&disk);
        let (org, id) = (OrgId::new(), JobId::new());
        let token = "token one";
        let held = store.system().org(org);
        held.write(move |tx| tx.put(&CARDS, &id, &card(token))).await.unwrap();
        // Also for operations of the same batch, and for the one that puts the fence up.
        let refused = store
            .system()
            .write(move |tx| {
                let early = tx.org(org);
                tx.fence(org);
                early.put(&CARDS, &id, &card("early"))?;
                tx.org(org).put(&CARDS, &id, &card("late"))
            })
            .await;
        assert_eq!(refused.unwrap_err().code(), Code::OrgNotFound);
        assert!(
            held.read(|tx| tx.get(&CARDS, &id)).unwrap().is_some(),
            "a refused operation puts up no fence"
        );
        fence(&store, org).await;
        for _ in 0..2 {
            let held = store.system().org(org);
            looks_empty(&store, &held, id, token);
            let refused = held.write(move |tx| tx.put(&CARDS, &id, &card("late"))).await;
            assert_eq!(refused.unwrap_err().code(), Code::OrgNotFound);
            assert!(!held.write(move |tx| tx.delete(&CARDS, &id)).await.unwrap());
            // What erases them finds them all the same.
            let row = store.system().read(|tx| tx.behind_fence(org).get(&CARDS, &id)).unwrap();
            assert_eq!(row, Some(card(token)));
            store.close();
            store = store_on(&disk);
        }
        let other = OrgId::new();
        let error = store.system().write(move |tx| tx.erase_rows(other, &[], 10)).await.unwrap_err();
        assert_eq!(error.code(), Code::InternalError, "only what stands behind a fence is erased");
        let error = store.system().write(move |tx| tx.erase_rows(org, &[9], 10)).await.unwrap_err();
        assert_eq!(error.code(), Code::InternalError);
    }

    #[tokio::test]
    async fn power_that_goes_between_two_operations_costs_nothing() {
        let disk = FaultyDisk::new();
        let (gone, kept) = (OrgId::new(), OrgId::new());
        let store = store_on(&disk);
        seed(&store, gone, 30).await;
        seed(&store, kept, 30).await;
        let before = entries_naming(&store, kept);
        fence(&store, gone).await;
        let mut from = Vec::new();
        let mut image = disk.clone();
        let mut open = store;
        for round in 0..1_000_u32 {
            let place = from.clone();
            let step = open.system().write(move |tx| tx.erase_rows(gone, &place, 60)).await.unwrap();
            let Some(next) = step.next else { break };
            // Every second time the place is lost too, and the walk begins anew.
            from = if round.is_multiple_of(2) { Vec::new() } else { next };
            image = image.power_loss(|| round.is_multiple_of(3));
            open = store_on(&image);
        }
        let left: Vec<_> = entries_naming(&open, gone).into_iter().map(|(table, ..)| table).collect();
        assert_eq!(left, [FENCES]);
        assert_eq!(entries_naming(&open, kept), before);
    }
}
