//! The index as its callers use it, on a real folder.

mod files;
mod scan;

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use uuid::Uuid;

use super::*;

/// Ids in a known order, without a clock.
fn id(n: u128) -> Uuid {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 | n)
}

fn document(text: &str) -> SearchDocument {
    SearchDocument {
        job_id: id(1),
        url_id: None,
        url: "https://shop.example/p/42?ref=Home".to_owned(),
        domain: "shop.example".to_owned(),
        page_type: Some("product".to_owned()),
        tags: Vec::new(),
        quality: 0.8,
        changed: false,
        scraped_at_ms: 1_000,
        title: String::new(),
        text: text.to_owned(),
    }
}

fn put(org: Uuid, id: Uuid, document: SearchDocument) -> SearchChange {
    SearchChange { org, id, document: Some(document) }
}

fn open(dir: &TempDir) -> SearchIndex {
    SearchIndex::open(dir.path().join("search")).unwrap()
}

/// A new index with these texts in one organization, ids and times ascending.
fn with_texts(texts: &[&str]) -> (TempDir, SearchIndex, Uuid) {
    let (dir, org) = (tempfile::tempdir().unwrap(), Uuid::now_v7());
    let index = open(&dir);
    let change = |(n, text): (usize, &&str)| {
        put(org, id(n as u128), SearchDocument { scraped_at_ms: n as i64, ..document(text) })
    };
    let changes: Vec<SearchChange> = texts.iter().enumerate().map(change).collect();
    index.apply(&changes, texts.len() as u64).unwrap();
    (dir, index, org)
}

fn all(limit: usize) -> ResultQuery {
    ResultQuery { limit, ..ResultQuery::default() }
}

fn with_q(q: &str) -> ResultQuery {
    ResultQuery { q: Some(q.to_owned()), ..all(100) }
}

/// Which of the texts a `q` finds, in ascending order.
fn found(index: &SearchIndex, org: Uuid, q: &str) -> Vec<u128> {
    let page = index.org(org).search(&with_q(q)).unwrap();
    assert_eq!(page.total, page.hits.len() as u64);
    let mut found: Vec<u128> = page.hits.iter().map(|hit| hit.id.as_u128() & 0xffff_ffff).collect();
    found.sort_unstable();
    found
}

#[test]
fn people_find_what_they_type() {
    let (_dir, index, org) = with_texts(&[
        "Red running shoes, wide fit",
        "Green running shoes for kids",
        "A fit runner, wide awake",
        "Café au lait 3.5mm jack",
        "新しい手机壳です 猫",
        "Ёлка и подарки",
        "हिन्दी किताब",
    ]);
    let cases: [(&str, &[u128]); 22] = [
        ("shoes", &[0, 1]),
        ("RED shoes", &[0]),
        ("red OR green shoes", &[0, 1]),
        ("shoes -kids", &[0]),
        ("\"wide fit\"", &[0]),
        ("wide fit", &[0, 2]),
        ("wide -\"wide fit\"", &[2]),
        ("run*", &[0, 1, 2]),
        ("r*", &[]),
        ("cafe", &[3]),
        ("CAFE\u{301}", &[3]),
        ("3.5mm", &[3]),
        ("5.3mm", &[]),
        ("手机", &[4]),
        ("机", &[4]),
        ("手壳", &[]),
        ("елка", &[5]),
        ("हिन्दी", &[6]),
        ("shop.example/p/42", &[0, 1, 2, 3, 4, 5, 6]),
        ("-shoes", &[2, 3, 4, 5, 6]),
        ("!!!", &[]),
        ("  ", &[0, 1, 2, 3, 4, 5, 6]),
    ];
    for (q, expected) in cases {
        assert_eq!(found(&index, org, q), expected, "{q}");
    }
}

#[test]
fn phrases_do_not_run_from_one_value_into_the_next() {
    let (_dir, index, org) = with_texts(&["blue shirt\ncotton weave", "shirt cotton"]);
    assert_eq!(found(&index, org, "\"shirt cotton\""), [1]);
    assert_eq!(found(&index, org, "\"cotton weave\""), [0]);
}

#[test]
fn phrases_do_not_run_from_title_into_text() {
    let (_dir, index, org) = with_texts(&[]);
    let titled = SearchDocument { title: "blue".to_owned(), ..document("whale") };
    index.apply(&[put(org, id(1), titled)], 1).unwrap();
    assert_eq!(found(&index, org, "blue whale"), [1]);
    assert!(found(&index, org, "\"blue whale\"").is_empty());
}

