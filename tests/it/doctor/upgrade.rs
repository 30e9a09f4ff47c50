//! What an upgrade would do: folders of every earlier release are looked at and not changed, and a newer one is refused by name.

use super::case::{Sound, files};
use super::{gleaner, said};
use redb::{Database, TableDefinition};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

type Bytes = &'static [u8];
const META: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("meta");

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(folder).into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_start_would_change_in_older_folders_is_told_and_nothing_is_changed() {
    let boxes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/boxes");
    let mut looked = 0;
    for archive in fs::read_dir(boxes).unwrap().map(|entry| entry.unwrap().path()) {
        let root = TempDir::new().unwrap();
        zip::ZipArchive::new(File::open(&archive).unwrap()).unwrap().extract(root.path()).unwrap();
        fs::set_permissions(root.path().join("data.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let data = root.path().join("data");
        let before = contents(&data);
        let told = gleaner(&data, &["upgrade", "check", "--json"], &[]);
        assert_eq!(told.status.code(), Some(0), "{}", said(&told));
        let plan: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert!(
            plan["opens"] == true
                && plan["layout"].as_u64().unwrap() <= plan["knownLayout"].as_u64().unwrap()
        );
        let text = said(&gleaner(&data, &["upgrade", "check"], &[]));
        assert!(text.contains("restore a backup"), "{text}");
        let is_older = plan["layout"] != plan["knownLayout"];
        if is_older {
            let steps = plan["steps"].as_array().unwrap();
            let what: Vec<_> = steps.iter().map(|step| step["what"].as_str().unwrap()).collect();
            assert!(what.iter().any(|what| what.starts_with("migration ")), "{what:?}");
            assert!(what.iter().any(|what| what.contains("search index")), "{what:?}");
            assert!(what.iter().any(|what| what.contains("SQL tables")), "{what:?}");
            assert!(steps.iter().all(|step| step["seconds"].as_f64().unwrap() >= 0.0), "{plan}");
            assert!(!plan["measured"].as_array().unwrap().is_empty(), "{plan}");
        }
        assert!(contents(&data) == before, "{}: a look has changed something", archive.display());
        looked += 1;
    }
    assert!(looked > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_this_release_needs_nothing_and_a_newer_one_is_refused_by_name() {
    let sound = Sound::fill().await;
    let case = sound.copy();
    let told = gleaner(&case.data, &["upgrade", "check"], &[]);
    assert_eq!(told.status.code(), Some(0), "{}", said(&told));
    assert!(said(&told).contains("nothing changes"), "{}", said(&told));

    let database = Database::open(case.path("gleaner.redb")).unwrap();
    let mut tx = database.begin_write().unwrap();
    tx.set_quick_repair(true);
    tx.open_table(META)
        .unwrap()
        .insert(b"migrations_applied".as_slice(), 4_000_u32.to_be_bytes().as_slice())
        .unwrap();
    tx.commit().unwrap();
    drop(database);
    let before = contents(&case.data);
    let newer = ["layout 4000", "this release knows up to", "written by a newer one"];
    for (arguments, code) in
        [(&["serve"][..], 1), (&["doctor"], 2), (&["doctor", "--repair"], 2), (&["upgrade", "check"], 1)]
    {
        let told = gleaner(&case.data, arguments, &[]);
        assert_eq!(told.status.code(), Some(code), "{arguments:?}: {}", said(&told));
        for part in newer {
            assert!(said(&told).contains(part), "{arguments:?}: no \"{part}\" in {}", said(&told));
        }
    }
    let changed: Vec<_> = contents(&case.data)
        .into_iter()
        .filter(|(path, bytes)| before.get(path) != Some(bytes))
        .map(|(path, _)| path)
        .collect();
    // redb notes in the file's head that it was opened.
    assert!(changed.iter().all(|path| path.ends_with("gleaner.redb")), "{changed:?}");
}

#[test]
fn where_there_is_no_store_an_upgrade_is_a_new_box() {
    let dir = TempDir::new().unwrap();
    let told = gleaner(&dir.path().join("data"), &["upgrade", "check"], &[]);
    assert_eq!(told.status.code(), Some(0), "{}", said(&told));
    assert!(said(&told).contains("makes a new box"), "{}", said(&told));
    assert!(!dir.path().join("data").exists());
}
