//! Repositories in folders: what comes back, what is shared, what is refused.

use crate::{
    Destination, FolderTarget, Keep, Listed, Manifest, Passphrase, Plan, Progress, Repository, RowsOf, Store,
    check, clear, make, remove_old, restore,
};
use base::clock::Timestamp;
use base::{Error, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

const STORE: Uuid = Uuid::from_u128(7);
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// A data folder with pages and files, and rows.
struct Box {
    folder: TempDir,
    rows: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    day: i64,
}

impl Box {
    fn new() -> Box {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("var.key"), "the keys of the box").unwrap();
        let mut new = Box { folder, rows: BTreeMap::new(), day: 1 };
        for n in 0..500 {
            new.row(n % 3, n);
        }
        fs::create_dir_all(new.data().join("results/ab")).unwrap();
        fs::write(new.data().join("results/ab/one"), noise(1, 100_000)).unwrap();
        fs::write(new.data().join("results/empty"), "").unwrap();
        new
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("var")
    }

    fn row(&mut self, table: u64, key: u64) {
        self.rows.insert((format!("table{table}"), key.to_be_bytes().to_vec()), noise(key, 3_000));
    }

    /// Keeps a page of an organization; gives its file.
    fn page(&self, org: u128, n: u64) -> PathBuf {
        let bytes = noise(n, 20_000);
        let name = crate::ObjectId::of(&bytes).to_string();
        let folder = self.data().join("pages").join(Uuid::from_u128(org).to_string()).join(&name[..2]);
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}.zst"));
        fs::write(&file, bytes).unwrap();
        file
    }

    fn backup(&self, at: &Repository) -> Result<Manifest> {
        self.backup_by(at, Some("correct horse battery"), false, &|| {})
    }

    fn backup_by(
        &self,
        at: &Repository,
        passphrase: Option<&str>,
        anew: bool,
        meanwhile: &dyn Fn(),
    ) -> Result<Manifest> {
        let passphrase = passphrase.map(|text| Passphrase::parse(text).unwrap());
        let (now, progress, data) = (Timestamp(self.day * DAY_MS), Progress::default(), self.data());
        let plan = Plan {
            version: "1",
            store: STORE,
            now: &|| now,
            data: &data,
            pages: "pages",
            folders: &["results"],
            passphrase: passphrase.as_ref(),
            key_file: &self.folder.path().join("var.key"),
            config: Some("[server]\n".to_owned()),
            anew,
            hold: &|| std::boxed::Box::new(()),
            stop: &|| false,
            progress: &progress,
        };
        let _held = at.hold()?;
        make(at, &plan, &mut |take| {
            meanwhile();
            for ((table, key), value) in &self.rows {
                take(RowsOf { table: table.clone(), rows: vec![(key.clone(), Some(value.clone()))] })?;
            }
            Ok(Duration::ZERO)
        })
    }

    /// Every file of the data folder, but for drafts.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        files(&self.data())
    }
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(path, fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

type Rows = Arc<Mutex<BTreeMap<(String, Vec<u8>), Vec<u8>>>>;

/// Rows that come back.
struct Back(Rows);

impl Store for Back {
    fn put(&mut self, part: RowsOf) -> Result<()> {
        let mut rows = self.0.lock().unwrap();
        for (key, value) in part.rows {
            match value {
                Some(value) => drop(rows.insert((part.table.clone(), key), value)),
                None => drop(rows.remove(&(part.table.clone(), key))),
            }
        }
        Ok(())
    }

    fn finish(self: std::boxed::Box<Self>) -> Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
}

/// Restores into `folder`, and compares with what was there.
fn restored(at: &Repository, backup: &Manifest, folder: &Path, passphrase: &str) -> Result<(Rows, bool)> {
    let passphrase = Passphrase::parse(passphrase).unwrap();
    let rows = Rows::default();
    let into = Destination {
        data: &folder.join("var"),
        pages: "pages",
        key_file: &folder.join("var.key"),
        config: &folder.join("appliance.toml"),
        passphrase: Some(&passphrase),
        stop: &|| false,
    };
    let (done, _) = restore(at, backup, &into, &mut || Ok(std::boxed::Box::new(Back(rows.clone()))))?;
    Ok((rows, done.key && done.config))
}

fn comes_back(at: &Repository, backup: &Manifest, rows: &Box, expected: &BTreeMap<String, Vec<u8>>) {
    let folder = TempDir::new().unwrap();
    let (found, has_key) = restored(at, backup, folder.path(), "correct horse battery").unwrap();
    assert!(has_key);
    assert_eq!(*found.lock().unwrap(), rows.rows);
    assert_eq!(&files(&folder.path().join("var")), expected);
    assert_eq!(fs::read_to_string(folder.path().join("var.key")).unwrap(), "the keys of the box");
    assert_eq!(fs::read_to_string(folder.path().join("appliance.toml")).unwrap(), "[server]\n");
    // Not over what is there.
    let again = restored(at, backup, folder.path(), "correct horse battery").err().unwrap().for_operator();
    assert!(again.contains("is not empty"), "{again}");
}

fn place() -> (TempDir, Repository) {
    let folder = TempDir::new().unwrap();
    let repository = repository(folder.path());
    (folder, repository)
}

fn repository(folder: &Path) -> Repository {
    Repository::at(std::boxed::Box::new(FolderTarget::at(folder)))
}

fn is_whole(at: &Repository, backups: &[&Manifest]) -> bool {
    check(at, backups, &|| false).unwrap().findings.is_empty()
}

#[test]
fn what_is_backed_up_comes_back_and_only_what_is_new_is_written() {
    let (mut of, (_place, at)) = (Box::new(), place());
    for n in 0..1_000 {
        of.page(u128::from(n % 3 + 1), n);
    }
    let first = of.backup(&at).unwrap();
    assert_eq!((first.summary.pages, first.summary.new_pages, first.summary.files), (1_000, 1_000, 2));
    let then = of.files();
    comes_back(&at, &first, &of, &then);

    // A second time nothing is new but the key, which is sealed anew each time.
    let again = of.backup(&at).unwrap();
    assert_eq!((again.summary.pages, again.summary.new_pages), (1_000, 0));
    assert_eq!(again.summary.new_objects, 2, "the key file and the configuration are sealed anew");

    of.row(1, 10_000);
    fs::write(of.data().join("results/two"), noise(9, 50_000)).unwrap();
    let late = std::cell::Cell::new(None);
    for n in 2_000..2_010 {
        of.page(2, n);
    }
    let third = of.backup_by(&at, Some("correct horse battery"), false, &|| {
        late.set(Some(of.page(7, 3_000)));
        fs::write(of.data().join("results/late"), "late").unwrap();
    });
    let third = third.unwrap();
    assert_eq!((third.summary.pages, third.summary.new_pages), (1_011, 11));
    assert!(third.summary.new_bytes < first.summary.new_bytes / 4, "{:?}", third.summary);
    let all = of.files();
    comes_back(&at, &third, &of, &all);
    // What came late is known to the next one, and the first is what it was.
    let fourth = of.backup(&at).unwrap();
    assert_eq!((fourth.summary.pages, fourth.summary.new_pages), (1_011, 0));
    of.rows.remove(&("table1".to_owned(), 10_000u64.to_be_bytes().to_vec()));
    comes_back(&at, &first, &of, &then);
    let listing = at.list().unwrap();
    assert_eq!(listing.backups, [first.clone(), again, third, fourth]);
    assert!(is_whole(&at, &listing.backups.iter().collect::<Vec<_>>()));
    // All anew writes over what is there, and every backup stays whole.
    let anew = of.backup_by(&at, Some("correct horse battery"), true, &|| {}).unwrap();
    assert_eq!(anew.summary.new_pages, 1_011);
    assert!(is_whole(&at, &at.list().unwrap().backups.iter().collect::<Vec<_>>()));
}

#[test]
fn a_changed_bit_or_a_missing_end_is_found_in_every_file() {
    let (of, (place, at)) = (Box::new(), place());
    for n in 0..50 {
        of.page(1, n);
    }
    let made = of.backup(&at).unwrap();
    let everything = files(place.path());
    assert!(everything.len() >= 7, "{:?}", everything.keys());
    for (nth, (name, bytes)) in everything.iter().filter(|(_, bytes)| !bytes.is_empty()).enumerate() {
        let path = place.path().join(name);
        let refused = |what: &str| {
            let said = match at.manifest(&made.id) {
                Err(error) => error.for_operator(),
                Ok(manifest) => {
                    let findings = check(&at, &[&manifest], &|| false).unwrap().findings;
                    findings.first().unwrap_or_else(|| panic!("{name} {what}: nothing was found")).clone()
                }
            };
            assert!(said.contains(name.as_str()), "{name} {what}: {said}");
            if let Ok(manifest) = at.manifest(&made.id) {
                let into = TempDir::new().unwrap();
                let said = restored(&at, &manifest, into.path(), "correct horse battery").err().unwrap();
                assert!(said.for_operator().contains(name.as_str()), "{name} {what}");
                assert_eq!(fs::read_dir(into.path()).unwrap().count(), 0, "nothing is put in place");
            }
        };
        let seed = noise(nth as u64 + 1, 400);
        let spots = if bytes.len() < 150 { bytes.len() } else { 12 };
        for spot in 0..spots {
            let at_byte = match spots {
                12 => {
                    u64::from_le_bytes(seed[spot * 8..spot * 8 + 8].try_into().unwrap()) as usize
                        % bytes.len()
                }
                _ => spot,
            };
            let mut flipped = bytes.clone();
            flipped[at_byte] ^= 1 << (seed[spot % 400] % 8);
            fs::write(&path, &flipped).unwrap();
            refused(&format!("flipped at {at_byte}"));
        }
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..cut]).unwrap();
            refused(&format!("cut to {cut}"));
        }
        fs::write(&path, [bytes.as_slice(), b"\n"].concat()).unwrap();
        refused("longer by a byte");
        fs::remove_file(&path).unwrap();
        if name.starts_with("objects") {
            refused("missing");
        }
        fs::write(&path, bytes).unwrap();
    }
    assert!(is_whole(&at, &[&made]));
}