#[test]
fn an_organization_sees_its_own_only() {
    let (_dir, index, org) = with_texts(&["secret alpha", "secret beta"]);
    let other = Uuid::now_v7();
    // The same ids and words on the other side: only the organization differs.
    let theirs =
        SearchDocument { domain: "other.example".into(), tags: vec!["t".into()], ..document("secret gamma") };
    index.apply(&[put(other, id(0), theirs.clone()), put(other, id(7), theirs)], 3).unwrap();
    let crafted = [
        "secret".to_owned(),
        "gamma OR alpha".to_owned(),
        "-alpha".to_owned(),
        "se* OR org".to_owned(),
        format!("org:{other}"),
        format!("secret OR \"org:{other}\""),
        format!("* OR {}", other.simple()),
        "key:* OR domain:other.example".to_owned(),
        ") OR (secret".to_owned(),
        "secret\u{0} OR gamma".to_owned(),
        "\"secret gamma\" OR secret -org".to_owned(),
    ];
    for q in &crafted {
        for sort in [Sort::Newest, Sort::Relevance] {
            let page = index.org(org).search(&ResultQuery { sort, ..with_q(q) }).unwrap();
            assert!(page.hits.iter().all(|hit| hit.id == id(0) || hit.id == id(1)), "{q}");
            assert!(
                page.total <= 2 && page.facets.domain.iter().all(|(domain, _)| domain == "shop.example"),
                "{q}"
            );
        }
    }
    let nobody = index.org(Uuid::now_v7()).search(&all(10)).unwrap();
    assert_eq!(nobody, ResultPage::default());
    let filters = ResultQuery { domain: Some("other.example".into()), tags: vec!["t".into()], ..all(10) };
    assert_eq!(index.org(org).search(&filters).unwrap().total, 0);
    assert_eq!(index.org(other).search(&filters).unwrap().total, 2);

    // Deleting by an id that both have takes only one side's document.
    index.apply(&[SearchChange { org: other, id: id(0), document: None }], 4).unwrap();
    assert_eq!(index.org(org).search(&all(10)).unwrap().total, 2);
    assert_eq!(index.org(other).search(&all(10)).unwrap().total, 1);
}

#[test]
fn scores_do_not_tell_of_other_organizations() {
    let (_dir, index, org) = with_texts(&["needle in hay", "hay hay hay needle needle"]);
    let query = ResultQuery { sort: Sort::Relevance, ..with_q("needle") };
    let before = index.org(org).search(&query).unwrap();
    assert!(before.hits[0].score > before.hits[1].score && before.hits[1].score > 0.0);
    let other = Uuid::now_v7();
    let theirs: Vec<SearchChange> = (0..500).map(|n| put(other, id(n), document("needle"))).collect();
    index.apply(&theirs, 3).unwrap();
    assert_eq!(index.org(org).search(&query).unwrap(), before);
}

#[test]
fn filters_facets_and_totals_are_exact() {
    let (_dir, index, org) = with_texts(&[]);
    let url = id(900);
    let changes: Vec<SearchChange> = (0..600)
        .map(|n: u128| {
            let fields = SearchDocument {
                job_id: id(1000 + n / 10),
                url_id: n.is_multiple_of(3).then_some(url),
                domain: format!("D{}.example", n % 60),
                page_type: n.is_multiple_of(2).then(|| "product".to_owned()),
                tags: if n.is_multiple_of(5) {
                    vec!["sale".into(), "new season".into()]
                } else {
                    vec!["sale".into()]
                },
                quality: n as f64 / 600.0,
                changed: n.is_multiple_of(4),
                scraped_at_ms: n as i64,
                ..document("text")
            };
            put(org, id(n), fields)
        })
        .collect();
    // Three segments, so that facets are summed over them.
    for (n, part) in changes.chunks(200).enumerate() {
        index.apply(part, n as u64).unwrap();
    }
    let total = |query: ResultQuery| index.org(org).search(&query).unwrap().total;
    assert_eq!(total(all(0)), 600);
    assert_eq!(total(ResultQuery { domain: Some("d7.EXAMPLE".into()), ..all(0) }), 10);
    assert_eq!(total(ResultQuery { page_type: Some("product".into()), ..all(0) }), 300);
    assert_eq!(total(ResultQuery { url_id: Some(url), ..all(0) }), 200);
    assert_eq!(total(ResultQuery { job_id: Some(id(1000)), ..all(0) }), 10);
    assert_eq!(total(ResultQuery { tags: vec!["sale".into(), "new season".into()], ..all(0) }), 120);
    assert_eq!(total(ResultQuery { tags: vec!["new".into()], ..all(0) }), 0);
    assert_eq!(total(ResultQuery { min_quality: Some(0.5), ..all(0) }), 300);
    assert_eq!(total(ResultQuery { changed: Some(true), ..all(0) }), 150);
    assert_eq!(total(ResultQuery { changed: Some(false), ..all(0) }), 450);
    assert_eq!(total(ResultQuery { from_ms: Some(100), to_ms: Some(200), ..all(0) }), 100);

    let page = index.org(org).search(&ResultQuery { changed: Some(true), ..all(10) }).unwrap();
    assert_eq!((page.hits.len(), page.total), (10, 150));
    assert_eq!(page.facets.page_type, [("product".to_owned(), 150)]);
    // n divisible by 4: 15 of the 60 domains, ten documents each, equal counts by name.
    assert_eq!(page.facets.domain.len(), 15);
    assert!(page.facets.domain.is_sorted() && page.facets.domain.iter().all(|(_, count)| *count == 10));
    assert_eq!(index.org(org).search(&all(0)).unwrap().facets.domain.len(), FACET_VALUES_MAX);
    assert_eq!(index.org(org).search(&all(usize::MAX)).unwrap().hits.len(), PAGE_HITS_MAX);
}

