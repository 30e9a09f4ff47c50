//! Work that passes over what cannot be read: what is done for all organizations, for everybody at the start, or for many
//! rows at once must not end at one damaged row. Such a row is passed over, logged once and counted; it never stops anybody
//! else. Who asks for a row gets its error all the same, and `gleaner doctor` names it.
//!
//! Whoever looks reads step by step, each row alone ([`Readable`]); whoever writes does it for all together, and where that
//! fails for each by itself (`write_each`).

use super::index_key::{IndexKey, Prefix, part_bytes};
use super::key::{Key, KeyPart, after_prefix};
use super::passed::{pass_over, readable};
use super::raw::RawRow;
use super::scope::{OrgScope, Scope};
use super::table::{Index, OrgTable, Reach, SysTable, Table};
use super::tx::{OrgWrite, ReadTx, SysRead, SysWrite, decoded};
use super::{OrgStore, System};
use base::clock::Moment;
use base::codec::Record;
use base::ids::OrgId;
use base::{Code, Error, Result};
use std::fmt::{Debug, Display};
use std::ops::Bound::{Excluded, Unbounded};

/// Rows that a sweep removes by one write operation.
const SWEPT_PER_WRITE: usize = 256;

/// A step of a walk.
pub struct Readable<T> {
    /// The rows that could be read.
    pub rows: Vec<T>,
    /// Where the next step goes on; none where this one found nothing at all.
    pub next: Option<Vec<u8>>,
    /// How many could not be read.
    pub passed_over: u64,
    is_full: bool,
}

impl<T> Readable<T> {
    /// Where the next step goes on; none where this one came to the end.
    pub fn more(&self) -> Option<Vec<u8>> {
        self.next.clone().filter(|_| self.is_full)
    }
}

/// A step over what was found. `read` gives none for what is to be left out without a word.
pub(super) fn step<T>(
    table: &'static str,
    found: Vec<RawRow>,
    limit: usize,
    read: impl Fn(&[u8], &[u8]) -> Result<Option<T>>,
) -> Result<Readable<T>> {
    let (mut rows, mut passed_over) = (Vec::with_capacity(found.len()), 0);
    for (key, value) in &found {
        match readable(table, Hex(key), read(key, value))? {
            Some(row) => rows.extend(row),
            None => passed_over += 1,
        }
    }
    let is_full = found.len() >= limit;
    Ok(Readable { rows, next: found.into_iter().next_back().map(|(key, _)| key), passed_over, is_full })
}

