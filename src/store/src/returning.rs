//! Bringing one organization back from a backup, while the store is served.
//!
//! The way an erasure goes ([`super::erase`]), backwards. The organization stands behind its fence: nobody is led to its rows,
//! and whoever looks sees none. Behind it rows are put in place a bounded number in each operation, into whichever tables the
//! slices declare, so a table that is new comes back like the others; the entries of their indexes are made of them anew. The
//! last operation takes the fence away, and with it everything becomes true at once. What was cut off before stays behind the
//! fence and is erased like anything else there.
//!
//! A row goes under its organization's id and under no other, and a key that a unique index holds for somebody else's row is
//! refused: nothing of anybody else can be written over.

use super::audit;
use super::check::{AnyTable, entries_of};
use super::counts::{ALL_TABLES, Growth};
use super::key::Key;
use super::known::{GLOBALS, interned};
use super::migrate;
use super::raw::View;
use super::scope::Scope;
use super::table::{Reach, Table};
use super::tx::{SysWrite, decoded};
use super::view::WriteView;
use super::{META, changes, counts, known};
use base::codec::Record;
use base::ids::OrgId;
use base::{Error, Result};
use std::collections::BTreeMap;

pub use audit::AUDIT_TABLES;

/// The store's own table, as backups have it.
pub const META_TABLE: &str = META;

/// What came back so far, by table: what the counts of the organization grow by when it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    grown: BTreeMap<&'static str, Growth>,
}

impl Brought {
    /// Adds what an operation brought, once it is committed.
    pub fn add(&mut self, more: Brought) {
        more.grown.into_iter().for_each(|(table, by)| self.grow(table, by));
    }

    fn grow(&mut self, table: &'static str, by: Growth) {
        let sum = self.grown.entry(table).or_default();
        sum.rows += by.rows;
        sum.bytes += by.bytes;
    }
}

/// A row of a backup: its whole key, and its value; none where it went.
pub type BackupRow = (Vec<u8>, Option<Vec<u8>>);

impl SysWrite<'_> {
    /// Puts rows of an organization behind its fence in place, in the order in which a backup gives them, and gives what they
    /// count. Errors: no fence, a row that is not the organization's or cannot be read, or one whose place in a unique index is
    /// somebody else's.
    pub fn bring_rows(&self, org: OrgId, table: &dyn AnyTable, rows: &[BackupRow]) -> Result<Brought> {
        self.expect_fence(org, table.is_of_orgs())?;
        let before = self.raw().grown().clone();
        for (key, value) in rows {
            own(org, key)?;
            table.bring(self, key, value.as_deref())?;
        }
        let mut brought = Brought::default();
        for ((owner, name), by) in self.raw().grown().iter() {
            if *owner == org && *name != ALL_TABLES {
                let stood = before.get(&(org, *name)).copied().unwrap_or_default();
                brought.grow(name, Growth { rows: by.rows - stood.rows, bytes: by.bytes - stood.bytes });
            }
        }
        Ok(brought)
    }

    /// Puts rows of an organization's audit chain in place: the bytes are what the chain proves.
    pub fn bring_audit(&self, org: OrgId, table: &str, rows: &[BackupRow]) -> Result<()> {
        self.expect_fence(org, AUDIT_TABLES.contains(&table))?;
        for (key, value) in rows {
            own(org, key)?;
            self.raw().set(interned(table), key.clone(), value.clone());
        }
        Ok(())
    }

    /// Takes the fence away and counts what came back: from this operation on the organization is there. In another commit than
    /// the last rows: whoever brings them waits for each.
    pub fn open_fence(&self, org: OrgId, brought: &Brought) -> Result<()> {
        self.expect_fence(org, true)?;
        self.raw().fence(org, false);
        for (table, growth) in &brought.grown {
            self.raw().grow(org, table, *growth);
        }
        Ok(())
    }

    fn expect_fence(&self, org: OrgId, is_its_own: bool) -> Result<()> {
        match self.is_fenced(org) && is_its_own {
            true => Ok(()),
            false => Err(Error::internal("bring an organization back", "it stands behind no fence")),
        }
    }
}