#[test]
fn a_wrong_passphrase_and_a_key_that_was_left_out_are_said() {
    let (of, (_place, at)) = (Box::new(), place());
    let sealed = of.backup(&at).unwrap();
    let folder = TempDir::new().unwrap();
    let said = restored(&at, &sealed, folder.path(), "incorrect horse battery").err().unwrap().for_operator();
    assert!(said.contains("the passphrase is wrong"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let open = of.backup_by(&at, None, false, &|| {}).unwrap();
    assert!(sealed.has_key() && !open.has_key());
    let (_, has_key) = restored(&at, &open, folder.path(), "whatever it may be").unwrap();
    assert!(!has_key && !folder.path().join("var.key").exists());
    // In nothing that was written stands the key.
    for (name, bytes) in files(_place.path()) {
        assert!(!bytes.windows(19).any(|part| part == b"the keys of the box"), "{name}");
    }
}

#[test]
fn a_backup_that_was_cut_off_is_none_and_its_objects_go() {
    let (of, (place, at)) = (Box::new(), place());
    of.page(1, 1);
    let first = of.backup(&at).unwrap();
    let before = files(place.path());
    of.page(1, 2);
    let dies = || {
        let held = at.hold();
        assert!(
            held.is_err_and(|error| error.for_operator().contains("another backup")),
            "nobody else writes"
        );
        panic!("killed");
    };
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        of.backup_by(&at, Some("correct horse battery"), false, &dies)
    }));
    assert!(killed.is_err());
    let after = files(place.path());
    assert!(after.len() > before.len(), "what it wrote is there");
    assert_eq!(at.list().unwrap().backups, std::slice::from_ref(&first));
    assert!(clear(&at).unwrap().objects > 0);
    assert_eq!(files(place.path()), before);
    // The next one writes again what the cut one had written.
    let next = of.backup(&at).unwrap();
    assert_eq!(next.summary.new_pages, 1);
    assert!(is_whole(&at, &[&first, &next]));
}

