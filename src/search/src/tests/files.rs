//! The index as files: ones that are damaged, of another version, or gone.

use super::*;
use tantivy::Term;

#[test]
fn another_schema_version_is_wiped() {
    let (dir, index, org) = with_texts(&["text"]);
    drop(index);
    let folder = dir.path().join("search");
    std::fs::write(folder.join("beside"), "not ours").unwrap();
    for claim in [Some("999"), Some("0"), Some(""), None] {
        match claim {
            Some(version) => std::fs::write(folder.join(VERSION_FILE), version).unwrap(),
            None => std::fs::remove_file(folder.join(VERSION_FILE)).unwrap(),
        }
        let index = open(&dir);
        assert!(index.rebuilt() && matches!(index.opening(), OpenOutcome::Rebuilt { .. }), "{claim:?}");
        assert_eq!((index.position(), index.documents()), (0, 0));
        index.apply(&[put(org, id(1), document("text"))], 7).unwrap();
    }
    let index = open(&dir);
    assert_eq!((index.opening(), index.position(), index.documents()), (&OpenOutcome::Existing, 7, 1));
    assert!(folder.join("beside").exists(), "wiping takes the index only");
}

#[test]
fn a_damaged_index_is_wiped() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("meta gone", |folder| std::fs::remove_file(folder.join("meta.json")).unwrap()),
        ("meta torn", |folder| std::fs::write(folder.join("meta.json"), "{\"index_set").unwrap()),
        ("payload of another kind", |folder| {
            let meta = std::fs::read_to_string(folder.join("meta.json")).unwrap();
            std::fs::write(folder.join("meta.json"), meta.replace("position", "opstamp_")).unwrap();
        }),
        ("segment file gone", |folder| std::fs::remove_file(any_file(folder, ".term")).unwrap()),
        ("segment file empty", |folder| std::fs::write(any_file(folder, ".fast"), "").unwrap()),
    ];
    for (name, damage) in damages {
        let (dir, index, org) = with_texts(&["text", "more text"]);
        drop(index);
        damage(&dir.path().join("search").join(INDEX_FOLDER));
        let index = open(&dir);
        assert!(matches!(index.opening(), OpenOutcome::Rebuilt { .. }), "{name}");
        assert_eq!((index.position(), index.documents()), (0, 0), "{name}");
        index.apply(&[put(org, id(1), document("text"))], 5).unwrap();
        assert_eq!(found(&index, org, "text"), [1], "{name}");
    }
}

fn any_file(folder: &Path, ending: &str) -> PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.to_string_lossy().ends_with(ending)).unwrap()
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error_and_not_wiped() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("search"), "a file").unwrap();
    assert!(matches!(SearchIndex::open(dir.path().join("search")), Err(SearchError::Failed(_))));
    assert_eq!(std::fs::read_to_string(dir.path().join("search")).unwrap(), "a file");
}

#[test]
fn an_idle_writer_is_released_and_comes_back() {
    let (_dir, index, org) = with_texts(&["one"]);
    assert!(!index.release_idle(Duration::from_secs(3600)).unwrap(), "just used");
    index.stage(&[put(org, id(5), document("five"))], 5).unwrap();
    assert!(!index.release_idle(Duration::ZERO).unwrap(), "something is staged");
    index.commit().unwrap();
    assert!(index.release_idle(Duration::ZERO).unwrap());
    assert!(!index.release_idle(Duration::ZERO).unwrap(), "none is left");
    index.apply(&[put(org, id(6), document("six"))], 6).unwrap();
    assert_eq!(found(&index, org, "five OR six"), [5, 6]);
}

#[test]
fn a_failing_writer_is_replaced() {
    let (dir, index, org) = with_texts(&["one"]);
    index.release_idle(Duration::ZERO).unwrap();
    // Another process that writes holds the lock: staging fails, and works again when it has gone.
    let other = open(&dir);
    other.apply(&[put(org, id(8), document("eight"))], 8).unwrap();
    let change = [put(org, id(9), document("nine"))];
    assert!(matches!(index.stage(&change, 9), Err(SearchError::Failed(_))));
    assert_eq!((index.staged_changes(), index.position()), (0, 8), "the position on disk is seen");
    drop(other);
    assert_eq!(index.apply(&change, 9).unwrap(), 9);
    assert_eq!(found(&index, org, "one OR eight OR nine"), [0, 8, 9]);
}

/// Whether any file of the index holds these bytes.
fn files_hold(dir: &TempDir, bytes: &[u8]) -> bool {
    let folder = dir.path().join("search").join(INDEX_FOLDER);
    std::fs::read_dir(folder).unwrap().any(|entry| {
        // What a merge has taken away since holds nothing.
        let Ok(content) = std::fs::read(entry.unwrap().path()) else { return false };
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}

#[test]
fn removing_an_organization_takes_its_words_from_the_files() {
    let (dir, index, org) = with_texts(&["ordinary words"]);
    let leaving = Uuid::now_v7();
    for part in 0..12 {
        let mixed: Vec<SearchChange> = (0..20)
            .map(|n| {
                let n = part * 20 + n + 10;
                if n % 2 == 0 {
                    return put(org, id(n), document("ordinary words"));
                }
                // The columns' dictionaries hold their values as plain bytes; those of terms are automata.
                let page_type = Some("xyzzyplugh".to_owned());
                put(leaving, id(n), SearchDocument { page_type, ..document("xyzzyplugh") })
            })
            .collect();
        index.apply(&mixed, part as u64 + 1).unwrap();
    }
    index.stage(&[put(org, id(5000), document("staged"))], 77).unwrap();
    assert!(files_hold(&dir, b"xyzzyplugh"));
    let erased = index.remove_org(leaving).unwrap();
    assert_eq!(erased.documents, 120);
    assert!(erased.segments > 0);
    assert!(!files_hold(&dir, b"xyzzyplugh"));
    for segment in index.searcher().segment_readers() {
        let words = segment.inverted_index(index.fields().body).unwrap();
        assert_eq!(words.doc_freq(&Term::from_field_text(index.fields().body, "xyzzyplugh")).unwrap(), 0);
    }
    assert_eq!(index.org(leaving).search(&all(0)).unwrap().total, 0);
    assert_eq!(index.org(org).search(&all(0)).unwrap().total, 122);
    assert_eq!(index.position(), 77, "what was staged is committed with its position");
    assert_eq!(index.remove_org(Uuid::now_v7()).unwrap(), OrgRemoval { documents: 0, segments: 0 });
    drop(index);
    assert_eq!(open(&dir).position(), 77);
}
