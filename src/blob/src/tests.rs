//! The blob store on a real folder.

use super::*;

fn store() -> (tempfile::TempDir, BlobStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open_local(folder.path().join("pages")).unwrap();
    (folder, store)
}

fn page(n: usize) -> Bytes {
    Bytes::from(format!("<html><title>{n}</title>{}</html>", "<p>some text</p>".repeat(200)))
}

fn file_of(store: &BlobStore, org: Uuid, hash: &BlobHash) -> PathBuf {
    let hex = hash.to_string();
    store.inner.root.join(format!("{org}/{}/{hex}.zst", &hex[..2]))
}

#[test]
fn a_hash_has_one_text_and_one_row_form() {
    let hash = BlobHash::of(b"abc");
    // FIPS 180-2, appendix B.1.
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hash.to_string(), hex);
    assert_eq!(hex.parse(), Ok(hash));
    assert_eq!(serde_json::to_string(&hash).unwrap(), format!("\"{hex}\""));
    assert_eq!(serde_json::from_str::<BlobHash>(&format!("\"{hex}\"")).unwrap(), hash);
    assert_eq!(BlobHash::from_bytes(*hash.as_bytes()), hash);
    for bad in [
        "",
        "ab",
        &hex.to_uppercase(),
        &hex[1..],
        &format!("{hex}00"),
        &hex.replace('b', "g"),
        &"é".repeat(32),
    ] {
        assert_eq!(bad.parse::<BlobHash>(), Err(BlobHashError), "{bad}");
    }
}

/// The folder of all data is moved away, and an empty one, or an older copy of it, stands under its name.
#[tokio::test]
async fn a_folder_that_was_moved_takes_no_pages_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let (data, aside) = (folder.path().join("data"), folder.path().join("aside"));
    fs::create_dir(&data).unwrap();
    let store = BlobStore::open_local(data.join("pages")).unwrap();
    let org = store.org(Uuid::now_v7());
    let kept = org.put_page(page(1)).await.unwrap();
    for has_pages in [false, true] {
        fs::rename(&data, &aside).unwrap();
        fs::create_dir(&data).unwrap();
        if has_pages {
            fs::create_dir(data.join("pages")).unwrap();
        }
        for put in [page(1), page(2)] {
            let error = org.put_page(put).await.unwrap_err();
            assert!(matches!(error, BlobError::Failed { .. }), "{error:?}");
        }
        // Nothing that is asked for is "not there", and nothing is counted as removed.
        assert!(org.get_page(&kept.hash).await.is_err() && org.delete(&kept.hash).await.is_err());
        assert!(org.remove_untouched(&kept.hash, Duration::ZERO).await.is_err());
        assert!(
            org.usage().await.is_err()
                && org.older_than(kept.hash.as_bytes()[0], Duration::ZERO).await.is_err()
        );
        assert!(store.try_write().await.is_err() && store.sweep_unfinished(Duration::ZERO).await.is_err());
        let erased = store.org(Uuid::now_v7());
        assert!(erased.delete_all().await.is_err());
        if has_pages {
            fs::remove_dir(data.join("pages")).unwrap();
        }
        fs::remove_dir(&data).expect("nothing was made there");
        fs::rename(&aside, &data).unwrap();
    }
    assert_eq!(org.get_page(&kept.hash).await.unwrap(), Some(page(1)));
    let second = org.put_page(page(2)).await.unwrap();
    assert_eq!(org.get_page(&second.hash).await.unwrap(), Some(page(2)));
}

#[tokio::test]
async fn a_page_that_the_disk_does_not_give_back_is_written_anew() {
    let (folder, store) = store();
    let org = Uuid::now_v7();
    let kept = store.org(org).put_page(page(1)).await.unwrap();
    let file = file_of(&store, org, &kept.hash);
    // Every look into it fails, also for root.
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&file, &file).unwrap();
    assert!(fs::read(&file).is_err_and(|error| error.kind() != io::ErrorKind::NotFound));
    // Of another process, which knows nothing of the page.
    let store = BlobStore::open_local(folder.path().join("pages")).unwrap();
    assert!(store.org(org).get_page(&kept.hash).await.is_err());
    assert_eq!(store.org(org).put_page(page(1)).await.unwrap(), kept);
    assert_eq!(store.org(org).get_page(&kept.hash).await.unwrap(), Some(page(1)));
    let of = |number| BlobError::from_io("read a page", io::Error::from_raw_os_error(number));
    assert_eq!([5, 23, 24, 12].map(|number| of(number).is_of_the_process()), [false, true, true, true]);
}