#[test]
fn what_fails_takes_back_what_it_wrote() {
    let (of, (place, at)) = (Box::new(), place());
    of.page(1, 1);
    of.backup(&at).unwrap();
    let before: Vec<_> = files(place.path()).into_keys().collect();
    of.page(1, 2);
    let (now, progress, data) = (Timestamp(DAY_MS), Progress::default(), of.data());
    let plan = Plan {
        version: "1",
        store: STORE,
        now: &|| now,
        data: &data,
        pages: "pages",
        folders: &["results"],
        passphrase: None,
        key_file: &of.folder.path().join("var.key"),
        config: None,
        anew: false,
        hold: &|| std::boxed::Box::new(()),
        stop: &|| false,
        progress: &progress,
    };
    let failed = make(&at, &plan, &mut |_| Err(Error::unavailable("the store is closing"))).unwrap_err();
    assert_eq!(failed.for_operator(), Error::unavailable("the store is closing").for_operator());
    assert_eq!(files(place.path()).into_keys().collect::<Vec<_>>(), before);
    let other = Plan { store: Uuid::from_u128(8), ..plan };
    let refused = make(&at, &other, &mut |_| Ok(Duration::ZERO)).unwrap_err().for_operator();
    assert!(refused.contains("of another box"), "{refused}");
}

