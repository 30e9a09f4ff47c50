//! Backups in a bucket (`moto`, from PyPI).

use super::{Lab, answers, pages};
use crate::harness::{collect, member, text};
use crate::own_storage::moto::Moto;
use std::fs;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_takes_backups_and_gives_them_back() {
    let Some(moto) = Moto::start().await else { return };
    moto.make_bucket("backups").await;
    // An open server: moto's own check of signatures fails for lists below a folder, whose slashes it does not encode as AWS does.
    let (id, secret) = ("AKIAIOSFODNN7EXAMPLE", "a-secret-of-the-box");
    let web = pages().await;
    let mut lab = Lab::new(&[
        ("NETWORK__ALLOW", &web.allow()),
        ("BACKUP__TARGET", "s3://backups/box/one"),
        ("BACKUP__KEEP_LAST", "1"),
        ("BACKUP__S3_ENDPOINT", &moto.url()),
        ("BACKUP__S3_ACCESS_KEY_ID", id),
    ]);
    let file = lab.folder.path().join("secret");
    fs::write(&file, format!("{secret}\n")).unwrap();
    lab.settings.push(("BACKUP__S3_SECRET_FILE", file.display().to_string()));
    let process = lab.start("first");
    let ada = member(&process.client(), &process.socket(), "ada").await;
    let api = process.client().bearer(&ada.key);
    collect(&api, &web.url("/one")).await;
    let first = lab.done("first", &["backup", "--passphrase-file", "passphrase"]);
    assert_eq!(first["target"], "s3://backups/box/one");
    collect(&api, &web.url("/two")).await;
    let second = lab.done("first", &["backup", "--passphrase-file", "passphrase"]);
    assert_eq!((&second["summary"]["pages"], &second["summary"]["newPages"]), (&2.into(), &1.into()));
    assert_eq!(second["removed"]["backups"][0], first["id"], "{second}");
    let listed = lab.done("first", &["backup", "list"]);
    assert_eq!(listed["backups"].as_array().unwrap().len(), 1, "{listed}");
    lab.done("first", &["backup", "verify"]);
    process.kill();
    let asked = ["restore", "s3://backups/box/one", "--passphrase-file", "passphrase"];
    assert_eq!(lab.done("second", &asked)["backup"], second["id"]);
    lab.is_sound("second");
    let process = lab.start("second");
    answers(&process.client().bearer(&ada.key), 2).await;
    process.kill();

    // A bucket that is not there, and a server that is away, are told by name.
    let said = lab.refused("first", &["backup", "list", "s3://nobodys/box"]);
    assert!(said.contains("s3://nobodys/box"), "{said}");
    assert!(!said.contains(secret));
    assert!(text(&second, "id").len() == 36);
}
