//! Bits flipped anywhere in a file: what is made anew has every row as it was, or the file stays as it is.

use super::*;
use crate::{Index, Inspection, OrgTable};
use base::codec::Record;
use base::ids::{JobId, OrgId};
use serde::{Deserialize, Serialize};
use std::fs;

const CACHE_BYTES: usize = 4 << 20;
/// Flips that are tried, each in a copy of its own.
const FLIPS: u64 = 48;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct CardV1 {
    word: String,
}

impl Record for CardV1 {}

// In an index the word is written in large letters, so that its pages are told from those of rows.
static BY_WORD: Index<String, CardV1> =
    Index::new("cards.by_word", |card, keys| keys.add(card.word.to_uppercase()));
static QUEUE: Index<u64, CardV1> =
    Index::global("cards.queue", |card, keys| keys.add(card.word.len() as u64));
static CARDS: OrgTable<JobId, CardV1> = OrgTable::new("cards", "Card").indexed(&[&BY_WORD, &QUEUE]);
static TABLES: &[&dyn AnyTable] = &[&CARDS];

type Rows = Vec<(JobId, CardV1)>;

fn filled(path: &Path) -> (OrgId, Rows) {
    Store::found(path).unwrap();
    let store = Store::open(path, CACHE_BYTES, Clock::system()).unwrap();
    let (org, mut rows) = (OrgId::new(), Rows::new());
    for batch in 0..10 {
        let some: Rows =
            (0..100).map(|n| (JobId::new(), CardV1 { word: format!("word{batch}of{n}") })).collect();
        rows.extend(some.clone());
        let written = store.system().write_blocking(move |tx| {
            tx.unaudited("a test");
            some.iter().try_for_each(|(id, card)| tx.org(org).put(&CARDS, id, card))
        });
        written.unwrap();
    }
    store.close();
    rows.sort_by_key(|(id, _)| *id);
    (org, rows)
}

/// Every row as it was, and all that is made of them.
fn is_as_it_was(path: &Path, org: OrgId, rows: &Rows) {
    let store = Inspection::open(path, CACHE_BYTES).unwrap();
    assert!(store.pages_are_whole().unwrap());
    let report = store.table(&CARDS).unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    assert_eq!((report.rows, report.entries), (rows.len() as u64, 2 * rows.len() as u64));
    assert_eq!(store.counts().unwrap(), Vec::<String>::new());
    let found = store.read(|tx| tx.org(org).scan(&CARDS, None, crate::Order::Ascending, usize::MAX)).unwrap();
    assert!(found == *rows);
}

fn flip_all(bytes: &mut [u8], text: &[u8]) -> usize {
    let places: Vec<_> = memchr::memmem::find_iter(bytes, text).collect();
    places.iter().for_each(|at| bytes[at + 1] ^= 1);
    places.len()
}

#[test]
fn a_damaged_index_is_made_of_its_rows_and_damaged_rows_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gleaner.redb");
    let (org, rows) = filled(&path);
    let whole = fs::read(&path).unwrap();
    let salvaged = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        salvage(&path, TABLES, CACHE_BYTES, 0, Clock::system())
    };

    let mut index = whole.clone();
    assert!(flip_all(&mut index, b"WORD3OF7") > 0);
    fs::write(&path, &index).unwrap();
    let looked = Inspection::open(&path, CACHE_BYTES).unwrap();
    assert!(!looked.pages_are_whole().unwrap_or(false), "the damage is found");
    drop(looked);
    assert!(fs::read(&path).unwrap() == index, "a look changes nothing");
    let made = salvaged(&index).unwrap();
    assert!(made.rows >= rows.len() as u64 && made.derived >= 2 * rows.len() as u64, "{made:?}");
    assert!(fs::read(&made.kept_as).unwrap() == index);
    is_as_it_was(&path, org, &rows);

    let mut row = whole.clone();
    assert!(flip_all(&mut row, b"word3of7") > 0);
    let refused = salvaged(&row).unwrap_err().for_operator();
    assert!(refused.contains("rows are damaged too"), "{refused}");
    assert!(fs::read(&path).unwrap() == row, "it stays as it is");
    assert!(!dir.path().join("gleaner.redb.new").exists());
}

#[test]
fn whatever_bit_is_flipped_no_row_becomes_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gleaner.redb");
    let (org, rows) = filled(&path);
    let whole = fs::read(&path).unwrap();
    let (mut made, mut refused, mut dice) = (0, 0, 0x5A17_u64);
    for n in 0..FLIPS {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bytes = whole.clone();
        let at = (dice >> 20) as usize % bytes.len();
        bytes[at] ^= 1 << (n % 8);
        fs::write(&path, &bytes).unwrap();
        match salvage(&path, TABLES, CACHE_BYTES, 0, Clock::system()) {
            Ok(_) => {
                is_as_it_was(&path, org, &rows);
                made += 1;
            }
            Err(error) => {
                assert!(fs::read(&path).unwrap() == bytes, "flip {n} at {at}: {}", error.for_operator());
                refused += 1;
            }
        }
    }
    assert!(made > 0, "{refused} of {FLIPS} were refused");
    println!("{made} of {FLIPS} flipped files were made anew, {refused} were refused");
}