/// Reads all pages, calling `between` before each further one.
fn walk(index: &SearchIndex, org: Uuid, mut query: ResultQuery, mut between: impl FnMut()) -> Vec<Uuid> {
    let mut ids = Vec::new();
    loop {
        let page = index.org(org).search(&query).unwrap();
        assert!(page.hits.len() <= query.limit);
        ids.extend(page.hits.iter().map(|hit| hit.id));
        let Some(next) = page.next else { return ids };
        query.after = Some(next);
        between();
    }
}

#[test]
fn cursors_hold_while_rows_are_inserted_and_segments_merge() {
    for sort in [Sort::Newest, Sort::Relevance] {
        let (_dir, index, org) = with_texts(&[]);
        // Many equal times and equal scores, so that ids decide.
        let row = |n: u128, time: i64| {
            let text = "word ".repeat(n as usize % 4 + 1) + &"filler ".repeat(n as usize % 7);
            put(org, id(n), SearchDocument { scraped_at_ms: time, ..document(&text) })
        };
        let old: Vec<SearchChange> = (0..300).map(|n| row(n, 1_000 + n as i64 / 50)).collect();
        old.chunks(40).for_each(|part| {
            index.apply(part, 1).unwrap();
        });
        let query = ResultQuery { sort, limit: 7, ..with_q("word") };
        let quiet = walk(&index, org, query.clone(), || ());
        assert_eq!(quiet.len(), 300);
        let mut inserted = 300;
        let busy = walk(&index, org, query, || {
            // Newer, older and equal times; each in a segment of its own, so merges happen while the pages
            // are read.
            let rows: Vec<SearchChange> = [9_000, 500, 1_003]
                .map(|time| {
                    inserted += 1;
                    row(inserted, time)
                })
                .into();
            index.apply(&rows, 2).unwrap();
        });
        let unique: HashSet<Uuid> = busy.iter().copied().collect();
        assert_eq!(unique.len(), busy.len(), "{sort:?}: no row twice");
        let old_only: Vec<Uuid> = busy.into_iter().filter(|found| *found < id(300)).collect();
        assert_eq!(old_only, quiet, "{sort:?}: every old row once, in the same order");
    }
}

#[test]
fn newest_is_ordered_by_time_then_id() {
    let (_dir, index, org) = with_texts(&[]);
    let times = [5, 1, 5, -3, 9, 5, i64::MAX, i64::MIN];
    let rows: Vec<SearchChange> = times
        .iter()
        .enumerate()
        .map(|(n, time)| put(org, id(n as u128), SearchDocument { scraped_at_ms: *time, ..document("x") }))
        .collect();
    index.apply(&rows, 1).unwrap();
    let ids = walk(&index, org, all(3), || ());
    assert_eq!(ids, [6, 4, 5, 2, 0, 1, 3, 7].map(id));
}

