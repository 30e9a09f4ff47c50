//! The audit log against itself: chains, damage, pages, pruning, erasure, and who acts.

mod seals;

use super::list::AuditFilter;
use super::*;
use crate::event::Detail;
use crate::fault::FaultyDisk;
use crate::{AuthMethod, Identity, MIGRATIONS, OrgStore, OrgWrite, Store};
use base::Code;
use base::clock::{Clock, Moment};
use base::ids::{ApiKeyId, JobId, RequestId, UserId};
use base::page::PageRequest;
use base::permission::Role;
use std::sync::Arc;
use std::time::Duration;

fn store(clock: &Clock) -> Store {
    let disk = FaultyDisk::new();
    Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap()
}

/// A request of a person, or of a key of theirs, from an address.
fn request(store: &Store, org: OrgId, user: UserId, key: Option<ApiKeyId>) -> Arc<Origin> {
    let origin = Origin::request("192.0.2.7".parse().unwrap(), RequestId::accept(Some("req-1")));
    origin.identify(&store.system().principal(Identity {
        user,
        name: "Ada".into(),
        membership: Some((org, Role::Owner)),
        allowed: Role::Owner.permissions(),
        email_verified: true,
        method: key.map_or(AuthMethod::Jwt, AuthMethod::ApiKey),
    }));
    origin
}

async fn note(org: &OrgStore, action: Action) {
    org.write(move |tx| tx.audit(Event::new(action).of(JobId::new()).with("n", 7u64))).await.unwrap();
}

fn numbers(org: &OrgStore, filter: &AuditFilter) -> Vec<u64> {
    let page = org.read(|tx| tx.audit_page(filter, &PageRequest::default())).unwrap();
    page.items.into_iter().map(|entry| entry.number).collect()
}

fn findings(store: &Store, org: OrgId) -> Vec<String> {
    chain_findings(store, Some(org))
}

#[tokio::test]
async fn a_row_says_who_from_where_and_in_which_request() {
    let store = store(&Clock::system());
    let (org, ada, key) = (store.system().org(OrgId::new()), UserId::new(), ApiKeyId::new());
    let origin = request(&store, org.id(), ada, Some(key));
    origin.scope(note(&org, Action::JobSubmitted)).await;
    note(&org, Action::JobCanceled).await;
    let page = org.read(|tx| tx.audit_page(&AuditFilter::default(), &PageRequest::default())).unwrap();
    let (by_box, by_key) = (&page.items[0], &page.items[1]);
    assert_eq!((by_key.number, by_key.actor), (1, Actor::ApiKey { key, maker: ada }));
    assert_eq!((by_key.action.as_str(), by_key.resource_type.as_str()), ("job.submitted", "job"));
    assert_eq!(by_key.ip.map(|ip| ip.to_string()).as_deref(), Some("192.0.2.7"));
    assert_eq!(by_key.request_id.as_deref(), Some("req-1"));
    assert_eq!(by_key.details, [("n".to_owned(), Detail::Number(7))]);
    assert_eq!((by_box.actor, by_box.ip, by_box.request_id.clone()), (Actor::System, None, None));
    assert_eq!((by_key.id.0.get_version_num(), by_key.id.0.get_variant()), (7, uuid::Variant::RFC4122));
    assert!(by_box.id > by_key.id);
    assert_eq!(findings(&store, org.id()), Vec::<String>::new());
    let other = store.system().org(OrgId::new());
    assert!(numbers(&other, &AuditFilter::default()).is_empty());
}

#[tokio::test]
async fn somebodys_operation_without_a_row_is_refused_and_leaves_nothing() {
    let store = store(&Clock::system());
    let org = store.system().org(OrgId::new());
    let raw = |tx: &OrgWrite<'_>| {
        tx.raw().set("notes", vec![1], Some(vec![2]));
        Ok(())
    };
    let silent = org.write(raw);
    let origin = request(&store, org.id(), UserId::new(), None);
    assert_eq!(origin.clone().scope(silent).await.unwrap_err().code(), Code::InternalError);
    let excused = org.write(move |tx| {
        tx.unaudited("this is a test");
        raw(tx)
    });
    origin.clone().scope(excused).await.unwrap();
    origin.scope(org.write(|_| Ok(()))).await.unwrap();
    org.write(raw).await.unwrap();
}

