//! Exports under writes: what comes in again is the store at one moment.

use crate::{ExportedRows, Import, ImportedRows, Index, Inspection, OrgStore, OrgTable, Store};
use base::clock::Clock;
use base::codec::Record;
use base::ids::OrgId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct AccountV1 {
    balance: u64,
    filling: String,
}

impl Record for AccountV1 {}

static BY_BALANCE: Index<u64, AccountV1> = Index::new("accounts.by_balance", |row, keys| {
    keys.add(row.balance);
});
static ACCOUNTS: OrgTable<u64, AccountV1> =
    OrgTable::new("accounts", "Account").indexed(&[&BY_BALANCE]).fed();

/// What all accounts have together, whatever is moved between them.
const ACCOUNTS_MAX: u64 = 400;
const EACH: u64 = 1_000;

fn open(folder: &Path) -> Store {
    Store::open(&folder.join("store.redb"), 4 << 20, Clock::system()).unwrap()
}

async fn fill(org: &OrgStore) {
    for from in (0..ACCOUNTS_MAX).step_by(100) {
        org.write(move |tx| {
            for id in from..from + 100 {
                let row = AccountV1 { balance: EACH, filling: "x".repeat(20_000) };
                tx.put(&ACCOUNTS, &id, &row)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// Moves one from an account to another, and counts in a third row how often.
async fn transfer(org: &OrgStore, from: u64, to: u64) {
    org.write(move |tx| {
        let mut one = tx.get(&ACCOUNTS, &from)?.expect("it is there");
        let mut other = tx.get(&ACCOUNTS, &to)?.expect("it is there");
        if from != to && one.balance > 0 {
            one.balance -= 1;
            other.balance += 1;
            tx.put(&ACCOUNTS, &from, &one)?;
            tx.put(&ACCOUNTS, &to, &other)?;
        }
        let made = tx.get(&ACCOUNTS, &u64::MAX)?.map_or(0, |row| row.balance) + 1;
        tx.put(&ACCOUNTS, &u64::MAX, &AccountV1 { balance: made, filling: String::new() })?;
        // A row that comes and goes.
        match made % 2 {
            0 => drop(tx.delete(&ACCOUNTS, &(u64::MAX - 1))?),
            _ => tx.put(&ACCOUNTS, &(u64::MAX - 1), &AccountV1 { balance: made, filling: String::new() })?,
        }
        Ok(())
    })
    .await
    .unwrap();
}

fn import(folder: &Path, parts: &[ExportedRows]) -> Store {
    let mut import = Import::begin(&folder.join("store.redb")).unwrap();
    for part in parts {
        let part = ImportedRows { table: part.table.to_owned(), rows: part.rows.clone() };
        import.put(part).unwrap();
    }
    assert!(import.finish().unwrap() > 0);
    open(folder)
}

fn balances(org: &OrgStore) -> BTreeMap<u64, u64> {
    let ids = (0..ACCOUNTS_MAX).chain([u64::MAX, u64::MAX - 1]);
    org.read(|tx| {
        let mut found = BTreeMap::new();
        for id in ids {
            if let Some(row) = tx.get(&ACCOUNTS, &id)? {
                found.insert(id, row.balance);
            }
        }
        Ok(found)
    })
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_exported_under_writes_is_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let id = OrgId::new();
    let org = store.system().org(id);
    fill(&org).await;
    let (done, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..4u64)
        .map(|nth| {
            let (org, done, ended) = (org.clone(), Arc::clone(&done), Arc::clone(&ended));
            tokio::spawn(async move {
                let mut at = nth;
                while !ended.load(Ordering::SeqCst) {
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    transfer(&org, (at >> 20) % ACCOUNTS_MAX, (at >> 40) % ACCOUNTS_MAX).await;
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for round in 0..5 {
        let before = done.load(Ordering::SeqCst);
        let exporting = store.clone();
        let (parts, exported) = tokio::task::spawn_blocking(move || {
            let mut parts = Vec::new();
            let exported = exporting
                .export(&|| false, &mut |rows| {
                    parts.push(rows);
                    Ok(())
                })
                .unwrap();
            (parts, exported)
        })
        .await
        .unwrap();
        // Each writer has at most one that is committed and not counted yet.
        let after = done.load(Ordering::SeqCst) + 4;
        let into = tempfile::tempdir().unwrap();
        let restored = import(into.path(), &parts);
        assert_eq!(restored.id(), store.id());
        let found = balances(&restored.system().org(id));
        let sum: u64 = (0..ACCOUNTS_MAX).map(|account| found[&account]).sum();
        assert_eq!(sum, ACCOUNTS_MAX * EACH, "round {round}: {exported:?}");
        let made = found.get(&u64::MAX).copied().unwrap_or(0);
        assert!(before <= made && made <= after, "{before} <= {made} <= {after}");
        assert_eq!(found.contains_key(&(u64::MAX - 1)), made % 2 == 1, "{made}");
        restored.close();
        let looked_at = Inspection::open(&into.path().join("store.redb"), 1 << 20).unwrap();
        assert!(looked_at.pages_are_whole().unwrap());
        let report = looked_at.table(&ACCOUNTS).unwrap();
        assert!(report.findings.is_empty() && report.rows >= ACCOUNTS_MAX, "{report:?}");
        assert_eq!(looked_at.counts().unwrap(), Vec::<String>::new());
    }
    ended.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    store.close();
    let mut parts = Vec::new();
    let at_rest = Inspection::open(&folder.path().join("store.redb"), 1 << 20).unwrap();
    at_rest
        .export(&|| false, &mut |rows| {
            parts.push(rows);
            Ok(())
        })
        .unwrap();
    let into = tempfile::tempdir().unwrap();
    let found = balances(&import(into.path(), &parts).system().org(id));
    assert_eq!(found[&u64::MAX], done.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_stopped_or_refused_leaves_the_store_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let org = store.system().org(OrgId::new());
    fill(&org).await;
    let trying = store.clone();
    tokio::task::spawn_blocking(move || {
        let stopped = trying.export(&|| true, &mut |_| Ok(())).unwrap_err();
        assert!(stopped.for_operator().contains("was stopped"), "{}", stopped.for_operator());
        let full = || base::Error::unavailable("the target is full");
        let refused = trying.export(&|| false, &mut |_| Err(full())).unwrap_err();
        assert_eq!(refused.for_operator(), full().for_operator());
    })
    .await
    .unwrap();
    assert_eq!(store.inner.handle.tracker.count(), 0);
    transfer(&org, 1, 2).await;
    assert_eq!(store.inner.handle.tracker.count(), 0, "nothing is noted any more");
    // A file that is there is not written over.
    let refused = Import::begin(&folder.path().join("store.redb")).err().unwrap();
    assert!(refused.for_operator().contains("is there already"));
}
