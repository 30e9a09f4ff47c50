//! What is found is what a scan over all documents finds: hits in their order, page by page, totals and facets.

use std::collections::BTreeMap;

use super::*;

const DOCUMENTS: u64 = 3_000;
const PER_COMMIT: u64 = 450;
const QUESTIONS: u64 = 600;
const WORDS: [&str; 5] = ["lamp", "chair", "oak", "steel", "blue"];

/// A number that depends on `n` and nothing else.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

fn drawn(seed: u64) -> SearchDocument {
    let words: Vec<&str> = WORDS
        .into_iter()
        .enumerate()
        .filter(|(n, _)| mixed(seed) >> n & 3 == 0)
        .map(|(_, word)| word)
        .collect();
    SearchDocument {
        domain: format!("d{}.example", mixed(seed + 1) % 4),
        url: "https://shop.example/".to_owned(),
        page_type: [None, Some("product"), Some("article")][(mixed(seed + 2) % 3) as usize]
            .map(str::to_owned),
        quality: (mixed(seed + 3) % 10) as f64 / 10.0,
        changed: mixed(seed + 4).is_multiple_of(3),
        // Many at the same time.
        scraped_at_ms: (mixed(seed + 5) % 500) as i64,
        ..document(&words.join(" "))
    }
}

/// Most documents are of the first organization, so that both ways of a pass are taken.
fn owner(n: u64) -> usize {
    [0, 0, 0, 0, 0, 0, 0, 1, 1, 2][(mixed(n * 31) % 10) as usize]
}

fn asked(n: u64) -> ResultQuery {
    let draw = |place: u64, of: u64| mixed(n * 97 + place) % of;
    let word = |place: u64| WORDS[draw(place, WORDS.len() as u64) as usize];
    let q = match draw(0, 7) {
        0 => None,
        1 => Some(word(1).to_owned()),
        2 => Some(format!("{} {}", word(1), word(2))),
        3 => Some(format!("-{}", word(1))),
        4 => Some(format!("{} -{}", word(1), word(2))),
        5 => Some(format!("{} OR {}", word(1), word(2))),
        _ => Some(format!("\"{} {}\"", word(1), word(2))),
    };
    ResultQuery {
        q,
        domain: (draw(3, 4) == 0).then(|| format!("d{}.example", draw(4, 4))),
        page_type: (draw(5, 4) == 0).then(|| "product".to_owned()),
        min_quality: (draw(6, 4) == 0).then(|| draw(7, 10) as f64 / 10.0),
        changed: (draw(8, 4) == 0).then(|| draw(9, 2) == 0),
        from_ms: (draw(10, 4) == 0).then(|| draw(11, 500) as i64),
        to_ms: (draw(12, 4) == 0).then(|| draw(13, 500) as i64),
        ..all(1 + draw(14, 200) as usize)
    }
}

fn matches(query: &ResultQuery, document: &SearchDocument) -> bool {
    let has = |word: &str| document.text.split(' ').any(|own| own == word);
    let is_meant = |q: &str| match q.split(' ').collect::<Vec<_>>()[..] {
        [one] if one.starts_with('-') => !has(&one[1..]),
        [one] => has(one),
        [one, "OR", two] => has(one) || has(two),
        [one, two] if two.starts_with('-') => has(one) && !has(&two[1..]),
        [one, _] if one.starts_with('"') => document.text.contains(q.trim_matches('"')),
        [one, two] => has(one) && has(two),
        _ => panic!("{q}"),
    };
    query.q.as_deref().is_none_or(is_meant)
        && query.domain.as_ref().is_none_or(|domain| document.domain == *domain)
        && (query.page_type.is_none() || query.page_type == document.page_type)
        && query.min_quality.is_none_or(|least| document.quality >= least)
        && query.changed.is_none_or(|changed| document.changed == changed)
        && query.from_ms.is_none_or(|from| document.scraped_at_ms >= from)
        && query.to_ms.is_none_or(|to| document.scraped_at_ms < to)
}

fn counted<'d>(values: impl Iterator<Item = Option<&'d String>>) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::new();
    values.flatten().for_each(|value| *counts.entry(value.clone()).or_insert(0) += 1);
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

#[test]
fn what_is_found_is_what_a_scan_finds() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let orgs = [Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7()];
    let mut rows: BTreeMap<(usize, Uuid), SearchDocument> = BTreeMap::new();
    for begin in (0..DOCUMENTS).step_by(PER_COMMIT as usize) {
        let mut changes = Vec::new();
        for n in begin..begin + PER_COMMIT {
            // Some are written again, and some of these taken away.
            let n = if mixed(n * 7).is_multiple_of(8) { mixed(n * 13) % (n + 1) } else { n };
            let (owner, place) = (owner(n), id(u128::from(n)));
            let is_gone = mixed(n * 17 + begin).is_multiple_of(11);
            let document = (!is_gone).then(|| drawn(n * 1_000 + begin));
            match &document {
                Some(document) => rows.insert((owner, place), document.clone()),
                None => rows.remove(&(owner, place)),
            };
            changes.push(SearchChange { org: orgs[owner], id: place, document });
        }
        index.apply(&changes, begin + PER_COMMIT).unwrap();
    }
    for n in 0..QUESTIONS {
        let (query, who) = (asked(n), (n % 3) as usize);
        let mut expected: Vec<(i64, Uuid, &SearchDocument)> = rows
            .iter()
            .filter(|((owner, _), document)| *owner == who && matches(&query, document))
            .map(|((_, id), document)| (document.scraped_at_ms, *id, document))
            .collect();
        expected.sort_by_key(|(at, id, _)| std::cmp::Reverse((*at, *id)));
        let page = index.org(orgs[who]).search(&query).unwrap();
        assert_eq!(page.total, expected.len() as u64, "{query:?}");
        let domains = counted(expected.iter().map(|(.., document)| Some(&document.domain)));
        let page_types = counted(expected.iter().map(|(.., document)| document.page_type.as_ref()));
        assert_eq!(page.facets, Facets { domain: domains, page_type: page_types }, "{query:?}");
        let walked = walk(&index, orgs[who], query.clone(), || {});
        assert_eq!(walked, expected.iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), "{query:?}");
    }
}
