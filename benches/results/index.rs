//! The search index alone, with a million documents.
//!
//! With `GLEANER_SEARCH_INDEX` the index is kept in that folder and found there the next time.

use search::{ResultQuery, SearchChange, SearchDocument, SearchIndex, Sort};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use uuid::Uuid;

use super::words::{mixed, text_of, title_of, word};

const CHUNK: u64 = 5_000;
const DOMAINS: u64 = 50;
/// One of so many documents is the second organization's.
const SECOND_PART: u64 = 10;
const TRIES: usize = 200;
const HITS: usize = 50;

/// What is asked at a try.
type Question = fn(usize) -> ResultQuery;

/// Makes so many documents, nine tenths of one organization, and asks for them.
pub fn run(documents: u64) {
    let temporary = tempfile::TempDir::new().expect("a temporary folder");
    let kept = std::env::var_os("GLEANER_SEARCH_INDEX").map(PathBuf::from);
    let index = SearchIndex::open(kept.unwrap_or_else(|| temporary.path().join("search"))).expect("an index");
    let orgs = [Uuid::from_u128(1), Uuid::from_u128(2)];
    fill(&index, orgs, documents);
    for (whose, org) in [("nine tenths", orgs[0]), ("one tenth", orgs[1])] {
        for (name, question) in questions() {
            ask(&index, org, &format!("{whose}: {name}"), question);
        }
    }
}

fn fill(index: &SearchIndex, orgs: [Uuid; 2], documents: u64) {
    let (begun, before) = (Instant::now(), index.position());
    for begin in (before..documents).step_by(CHUNK as usize) {
        let end = (begin + CHUNK).min(documents);
        let changes: Vec<SearchChange> = (begin..end).map(|n| change(orgs, n)).collect();
        index.apply(&changes, end).expect("it is written");
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} documents made in {seconds:.0} s; {} in the index", documents - before, index.documents());
}

fn change(orgs: [Uuid; 2], n: u64) -> SearchChange {
    let document = SearchDocument {
        job_id: Uuid::from_u128(u128::from(mixed(n))),
        url_id: None,
        url: format!("http://page.d{}.test/{n}", n % DOMAINS),
        domain: format!("d{}.test", n % DOMAINS),
        page_type: n.is_multiple_of(3).then(|| "product".to_owned()),
        tags: Vec::new(),
        quality: (mixed(n) % 100) as f64 / 100.0,
        changed: n.is_multiple_of(7),
        scraped_at_ms: 1_700_000_000_000 + n as i64 * 40,
        title: title_of(n),
        text: format!("{}\n$ {}\n{}", title_of(n), mixed(n) % 1_000, text_of(n)),
    };
    let org = orgs[usize::from(n.is_multiple_of(SECOND_PART))];
    SearchChange {
        org,
        id: Uuid::from_u128(u128::from(n) << 64 | u128::from(mixed(n))),
        document: Some(document),
    }
}

fn questions() -> [(&'static str, Question); 11] {
    [
        ("the newest", |_| ResultQuery { limit: HITS, ..ResultQuery::default() }),
        ("a number of one title", |n| with_q(format!("{}", n * 4_999 + 11))),
        ("the commonest words", |n| with_q(word(n % 5))),
        ("a middling word", |n| with_q(word(200 + n))),
        ("two common words", |n| with_q(two(n))),
        ("two common words, by relevance", |n| ResultQuery { sort: Sort::Relevance, ..with_q(two(n)) }),
        ("a phrase", |n| with_q(format!("\"{} {}\"", word(n % 7), word(n % 5)))),
        ("the beginning of a word", |n| with_q(format!("{}*", &word(500 + n)[..4]))),
        ("a domain and a common word", |n| ResultQuery {
            domain: Some(format!("d{}.test", n as u64 % DOMAINS)),
            ..with_q(word(n % 9))
        }),
        ("the best tenth", |_| ResultQuery { min_quality: Some(0.9), limit: HITS, ..ResultQuery::default() }),
        ("what none has", |n| with_q(format!("nosuchword{n}"))),
    ]
}

fn with_q(q: String) -> ResultQuery {
    ResultQuery { q: Some(q), limit: HITS, ..ResultQuery::default() }
}

fn two(n: usize) -> String {
    format!("{} {}", word(n % 7), word(7 + n % 11))
}

fn ask(index: &SearchIndex, org: Uuid, name: &str, question: Question) {
    let (mut times, mut found) = (Vec::<Duration>::with_capacity(TRIES), 0);
    for n in 0..TRIES {
        let begun = Instant::now();
        let page = index.org(org).search(&question(n)).expect("an answer");
        times.push(begun.elapsed());
        found += page.total;
    }
    times.sort_unstable();
    let ms = |part: usize| times[TRIES * part / 100].as_secs_f64() * 1e3;
    let found = found as f64 / TRIES as f64;
    println!("{name:48} p50 {:6.2} ms, p99 {:6.2} ms, {found:.0} found", ms(50), ms(99));
}