/// The number of the layout that a backup's store had, by the rows of [`META_TABLE`]; an error for one that this release does
/// not know.
pub fn backup_layout(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<u32> {
    let layout = migrate::number(rows.get(migrate::APPLIED).map(Vec::as_slice))?;
    let known = migrate::known();
    if layout > known {
        let reason = format!(
            "the backup has layout {layout}, this release knows up to {known}: it was made by a newer one"
        );
        return Err(Error::conflict(reason));
    }
    Ok(layout)
}

/// Whether a table is the store's own book, which an organization that comes back is entered into anew.
pub fn is_own_book(table: &str) -> bool {
    [META, changes::TABLE, counts::TABLE, known::FENCES, GLOBALS].contains(&table)
}

fn own(org: OrgId, key: &[u8]) -> Result<()> {
    match key.starts_with(org.0.as_bytes()) {
        true => Ok(()),
        false => Err(Error::internal("bring an organization back", "a row is not the organization's")),
    }
}

impl<S: Scope, K: Key, V: Record> Table<S, K, V> {
    /// Puts a row in place whatever fence its organization stands behind, tells nobody, and counts it.
    pub(super) fn bring_row(&self, view: &WriteView<'_>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let damaged =
            || Error::internal("bring a row back", format!("a key of the table {} is damaged", self.name));
        let (scope, primary) = key.split_at_checked(S::PREFIX_BYTES).ok_or_else(damaged)?;
        K::decode(primary).ok_or_else(damaged)?;
        let before = view.get(self.name, key)?;
        let (old, new) =
            (before.as_deref().map(decoded::<V>).transpose()?, value.map(decoded::<V>).transpose()?);
        for index in self.indexes {
            let form = index.form();
            let of = |row: Option<&V>| -> BTreeMap<Vec<u8>, Vec<u8>> {
                row.map(|row| entries_of(*index, scope, primary, row).collect()).unwrap_or_default()
            };
            let (stood, stands) = (of(old.as_ref()), of(new.as_ref()));
            if form.reach == Reach::Global && !stands.is_empty() {
                view.register_global(form.name);
            }
            for entry in stood.into_keys().filter(|entry| !stands.contains_key(entry)) {
                view.set(form.name, entry, None);
            }
            for (entry, target) in stands {
                if form.unique && view.get(form.name, &entry)?.is_some_and(|held| held != target) {
                    let reason = format!("{} is taken in this box by another one", self.noun);
                    return Err(Error::conflict(format!(
                        "{reason} (index {}); nothing was restored",
                        form.name
                    )));
                }
                view.set(form.name, entry, Some(target));
            }
        }
        if let (true, Some(org)) = (self.is_counted(), OrgId::decode(scope)) {
            let size =
                |value: Option<&[u8]>, row: Option<&V>| value.map_or(0, |value| self.size(key, value, row));
            let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            let bytes = signed(size(value, new.as_ref())) - signed(size(before.as_deref(), old.as_ref()));
            let rows = i64::from(value.is_some()) - i64::from(before.is_some());
            view.grow(org, self.name, Growth { rows, bytes });
        }
        view.set(self.name, key.to_vec(), value.map(<[u8]>::to_vec));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultyDisk;
    use crate::{Index, MIGRATIONS, OrgTable, Store, Used};
    use base::clock::Clock;
    use base::codec::encode;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct CardV1 {
        title: String,
    }

    impl Record for CardV1 {}

    static TOKENS: Index<String, CardV1> =
        Index::global_unique("cards.tokens", |card, keys| keys.add(&card.title));
    static BY_LENGTH: Index<u64, CardV1> =
        Index::new("cards.by_length", |card, keys| keys.add(card.title.len() as u64));
    static CARDS: OrgTable<u64, CardV1> =
        OrgTable::new("cards", "Card").indexed(&[&TOKENS, &BY_LENGTH]).fed();

    fn card(title: &str) -> CardV1 {
        CardV1 { title: title.to_owned() }
    }

    fn row(org: OrgId, number: u64, title: Option<&str>) -> BackupRow {
        let key = [org.0.as_bytes().as_slice(), &number.to_be_bytes()].concat();
        (key, title.map(|title| encode(&card(title)).unwrap()))
    }

    async fn write<T: Send + 'static>(
        store: &Store,
        run: impl FnOnce(&SysWrite<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        store.system().write(run).await
    }

    #[tokio::test]
    async fn rows_come_back_behind_the_fence_and_are_there_when_it_goes() {
        let disk = FaultyDisk::new();
        let store = Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap();
        let (org, other) = (OrgId::new(), OrgId::new());
        write(&store, move |tx| tx.org(other).put(&CARDS, &1, &card("theirs"))).await.unwrap();
        let told = *store.sequence().borrow();
        let no_fence = write(&store, move |tx| tx.bring_rows(org, &CARDS, &[row(org, 1, Some("one"))])).await;
        assert!(no_fence.is_err(), "nothing is put beside what may be in use");
        write(&store, move |tx| {
            tx.fence(org);
            Ok(())
        })
        .await
        .unwrap();
        // A later row takes the place of an earlier one, or takes it away.
        let rows = [row(org, 1, Some("one")), row(org, 2, Some("two")), row(org, 3, Some("three"))];
        let mut brought = write(&store, move |tx| tx.bring_rows(org, &CARDS, &rows)).await.unwrap();
        let rows = [row(org, 2, Some("other")), row(org, 3, None)];
        brought.add(write(&store, move |tx| tx.bring_rows(org, &CARDS, &rows)).await.unwrap());

        let foreign = [row(other, 2, Some("theirs, too"))];
        assert!(write(&store, move |tx| tx.bring_rows(org, &CARDS, &foreign)).await.is_err());
        let taken = [row(org, 4, Some("theirs"))];
        let refused = write(&store, move |tx| tx.bring_rows(org, &CARDS, &taken)).await.unwrap_err();
        assert!(refused.for_operator().contains("taken in this box"), "{}", refused.for_operator());
        store
            .system()
            .read(|tx| {
                assert_eq!(
                    tx.lookup_global(&CARDS, &TOKENS, "one")?,
                    None,
                    "behind the fence nobody sees it"
                );
                assert_eq!(tx.org(org).get(&CARDS, &1)?, None);
                assert_eq!(tx.behind_fence(org).get(&CARDS, &1)?, Some(card("one")));
                Ok(())
            })
            .unwrap();
        write(&store, move |tx| tx.open_fence(org, &brought)).await.unwrap();
        store
            .system()
            .read(|tx| {
                assert!(!tx.is_fenced(org));
                assert_eq!(tx.lookup_global(&CARDS, &TOKENS, "one")?, Some((org, card("one"))));
                assert_eq!(tx.lookup_global(&CARDS, &TOKENS, "two")?, None);
                assert_eq!(tx.org(org).count_index(&BY_LENGTH, 5u64, 9)?, 1);
                let used: Used = tx.org(org).used("cards")?;
                assert_eq!(used.rows, 2);
                assert_eq!(tx.org(other).get(&CARDS, &1)?, Some(card("theirs")));
                Ok(())
            })
            .unwrap();
        assert_eq!(*store.sequence().borrow(), told, "nobody is told of it");
        let report = store.check_table(&CARDS).unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
        write(&store, move |tx| tx.org(org).put(&CARDS, &9, &card("new"))).await.unwrap();
    }
}