#[test]
fn a_cursor_of_another_order_is_refused() {
    let (_dir, index, org) = with_texts(&["word", "word"]);
    let page = index.org(org).search(&ResultQuery { limit: 1, ..with_q("word") }).unwrap();
    let query = ResultQuery { sort: Sort::Relevance, after: page.next, ..with_q("word") };
    assert!(matches!(index.org(org).search(&query), Err(SearchError::CursorOfOtherSort)));
    // Without a text, relevance is newest, and so are its cursors.
    let page = index.org(org).search(&ResultQuery { sort: Sort::Relevance, ..all(1) }).unwrap();
    assert_eq!(page.next.map(|next| next.sort), Some(Sort::Newest));
}

#[test]
fn a_word_in_the_title_ranks_first() {
    let (_dir, index, org) = with_texts(&["a lamp among many other things"]);
    let titled = SearchDocument { title: "Lamp".into(), ..document("among many other things") };
    index.apply(&[put(org, id(9), titled)], 2).unwrap();
    let page = index.org(org).search(&ResultQuery { sort: Sort::Relevance, ..with_q("lamp") }).unwrap();
    assert_eq!(page.hits[0].id, id(9));
}

#[test]
fn the_position_is_that_of_the_commit_and_replay_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let org = Uuid::now_v7();
    let changes: Vec<SearchChange> = (0..50).map(|n| put(org, id(n), document("text"))).collect();
    {
        let index = open(&dir);
        assert_eq!((index.opening(), index.position()), (&OpenOutcome::Created, 0));
        assert_eq!(index.apply(&changes[..20], 20).unwrap(), 20);
        // Staged, even written to files, but not committed: this is what a crash loses.
        index.stage(&changes[20..40], 40).unwrap();
        assert_eq!((index.position(), index.staged_changes()), (20, 20));
        assert_eq!(index.org(org).search(&all(0)).unwrap().total, 20);
    }
    let index = open(&dir);
    assert_eq!((index.opening(), index.position()), (&OpenOutcome::Existing, 20));
    assert!(!index.rebuilt());
    // Replay from an earlier place than needed: every document once.
    index.apply(&changes[10..], 50).unwrap();
    assert_eq!(index.org(org).search(&all(0)).unwrap().total, 50);
    // Many small commits make background merges; the position must survive each.
    for n in 51..90 {
        index.apply(&[put(org, id(n), document("text"))], n as u64).unwrap();
    }
    index.release_idle(Duration::ZERO).unwrap();
    drop(index);
    let index = open(&dir);
    assert_eq!(index.position(), 89);
    assert_eq!(index.org(org).search(&all(0)).unwrap().total, 89);
    // A batch without documents moves the position on; nothing staged commits nothing.
    assert_eq!(index.apply(&[], 120).unwrap(), 120);
    assert_eq!(index.commit().unwrap(), 120);
}

#[test]
fn the_last_change_of_a_batch_counts() {
    let (_dir, index, org) = with_texts(&["first"]);
    let gone = SearchChange { org, id: id(2), document: None };
    let batch = [
        put(org, id(0), document("second")),
        put(org, id(0), document("third")),
        put(org, id(2), document("x")),
        gone,
    ];
    index.apply(&batch, 2).unwrap();
    assert_eq!(found(&index, org, "third"), [0]);
    assert!(found(&index, org, "first OR second OR x").is_empty());
    assert_eq!(index.documents(), 1);
}

#[test]
fn hostile_documents_and_queries_are_taken() {
    let (_dir, index, org) = with_texts(&[]);
    let long = "x".repeat(70_000);
    let hostile = SearchDocument {
        url: long.clone(),
        domain: long.clone(),
        page_type: Some("é".repeat(40_000)),
        tags: vec![long.clone(); 1_000],
        quality: f64::NAN,
        title: "\u{0}\u{feff}\u{202e}".to_owned(),
        text: "a ".repeat(TEXT_BYTES_MAX),
        ..document("")
    };
    let infinite = SearchDocument { quality: f64::INFINITY, ..document("") };
    index.apply(&[put(org, id(1), hostile), put(org, id(2), infinite)], 1).unwrap();
    let by = |query: ResultQuery| index.org(org).search(&query).unwrap().total;
    assert_eq!(by(ResultQuery { domain: Some(long.clone()), tags: vec![long.clone()], ..all(1) }), 1);
    assert_eq!(by(ResultQuery { page_type: Some("é".repeat(40_000)), ..all(1) }), 1);
    assert_eq!(by(ResultQuery { min_quality: Some(f64::NAN), ..all(1) }), 0);
    assert_eq!(by(ResultQuery { min_quality: Some(1.0), ..all(1) }), 1);
    for q in [long.as_str(), &"\"".repeat(1_024), &"-a ".repeat(400), &"a.".repeat(512), &"手".repeat(1_024)]
    {
        by(with_q(q));
        by(ResultQuery { sort: Sort::Relevance, ..with_q(q) });
    }
}

