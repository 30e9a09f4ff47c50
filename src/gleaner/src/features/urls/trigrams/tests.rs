//! The index against a plain list: whatever is added and removed, a search finds what has the text, newest first.

use super::*;
use crate::features::urls::derived::{DERIVED, DerivedChanges, build_missing};
use crate::features::urls::tags::{TAG_COUNTS, urls_with};
use base::clock::{Clock, Timestamp};
use base::codec::Json;
use base::ids::OrgId;
use harness::random::Random;
use serde_json::json;
use store::fault::{FaultyDisk, damage_row};
use store::{MIGRATIONS, Store};

fn open(disk: &FaultyDisk) -> Store {
    let disk = disk.clone();
    Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap()
}

fn row(url: &str, tags: &[&str]) -> UrlV1 {
    UrlV1 {
        id: UrlId::new(),
        url: url.to_owned(),
        domain: "a.example".to_owned(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        metadata: Json(json!({})),
        page_type: None,
        workflow_id: None,
        last_job_id: None,
        last_scraped_at: None,
        last_status: None,
        created_at: Timestamp(0),
    }
}

/// Every page of a search.
fn found(tx: &OrgRead<'_>, typed: &str, limit: usize) -> Vec<String> {
    let (needle, mut urls) = (Needle::new(typed), Vec::new());
    let mut request = PageRequest { limit, cursor: None };
    loop {
        let page = page(tx, &needle, &request, |_| true).unwrap();
        assert!(page.items.len() <= limit);
        urls.extend(page.items.into_iter().map(|row| row.url));
        match page.next_cursor {
            None => return urls,
            next => request.cursor = next,
        }
    }
}

#[tokio::test]
async fn a_search_finds_what_a_look_at_every_url_finds() {
    let store = open(&FaultyDisk::new());
    let rows = store.system().org(OrgId::new());
    let (mut random, mut model): (_, Vec<(UrlId, String)>) = (Random(3), Vec::new());
    let words = ["shop", "Product", "item", "42", "1234", "a-b", "caf%C3%A9", "q?x=1", "~z", "%2F"];
    for round in 0..60 {
        let urls: Vec<String> = (0..random.below(40))
            .map(|_| {
                let count = 1 + random.below(4);
                let path: Vec<_> = (0..count).map(|_| words[random.below(words.len())]).collect();
                let host = words[random.below(3)].to_lowercase();
                format!("https://{host}.example/{}", path.join("/"))
            })
            .collect();
        let removed: Vec<UrlId> = if round % 5 == 4 {
            model.drain(..model.len() / 2).map(|(id, _)| id).collect()
        } else {
            Vec::new()
        };
        let gone = removed.clone();
        let added = rows
            .write(move |tx| {
                let (mut changes, mut added) = (DerivedChanges::default(), Vec::new());
                for (number, url) in urls.into_iter().enumerate() {
                    // One row for each URL.
                    let row = row(
                        &format!("{url}#{}", UrlId::new()),
                        if number % 2 == 0 { &["even"] } else { &[] },
                    );
                    tx.insert(&URLS, &row.id, &row)?;
                    changes.note(None, Some(&row));
                    added.push((row.id, row.url));
                }
                for id in gone {
                    let row = tx.require(&URLS, &id)?;
                    tx.delete(&URLS, &id)?;
                    changes.note(Some(&row), None);
                }
                changes.write(tx)?;
                Ok(added)
            })
            .await
            .unwrap();
        model.extend(added);
        rows.read(|tx| {
            let even = tx.scan(&URLS, None, Order::Ascending, 10_000)?;
            let even = even.iter().filter(|(_, row)| row.tags == ["even"]).count() as u64;
            assert_eq!(urls_with(tx, &"even".to_owned())?, even);
            for typed in [
                "shop",
                "SHOP",
                "12",
                "42",
                "~z",
                "caf\u{e9}",
                "product/1234",
                "q?x=1#",
                "zz",
                "example/item",
                "%2f",
                "no such",
            ] {
                let plain = Needle::new(typed);
                let expected: Vec<_> = model
                    .iter()
                    .rev()
                    .filter(|(_, url)| plain.is_in(url))
                    .map(|(_, url)| url.clone())
                    .collect();
                assert_eq!(found(tx, typed, 1 + random.below(30)), expected, "round {round}: {typed}");
            }
            Ok(())
        })
        .unwrap();
    }
    assert!(model.len() > 100, "{}", model.len());
}

#[tokio::test]
async fn chunks_without_urls_are_cleared_and_others_stay() {
    let store = open(&FaultyDisk::new());
    let rows = store.system().org(OrgId::new());
    let full = CHUNK_BLOCKS as usize * BLOCK_URLS;
    let urls: Vec<_> = (0..full + 20).map(|n| (UrlId::new(), format!("https://a.example/{n}"))).collect();
    for part in urls.chunks(4_000) {
        let part = part.to_vec();
        rows.write(move |tx| add(tx, &part)).await.unwrap();
    }
    assert_eq!(rows.read(|tx| dead_chunk(tx, None)).unwrap(), None);
    for part in urls[..full].chunks(4_000) {
        let part: Vec<_> = part.iter().map(|(id, _)| *id).collect();
        rows.write(move |tx| part.into_iter().try_for_each(|id| remove(tx, id))).await.unwrap();
    }
    assert_eq!(rows.read(|tx| dead_chunk(tx, None)).unwrap(), Some(0));
    while !rows.write(|tx| drop_chunk(tx, 0)).await.unwrap() {}
    assert_eq!(rows.read(|tx| dead_chunk(tx, None)).unwrap(), None);
    rows.read(|tx| {
        let left = tx.scan(&TRIGRAMS, None, Order::Ascending, 10)?;
        assert!(!left.is_empty() && left.iter().all(|((chunk, _), _)| *chunk == 1));
        let needle = Needle::new("a.example/");
        let blocks = needle.blocks(tx, 1)?.unwrap();
        assert_eq!(blocks.down_from(CHUNK_BLOCKS).collect::<Vec<_>>(), [1, 0]);
        Ok(())
    })
    .unwrap();
}

/// A needle and URLs that are nearly alike, which a plain comparison at each place would take minutes for.
#[test]
fn a_search_takes_as_long_as_the_urls_are() {
    let url = format!("https://a.example/{}b", "a".repeat(2_000));
    let needle = Needle::new(&format!("{}B", "A".repeat(1_000)));
    let other = Needle::new(&format!("{}c", "a".repeat(1_000)));
    let begun = std::time::Instant::now();
    for _ in 0..PAGE_SCAN_ROWS_MAX {
        assert!(needle.is_in(&url) && !other.is_in(&url));
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    let many: String = (0..500).map(|n| format!("{n:x}-")).collect();
    let many = Needle::new(&many);
    assert!((40..=NEEDLE_TRIGRAMS_MAX).contains(&many.trigrams.len()), "{}", many.trigrams.len());
}

/// A block that a disk has altered hides its own URLs and nothing else: others are found, page by page, and new ones registered.
#[tokio::test]
async fn a_damaged_block_keeps_no_url_from_being_registered_or_found() {
    let store = open(&FaultyDisk::new());
    let rows = store.system().org(OrgId::new());
    let register = |from: usize, count: usize| {
        let urls: Vec<_> =
            (from..from + count).map(|n| row(&format!("https://a.example/{n}"), &[])).collect();
        rows.write(move |tx| {
            let mut changes = DerivedChanges::default();
            for row in &urls {
                tx.insert(&URLS, &row.id, row)?;
                changes.note(None, Some(row));
            }
            changes.write(tx)
        })
    };
    register(0, 2 * BLOCK_URLS + 5).await.unwrap();
    let newest = rows.read(|tx| Ok(tx.scan(&BLOCKS, None, Order::Descending, 1)?[0].0)).unwrap();
    rows.write(move |tx| damage_row(tx, &BLOCKS, &newest)).await.unwrap();
    register(100, BLOCK_URLS + 3).await.unwrap();
    register(200, 2).await.unwrap();
    let numbers = (0..2 * BLOCK_URLS).chain(100..100 + BLOCK_URLS + 3).chain(200..202);
    let due: Vec<_> = numbers.rev().map(|n| format!("https://a.example/{n}")).collect();
    for limit in [1, 7, 200] {
        assert_eq!(rows.read(|tx| Ok(found(tx, "a.example", limit))).unwrap(), due);
    }
}

/// Blocks of which nothing is left cost a look each, so a page ends at them as well.
#[tokio::test]
async fn a_page_ends_where_it_looked_at_enough_that_is_gone() {
    let store = open(&FaultyDisk::new());
    let rows = store.system().org(OrgId::new());
    let chunks = 3 * PAGE_SCAN_ROWS_MAX as u32 / CHUNK_BLOCKS;
    let urls: Vec<_> = (0..chunks).map(|n| row(&format!("https://a.example/{n}"), &[])).collect();
    let due: Vec<_> = urls.iter().rev().map(|row| row.url.clone()).collect();
    let put = move |tx: &OrgWrite<'_>| {
        for (chunk, row) in (0..).zip(urls) {
            tx.insert(&URLS, &row.id, &row)?;
            tx.insert(&BLOCKS, &row.id, &BlockV1 { chunk, at: 0, ids: vec![row.id] })?;
            for trigram in trigrams(&indexed(&row.url)) {
                tx.insert(&TRIGRAMS, &(chunk, trigram), &BlockSetV1::all())?;
            }
            // The newest one that is left of the chunk.
            let last = UrlId::new();
            tx.insert(&BLOCKS, &last, &BlockV1 { chunk, at: CHUNK_BLOCKS - 1, ids: vec![last] })?;
        }
        Ok(())
    };
    rows.write(put).await.unwrap();
    rows.read(|tx| {
        let request = PageRequest { limit: 200, cursor: None };
        let first = page(tx, &Needle::new("a.example"), &request, |_| true)?;
        assert!(first.items.len() < due.len() && first.next_cursor.is_some(), "{}", first.items.len());
        assert_eq!(found(tx, "a.example", 200), due);
        Ok(())
    })
    .unwrap();
}

/// A folder of an older release: rows, and nothing that follows from them.
#[tokio::test]
async fn an_older_folder_is_indexed_once() {
    let store = open(&FaultyDisk::new());
    let (org, other) = (OrgId::new(), OrgId::new());
    let (rows, system) = (store.system().org(org), store.system());
    for part in 0..3 {
        rows.write(move |tx| {
            (0..500).try_for_each(|n| {
                let row = row(&format!("https://a.example/{}", part * 500 + n), &["old"]);
                tx.insert(&URLS, &row.id, &row)
            })
        })
        .await
        .unwrap();
    }
    let new = move |tx: &OrgWrite<'_>| {
        let row = row("https://b.example/", &["new"]);
        let mut changes = DerivedChanges::default();
        tx.insert(&URLS, &row.id, &row)?;
        changes.note(None, Some(&row));
        changes.write(tx)
    };
    system.org(other).write(new).await.unwrap();
    for _ in 0..2 {
        build_missing(&system).await.unwrap();
        rows.read(|tx| {
            assert_eq!(urls_with(tx, &"old".to_owned())?, 1_500);
            assert_eq!(found(tx, "example/149", 7).len(), 11);
            assert!(tx.get(&DERIVED, &())?.is_some());
            Ok(())
        })
        .unwrap();
        assert_eq!(system.org(other).read(|tx| tx.count(&TAG_COUNTS, 10)).unwrap(), 1);
    }
}
