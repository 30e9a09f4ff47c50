//! Comparing the rows of any table with its indexes, without knowing the slice: for `gleaner doctor`.
//!
//! Rows are what there is, and everything else here is made of them: entries of indexes, counts, the register of indexes that
//! reach across organizations. So a walk can say of each difference what puts it right ([`Fix`]).

use super::counts::{Fix, Used};
use super::engine::DatabaseHandle;
use super::key::Key;
use super::known::GLOBALS;
use super::migrate;
use super::raw::{RawRow, View};
use super::scope::Scope;
use super::table::{AnyIndex, IndexForm, Reach, Table};
use super::tx::{SysWrite, index_entry};
use super::usage;
use base::Result;
use base::codec::{self, Record};
use base::ids::OrgId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::Deref;

/// Rows of one look into the store.
const CHUNK_ROWS: usize = 1_000;
/// Rows of one look into a store that is served: nobody may hold a moment for long.
const LIVE_CHUNK_ROWS: usize = 250;
/// Findings of one table that are reported; the rest is a number.
const FINDINGS_MAX: usize = 20;
/// Fixes of one table that one walk gathers; another walk finds the next ones.
const FIXES_MAX: usize = 100_000;

/// Something wrong with a table, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFinding {
    pub text: String,
    /// Whether it is about what is made of the rows, and can be made anew.
    pub is_derived: bool,
}

impl Deref for TableFinding {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for TableFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T: AsRef<str>> PartialEq<T> for TableFinding {
    fn eq(&self, other: &T) -> bool {
        self.text == other.as_ref()
    }
}

/// What a walk over one table found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    pub rows: u64,
    /// Entries of its indexes.
    pub entries: u64,
    /// What is wrong; empty when rows and indexes agree.
    pub findings: Vec<TableFinding>,
    /// What is as an older release left it, and in order.
    pub older: Vec<String>,
    /// What puts right what is derived, as far as one walk gathers it.
    pub fixes: Vec<Fix>,
    hidden: [u64; 2],
    /// What its rows come to, by organization; empty where that is not counted.
    pub(super) used: BTreeMap<OrgId, Used>,
    /// Organizations with a row here of which nobody knows what it counts.
    pub(super) uncertain: BTreeSet<OrgId>,
}

impl TableReport {
    fn add(&mut self, finding: String, fix: Option<Fix>) {
        let is_derived = fix.is_some();
        if let Some(fix) = fix.filter(|_| self.fixes.len() < FIXES_MAX) {
            self.fixes.push(fix);
        }
        self.say(finding, is_derived);
    }

    fn say(&mut self, text: String, is_derived: bool) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(TableFinding { text, is_derived });
        } else {
            self.hidden[usize::from(is_derived)] += 1;
        }
    }

    fn close(&mut self) {
        for (hidden, is_derived) in self.hidden.into_iter().zip([false, true]) {
            if hidden > 0 {
                self.findings.push(TableFinding { text: format!("and {hidden} more findings"), is_derived });
            }
        }
    }
}

/// The moment that is looked at; or, of a store that is served, the moments: each part of the walk has one of its own.
pub enum CheckSnapshot<'a> {
    #[doc(hidden)]
    One(Moment<'a>),
    #[doc(hidden)]
    Each(Moments<'a>),
}

/// One moment.
pub struct Moment<'a>(&'a dyn View);

/// As many as there are parts.
pub struct Moments<'a>(&'a DatabaseHandle);

