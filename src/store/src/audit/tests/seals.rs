//! Ends of chains that are sealed with a key of the box, and what becomes of them when the key goes.

use super::*;

#[tokio::test]
async fn a_sealed_end_cannot_be_made_anew() {
    let store = store(&Clock::system());
    // Stands for a key that is elsewhere.
    let seal = |bytes: &[u8]| sha256(&[b"secret", bytes].concat()).to_vec();
    let check = move |bytes: &[u8], given: &[u8]| match seal(bytes) == given {
        true => SealCheck::Current,
        false => SealCheck::Wrong,
    };
    store.seal_audit(seal, check);
    let org = store.system().org(OrgId::new());
    for _ in 0..2 {
        note(&org, Action::UrlCreated).await;
    }
    // A thread outside the runtime seals as well.
    let (system, id) = (store.system().clone(), org.id());
    let told = move |tx: &crate::SysWrite<'_>| tx.org(id).audit(Event::new(Action::UrlCreated));
    tokio::task::spawn_blocking(move || system.write_blocking(told)).await.unwrap().unwrap();
    let found = || {
        let id = Some(org.id());
        let look = |tx: &crate::SysRead<'_>| {
            let (view, chain) = tx.audit_chain(id);
            check_chain(view, &chain, id, Some(&check))
        };
        let report = store.system().read(look).unwrap();
        (report.sealed, report.findings)
    };
    assert_eq!(found(), (true, Vec::new()));
    // Who can write to the store and knows how chains are made cuts the last row and makes the end fit.
    let forge = |seal: Option<Vec<u8>>| {
        org.write(move |tx| {
            let (view, chain) = (tx.raw(), tx.audit_parts().1);
            let mut head = chain.head(view)?.unwrap();
            let bytes = view.get(OF_ORG.rows, &chain.row_key(2))?.unwrap();
            (head.next, head.hash) = (3, row::AuditFrame::read(&bytes).unwrap().hash);
            head.seal = seal.or(head.seal);
            view.set(OF_ORG.rows, chain.row_key(3), None);
            view.set(
                OF_ORG.by_resource,
                [chain.resource_prefix("url"), 3u64.to_be_bytes().to_vec()].concat(),
                None,
            );
            view.set(OF_ORG.heads, chain.head_key(), Some(encode(&head)?));
            Ok(())
        })
    };
    forge(None).await.unwrap();
    assert_eq!(found(), (false, vec!["the head row was changed: its seal does not fit".to_owned()]));
    assert_eq!(findings(&store, org.id()), Vec::<String>::new(), "without the key it looks whole");
    // What the box goes on to write is no alibi: neither over a seal that does not fit, nor over one that was taken off.
    note(&org, Action::UrlCreated).await;
    assert_eq!(found(), (false, vec!["the head row was changed: its seal does not fit".to_owned()]));
    let unsealed = org.write(|tx| {
        let (view, chain) = (tx.raw(), tx.audit_parts().1);
        let mut head = chain.head(view)?.unwrap();
        head.seal = None;
        view.set(OF_ORG.heads, chain.head_key(), Some(encode(&head)?));
        Ok(())
    });
    unsealed.await.unwrap();
    note(&org, Action::UrlCreated).await;
    assert_eq!(found(), (false, vec!["the head row was changed: it has no seal".to_owned()]));
}

/// A seal of a numbered key.
fn seal_of(key: u8, bytes: &[u8]) -> Vec<u8> {
    [&[key][..], &sha256(&[&[key][..], bytes].concat())].concat()
}

/// What seals are worth to who holds these keys, the newest first.
fn check_with(keys: &'static [u8]) -> impl Fn(&[u8], &[u8]) -> SealCheck {
    move |bytes: &[u8], given: &[u8]| match given.first() {
        Some(key) if !keys.contains(key) => SealCheck::UnknownKey(key.to_string()),
        Some(key) if seal_of(*key, bytes) != given => SealCheck::Wrong,
        Some(key) if *key == keys[0] => SealCheck::Current,
        Some(_) => SealCheck::Older,
        None => SealCheck::Wrong,
    }
}

#[tokio::test]
async fn a_chain_to_which_nobody_writes_outlives_the_end_of_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let open = |keys: &'static [u8]| {
        let store = Store::open(&folder.path().join("store.redb"), 4 << 20, Clock::system()).unwrap();
        store.seal_audit(|bytes| seal_of(keys[0], bytes), check_with(keys));
        store
    };
    let findings_with = |store: &Store, org: OrgId, keys: &'static [u8]| {
        let check = check_with(keys);
        let look = |tx: &crate::SysRead<'_>| {
            let (view, chain) = tx.audit_chain(Some(org));
            check_chain(view, &chain, Some(org), Some(&check))
        };
        store.system().read(look).unwrap().findings
    };
    let (idle, busy, late) = (OrgId::new(), OrgId::new(), OrgId::new());
    let store = open(&[1]);
    for org in [idle, busy, late] {
        note(&store.system().org(org), Action::UrlCreated).await;
    }
    store.close();
    drop(store);

    // Both keys are there for one start, and only one organization writes.
    let store = open(&[2, 1]);
    note(&store.system().org(busy), Action::UrlCreated).await;
    assert_eq!(store.system().renew_audit_seals().await.unwrap(), 2);
    assert_eq!(store.system().renew_audit_seals().await.unwrap(), 0);
    for org in [idle, busy, late] {
        assert_eq!(findings_with(&store, org, &[2]), Vec::<String>::new());
    }
    store.close();
    drop(store);

    // The next key came, and the one before it went without a start with both.
    let store = open(&[3]);
    assert_eq!(store.system().renew_audit_seals().await.unwrap(), 0);
    let found = findings_with(&store, idle, &[3]);
    assert!(
        found.len() == 1 && found[0].contains("the key 2") && found[0].contains("put that key back"),
        "{found:?}"
    );
    // Who comes back goes on, and what could not be proven is written down for good.
    note(&store.system().org(late), Action::UrlCreated).await;
    assert_eq!(findings_with(&store, late, &[3]), Vec::<String>::new());
    note(&store.system().org(late), Action::UrlCreated).await;
    let page = store
        .system()
        .org(late)
        .read(|tx| tx.audit_page(&AuditFilter::default(), &PageRequest::default()))
        .unwrap();
    let said: Vec<_> =
        page.items.iter().map(|entry| entry.details.iter().any(|(name, _)| name == UNPROVEN)).collect();
    assert_eq!(said, [false, true, false]);
    // What shortens the chain before is no alibi either.
    let short = store.system().org(busy);
    assert_eq!(short.write_freeing(|tx| tx.prune_audit(Moment(i64::MAX), 1)).await.unwrap(), 1);
    assert!(findings_with(&store, busy, &[3])[0].contains("the key 2"));
    note(&short, Action::UrlCreated).await;
    let page = short.read(|tx| tx.audit_page(&AuditFilter::default(), &PageRequest::default())).unwrap();
    assert!(page.items[0].details.iter().any(|(name, _)| name == UNPROVEN), "{:?}", page.items[0]);
    assert_eq!(findings_with(&store, busy, &[3]), Vec::<String>::new());
    store.close();
    drop(store);

    // With the key put back what nobody has written to is proven.
    let store = open(&[3, 2]);
    assert_eq!(store.system().renew_audit_seals().await.unwrap(), 1);
    assert_eq!(findings_with(&store, idle, &[3]), Vec::<String>::new());
}