#[tokio::test]
async fn a_refused_operation_leaves_no_row_and_numbers_stay_contiguous() {
    let store = store(&Clock::system());
    let org = store.system().org(OrgId::new());
    note(&org, Action::JobSubmitted).await;
    let refused = org.write(|tx| {
        tx.audit(Event::new(Action::JobCanceled))?;
        Err::<(), _>(Error::conflict("no"))
    });
    refused.await.unwrap_err();
    let two = org.write(|tx| {
        tx.audit(Event::new(Action::JobCanceled))?;
        tx.audit(Event::new(Action::JobRetried))
    });
    two.await.unwrap();
    assert_eq!(numbers(&org, &AuditFilter::default()), [3, 2, 1]);
    assert_eq!(findings(&store, org.id()), Vec::<String>::new());
}

/// What a walk along a chain finds wrong.
pub(super) fn chain_findings(store: &Store, org: Option<OrgId>) -> Vec<String> {
    let look = |tx: &crate::SysRead<'_>| {
        let (view, chain) = tx.audit_chain(org);
        check_chain(view, &chain, org, None)
    };
    store.system().read(look).unwrap().findings
}

/// Changes the stored row of a number: gone, or with one byte flipped.
async fn damage(org: &OrgStore, table: &'static str, number: u64, flip: Option<usize>) {
    org.write(move |tx| {
        let chain = tx.audit_parts().1;
        let key = if table == OF_ORG.heads { chain.head_key() } else { chain.row_key(number) };
        let changed = flip.map(|at| {
            let mut bytes = tx.raw().get(table, &key).unwrap().unwrap();
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 1;
            bytes
        });
        tx.raw().set(table, key, changed);
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn every_byte_that_is_changed_is_noticed() {
    let store = store(&Clock::system());
    let (org, ada) = (store.system().org(OrgId::new()), UserId::new());
    for _ in 0..3 {
        request(&store, org.id(), ada, None).scope(note(&org, Action::UrlCreated)).await;
    }
    let length = |number| {
        let read = |tx: &crate::OrgRead<'_>| {
            let (view, chain) = tx.audit_parts();
            Ok(view.get(OF_ORG.rows, &chain.row_key(number))?.unwrap().len())
        };
        org.read(read).unwrap()
    };
    for number in 1..=3 {
        for at in 0..length(number) {
            damage(&org, OF_ORG.rows, number, Some(at)).await;
            assert!(!findings(&store, org.id()).is_empty(), "byte {at} of row {number}");
            damage(&org, OF_ORG.rows, number, Some(at)).await;
        }
    }
    assert_eq!(findings(&store, org.id()), Vec::<String>::new());
}

#[tokio::test]
async fn a_missing_row_is_named_wherever_it_was() {
    for (gone, part) in [
        (&[1u64][..], "row 1 is missing"),
        (&[3], "row 3 is missing, in between"),
        (&[2, 3], "rows 2 to 3 are missing"),
        (&[5], "row 5 is missing, at the end"),
        (&[4, 5], "rows 4 to 5 are missing, at the end"),
        (&[1, 2, 3, 4, 5], "rows 1 to 5 are missing"),
    ] {
        let store = store(&Clock::system());
        let org = store.system().org(OrgId::new());
        for _ in 0..5 {
            note(&org, Action::JobSubmitted).await;
        }
        for number in gone {
            damage(&org, OF_ORG.rows, *number, None).await;
        }
        let found = findings(&store, org.id());
        assert!(found[0].contains(part), "{gone:?}: {found:?}");
    }
}

#[tokio::test]
async fn swapped_rows_a_lost_head_and_a_lost_index_entry_are_noticed() {
    let store = store(&Clock::system());
    let org = store.system().org(OrgId::new());
    for _ in 0..4 {
        note(&org, Action::UrlCreated).await;
    }
    let swap = || {
        org.write(|tx| {
            let (view, chain) = (tx.raw(), tx.audit_parts().1);
            let (a, b) = (chain.row_key(2), chain.row_key(3));
            let (first, second) = (view.get(OF_ORG.rows, &a)?, view.get(OF_ORG.rows, &b)?);
            view.set(OF_ORG.rows, a, second);
            view.set(OF_ORG.rows, b, first);
            Ok(())
        })
    };
    swap().await.unwrap();
    let found = findings(&store, org.id());
    assert!(found.iter().any(|one| one.contains("row 2 was changed or moved")), "{found:?}");
    assert!(found.iter().any(|one| one.contains("row 3 was changed or moved")), "{found:?}");
    swap().await.unwrap();
    assert_eq!(findings(&store, org.id()), Vec::<String>::new());

    let entry = org.write(|tx| {
        let key = [tx.audit_parts().1.resource_prefix("url").as_slice(), &3u64.to_be_bytes()].concat();
        tx.raw().set(OF_ORG.by_resource, key, None);
        Ok(())
    });
    entry.await.unwrap();
    assert_eq!(findings(&store, org.id()), ["row 3 is not in the index audit.by_resource"]);
    damage(&org, OF_ORG.heads, 0, None).await;
    assert!(findings(&store, org.id()).contains(&"the head row is missing".to_owned()));
}

#[tokio::test]
async fn pages_by_who_what_kind_and_time() {
    let clock = Clock::system();
    let store = store(&clock);
    let (org, ada, bob, key) =
        (store.system().org(OrgId::new()), UserId::new(), UserId::new(), ApiKeyId::new());
    let begun = clock.now();
    for n in 0..30u64 {
        let (user, key) = if n % 3 == 0 { (bob, None) } else { (ada, (n % 3 == 1).then_some(key)) };
        let action = if n % 2 == 0 { Action::JobSubmitted } else { Action::UrlCreated };
        request(&store, org.id(), user, key).scope(note(&org, action)).await;
        clock.advance(Duration::from_secs(60));
    }
    let wanted = |keep: &dyn Fn(u64) -> bool| (1..=30).rev().filter(|n| keep(n - 1)).collect::<Vec<_>>();
    let of = |filter: AuditFilter| numbers(&org, &filter);
    assert_eq!(of(AuditFilter::default()), wanted(&|_| true));
    assert_eq!(of(AuditFilter { actor: Some(bob.0), ..AuditFilter::default() }), wanted(&|n| n % 3 == 0));
    assert_eq!(of(AuditFilter { actor: Some(ada.0), ..AuditFilter::default() }), wanted(&|n| n % 3 != 0));
    assert_eq!(of(AuditFilter { actor: Some(key.0), ..AuditFilter::default() }), wanted(&|n| n % 3 == 1));
    let url = AuditFilter { action: Some(Action::UrlCreated), ..AuditFilter::default() };
    assert_eq!(of(url.clone()), wanted(&|n| n % 2 == 1));
    let job = AuditFilter { resource_type: Some("job".to_owned()), ..AuditFilter::default() };
    assert_eq!(of(job), wanted(&|n| n % 2 == 0));
    assert_eq!(of(AuditFilter { actor: Some(bob.0), ..url.clone() }), wanted(&|n| n % 6 == 3));
    assert!(of(AuditFilter { resource_type: Some("job".to_owned()), ..url.clone() }).is_empty());
    let at = |minutes: u64| Some(begun.after(Duration::from_secs(60 * minutes)));
    let window = AuditFilter { from: at(10), to: at(20), ..AuditFilter::default() };
    assert_eq!(of(window.clone()), wanted(&|n| (10..20).contains(&n)));
    let both = AuditFilter { action: url.action, ..window };
    assert_eq!(of(both.clone()), wanted(&|n| (10..20).contains(&n) && n % 2 == 1));
    assert!(of(AuditFilter { from: at(31), ..AuditFilter::default() }).is_empty());
    assert!(of(AuditFilter { to: at(0), ..AuditFilter::default() }).is_empty());

    let mut request = PageRequest { limit: 2, cursor: None };
    let mut seen = Vec::new();
    loop {
        let page = org.read(|tx| tx.audit_page(&both, &request)).unwrap();
        seen.extend(page.items.iter().map(|entry| entry.number));
        let Some(next) = page.next_cursor else { break };
        request.cursor = Some(next);
        note(&org, Action::UrlCreated).await;
    }
    assert_eq!(
        seen,
        wanted(&|n| (10..20).contains(&n) && n % 2 == 1),
        "rows that come meanwhile change nothing"
    );
    let foreign = PageRequest { limit: 2, cursor: Some(base::page::encode_cursor(LIST_OF_OTHERS, b"x")) };
    assert_eq!(org.read(|tx| tx.audit_page(&both, &foreign)).unwrap_err().code(), Code::InvalidInput);
}

const LIST_OF_OTHERS: &str = "jobs";

#[tokio::test]
async fn what_was_pruned_leaves_the_rest_provable() {
    let clock = Clock::system();
    let store = store(&clock);
    let (org, ada) = (store.system().org(OrgId::new()), UserId::new());
    for _ in 0..10 {
        request(&store, org.id(), ada, None).scope(note(&org, Action::UrlCreated)).await;
        clock.advance(Duration::from_secs(60));
    }
    let before = clock.moment();
    note(&org, Action::UrlCreated).await;
    assert_eq!(store.system().prune_audit(before, || false).await.unwrap(), 10);
    assert_eq!(numbers(&org, &AuditFilter::default()), [12, 11]);
    let page = org.read(|tx| tx.audit_page(&AuditFilter::default(), &PageRequest::default())).unwrap();
    assert_eq!((page.items[0].action.as_str(), page.items[0].actor), ("audit.pruned", Actor::System));
    assert!(page.items[0].details.contains(&("count".to_owned(), Detail::Number(10))));
    assert!(numbers(&org, &AuditFilter { actor: Some(ada.0), ..AuditFilter::default() }).is_empty());
    assert_eq!(findings(&store, org.id()), Vec::<String>::new());
    assert_eq!(store.system().prune_audit(before, || false).await.unwrap(), 0, "nothing more to do");
    damage(&org, OF_ORG.rows, 11, None).await;
    assert!(findings(&store, org.id())[0].contains("row 11 is missing"));
}

#[tokio::test]
async fn a_damaged_row_keeps_no_other_chain_from_being_pruned() {
    let clock = Clock::system();
    let store = store(&clock);
    let mut orgs = [OrgId::new(), OrgId::new(), OrgId::new()].map(|id| store.system().org(id));
    orgs.sort_by_key(OrgStore::id);
    for org in &orgs {
        for _ in 0..5 {
            note(org, Action::UrlCreated).await;
        }
    }
    clock.advance(Duration::from_secs(60));
    let before = clock.moment();
    damage(&orgs[0], OF_ORG.rows, 1, Some(40)).await;
    damage(&orgs[1], OF_ORG.rows, 4, Some(40)).await;
    assert_eq!(store.system().prune_audit(before, || false).await.unwrap(), 3 + 5);
    let kept = |org: &OrgStore| {
        let first = org.read(|tx| {
            let (view, chain) = tx.audit_parts();
            Ok(chain.head(view)?.map(|head| head.first))
        });
        first.unwrap().unwrap()
    };
    assert_eq!(orgs.each_ref().map(kept), [1, 4, 6], "what stands before a damaged row goes");
}

#[tokio::test]
async fn a_damaged_row_tells_of_an_erased_person_no_more_or_is_counted() {
    let store = store(&Clock::system());
    let (org, ada) = (store.system().org(OrgId::new()), UserId::new());
    for _ in 0..4 {
        request(&store, org.id(), ada, None).scope(note(&org, Action::UrlCreated)).await;
    }
    let personal = |number: u64| {
        org.read(|tx| {
            let (view, chain) = tx.audit_parts();
            let bytes = view.get(OF_ORG.rows, &chain.row_key(number))?.unwrap();
            Ok(row::AuditFrame::read(&bytes).map(|framed| framed.personal.len()))
        })
    };
    assert!(personal(2).unwrap().unwrap() > 0);
    // The body, the last byte of the personal part, and the byte that says how the row is laid out.
    for (number, at) in [(1, 40), (2, usize::MAX), (3, 0)] {
        damage(&org, OF_ORG.rows, number, Some(at)).await;
    }
    assert_eq!(store.system().erase_personal(ada).await.unwrap(), ErasedParts { erased: 3, left: 1 });
    assert_eq!([1, 2, 3, 4].map(|number| personal(number).unwrap()), [Some(0), Some(0), None, Some(0)]);
    // Nobody can say whose address stands in what cannot be read.
    let event = || Event::new(Action::InviteCreated).personal("email", "eve@example.com");
    for number in [5, 6] {
        org.write(move |tx| tx.audit(event())).await.unwrap();
        assert!(personal(number).unwrap().unwrap() > 0);
    }
    damage(&org, OF_ORG.rows, 5, Some(usize::MAX)).await;
    let now = store.clock().now();
    let erased = store.system().erase_address("bob@example.com", now).await.unwrap();
    assert_eq!(erased, ErasedParts { erased: 1, left: 1 });
    assert_eq!((personal(5).unwrap(), personal(6).unwrap().is_some_and(|bytes| bytes > 0)), (Some(0), true));
}

#[tokio::test]
async fn an_erased_person_is_gone_and_the_chain_holds() {
    let store = store(&Clock::system());
    let (one, two) = (store.system().org(OrgId::new()), store.system().org(OrgId::new()));
    let (ada, bob, key) = (UserId::new(), UserId::new(), ApiKeyId::new());
    // More than one operation's rows.
    for _ in 0..600 {
        request(&store, one.id(), ada, Some(key)).scope(note(&one, Action::JobSubmitted)).await;
    }
    let invite = |org: OrgStore| async move {
        let event = Event::new(Action::InviteCreated).personal("email", "eve@example.com");
        org.write(move |tx| tx.audit(event)).await.unwrap();
    };
    request(&store, two.id(), ada, None).scope(invite(two.clone())).await;
    request(&store, two.id(), bob, None).scope(note(&two, Action::UrlCreated)).await;
    let refused = Event::new(Action::AuthLoginRefused).about(ada);
    Origin::request("192.0.2.9".parse().unwrap(), RequestId::accept(None))
        .scope(store.system().write(move |tx| tx.audit_refusal(None, refused)))
        .await
        .unwrap();

    assert_eq!(store.system().erase_personal(ada).await.unwrap().erased, 602);
    for org in [&one, &two] {
        let page = org.read(|tx| tx.audit_page(&AuditFilter::default(), &PageRequest::default())).unwrap();
        for entry in page.items {
            let is_adas = entry.person == Some(ada);
            assert_eq!((entry.ip.is_none(), entry.request_id.is_none()), (is_adas, is_adas));
            assert!(!entry.details.iter().any(|(name, _)| name == "email"));
        }
        assert_eq!(findings(&store, org.id()), Vec::<String>::new());
    }
    assert_eq!(chain_findings(&store, None), Vec::<String>::new());
    assert_eq!(numbers(&two, &AuditFilter { actor: Some(ada.0), ..AuditFilter::default() }), [1]);
    assert_eq!(store.system().erase_personal(ada).await.unwrap().erased, 0, "again changes nothing");
    // A personal part that was put back is noticed, too.
    let forged = two.write(|tx| {
        let key = tx.audit_parts().1.row_key(1);
        let bytes = tx.raw().get(OF_ORG.rows, &key)?.unwrap();
        tx.raw().set(OF_ORG.rows, key, Some([bytes.as_slice(), b"forged"].concat()));
        Ok(())
    });
    forged.await.unwrap();
    assert!(findings(&store, two.id())[0].contains("personal part"));
}

#[tokio::test]
async fn a_clock_that_is_set_changes_dates_and_no_order() {
    const YEAR_MS: i64 = 365 * 86_400_000;
    let clock = Clock::system();
    let store = store(&clock);
    let org = store.system().org(OrgId::new());
    let begun = clock.now();
    note(&org, Action::UrlCreated).await;
    clock.set_wall(YEAR_MS);
    note(&org, Action::UrlCreated).await;
    clock.set_wall(-YEAR_MS);
    note(&org, Action::UrlCreated).await;
    let page = org.read(|tx| tx.audit_page(&AuditFilter::default(), &PageRequest::default())).unwrap();
    let dates: Vec<bool> =
        page.items.iter().map(|row| row.at.since(begun) > Duration::from_secs(86_400)).collect();
    assert_eq!(dates, [false, true, false], "each has the date that was");
    assert_eq!(numbers(&org, &AuditFilter::default()), [3, 2, 1]);
    let day_later = begun.after(Duration::from_secs(86_400));
    assert_eq!(numbers(&org, &AuditFilter { from: Some(day_later), ..AuditFilter::default() }), [2]);
    assert_eq!(numbers(&org, &AuditFilter { to: Some(day_later), ..AuditFilter::default() }), [3, 1]);
    assert_eq!(findings(&store, org.id()), Vec::<String>::new());
    // What was written in the wrong year is as old as it is.
    let system = store.system();
    assert_eq!(
        system.prune_audit(clock.moment().before(Duration::from_secs(3_600)), || false).await.unwrap(),
        0
    );
    clock.advance(Duration::from_secs(7_200));
    assert_eq!(
        system.prune_audit(clock.moment().before(Duration::from_secs(3_600)), || false).await.unwrap(),
        3
    );
}

#[tokio::test]
async fn counted_refusals_become_one_row_of_their_first() {
    let clock = Clock::system();
    let store = store(&clock);
    let (org, ada) = (store.system().org(OrgId::new()), UserId::new());
    let origin = request(&store, org.id(), ada, None);
    let denied = || Event::new(Action::AccessDenied).named("listMembers");
    for _ in 0..50 {
        origin.clone().scope(store.system().refused(Some(org.id()), denied())).await;
    }
    assert_eq!(numbers(&org, &AuditFilter::default()), [1], "the others are counted");
    store.system().flush_refusals(false).await.unwrap();
    assert_eq!(numbers(&org, &AuditFilter::default()), [1], "their minute is not over");
    clock.advance(Duration::from_secs(60));
    store.system().flush_refusals(false).await.unwrap();
    let page = org.read(|tx| tx.audit_page(&AuditFilter::default(), &PageRequest::default())).unwrap();
    assert_eq!(page.items.len(), 2);
    assert_eq!(
        (page.items[0].actor, &page.items[0].resource_id),
        (Actor::User(ada), &Some("listMembers".to_owned()))
    );
    assert_eq!(page.items[0].details[0], ("repeated".to_owned(), Detail::Number(49)));
    assert_eq!(findings(&store, org.id()), Vec::<String>::new());
}

#[tokio::test]
async fn an_organization_behind_a_fence_takes_and_shows_no_rows() {
    let store = store(&Clock::system());
    let org = store.system().org(OrgId::new());
    let id = org.id();
    note(&org, Action::UrlCreated).await;
    let system = store.system();
    let fence = system.write(move |tx| {
        tx.fence(id);
        Ok(())
    });
    fence.await.unwrap();
    let refused = org.write(|tx| tx.audit(Event::new(Action::UrlCreated))).await.unwrap_err();
    assert_eq!(refused.code(), Code::OrgNotFound);
    assert!(numbers(&org, &AuditFilter::default()).is_empty());
    let origin = request(&store, id, UserId::new(), None);
    origin.scope(store.system().refused(Some(id), Event::new(Action::AccessDenied))).await;
    assert_eq!(store.system().prune_audit(Moment(i64::MAX), || false).await.unwrap(), 0);
    assert_eq!(store.system().erase_personal(UserId::new()).await.unwrap(), ErasedParts::default());
    let mut from = Vec::new();
    loop {
        let step = store.system().write(move |tx| tx.erase_rows(id, &from, 1_000)).await.unwrap();
        let Some(next) = step.next else { break };
        from = next;
    }
    let left = store.system().read(|tx| tx.next_org(OF_ORG.heads, None)).unwrap();
    assert_eq!((left, findings(&store, id)), (None, Vec::new()));
}