#[tokio::test]
async fn a_page_comes_back_and_is_kept_once() {
    let (_folder, store) = store();
    let (org, other) = (Uuid::now_v7(), Uuid::now_v7());
    let blobs = store.org(org);
    let kept = blobs.put_page(page(1)).await.unwrap();
    assert_eq!(kept.byte_size, page(1).len() as u64);
    assert!(kept.stored_size < kept.byte_size / 5, "HTML compresses");
    assert_eq!(blobs.get_page(&kept.hash).await.unwrap(), Some(page(1)));

    let file = file_of(&store, org, &kept.hash);
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(blobs.put_page(page(1)).await.unwrap(), kept);
    assert_eq!(
        fs::metadata(&file).unwrap().modified().unwrap(),
        before,
        "the same page is not written again"
    );

    assert_eq!(store.org(other).get_page(&kept.hash).await.unwrap(), None);
    assert!(!store.org(other).delete(&kept.hash).await.unwrap());
    let empty = blobs.put_page(Bytes::new()).await.unwrap();
    assert_eq!(blobs.get_page(&empty.hash).await.unwrap(), Some(Bytes::new()));
    let usage = blobs.usage().await.unwrap();
    assert_eq!(usage, BlobUsage { objects: 2, stored_bytes: kept.stored_size + empty.stored_size });
}

#[tokio::test]
async fn deleting_takes_one_or_all_of_one_organization() {
    let (_folder, store) = store();
    let (org, other) = (Uuid::now_v7(), Uuid::now_v7());
    let mut hashes = Vec::new();
    for n in 0..20 {
        hashes.push(store.org(org).put_page(page(n)).await.unwrap().hash);
    }
    store.org(other).put_page(page(0)).await.unwrap();
    assert!(store.org(org).delete(&hashes[0]).await.unwrap());
    assert!(!store.org(org).delete(&hashes[0]).await.unwrap());
    assert_eq!(store.org(org).get_page(&hashes[0]).await.unwrap(), None);
    assert_eq!(store.org(org).delete_all().await.unwrap().objects, 19);
    assert_eq!(store.org(org).usage().await.unwrap(), BlobUsage::default());
    assert!(!store.inner.root.join(org.to_string()).exists());
    assert_eq!(store.org(org).delete_all().await.unwrap(), BlobUsage::default());
    assert_eq!(store.org(other).get_page(&hashes[0]).await.unwrap(), Some(page(0)));
    assert!(matches!(store.org(org).put_page(page(3)).await, Err(BlobError::Emptied)));
}

