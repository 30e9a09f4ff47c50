//! Damage to the store: its file, its pages, its rows, what is made of them.

use super::case::{Case, Harm, HarmToFile, Sound, cut};
use redb::{Database, ReadableTable, TableDefinition};
use std::fs;
use std::path::Path;

type Bytes = &'static [u8];

fn change(store: &Path, table: &'static str, run: impl FnOnce(&mut redb::Table<'_, Bytes, Bytes>)) {
    let definition: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new(table);
    let database = Database::open(store).unwrap();
    let mut tx = database.begin_write().unwrap();
    // As the box does it.
    tx.set_quick_repair(true);
    run(&mut tx.open_table(definition).unwrap());
    tx.commit().unwrap();
}

fn last(table: &redb::Table<'_, Bytes, Bytes>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = table.last().unwrap().expect("it has a row");
    (key.value().to_vec(), value.value().to_vec())
}

/// Takes the last entry out of an index.
pub fn remove_entry(store: &Path, index: &'static str) {
    change(store, index, |table| {
        let (key, _) = last(table);
        table.remove(key.as_slice()).unwrap();
    });
}

/// Flips a bit in the last row of a table.
fn flip_row(store: &Path, name: &'static str) {
    change(store, name, |table| {
        let (key, mut value) = last(table);
        let at = value.len() / 2;
        value[at] ^= 1;
        table.insert(key.as_slice(), value.as_slice()).unwrap();
    });
}

/// Flips a bit behind every place in a file where these bytes stand; how many there were.
fn flip_behind(file: &Path, bytes: &[u8]) -> usize {
    let mut all = fs::read(file).unwrap();
    let places: Vec<_> = memchr::memmem::find_iter(&all, bytes).map(|at| at + bytes.len()).collect();
    for at in &places {
        all[*at] ^= 1;
    }
    fs::write(file, all).unwrap();
    places.len()
}

