//! Damage to what lies beside the store: files that were altered, cut, removed, opened to others, given to others.

use super::case::{Case, Harm, Place, Sound, Words, cut, files, flip, one};
use super::{gleaner, said};
use crate::harness::member;
use crate::harness::process::Process;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// One kind of damage: what it is called, how it is done, and what the doctor says of it.
type Kind = (&'static str, fn(&Case), &'static [&'static str]);

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn search_file(case: &Case, end: &str) -> PathBuf {
    one(&case.path("search"), end)
}

/// What is made of something else: the doctor names it and mends it, and the box answers as before.
const DERIVED: &[Kind] = &[
    ("search: a bit in its terms", |case| flip(&search_file(case, ".term")), &["search: ", "damaged"]),
    ("search: a bit in its columns", |case| flip(&search_file(case, ".fast")), &["search: "]),
    ("search: its list of segments is cut", |case| cut(&search_file(case, "meta.json")), &["search: "]),
    ("search: a file is gone", |case| fs::remove_file(search_file(case, ".idx")).unwrap(), &["search: "]),
    (
        "search: of another life of the store",
        |case| fs::write(case.path("search/store"), "01234567-89ab-4cde-8f01-23456789abcd").unwrap(),
        &["search: the index is of another life of the store"],
    ),
    ("SQL: a bit in a segment", flip_url, &["sql: SQL tables of organization"]),
    ("SQL: a segment is cut", |case| cut(&own_table(case)), &["sql: SQL tables of organization"]),
    (
        "SQL: a segment is gone",
        |case| fs::remove_file(own_table(case)).unwrap(),
        &["sql: SQL tables of organization"],
    ),
    (
        "SQL: a bit in the list of segments",
        |case| flip(&case.path("snapshots").join(&case.org).join("manifest.json")),
        &["sql: SQL tables of organization", "manifest"],
    ),
    ("results: a bit", |case| flip(&one(&case.path("results"), ".arrow")), &["kept: ", ".arrow"]),
    ("results: cut", |case| cut(&one(&case.path("results"), ".arrow")), &["kept: ", "instead of"]),
    (
        "results: gone",
        |case| files(&case.path("results")).iter().for_each(|file| fs::remove_file(file).unwrap()),
        &["kept: ", "No such file"],
    ),
    (
        "exports: a bit",
        |case| flip(&one(&case.path("exports"), ".csv")),
        &["kept: ", ".csv", "not what was written"],
    ),
    ("exports: cut", |case| cut(&one(&case.path("exports"), ".csv")), &["kept: ", "instead of"]),
    (
        "exports: gone",
        |case| fs::remove_file(one(&case.path("exports"), ".csv")).unwrap(),
        &["kept: ", ".csv"],
    ),
    (
        "exports of personal data: a bit",
        |case| flip(&one(&case.path("account-exports"), ".zip")),
        &["kept: ", ".zip", "not what was written"],
    ),
    (
        "exports of personal data: gone",
        |case| fs::remove_file(one(&case.path("account-exports"), ".zip")).unwrap(),
        &["kept: ", ".zip"],
    ),
    (
        "modes: a page is open to others",
        |case| mode(&one(&case.path("pages"), ".zst"), 0o644),
        &["folder: others may use"],
    ),
    ("modes: the folder is open to others", |case| mode(&case.data, 0o755), &["folder: others may use"]),
    (
        "modes: the key is open to others",
        |case| mode(&case.key(), 0o640),
        &["folder: others may use", "data.key"],
    ),
    (
        "modes: the store is nobody's to read",
        |case| mode(&case.path("gleaner.redb"), 0o000),
        &["the box itself may not use"],
    ),
    ("modes: a folder is closed", |case| mode(&case.path("exports"), 0o000), &["the box itself may not use"]),
];

/// A segment of the organization's own tables.
fn own_table(case: &Case) -> PathBuf {
    one(&case.path("snapshots").join(&case.org), ".arrow")
}

/// Flips a bit of a URL in a segment. The middle of a small one is filled up between two columns, which is no part of what was written.
fn flip_url(case: &Case) {
    let segments = files(&case.path("snapshots").join(&case.org));
    let found = segments.into_iter().find_map(|file| {
        let bytes = fs::read(&file).unwrap();
        memchr::memmem::find(&bytes, b".example/item/").map(|at| (file, bytes, at))
    });
    let (file, mut bytes, at) = found.expect("a segment with the URLs");
    bytes[at] ^= 4;
    fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_derived_is_named_and_mended_and_the_box_answers_as_before() {
    let sound = Sound::fill().await;
    for (what, damage, parts) in DERIVED {
        println!("{what}");
        let case = sound.copy();
        damage(&case);
        let told = case.named(what, 1, parts);
        assert!(told.contains("can be mended: gleaner doctor --repair"), "{what}: {told}");
        assert!(case.mended(what).contains("MENDED"), "{what}");
        // Results and exports that are lost are asked for again.
        let missing: &[&str] = match what.split(':').next() {
            Some("results") => &["kept result"],
            Some("exports") => &["export"],
            _ => &[],
        };
        sound.serves(&case, what, missing).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_mends_itself_needs_nobody() {
    let sound = Sound::fill().await;
    let kinds: [(&str, Harm); 4] = [
        ("search: nothing says which release wrote it", |case| {
            fs::remove_file(case.path("search/schema-version")).unwrap();
        }),
        ("search: gone", |case| fs::remove_dir_all(case.path("search")).unwrap()),
        ("SQL: all gone", |case| fs::remove_dir_all(case.path("snapshots")).unwrap()),
        ("SQL: how far it came is cut", |case| cut(&case.path("snapshots/feed.json"))),
    ];
    for (what, damage) in kinds {
        println!("{what}");
        let case = sound.copy();
        damage(&case);
        case.named(what, 0, &["nothing is wrong"]);
        sound.serves(&case, what, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_made_of_nothing_and_is_never_shown_altered() {
    let sound = Sound::fill().await;
    let kinds: [(&str, Harm, &str); 4] = [
        ("a bit in a page", |case| flip(&one(&case.path("pages"), ".zst")), "pages: the page of job"),
        ("a page is cut", |case| cut(&one(&case.path("pages"), ".zst")), "pages: the page of job"),
        ("a page is gone", |case| fs::remove_file(one(&case.path("pages"), ".zst")).unwrap(), "is missing"),
        ("all pages are gone", |case| fs::remove_dir_all(case.path("pages")).unwrap(), "is missing"),
    ];
    for (what, damage, part) in kinds {
        println!("{what}");
        let case = sound.copy();
        damage(&case);
        case.named(what, 1, &[part, "cannot be mended", "restore a backup"]);
        case.not_mended(what, &[part, "cannot be mended"]);
        sound.serves(&case, what, &["page of"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_another_user_are_named_and_given_back() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let sound = Sound::fill().await;
    let owner = fs::metadata(sound.copy().data).unwrap().uid();
    let kinds: [(&str, Place); 3] = [
        ("the owner of a page", |case| one(&case.path("pages"), ".zst")),
        ("the owner of the store", |case| case.path("gleaner.redb")),
        ("the owner of the key", Case::key),
    ];
    for (what, of) in kinds {
        println!("{what}");
        let case = sound.copy();
        let path = of(&case);
        chown(&path, Some(54_321), None).unwrap();
        case.named(what, 1, &["belongs to the user 54321", path.file_name().unwrap().to_str().unwrap()]);
        case.mended(what);
        assert_eq!(fs::metadata(&path).unwrap().uid(), owner, "{what}");
        sound.serves(&case, what, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_crashes_leave_is_no_fault_and_is_cleared_up() {
    let sound = Sound::fill().await;
    let case = sound.copy();
    let page = one(&case.path("pages"), ".zst");
    let unfinished = page.with_file_name(format!("{}#3", page.file_name().unwrap().to_str().unwrap()));
    let orphan = page.with_file_name(format!("{}.zst", "ab".repeat(32)));
    let young = page.with_file_name(format!("{}.zst", "cd".repeat(32)));
    let left = [
        unfinished,
        orphan.clone(),
        case.path("gleaner.redb.new"),
        case.path("spill/01234567-89ab-7cde-8f01-23456789abcd"),
        case.path("exports").join(&case.org).join("x.part"),
        case.path("account-exports/x.new"),
        case.path("admin.sock"),
    ];
    for file in left.iter().chain([&young]) {
        fs::write(file, "left").unwrap();
        mode(file, 0o600);
    }
    let days_ago = SystemTime::now() - Duration::from_secs(3 * 24 * 3_600);
    File::options().write(true).open(&orphan).unwrap().set_modified(days_ago).unwrap();
    let strange = case.path("notes of mine.txt");
    fs::write(&strange, "mine").unwrap();
    mode(&strange, 0o600);
    let told =
        case.named("leftovers", 0, &["LEFT", "notes of mine.txt is not the box's", "that no result names"]);
    for file in &left {
        assert!(told.contains(&*file.to_string_lossy()), "{} in {told}", file.display());
        assert!(file.exists(), "a look removes nothing");
    }
    case.mended("leftovers");
    assert!(left.iter().all(|file| !file.exists()), "{left:?}");
    assert!(strange.exists() && young.exists(), "what is not the box's, and a page on its way, stay");
    sound.serves(&case, "leftovers", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_gone_damaged_or_anothers_are_refused_by_name() {
    let (sound, other) = (Sound::fill().await, TempDir::new().unwrap());
    let process = Process::start(&other.path().join("data"), &[]);
    member(&process.client(), &process.socket(), "other").await;
    assert_eq!(process.terminate(), Some(0));
    let foreign = fs::read(other.path().join("data.key")).unwrap();
    let own = fs::read(sound.copy().key()).unwrap();
    let kinds: [(&str, Option<&[u8]>, Words<'_>, Words<'_>); 4] = [
        ("gone", None, &["keys: ", "is missing"], &["data.key"]),
        ("empty", Some(b""), &["keys: "], &["data.key"]),
        ("cut", Some(&own[..own.len() / 2]), &["keys: "], &["data.key"]),
        (
            "another box's",
            Some(&foreign),
            &["keys: ", "keys of another box", "put the key file back"],
            &["are not those that"],
        ),
    ];
    for (what, key, parts, refusal) in kinds {
        println!("the key: {what}");
        let case = sound.copy();
        match key {
            Some(key) => fs::write(case.key(), key).unwrap(),
            None => fs::remove_file(case.key()).unwrap(),
        }
        case.named(what, 1, parts);
        case.not_mended(what, parts);
        case.refused(what, refusal);
        fs::write(case.key(), &own).unwrap();
        mode(&case.key(), 0o600);
        case.named(what, 0, &["nothing is wrong"]);
    }
}

/// A file system of its own in memory, unmounted in the end.
struct SmallDisk(PathBuf);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// While the disk is full what needs room is said not to be mended, and nothing gets worse; afterwards it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_while_it_mends_loses_nothing() {
    let sound = Sound::fill().await;
    let dir = TempDir::new().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(dir.path());
    if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("skipped: no tmpfs may be mounted here");
        return;
    }
    let place = dir.path().to_owned();
    let _disk = SmallDisk(place.clone());
    let case = sound.copy_into(dir);
    super::store::remove_entry(&case.path("gleaner.redb"), "jobs.by_status");
    let filler = place.join("filler");
    // `cat` goes on until there is no room left.
    let full = Command::new("sh")
        .arg("-c")
        .arg(format!("cat /dev/zero > {}", filler.display()))
        .stderr(Stdio::null())
        .status();
    assert!(!full.unwrap().success());
    let before = fs::read(case.path("gleaner.redb")).unwrap();
    let (code, told) = case.doctor(&["--repair"]);
    let is_mended = code == Some(0);
    // What redb has room for within its file needs none of the disk's.
    assert!(is_mended || told.contains("could not be mended"), "{told}");
    if !is_mended {
        assert_eq!(code, Some(1), "{told}");
        assert!(
            before == fs::read(case.path("gleaner.redb")).unwrap() || told.contains("is not in the index")
        );
    }
    fs::remove_file(&filler).unwrap();
    case.mended("a disk that has room again");
    sound.serves(&case, "after a full disk", &[]).await;
}

/// What cannot be looked at is told from what is damaged.
#[test]
fn where_there_is_no_box_it_cannot_look() {
    let dir = TempDir::new().unwrap();
    for arguments in [&["doctor"][..], &["doctor", "--repair"], &["doctor", "--json"]] {
        let output = gleaner(&dir.path().join("nothing"), arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("there is no box at"), "{}", said(&output));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a look makes nothing");
}