#[test]
fn old_backups_go_with_what_nobody_names_and_packs_that_are_mostly_gone_are_written_anew() {
    let (mut of, (place, at)) = (Box::new(), place());
    let pages: Vec<_> = (0..300).map(|n| of.page(1, n)).collect();
    let mut made = Vec::new();
    for day in 1..=6 {
        of.day = day;
        of.row(1, 20_000 + day as u64);
        made.push(of.backup(&at).unwrap());
    }
    let days = |last, days: u64| Keep { last, age: Duration::from_secs(days * 24 * 3_600) };
    let now = Timestamp(6 * DAY_MS);
    assert_eq!(remove_old(&at, &days(10, 0), now).unwrap(), crate::Removed::default());
    assert_eq!(remove_old(&at, &days(1, 5), now).unwrap().backups, [made[0].id.clone()]);
    let removed = remove_old(&at, &days(2, 0), now).unwrap();
    assert_eq!(removed.backups, [made[1].id.clone(), made[2].id.clone(), made[3].id.clone()]);
    assert!(removed.objects >= 3 && removed.bytes > 0, "{removed:?}");
    let left = at.list().unwrap().backups;
    assert_eq!(left, made[4..]);
    assert!(is_whole(&at, &left.iter().collect::<Vec<_>>()));

    // Most of the pages go: what is left is packed anew by the backup after that which finds it.
    for page in &pages[..200] {
        fs::remove_file(page).unwrap();
    }
    let finds = of.backup(&at).unwrap();
    assert_eq!((finds.summary.pages, finds.summary.new_pages), (100, 0));
    let packs_anew = of.backup(&at).unwrap();
    assert_eq!((packs_anew.summary.pages, packs_anew.summary.new_pages), (100, 100));
    let (before, expected) = (size(&at), of.files());
    remove_old(&at, &days(1, 0), now).unwrap();
    assert!(size(&at) * 2 < before, "{} of {before}", size(&at));
    comes_back(&at, &packs_anew, &of, &expected);

    // What a kill left behind goes, and nothing while a manifest cannot be read.
    let stray = place.path().join("objects/ab").join(format!("ab{}", "0".repeat(62)));
    fs::create_dir_all(stray.parent().unwrap()).unwrap();
    fs::write(&stray, "stray").unwrap();
    fs::write(place.path().join("objects/ab/x.1-1.part"), "draft").unwrap();
    let manifest = place.path().join(format!("backups/{}.json", packs_anew.id));
    let text = fs::read(&manifest).unwrap();
    fs::write(&manifest, &text[1..]).unwrap();
    let refused = clear(&at).unwrap_err().for_operator();
    assert!(refused.contains("Nothing is removed while a backup cannot be read"), "{refused}");
    assert!(stray.exists() && at.newest().is_err());
    fs::write(&manifest, &text).unwrap();
    assert_eq!(clear(&at).unwrap().objects, 1);
    assert!(!stray.exists() && !place.path().join("objects/ab/x.1-1.part").exists());
    assert_eq!(at.newest().unwrap(), packs_anew);
}

fn size(at: &Repository) -> u64 {
    at.target().list("objects").unwrap().iter().map(|file: &Listed| file.bytes).sum()
}
