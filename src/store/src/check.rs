//! Comparing the rows of any table with its indexes, without knowing the slice: for `gleaner doctor`.

use super::counts::Used;
use super::key::Key;
use super::migrate;
use super::raw::{RawRow, View};
use super::scope::Scope;
use super::table::{Reach, Table};
use super::tx::index_entry;
use super::usage;
use base::Result;
use base::codec::{self, Record};
use base::ids::OrgId;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Rows of one look into the store.
const CHUNK_ROWS: usize = 1_000;
/// Findings of one table that are reported; the rest is a number.
const FINDINGS_MAX: usize = 20;

/// What a walk over one table found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    pub rows: u64,
    /// Entries of its indexes.
    pub entries: u64,
    /// What is wrong, in words; empty when rows and indexes agree.
    pub findings: Vec<String>,
    /// What is as an older release left it, and in order.
    pub older: Vec<String>,
    hidden: u64,
    /// What its rows come to, by organization; empty where that is not counted.
    pub(super) used: BTreeMap<OrgId, Used>,
}

impl TableReport {
    fn add(&mut self, finding: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.hidden += 1;
        }
    }
}

/// The moment that is looked at.
pub struct CheckSnapshot<'a>(&'a dyn View);

impl<'a> CheckSnapshot<'a> {
    pub(super) fn over(view: &'a dyn View) -> CheckSnapshot<'a> {
        CheckSnapshot(view)
    }

    /// Hands every row of a table to `look`, in key order.
    fn rows(&self, table: &'static str, mut look: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut after = None::<Vec<u8>>;
        loop {
            let low = after.as_deref().map_or(Unbounded, Excluded);
            let rows: Vec<RawRow> = self.0.scan(table, low, Unbounded, false, CHUNK_ROWS)?;
            for (key, value) in &rows {
                look(key, value)?;
            }
            match rows.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    /// Whether the organization whose id these bytes begin with is being erased: nothing about it need agree any more.
    fn is_fenced(&self, bytes: &[u8]) -> bool {
        bytes.get(..16).and_then(OrgId::decode).is_some_and(|org| self.0.is_fenced(org))
    }
}

/// A table without its types.
pub trait AnyTable: Sync {
    fn name(&self) -> &'static str;

    /// Whether its rows belong to organizations.
    fn is_of_orgs(&self) -> bool;

    /// Compares every row with every index, both ways.
    fn check(&self, walk: &CheckSnapshot<'_>) -> Result<TableReport>;
}

impl<S: Scope, K: Key, V: Record> AnyTable for Table<S, K, V> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_of_orgs(&self) -> bool {
        S::PREFIX_BYTES > 0
    }

    fn check(&self, walk: &CheckSnapshot<'_>) -> Result<TableReport> {
        let mut report = TableReport::default();
        let mut due = Vec::with_capacity(self.indexes.len());
        for index in self.indexes {
            let mut before = 0;
            if let Some(name) = index.form().before {
                walk.rows(name, |_, _| {
                    before += 1;
                    Ok(())
                })?;
            }
            due.push(ExpectedEntries { entries: 0, before, unmoved: 0 });
        }
        walk.rows(self.name, |key, value| self.check_row(walk, key, value, &mut due, &mut report))?;
        for (index, due) in self.indexes.iter().map(|index| index.form()).zip(due) {
            if let Some(name) = index.before.filter(|_| due.before > 0) {
                report.older.push(format!(
                    "the folder is of an older release: {} entries of the index {name} move to {} at the first start",
                    due.before, index.name
                ));
                if due.unmoved > due.before {
                    let lost = due.unmoved - due.before;
                    report.add(format!("{lost} rows are neither in the index {} nor in {name}", index.name));
                }
            }
            let due = due.entries;
            let mut entries = 0u64;
            walk.rows(index.name, |key, value| {
                let named = if index.reach == Reach::Global { value } else { key };
                entries += u64::from(S::PREFIX_BYTES == 0 || !walk.is_fenced(named));
                Ok(())
            })?;
            report.entries += entries;
            // Fewer than due were found missing one by one above.
            if entries > due {
                report.add(format!("the index {} has {} entries without a row", index.name, entries - due));
            }
        }
        if migrate::is_done(walk.0, usage::FIRST_COUNT)? {
            for finding in usage::differences(walk.0, self.name, &report.used)? {
                report.add(finding);
            }
        }
        if report.hidden > 0 {
            report.findings.push(format!("and {} more findings", report.hidden));
        }
        Ok(report)
    }
}

impl<S: Scope, K: Key, V: Record> Table<S, K, V> {
    fn check_row(
        &self,
        walk: &CheckSnapshot<'_>,
        key: &[u8],
        value: &[u8],
        due: &mut [ExpectedEntries],
        report: &mut TableReport,
    ) -> Result<()> {
        let Some((scope, primary)) =
            key.split_at_checked(S::PREFIX_BYTES).filter(|(_, primary)| K::decode(primary).is_some())
        else {
            report.add(format!("the key {} is damaged", hex(key)));
            return Ok(());
        };
        if S::PREFIX_BYTES > 0 && walk.is_fenced(scope) {
            return Ok(());
        }
        report.rows += 1;
        let row: V = match codec::decode(value) {
            Ok(row) => row,
            Err(reason) => {
                report.add(format!("the row {} cannot be read: {reason}", hex(key)));
                return Ok(());
            }
        };
        if self.is_counted()
            && let Some(org) = OrgId::decode(scope)
        {
            report.used.entry(org).or_default().add(self.size(key, value, Some(&row)));
        }
        for (index, due) in self.indexes.iter().zip(due) {
            let (mut keys, index) = (index.keys_of(&row), index.form());
            keys.sort_unstable();
            keys.dedup();
            for index_key in keys {
                due.entries += 1;
                let (entry, target) = index_entry(index, scope, &index_key, primary);
                match walk.0.get(index.name, &entry)? {
                    Some(held) if held == target => {}
                    Some(_) => report.add(format!(
                        "the row {} stands in the index {} under another's name",
                        hex(key),
                        index.name
                    )),
                    None if due.before > 0 => due.unmoved += 1,
                    None => report.add(format!("the row {} is not in the index {}", hex(key), index.name)),
                }
            }
        }
        Ok(())
    }
}

/// What an index should have.
struct ExpectedEntries {
    /// Entries, by the rows.
    entries: u64,
    /// Entries of the index that it came instead of.
    before: u64,
    /// Rows that lack their entry, and may have one there.
    unmoved: u64,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultyDisk;
    use crate::{Index, MIGRATIONS, OrgTable, Store};
    use base::clock::Clock;
    use base::ids::JobId;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Serialize, Deserialize)]
    struct CardV1 {
        words: Vec<String>,
    }

    impl Record for CardV1 {}

    static BY_WORD: Index<String, CardV1> = Index::new("cards.by_word", |card, keys| {
        card.words.iter().for_each(|word| keys.add(word));
    });
    static QUEUE: Index<u64, CardV1> = Index::global("cards.queue", |card, keys| {
        keys.add(card.words.len() as u64);
    });
    static CARDS: OrgTable<JobId, CardV1> = OrgTable::new("cards", "Card").indexed(&[&BY_WORD, &QUEUE]);

    fn report(store: &Store) -> TableReport {
        store.inner.handle.read(|view| CARDS.check(&CheckSnapshot::over(view))).unwrap()
    }

    async fn set(store: &Store, table: &'static str, key: Vec<u8>, value: Option<Vec<u8>>) {
        store
            .system()
            .write(move |tx| {
                tx.raw().set(table, key, value);
                Ok(())
            })
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn rows_and_indexes_are_compared_both_ways() {
        let disk = FaultyDisk::new();
        let store = Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap();
        let (org, other, id) = (OrgId::new(), OrgId::new(), JobId::new());
        for org in [org, other] {
            let words = ["red", "blue", "red"].map(str::to_owned).to_vec();
            let rows = store.system().org(org);
            rows.write(move |tx| tx.put(&CARDS, &id, &CardV1 { words })).await.unwrap();
        }
        let sound = report(&store);
        assert_eq!((sound.rows, sound.entries, sound.findings.as_slice()), (2, 6, [].as_slice()));

        let key = |parts: &[&[u8]]| [&[org.0.as_bytes().as_slice()], parts].concat().concat();
        let red = key(&[b"red\0\x01", id.0.as_bytes()]);
        set(&store, BY_WORD.name(), red.clone(), None).await;
        let found = report(&store).findings;
        assert!(found.len() == 1 && found[0].ends_with("is not in the index cards.by_word"), "{found:?}");
        set(&store, BY_WORD.name(), red, Some(JobId::new().0.as_bytes().to_vec())).await;
        assert!(report(&store).findings[0].contains("under another's name"));
        set(&store, BY_WORD.name(), key(&[b"red\0\x01", id.0.as_bytes()]), Some(id.0.as_bytes().to_vec()))
            .await;
        set(&store, BY_WORD.name(), key(&[b"green\0\x01", id.0.as_bytes()]), Some(id.0.as_bytes().to_vec()))
            .await;
        assert_eq!(report(&store).findings, ["the index cards.by_word has 1 entries without a row"]);
        set(&store, CARDS.name, key(&[id.0.as_bytes()]), Some(vec![9, 9])).await;
        assert!(report(&store).findings[0].contains("cannot be read"));
        set(&store, CARDS.name, key(&[b"short"]), Some(vec![1, 0])).await;
        assert!(report(&store).findings.iter().any(|one| one.contains("is damaged")));
        // Of an organization that is being erased nothing need agree.
        let system = store.system();
        let fence = system.write(move |tx| {
            tx.fence(org);
            Ok(())
        });
        fence.await.unwrap();
        let left = report(&store);
        assert!(left.rows == 1 && left.findings.iter().all(|one| one.contains("is damaged")), "{left:?}");
    }

    /// An index that came in the place of another: what still stands there is no damage, and what stands in neither is.
    #[tokio::test]
    async fn what_an_older_release_left_is_no_damage() {
        static PLACE: Index<String, CardV1> =
            Index::new("cards.place", |card: &CardV1, keys| keys.add(&card.words[0]))
                .instead_of("cards.before");
        static PLACED: OrgTable<JobId, CardV1> = OrgTable::new("placed", "Card").indexed(&[&PLACE]);
        let disk = FaultyDisk::new();
        let store = Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap();
        let report = || store.inner.handle.read(|view| PLACED.check(&CheckSnapshot::over(view))).unwrap();
        let org = store.system().org(OrgId::new());
        let ids = [JobId::new(), JobId::new()];
        for id in ids {
            let row = CardV1 { words: vec!["red".to_owned()] };
            org.write(move |tx| tx.put(&PLACED, &id, &row)).await.unwrap();
        }
        assert_eq!((report().findings.len(), report().older.len()), (0, 0));
        let entry =
            |id: JobId| [org.id().0.as_bytes().as_slice(), b"red\0\x01".as_slice(), id.0.as_bytes()].concat();
        set(&store, PLACE.name(), entry(ids[0]), None).await;
        assert_eq!(report().findings.len(), 1);
        set(&store, "cards.before", b"somewhere".to_vec(), Some(ids[0].0.as_bytes().to_vec())).await;
        let left = report();
        assert!(left.findings.is_empty(), "{left:?}");
        assert!(
            left.older[0].contains("1 entries of the index cards.before move to cards.place"),
            "{left:?}"
        );
        set(&store, PLACE.name(), entry(ids[1]), None).await;
        assert_eq!(report().findings, ["1 rows are neither in the index cards.place nor in cards.before"]);
    }
}