/// One kind of damage: what it is called, how it is done, and what the doctor says of it.
type Kind = (&'static str, fn(&Case), &'static [&'static str]);

const DERIVED: &[Kind] = &[
    (
        "an entry of an index is gone",
        |case| remove_entry(&case.path("gleaner.redb"), "jobs.by_status"),
        &["tables: table jobs", "is not in the index jobs.by_status"],
    ),
    (
        "an entry of a unique index is gone",
        |case| remove_entry(&case.path("gleaner.redb"), "results.by_id"),
        &["is not in the index results.by_id"],
    ),
    (
        "an entry leads to a row that is not there",
        |case| {
            change(&case.path("gleaner.redb"), "jobs.by_status", |table| {
                let (mut key, mut value) = last(table);
                let (ends, of) = (key.len() - 1, value.len() - 1);
                key[ends] ^= 1;
                value[of] ^= 1;
                table.insert(key.as_slice(), value.as_slice()).unwrap();
            });
        },
        &["the index jobs.by_status has 1 entries without a row"],
    ),
    (
        "an entry has another's name",
        |case| {
            change(&case.path("gleaner.redb"), "results.by_id", |table| {
                let (key, mut value) = last(table);
                let of = value.len() - 1;
                value[of] ^= 1;
                table.insert(key.as_slice(), value.as_slice()).unwrap();
            });
        },
        &["stands in the index results.by_id under another's name"],
    ),
    (
        "a count is another",
        |case| {
            change(&case.path("gleaner.redb"), "usage", |table| {
                let (key, mut value) = last(table);
                value[7] ^= 64;
                table.insert(key.as_slice(), value.as_slice()).unwrap();
            });
        },
        &["is counted with"],
    ),
    (
        "a count is no count",
        |case| {
            change(&case.path("gleaner.redb"), "usage", |table| {
                let (key, _) = last(table);
                table.insert(key.as_slice(), b"no".as_slice()).unwrap();
            });
        },
        &["has a count that is damaged"],
    ),
    (
        "an index is not in the register",
        |case| {
            change(&case.path("gleaner.redb"), "global_indexes", |table| {
                // One that has entries: the box has keys.
                assert!(table.remove(b"api_keys.by_secret".as_slice()).unwrap().is_some());
            });
        },
        &["is not in the register of those that reach across"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_made_of_rows_is_made_anew() {
    let sound = Sound::fill().await;
    for (what, damage, parts) in DERIVED {
        println!("{what}");
        let case = sound.copy();
        damage(&case);
        case.named(what, 1, parts);
        case.mended(what);
        sound.serves(&case, what, &[]).await;
    }
}

/// Pages of the file that hold an index and nothing else: the file is made anew from the rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_pages_of_an_index_are_made_anew_from_the_rows() {
    let sound = Sound::fill().await;
    let case = sound.copy();
    let store = case.path("gleaner.redb");
    let org: uuid::Uuid = case.org.parse().unwrap();
    // An entry of an index by text begins with the organization and goes on with the text; no row does.
    let flipped = flip_behind(&store, &[org.as_bytes().as_slice(), b"shop".as_slice()].concat());
    assert!(flipped > 0, "no entry of an index is found");
    case.named("pages of an index", 1, &["store: pages of the file are damaged", "can be mended"]);
    let damaged = fs::read(&store).unwrap();
    let told = case.mended("pages of an index");
    assert!(told.contains("gleaner.redb.damaged"), "{told}");
    assert!(!case.path("gleaner.redb.new").exists());
    assert!(fs::read(case.path("gleaner.redb")).unwrap() != damaged);
    sound.serves(&case, "pages of an index", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_rows_are_named_and_never_shown() {
    let sound = Sound::fill().await;
    let kinds: [(&str, Harm, &[&str]); 3] = [
        (
            "a bit in a row",
            |case| flip_row(&case.path("gleaner.redb"), "urls"),
            &["table urls", "cannot be read"],
        ),
        (
            "a bit in a row of the audit log",
            |case| flip_row(&case.path("gleaner.redb"), "audit"),
            &["audit: audit log of organization"],
        ),
        (
            "pages with rows",
            |case| {
                let found = flip_behind(&case.path("gleaner.redb"), b"https://shop3.example/item/");
                assert!(found > 0);
            },
            &["store: pages of the file are damaged"],
        ),
    ];
    for (what, damage, parts) in kinds {
        println!("{what}");
        let case = sound.copy();
        damage(&case);
        case.named(what, 1, parts);
        case.not_mended(what, parts);
        let is_refused = !what.starts_with("a bit");
        if is_refused {
            let (_, told) = case.doctor(&["--repair"]);
            assert!(told.contains("could not be mended: rows are damaged too"), "{what}: {told}");
            continue;
        }
        // The damaged row is nobody's to see; what lists it says so, or goes without it.
        sound.serves(&case, what, &["urls", "SELECT url, domain, page_type"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_no_store_is_refused_by_name() {
    let sound = Sound::fill().await;
    let kinds: [(&str, HarmToFile, &str, &str); 5] = [
        ("its first bytes", |store| flip_at(store, 1), "store: ", "is damaged"),
        ("cut to half", cut, "store: ", "is damaged"),
        ("zeros", |store| fs::write(store, vec![0; 65_536]).unwrap(), "store: ", "is damaged"),
        ("empty", |store| fs::write(store, "").unwrap(), "is empty (0 bytes)", "is empty (0 bytes)"),
        ("gone", |store| fs::remove_file(store).unwrap(), "is missing", "is missing"),
    ];
    for (what, damage, part, refusal) in kinds {
        println!("the store: {what}");
        let case = sound.copy();
        damage(&case.path("gleaner.redb"));
        case.named(what, 1, &[part, "cannot be mended", "restore a backup"]);
        case.not_mended(what, &[part]);
        case.refused(what, &[refusal]);
    }
}

fn flip_at(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

/// Two damages at once: what can be mended is, what cannot stays named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_mended_keeps_nothing_else_from_it() {
    let sound = Sound::fill().await;
    let case = sound.copy();
    remove_entry(&case.path("gleaner.redb"), "jobs.by_status");
    fs::remove_file(super::case::one(&case.path("pages"), ".zst")).unwrap();
    super::case::flip(&super::case::one(&case.path("search"), ".term"));
    case.named("both", 1, &["is not in the index", "pages: the page of job", "search: "]);
    let (code, told) = case.doctor(&["--repair"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("MENDED   tables") && told.contains("MENDED   search"), "{told}");
    assert!(told.contains("DAMAGED  pages: the page of job"), "{told}");
    let (_, after) = case.doctor(&[]);
    assert!(!after.contains("is not in the index") && !after.contains("search: "), "{after}");
    sound.serves(&case, "both", &["page of"]).await;
}
