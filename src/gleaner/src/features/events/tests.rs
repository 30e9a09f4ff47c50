//! The log inside the store.

use super::blocks;
use super::kind::{EventKind, KINDS};
use super::log::{self, NewEvent};
use super::rows::{BLOCKS, EVENTS, LOGS};
use crate::features::ALL;
use base::clock::{Clock, Moment};
use base::ids::{JobId, OrgId};
use base::permission::Permission;
use serde_json::json;
use std::collections::BTreeSet;
use store::fault::FaultyDisk;
use store::{MIGRATIONS, Order, OrgStore, Store};

static HAPPENED: EventKind = EventKind::new("test.happened", Permission::JobsRead, "Of this test.");

fn store() -> Store {
    Store::open_backend(|| FaultyDisk::new().backend(), Clock::system(), MIGRATIONS).unwrap()
}

async fn write(org: &OrgStore, count: u64) {
    org.write(move |tx| {
        for n in 0..count {
            NewEvent::of(&HAPPENED, JobId::new()).data(json!({ "n": n })).write(tx)?;
        }
        Ok(())
    })
    .await
    .unwrap();
}

fn places(org: &OrgStore) -> Vec<u64> {
    org.read(|tx| {
        Ok(tx.scan(&EVENTS, None, Order::Ascending, 10_000)?.into_iter().map(|(at, _)| at).collect())
    })
    .unwrap()
}

#[tokio::test]
async fn places_go_on_and_ids_sort_whatever_is_trimmed() {
    let store = store();
    let (org, other) = (store.system().org(OrgId::new()), store.system().org(OrgId::new()));
    write(&org, 700).await;
    write(&other, 3).await;
    write(&org, 2).await;
    assert_eq!(places(&org), (1..=702).collect::<Vec<_>>());
    assert_eq!(places(&other), [1, 2, 3], "nobody sees by their numbers what others do");
    let ids: Vec<_> =
        org.read(|tx| Ok(log::behind(tx, 0, 1_000)?.0.into_iter().map(|row| row.id).collect())).unwrap();
    assert!(ids.is_sorted());
    // By rows, in bounded steps.
    assert!(org.write(|tx| log::trim(tx, Moment(0), 100)).await.unwrap());
    assert!(!org.write(|tx| log::trim(tx, Moment(0), 100)).await.unwrap());
    assert_eq!(places(&org), (603..=702).collect::<Vec<_>>());
    // By age: everything. The next one has the next place all the same.
    assert!(
        !org.write(|tx| log::trim(tx, tx.moment().after(std::time::Duration::from_secs(1)), 100))
            .await
            .unwrap()
    );
    assert!(places(&org).is_empty());
    write(&org, 1).await;
    assert_eq!(places(&org), [703]);
    let log = org.read(log::log).unwrap();
    assert_eq!((log.last, log.trimmed), (703, 702));
    // A log that cannot say where it ends goes on behind its rows.
    org.write(|tx| tx.delete(&LOGS, &())).await.unwrap();
    write(&org, 1).await;
    assert_eq!((places(&org), places(&other)), (vec![703, 704], vec![1, 2, 3]));
}

/// Every event is in one block, whenever blocks are made, and blocks go with their events.
#[tokio::test]
async fn blocks_follow_each_other_and_go_with_their_events() {
    let store = store();
    let org = store.system().org(OrgId::new());
    let blocks_of = |org: &OrgStore| org.read(|tx| tx.scan(&BLOCKS, None, Order::Ascending, 1_000)).unwrap();
    for count in [1, 450, 3] {
        write(&org, count).await;
        org.write(blocks::gather).await.unwrap();
        org.write(blocks::gather).await.unwrap();
    }
    let all = blocks_of(&org);
    let ends: Vec<_> = all.iter().map(|(first, block)| (*first, block.last)).collect();
    assert_eq!(ends, [(1, 1), (2, 201), (202, 401), (402, 451), (452, 454)]);
    while org.write(|tx| super::trim(tx, Moment(0), 100)).await.unwrap() {}
    // 355 to 454 are kept: of the block that begins with 202 some are.
    assert_eq!(places(&org), (355..=454).collect::<Vec<_>>());
    assert_eq!(blocks_of(&org).first().map(|(first, _)| *first), Some(202));
    // A log of an earlier release has no blocks: they are made of what is kept.
    org.write(|tx| blocks_of_tx(tx).into_iter().try_for_each(|first| tx.delete(&BLOCKS, &first).map(drop)))
        .await
        .unwrap();
    org.write(blocks::gather).await.unwrap();
    assert_eq!(
        blocks_of(&org).iter().map(|(first, block)| (*first, block.last)).collect::<Vec<_>>(),
        [(355, 454)]
    );
    // Where all that was put together goes at once, the console is told first of what is kept.
    write(&org, 250).await;
    assert!(!org.write(|tx| super::trim(tx, Moment(0), 100)).await.unwrap());
    assert_eq!(
        blocks_of(&org).iter().map(|(first, block)| (*first, block.last)).collect::<Vec<_>>(),
        [(605, 704)]
    );
}

fn blocks_of_tx(tx: &store::OrgWrite<'_>) -> Vec<u64> {
    tx.scan(&BLOCKS, None, Order::Ascending, 1_000).unwrap().into_iter().map(|(first, _)| first).collect()
}

#[tokio::test]
async fn a_row_is_small_and_data_are_bounded() {
    let store = store();
    let org = store.system().org(OrgId::new());
    org.write(|tx| {
        let tags = ["shoes".to_owned()];
        let data =
            json!({ "url": "https://shop.example/products/123456", "resultId": JobId::new(), "attempts": 1 });
        NewEvent::of(&HAPPENED, JobId::new()).about("shop.example", &tags).data(data).write(tx)
    })
    .await
    .unwrap();
    let bytes = org.read(|tx| Ok(tx.used(EVENTS.name())?.bytes)).unwrap();
    assert!(bytes < 256, "{bytes} bytes for an event");
    org.write(|tx| {
        NewEvent::of(&HAPPENED, JobId::new()).data(json!({ "text": "x".repeat(1 << 20) })).write(tx)
    })
    .await
    .unwrap();
    let (rows, _) = org.read(|tx| log::behind(tx, 1, 10)).unwrap();
    assert_eq!(rows[0].data.0, json!({ "truncated": true }));
}

/// The kinds that slices declare are what the reference and the guide list.
#[test]
fn kinds_are_declared_once_and_described() {
    let all: Vec<_> = ALL.iter().flat_map(|slice| slice.events).collect();
    assert_eq!(all.len(), KINDS.len(), "two kinds have one name");
    let guide = include_str!("../../../../../data/docs/api.md");
    let listed = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let of_events = |name: &str| {
        name.split_once('.').is_some_and(|(of, what)| {
            [of, what]
                .iter()
                .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        })
    };
    let listed: BTreeSet<_> = listed.map(|(name, _)| name).filter(|name| of_events(name)).collect();
    let known: BTreeSet<_> = KINDS.keys().copied().filter(|name| of_events(name)).collect();
    assert_eq!(listed, known, "data/docs/api.md, \"Events\"");
}