#[tokio::test]
async fn damage_is_told_and_healed_by_the_next_put() {
    let (_folder, store) = store();
    let org = Uuid::now_v7();
    let blobs = store.org(org);
    let kept = blobs.put_page(page(1)).await.unwrap();
    let file = file_of(&store, org, &kept.hash);
    let sound = fs::read(&file).unwrap();
    let bomb = zstd::bulk::compress(&vec![0; PAGE_BYTES_MAX + 1], 1).unwrap();
    let foreign = zstd::bulk::compress(&page(2), 3).unwrap();
    let cases: [(&[u8], &str); 5] = [
        (&sound[..sound.len() / 2], "does not inflate"),
        (b"", "does not inflate"),
        (b"not zstd at all", "does not inflate"),
        (&foreign, "another hash"),
        (&bomb, "beyond the largest page"),
    ];
    for (damaged, why) in cases {
        fs::write(&file, damaged).unwrap();
        let error = blobs.get_page(&kept.hash).await.unwrap_err();
        assert!(matches!(error, BlobError::Corrupt { hash, .. } if hash == kept.hash), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(blobs.put_page(page(1)).await.unwrap().hash, kept.hash);
        assert_eq!(blobs.get_page(&kept.hash).await.unwrap(), Some(page(1)));
    }
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let (_folder, store) = store();
    let blobs = store.org(Uuid::now_v7());
    let error = blobs.put_page(Bytes::from(vec![b'x'; PAGE_BYTES_MAX + 1])).await.unwrap_err();
    assert!(matches!(error, BlobError::TooLarge { .. }), "{error:?}");
    assert_eq!(blobs.usage().await.unwrap(), BlobUsage::default());
}

#[tokio::test]
async fn unfinished_writes_are_unseen_and_swept() {
    let (_folder, store) = store();
    let org = Uuid::now_v7();
    let kept = store.org(org).put_page(page(1)).await.unwrap();
    let mut unfinished = file_of(&store, org, &kept.hash).into_os_string();
    unfinished.push("#1");
    fs::write(&unfinished, "half a pa").unwrap();
    assert_eq!(store.org(org).usage().await.unwrap().objects, 1);
    assert_eq!(
        store.sweep_unfinished(Duration::from_secs(3600)).await.unwrap(),
        0,
        "a young one may still be written"
    );
    assert_eq!(store.sweep_unfinished(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(store.org(org).get_page(&kept.hash).await.unwrap(), Some(page(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_page_from_many_sides_at_once() {
    let (_folder, store) = store();
    let org = Uuid::now_v7();
    let tasks: Vec<_> = (0..64)
        .map(|n| {
            let blobs = store.org(org);
            tokio::spawn(async move { blobs.put_page(page(n % 4)).await.unwrap() })
        })
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        let kept = task.await.unwrap();
        assert_eq!(store.org(org).get_page(&kept.hash).await.unwrap(), Some(page(n % 4)));
    }
    assert_eq!(store.org(org).usage().await.unwrap().objects, 4);
    assert_eq!(store.sweep_unfinished(Duration::ZERO).await.unwrap(), 0);
}

#[tokio::test]
async fn a_page_that_somebody_took_away_is_written_again() {
    let (_folder, store) = store();
    let org = Uuid::now_v7();
    let blobs = store.org(org);
    let kept = blobs.put_page(page(1)).await.unwrap();
    fs::remove_file(file_of(&store, org, &kept.hash)).unwrap();
    assert_eq!(blobs.put_page(page(1)).await.unwrap(), kept);
    assert_eq!(blobs.get_page(&kept.hash).await.unwrap(), Some(page(1)));
    // With its folder.
    fs::remove_dir_all(store.inner.root.join(org.to_string())).unwrap();
    assert_eq!(blobs.put_page(page(1)).await.unwrap(), kept);
    assert_eq!(blobs.get_page(&kept.hash).await.unwrap(), Some(page(1)));
    assert!(blobs.delete(&kept.hash).await.unwrap());
    assert_eq!(blobs.get_page(&kept.hash).await.unwrap(), None);
}

#[tokio::test]
async fn a_page_that_another_process_left_is_looked_at() {
    let (_folder, store) = store();
    let org = Uuid::now_v7();
    let kept = store.org(org).put_page(page(1)).await.unwrap();
    let file = file_of(&store, org, &kept.hash);
    let sound = fs::read(&file).unwrap();
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    let reopened = BlobStore::open_local(store.inner.root.clone()).unwrap();
    assert_eq!(reopened.org(org).put_page(page(1)).await.unwrap(), kept);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before, "it is sound, so it stays");

    // Of the same size, and torn: nothing but its content tells.
    let mut torn = sound.clone();
    torn[sound.len() / 2..].fill(0);
    fs::write(&file, &torn).unwrap();
    let reopened = BlobStore::open_local(store.inner.root.clone()).unwrap();
    assert_eq!(reopened.org(org).put_page(page(1)).await.unwrap(), kept);
    assert_eq!(fs::read(&file).unwrap(), sound);
}

#[test]
fn a_full_disk_is_told_from_other_failures() {
    let wrapped = |kind: io::ErrorKind| BlobError::from_io("write a page", io::Error::from(kind));
    assert!(matches!(wrapped(io::ErrorKind::StorageFull), BlobError::NoSpace { .. }));
    assert!(matches!(wrapped(io::ErrorKind::QuotaExceeded), BlobError::NoSpace { .. }));
    assert!(matches!(wrapped(io::ErrorKind::PermissionDenied), BlobError::Failed { .. }));
}

#[tokio::test]
async fn a_page_that_was_on_its_way_does_not_stay_where_all_were_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open_local(folder.path().to_owned()).unwrap();
    let (gone, kept) = (store.org(Uuid::now_v7()), store.org(Uuid::now_v7()));
    let page = Bytes::from_static(b"a page of both");
    gone.put_page(page.clone()).await.unwrap();
    let there = kept.put_page(page.clone()).await.unwrap();
    // Some are put before, some after, some while the pages go.
    let putting: Vec<_> = (0..20)
        .map(|n| {
            let (gone, page) = (gone.clone(), Bytes::from(format!("page {n}")));
            tokio::spawn(async move { gone.put_page(page).await })
        })
        .collect();
    gone.delete_all().await.unwrap();
    for put in putting {
        // Whoever was told that the page is kept put it before.
        let _ = put.await.unwrap();
    }
    assert!(matches!(gone.put_page(page.clone()).await, Err(BlobError::Emptied)));
    assert_eq!(gone.usage().await.unwrap(), BlobUsage::default());
    assert_eq!(kept.get_page(&there.hash).await.unwrap(), Some(page));
}

#[tokio::test]
async fn nothing_is_removed_while_removals_are_held() {
    let (folder, store) = store();
    let pages = store.org(Uuid::now_v7());
    let kept = pages.put_page(Bytes::from_static(b"a page")).await.unwrap();
    let held = (store.hold_removals(), store.hold_removals());
    assert!(!pages.remove_untouched(&kept.hash, Duration::ZERO).await.unwrap());
    pages.drop_local(&kept.hash).await.unwrap();
    assert!(matches!(pages.delete_all().await, Err(BlobError::Held)));
    drop(held.0);
    assert!(!pages.remove_untouched(&kept.hash, Duration::ZERO).await.unwrap());
    assert!(pages.get_page(&kept.hash).await.unwrap().is_some());
    // It takes pages still.
    let more = pages.put_page(Bytes::from_static(b"another")).await.unwrap();
    drop(held.1);
    assert!(pages.remove_untouched(&kept.hash, Duration::ZERO).await.unwrap());
    assert_eq!(pages.delete_all().await.unwrap().objects, 1);
    assert!(pages.get_page(&more.hash).await.unwrap().is_none());
    drop(folder);
}