impl<'a> CheckSnapshot<'a> {
    pub(super) fn over(view: &'a dyn View) -> CheckSnapshot<'a> {
        CheckSnapshot::One(Moment(view))
    }

    pub(super) fn living(handle: &'a DatabaseHandle) -> CheckSnapshot<'a> {
        CheckSnapshot::Each(Moments(handle))
    }

    fn look<T>(&self, run: impl FnOnce(&dyn View) -> Result<T>) -> Result<T> {
        match self {
            CheckSnapshot::One(Moment(view)) => run(*view),
            CheckSnapshot::Each(Moments(handle)) => handle.read(|view| run(view)),
        }
    }

    /// Whether everything is seen at one moment, so that two walks can be compared.
    fn is_one(&self) -> bool {
        matches!(self, CheckSnapshot::One(_))
    }

    /// Hands every row of a table to `look`, in key order, with the moment it is of.
    fn rows(
        &self,
        table: &'static str,
        mut look: impl FnMut(&dyn View, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let limit = if self.is_one() { CHUNK_ROWS } else { LIVE_CHUNK_ROWS };
        let mut after = None::<Vec<u8>>;
        loop {
            let last = self.look(|view| {
                let low = after.as_deref().map_or(Unbounded, Excluded);
                let rows: Vec<RawRow> = view.scan(table, low, Unbounded, false, limit)?;
                for (key, value) in &rows {
                    look(view, key, value)?;
                }
                Ok(rows.into_iter().next_back())
            })?;
            match last {
                Some((last, _)) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    fn entries(&self, table: &'static str) -> Result<u64> {
        let mut entries = 0;
        self.rows(table, |_, _, _| {
            entries += 1;
            Ok(())
        })?;
        Ok(entries)
    }
}

/// Whether the organization whose id these bytes begin with is being erased: nothing about it need agree any more.
fn is_fenced(view: &dyn View, bytes: &[u8]) -> bool {
    bytes.get(..16).and_then(OrgId::decode).is_some_and(|org| view.is_fenced(org))
}

/// A table without its types.
pub trait AnyTable: Sync {
    fn name(&self) -> &'static str;

    /// The names of its indexes.
    fn index_names(&self) -> Vec<&'static str>;

    /// The indexes that came in the place of older ones: the older one's name, and the new one's.
    fn moved_indexes(&self) -> Vec<(&'static str, &'static str)>;

    /// Whether its rows belong to organizations.
    fn is_of_orgs(&self) -> bool;

    /// Compares every row with every index, both ways.
    fn check(&self, walk: &CheckSnapshot<'_>) -> Result<TableReport>;

    /// Puts a row of a backup in place, or removes one, with its index entries, and counts it; see `returning.rs`.
    fn bring(&self, tx: &SysWrite<'_>, key: &[u8], value: Option<&[u8]>) -> Result<()>;
}

impl<S: Scope, K: Key, V: Record> AnyTable for Table<S, K, V> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn index_names(&self) -> Vec<&'static str> {
        self.indexes.iter().map(|index| index.form().name).collect()
    }

    fn moved_indexes(&self) -> Vec<(&'static str, &'static str)> {
        let forms = self.indexes.iter().map(|index| index.form());
        forms.filter_map(|form| Some((form.before?, form.name))).collect()
    }

    fn is_of_orgs(&self) -> bool {
        S::PREFIX_BYTES > 0
    }

    fn check(&self, walk: &CheckSnapshot<'_>) -> Result<TableReport> {
        let mut report = TableReport::default();
        let mut due = Vec::with_capacity(self.indexes.len());
        for index in self.indexes {
            let before = index.form().before.map_or(Ok(0), |name| walk.entries(name))?;
            due.push(ExpectedEntries { entries: 0, before, unmoved: 0 });
        }
        walk.rows(self.name, |view, key, value| self.check_row(view, key, value, &mut due, &mut report))?;
        for (index, due) in self.indexes.iter().zip(due) {
            self.check_index(walk, *index, &due, &mut report)?;
        }
        if walk.is_one() && walk.look(|view| migrate::is_done(view, usage::FIRST_COUNT))? {
            let differences = walk.look(|view| usage::differences(view, self.name, &report.used))?;
            for (org, finding, fix) in differences {
                if org.is_none_or(|org| !report.uncertain.contains(&org)) {
                    report.add(finding, Some(fix));
                }
            }
        }
        report.close();
        Ok(report)
    }

    fn bring(&self, tx: &SysWrite<'_>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.bring_row(tx.raw(), key, value)
    }
}

impl<S: Scope, K: Key, V: Record> Table<S, K, V> {
    /// A row against the indexes that should name it.
    fn check_row(
        &self,
        view: &dyn View,
        key: &[u8],
        value: &[u8],
        due: &mut [ExpectedEntries],
        report: &mut TableReport,
    ) -> Result<()> {
        let Some((scope, primary)) =
            key.split_at_checked(S::PREFIX_BYTES).filter(|(_, primary)| K::decode(primary).is_some())
        else {
            report.add(format!("the key {} is damaged", hex(key)), None);
            return Ok(());
        };
        if S::PREFIX_BYTES > 0 && is_fenced(view, scope) {
            return Ok(());
        }
        report.rows += 1;
        let row: V = match codec::decode(value) {
            Ok(row) => row,
            Err(reason) => {
                report.add(format!("the row {} cannot be read: {reason}", hex(key)), None);
                report.uncertain.extend(OrgId::decode(scope));
                return Ok(());
            }
        };
        if self.is_counted()
            && let Some(org) = OrgId::decode(scope)
        {
            report.used.entry(org).or_default().add(self.size(key, value, Some(&row)));
        }
        for (index, due) in self.indexes.iter().zip(due) {
            let form = index.form();
            for (entry, target) in entries_of(*index, scope, primary, &row) {
                due.entries += 1;
                let fix = || Fix { table: form.name, key: entry.clone(), value: Some(target.clone()) };
                match view.get(form.name, &entry)? {
                    Some(held) if held == target => {}
                    Some(held) => {
                        // Two rows that both are right for one place: nobody knows which of them should go.
                        let is_theirs = self.stands(view, *index, &entry, &held)? == Some(true);
                        let whose =
                            if is_theirs { "another's name, which has it too" } else { "another's name" };
                        report.add(
                            format!("the row {} stands in the index {} under {whose}", hex(key), form.name),
                            (!is_theirs).then(fix),
                        );
                    }
                    None if due.before > 0 => due.unmoved += 1,
                    None => {
                        let finding = format!("the row {} is not in the index {}", hex(key), form.name);
                        report.add(finding, Some(fix()));
                    }
                }
            }
        }
        Ok(())
    }

    /// An index against the rows that its entries name.
    fn check_index(
        &self,
        walk: &CheckSnapshot<'_>,
        index: &dyn AnyIndex<V>,
        due: &ExpectedEntries,
        report: &mut TableReport,
    ) -> Result<()> {
        let form = index.form();
        if let Some(name) = form.before.filter(|_| due.before > 0) {
            report.older.push(format!(
                "the folder is of an older release: {} entries of the index {name} move to {} at the first start",
                due.before, form.name
            ));
            if due.unmoved > due.before {
                let lost = due.unmoved - due.before;
                report
                    .say(format!("{lost} rows are neither in the index {} nor in {name}", form.name), false);
            }
        }
        let mut entries = 0u64;
        walk.rows(form.name, |view, key, value| {
            let named = if form.reach == Reach::Global { value } else { key };
            entries += u64::from(S::PREFIX_BYTES == 0 || !is_fenced(view, named));
            Ok(())
        })?;
        report.entries += entries;
        // Fewer than due were found missing one by one. Of a store that is served the numbers are of two moments.
        if entries > due.entries || !walk.is_one() {
            self.strays(walk, index, report)?;
        }
        if form.reach == Reach::Global && entries > 0 {
            let key = form.name.as_bytes().to_vec();
            if walk.look(|view| view.get(GLOBALS, &key))?.is_none() && walk.is_one() {
                let finding =
                    format!("the index {} is not in the register of those that reach across", form.name);
                report.add(finding, Some(Fix { table: GLOBALS, key, value: Some(Vec::new()) }));
            }
        }
        Ok(())
    }

    /// Entries that no row has.
    fn strays(
        &self,
        walk: &CheckSnapshot<'_>,
        index: &dyn AnyIndex<V>,
        report: &mut TableReport,
    ) -> Result<()> {
        let (form, mut strays) = (index.form(), Vec::new());
        walk.rows(form.name, |view, key, value| {
            let named = if form.reach == Reach::Global { value } else { key };
            if (S::PREFIX_BYTES == 0 || !is_fenced(view, named))
                && self.stands(view, index, key, value)? == Some(false)
            {
                strays.push(key.to_vec());
            }
            Ok(())
        })?;
        let count = strays.len();
        for key in strays {
            if report.fixes.len() < FIXES_MAX {
                report.fixes.push(Fix { table: form.name, key, value: None });
            }
        }
        if count > 0 {
            report.say(format!("the index {} has {count} entries without a row", form.name), true);
        }
        Ok(())
    }

    /// Whether an entry is of a row; none where that row cannot be read.
    fn stands(
        &self,
        view: &dyn View,
        index: &dyn AnyIndex<V>,
        key: &[u8],
        target: &[u8],
    ) -> Result<Option<bool>> {
        let form = index.form();
        let at = match form.reach {
            Reach::Global => Some(target.to_vec()),
            Reach::Scope => key.get(..S::PREFIX_BYTES).map(|scope| [scope, target].concat()),
        };
        let Some(at) = at else { return Ok(Some(false)) };
        let Some((scope, primary)) =
            at.split_at_checked(S::PREFIX_BYTES).filter(|(_, primary)| K::decode(primary).is_some())
        else {
            return Ok(Some(false));
        };
        let Some(bytes) = view.get(self.name, &at)? else { return Ok(Some(false)) };
        let Ok(row) = codec::decode::<V>(&bytes) else { return Ok(None) };
        let stands =
            entries_of(index, scope, primary, &row).any(|(entry, named)| entry == key && named == target);
        Ok(Some(stands))
    }
}

/// The entries of an index that a row should have.
pub(super) fn entries_of<V>(
    index: &dyn AnyIndex<V>,
    scope: &[u8],
    primary: &[u8],
    row: &V,
) -> impl Iterator<Item = RawRow> {
    let (mut keys, form): (_, IndexForm) = (index.keys_of(row), index.form());
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(move |key| index_entry(form, scope, &key, primary))
}

/// What puts the counts of all tables right: each is the sum of an organization's tables.
pub(super) fn sum_fixes(view: &dyn View) -> Result<Vec<(String, Fix)>> {
    let differences = usage::sums(view)?;
    Ok(differences.into_iter().map(|(_, finding, fix)| (finding, fix)).collect())
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
        assert_eq!((sound.rows, sound.entries, sound.findings.len()), (2, 6, 0));

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