#[test]
fn searches_go_on_while_documents_are_written() {
    let (_dir, index, org) = with_texts(&[]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 1..=60 {
                index.apply(&[put(org, id(n), document("text"))], n as u64).unwrap();
            }
        });
        let mut seen = 0;
        while !writer.is_finished() {
            let position = index.position();
            let total = index.org(org).search(&with_q("text")).unwrap().total;
            assert!(
                total >= position && total >= seen,
                "a position given out is visible: {total} {position} {seen}"
            );
            seen = total;
        }
    });
    assert_eq!(index.org(org).search(&all(0)).unwrap().total, 60);
}

/// Prints, and asserts no time: `cargo test --  --nocapture twenty_thousand`.
#[test]
fn twenty_thousand_documents() {
    const WORDS: [&str; 16] = [
        "lamp", "chair", "table", "wood", "steel", "large", "small", "price", "stock", "delivery",
        "warranty", "garden", "kitchen", "office", "design", "classic",
    ];
    let (_dir, index, _) = with_texts(&[]);
    let orgs: Vec<Uuid> = (0..50).map(|_| Uuid::now_v7()).collect();
    let change = |n: usize| {
        let text: Vec<&str> = (0..60).map(|k| WORDS[(n * 31 + k * k * 7 + k) % WORDS.len()]).collect();
        let fields = SearchDocument {
            domain: format!("d{}.example", n % 200),
            scraped_at_ms: n as i64,
            title: format!("{} number {n}", WORDS[n % 16]),
            ..document(&text.join(" "))
        };
        // Skewed: the first organization has half of all.
        put(orgs[if n.is_multiple_of(2) { 0 } else { n % 50 }], id(n as u128), fields)
    };
    let changes: Vec<SearchChange> = (0..20_000).map(change).collect();
    let start = Instant::now();
    for (n, part) in changes.chunks(2_000).enumerate() {
        index.apply(part, (n as u64 + 1) * 2_000).unwrap();
    }
    println!("20,000 documents in {:?}", start.elapsed());
    let queries: BTreeMap<&str, ResultQuery> = BTreeMap::from([
        ("newest", all(50)),
        ("words", with_q("lamp garden")),
        ("relevance", ResultQuery { sort: Sort::Relevance, ..with_q("lamp OR chair -steel") }),
        ("phrase", with_q("\"number 5000\"")),
        ("prefix", with_q("wa*")),
        ("domain", ResultQuery { domain: Some("d14.example".into()), ..all(50) }),
    ]);
    for (name, query) in &queries {
        for (which, org) in [("large", orgs[0]), ("small", orgs[1])] {
            let mut times: Vec<Duration> = (0..21)
                .map(|_| {
                    let start = Instant::now();
                    index.org(org).search(query).unwrap();
                    start.elapsed()
                })
                .collect();
            times.sort_unstable();
            println!("{name:10} {which}: p50 {:?} max {:?}", times[10], times[20]);
        }
    }
    let page = index.org(orgs[0]).search(&all(50)).unwrap();
    assert_eq!(page.total, 10_000);
    assert_eq!(page.hits[0].id, id(19_998));
    assert_eq!(
        page.facets.domain.iter().map(|(_, count)| count).sum::<u64>(),
        5_000,
        "50 of 100 domains, 100 each"
    );
}

#[test]
fn a_search_ends_with_its_time() {
    let (_dir, index, org) = with_texts(&["a plane", "another plane"]);
    let search = index.org(org);
    let words = with_q("plane");
    assert_eq!(search.search_within(&words, Duration::from_secs(60)).unwrap().total, 2);
    for query in [words, all(10), ResultQuery { sort: Sort::Relevance, ..with_q("\"another plane\"") }] {
        assert!(
            matches!(search.search_within(&query, Duration::ZERO), Err(SearchError::TooSlow)),
            "{query:?}"
        );
    }
    // Documents that were removed are passed over as before.
    index.apply(&[SearchChange { org, id: id(0), document: None }], 3).unwrap();
    assert_eq!(search.search(&all(10)).unwrap().total, 1);
}