/// A key in the log.
struct Hex<'k>(&'k [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

pub(super) fn damaged_key() -> Error {
    Error::internal("decode a key", "it is damaged")
}

fn no_row() -> Error {
    Error::internal("follow an index", "it leads to no row")
}

impl<S: Scope> ReadTx<'_, S> {
    /// The place in the table behind which a step of [`ReadTx::readable`] goes on after the row of this key.
    pub fn place<K: Key>(&self, key: &K) -> Vec<u8> {
        let mut place = self.scope.prefix();
        key.encode(&mut place);
        place
    }

    /// The readable ones of up to `limit` rows of the table behind `after`, with their keys.
    pub fn readable<K: Key, V: Record>(
        &self,
        table: &Table<S, K, V>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Readable<(K, V)>> {
        let prefix = self.scope.prefix();
        let found = self.scan_between(table.name, &prefix, &prefix, after, limit)?;
        step(table.name, found, limit, |key, value| {
            let key = key.get(prefix.len()..).and_then(K::decode).ok_or_else(damaged_key)?;
            Ok(Some((key, decoded(value)?)))
        })
    }

    /// The readable rows of up to `limit` entries of an index behind `after`: of those whose keys begin with `prefix` and go
    /// on, where `until` is given, with no more than that. A damaged entry may lead to any row.
    pub fn readable_by<K: Key, V: Record, I: IndexKey, P: Prefix<I>>(
        &self,
        table: &Table<S, K, V>,
        index: &Index<I, V>,
        prefix: P,
        until: Option<<P::Rest as IndexKey>::First>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Readable<(K, V)>> {
        let first = self.index_prefix(index, &prefix);
        let mut last = first.clone();
        if let Some(until) = until {
            until.write_part(&mut last);
        }
        let found = self.scan_between(index.name(), &first, &last, after, limit)?;
        step(index.name(), found, limit, |_, primary| {
            let key = K::decode(primary).ok_or_else(damaged_key)?;
            Ok(Some((key, self.by_primary(table, primary)?.ok_or_else(no_row)?)))
        })
    }
}

impl<K: Key, V> OrgTable<K, V> {
    /// The place behind which a step of [`ReadTx::readable_all`] goes on after the row of this organization and key.
    pub fn place(&self, org: OrgId, key: &K) -> Vec<u8> {
        let mut place = OrgScope(org).prefix();
        key.encode(&mut place);
        place
    }

    /// Whose row is in that place, and under which key.
    pub fn owner(&self, place: &[u8]) -> Result<(OrgId, K)> {
        owner(place)
    }
}

impl SysRead<'_> {
    /// The readable ones of up to `limit` rows of all organizations behind `after`, with their organizations and keys.
    pub fn readable_all<K: Key, V: Record>(
        &self,
        table: &OrgTable<K, V>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Readable<(OrgId, K, V)>> {
        let low = after.map_or(Unbounded, Excluded);
        let found = self.view().scan(table.name, low, Unbounded, false, limit)?;
        step(table.name, found, limit, |key, value| {
            let (org, key) = owner::<K>(key)?;
            Ok(Some((org, key, decoded(value)?)))
        })
    }

    /// The readable rows of up to `limit` entries of a global index behind `after`; where `until` is given, of those whose
    /// keys begin with no more than that. Organizations behind a fence have none. A damaged entry may lead to any row.
    pub fn readable_global<K: Key, V: Record, I: IndexKey>(
        &self,
        table: &OrgTable<K, V>,
        index: &Index<I, V>,
        until: Option<I::First>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Readable<(OrgId, K, V)>> {
        debug_assert!(index.form.reach == Reach::Global);
        let low = after.map_or(Unbounded, Excluded);
        let end = until.and_then(|until| after_prefix(&part_bytes(&until)));
        let high = end.as_deref().map_or(Unbounded, Excluded);
        let found = self.view().scan(index.name(), low, high, false, limit)?;
        step(index.name(), found, limit, |_, target| {
            let (org, key) = owner::<K>(target)?;
            if self.is_fenced(org) {
                return Ok(None);
            }
            let row = self.view().get(table.name, target)?.ok_or_else(no_row)?;
            Ok(Some((org, key, decoded(&row)?)))
        })
    }
}

pub(super) fn owner<K: Key>(bytes: &[u8]) -> Result<(OrgId, K)> {
    let parts = bytes.split_at_checked(OrgScope::PREFIX_BYTES);
    parts.and_then(|(org, key)| Some((OrgId::decode(org)?, K::decode(key)?))).ok_or_else(damaged_key)
}

/// Writes something for many: all together, and where that fails for each by itself, passing over those that cannot be
/// done. None stands for one that was passed over. What the box cannot do for the moment is an error of all.
async fn each<I, T, F>(
    what: &'static str,
    items: Vec<I>,
    write: impl Fn(Vec<I>) -> F,
) -> Result<Vec<Option<T>>>
where
    I: Clone + Debug,
    F: Future<Output = Result<Vec<T>>>,
{
    if items.is_empty() {
        return Ok(Vec::new());
    }
    match write(items.clone()).await {
        Ok(done) => return Ok(done.into_iter().map(Some).collect()),
        Err(error) if error.code() == Code::ServiceUnavailable => return Err(error),
        Err(_) => {}
    }
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        let which = format!("{item:?}");
        all.push(match write(vec![item]).await {
            Ok(mut done) => done.pop(),
            Err(error) if error.code() == Code::ServiceUnavailable => return Err(error),
            Err(error) => {
                pass_over(what, which, &error);
                None
            }
        });
    }
    Ok(all)
}

impl System {
    /// Does `change` for each of these, all in one operation; where one of them cannot be done, in one operation each. None
    /// stands for what was passed over. What the box cannot do for the moment is an error, and some may be done by then.
    pub async fn write_each<I, T>(
        &self,
        what: &'static str,
        items: Vec<I>,
        change: impl Fn(&SysWrite<'_>, &I) -> Result<T> + Clone + Send + 'static,
    ) -> Result<Vec<Option<T>>>
    where
        I: Clone + Debug + Send + 'static,
        T: Send + 'static,
    {
        let write = move |some: Vec<I>| {
            let change = change.clone();
            self.write(move |tx| some.iter().map(|item| change(tx, item)).collect())
        };
        each(what, items, write).await
    }

    /// The same for what removes rows; see [`System::write_freeing`].
    pub async fn write_each_freeing<I, T>(
        &self,
        what: &'static str,
        items: Vec<I>,
        change: impl Fn(&SysWrite<'_>, &I) -> Result<T> + Clone + Send + 'static,
    ) -> Result<Vec<Option<T>>>
    where
        I: Clone + Debug + Send + 'static,
        T: Send + 'static,
    {
        let write = move |some: Vec<I>| {
            let change = change.clone();
            self.write_freeing(move |tx| some.iter().map(|item| change(tx, item)).collect())
        };
        each(what, items, write).await
    }

    /// Removes what is over of one of the box's own tables: the rows that end by `until`, to which `index` leads by the
    /// moment of their end. A bounded number a write; how many in all.
    pub async fn sweep<K: Key + 'static, V: Record>(
        &self,
        table: &'static SysTable<K, V>,
        index: &'static Index<Moment, V>,
        ends_at: fn(&V) -> Moment,
        until: Moment,
        stopping: impl Fn() -> bool,
    ) -> Result<u64> {
        let (mut after, mut total) = (None::<Vec<u8>>, 0);
        loop {
            let (gone, more) = self
                .write_freeing(move |tx| {
                    let from = after.as_deref();
                    let step = tx.readable_by(table, index, (), Some(until), from, SWEPT_PER_WRITE)?;
                    let mut gone = 0;
                    for (key, _) in step.rows.iter().filter(|(_, row)| ends_at(row) <= until) {
                        gone += u64::from(tx.delete(table, key)?);
                    }
                    Ok((gone, step.more()))
                })
                .await?;
            total += gone;
            if more.is_none() || stopping() {
                return Ok(total);
            }
            after = more;
        }
    }
}

impl OrgStore {
    /// Does `change` for each of these, all in one operation; where one of them cannot be done, in one operation each. None
    /// stands for what was passed over; see [`System::write_each`]. For what removes rows.
    pub async fn write_each_freeing<I, T>(
        &self,
        what: &'static str,
        items: Vec<I>,
        change: impl Fn(&OrgWrite<'_>, &I) -> Result<T> + Clone + Send + 'static,
    ) -> Result<Vec<Option<T>>>
    where
        I: Clone + Debug + Send + 'static,
        T: Send + 'static,
    {
        let write = move |some: Vec<I>| {
            let change = change.clone();
            self.write_freeing(move |tx| some.iter().map(|item| change(tx, item)).collect())
        };
        each(what, items, write).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{FaultyDisk, damage_row};
    use crate::passed::passed_over;
    use crate::{MIGRATIONS, Store};
    use base::clock::Clock;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct TokenV1 {
        number: u64,
        ends_at: Moment,
    }

    impl Record for TokenV1 {}

    static BY_END: Index<Moment, TokenV1> = Index::new("tokens.by_end", |row, keys| keys.add(row.ends_at));
    static TOKENS: SysTable<u64, TokenV1> = SysTable::new("tokens", "Token").indexed(&[&BY_END]);
    static DUE: Index<Moment, TokenV1> = Index::global("own_tokens.due", |row, keys| keys.add(row.ends_at));
    static OWN_TOKENS: OrgTable<u64, TokenV1> = OrgTable::new("own_tokens", "Token").indexed(&[&DUE]);

    fn open() -> Store {
        let disk = FaultyDisk::new();
        Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap()
    }

    fn token(number: u64) -> TokenV1 {
        TokenV1 { number, ends_at: Moment(number as i64) }
    }

    fn numbers<K>(step: &Readable<(K, TokenV1)>) -> Vec<u64> {
        step.rows.iter().map(|(_, row)| row.number).collect()
    }

    #[tokio::test]
    async fn a_sweep_passes_over_what_is_damaged_and_spares_what_a_damaged_entry_leads_to() {
        let store = open();
        let system = store.system();
        // More than one step, and the damaged ones alone are more than one.
        let many = 3 * SWEPT_PER_WRITE as u64;
        system
            .write(move |tx| {
                for n in 0..many {
                    tx.put(&TOKENS, &n, &token(n))?;
                }
                (0..SWEPT_PER_WRITE as u64 + 7).try_for_each(|n| damage_row(tx, &TOKENS, &n))
            })
            .await
            .unwrap();
        // An entry that stands too early, as a flipped bit may leave it.
        let last = many - 1;
        system
            .write(move |tx| {
                let raw = tx.raw();
                raw.set(BY_END.name(), part_bytes(&Moment(3)), Some(last.to_be_bytes().to_vec()));
                Ok(())
            })
            .await
            .unwrap();
        let until = Moment(many as i64 - 11);
        let swept = system.sweep(&TOKENS, &BY_END, |row| row.ends_at, until, || false).await.unwrap();
        assert_eq!(swept, many - 10 - (SWEPT_PER_WRITE as u64 + 7));
        let left = system.read(|tx| tx.readable(&TOKENS, None, 10_000)).unwrap();
        assert_eq!(numbers(&left), (many - 10..many).collect::<Vec<_>>());
        assert_eq!(left.passed_over, SWEPT_PER_WRITE as u64 + 7);
        assert!(passed_over() >= SWEPT_PER_WRITE as u64 + 7);
        assert!(left.more().is_none() && left.next.is_some());
    }

    #[tokio::test]
    async fn walks_read_each_row_alone() {
        let store = open();
        let (system, one, other) = (store.system(), OrgId::new(), OrgId::new());
        system
            .write(move |tx| {
                for n in 0..6 {
                    tx.org(one).put(&OWN_TOKENS, &n, &token(n))?;
                    tx.org(other).put(&OWN_TOKENS, &n, &token(n))?;
                }
                damage_row(&tx.org(one), &OWN_TOKENS, &0)?;
                damage_row(&tx.org(one), &OWN_TOKENS, &4)
            })
            .await
            .unwrap();
        let own = system.org(one);
        let first = own.read(|tx| tx.readable(&OWN_TOKENS, None, 3)).unwrap();
        assert_eq!((numbers(&first), first.passed_over), (vec![1, 2], 1));
        let rest = own.read(|tx| tx.readable(&OWN_TOKENS, first.more().as_deref(), 10)).unwrap();
        assert_eq!((numbers(&rest), rest.more()), (vec![3, 5], None));
        let due = system.read(|tx| tx.readable_global(&OWN_TOKENS, &DUE, Some(Moment(1)), None, 10)).unwrap();
        assert_eq!(due.rows.len(), 3, "two of each, and one of them is damaged");
        system
            .write(move |tx| {
                tx.unaudited("a test");
                tx.fence(other);
                Ok(())
            })
            .await
            .unwrap();
        let due = system.read(|tx| tx.readable_global(&OWN_TOKENS, &DUE, None, None, 100)).unwrap();
        assert_eq!((due.rows.len(), due.passed_over), (4, 2), "behind a fence there are none");
    }

    #[tokio::test]
    async fn what_fails_for_one_is_done_for_the_others() {
        let store = open();
        let (system, org) = (store.system(), OrgId::new());
        let own = system.org(org);
        own.write(move |tx| {
            (0..5).try_for_each(|n| tx.put(&OWN_TOKENS, &n, &token(n)))?;
            damage_row(tx, &OWN_TOKENS, &2)
        })
        .await
        .unwrap();
        let gone =
            own.write_each_freeing("a token", (0..5).collect(), |tx, n| tx.delete(&OWN_TOKENS, n)).await;
        assert_eq!(gone.unwrap(), [Some(true), Some(true), None, Some(true), Some(true)]);
        let full = system.write_each("a token", vec![7u64], move |tx, n| {
            let row = token(*n);
            tx.org(org).put(&OWN_TOKENS, n, &row)
        });
        store.set_disk_full(true);
        assert_eq!(
            full.await.unwrap_err().code(),
            Code::ServiceUnavailable,
            "the box's trouble is nobody's fault"
        );
    }
}
