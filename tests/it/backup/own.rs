//! Backups that a box makes by itself: by schedule, with retention, and a letter where one fails.

use super::{Lab, PASSPHRASE, WAIT, files, pages};
use crate::harness::smtp::MailServer;
use crate::harness::{collect, eventually, member};
use serde_json::Value;
use std::fs;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_makes_them_old_ones_go_and_a_failure_is_told() {
    let (web, mail) = (pages().await, MailServer::plain().await);
    let mut lab = Lab::new(&[("NETWORK__ALLOW", &web.allow()), ("MAIL__OPERATOR", "operator@example.com")]);
    let place = lab.place();
    let of_mail = mail.settings(lab.folder.path());
    lab.settings.extend(of_mail);
    let passphrase = lab.folder.path().join("passphrase");
    lab.settings.extend([
        ("BACKUP__TARGET", place.display().to_string()),
        ("BACKUP__SCHEDULE", "* * * * * *".to_owned()),
        ("BACKUP__PASSPHRASE_FILE", passphrase.display().to_string()),
        ("BACKUP__KEEP_LAST", "2".to_owned()),
    ]);
    let process = lab.start("first");
    let ada = member(&process.client(), &process.socket(), "ada").await;
    collect(&process.client().bearer(&ada.key), &web.url("/one")).await;
    let list = || lab.done("first", &["backup", "list"])["backups"].as_array().cloned().unwrap();
    let first = eventually("one is made by itself", WAIT, || async { list().first().cloned() }).await;
    let newest = eventually("the first one has gone", WAIT, || async {
        let now = list();
        assert!(now.len() <= 3, "{now:?}");
        let has_gone = !now.iter().any(|backup| backup["id"] == first["id"]);
        now.last().filter(|_| has_gone).cloned()
    })
    .await;
    assert_eq!(newest["hasKey"], true);
    // A folder that cannot be written to is a failure with a letter; it is over by itself.
    let aside = lab.folder.path().join("aside");
    eventually("it is moved away between two backups", WAIT, || async {
        fs::rename(&place, &aside).ok()?;
        match fs::write(&place, "a file where the folder was") {
            Ok(()) => Some(()),
            // A backup had made it anew.
            Err(_) => {
                let _ = fs::remove_dir_all(&place);
                fs::rename(&aside, &place).ok()?;
                None
            }
        }
    })
    .await;
    eventually("the operator is told", WAIT, || async {
        let letters = mail.received();
        let told = letters
            .iter()
            .find(|letter| letter.header("subject").is_some_and(|s| s.contains("a backup of")))?;
        assert_eq!(told.to, ["operator@example.com"]);
        assert!(told.parts().join("\n").contains("backups"), "{:?}", told.parts());
        Some(())
    })
    .await;
    let state = lab.done("first", &["admin", "backup"]);
    assert!(state["failure"].is_string() && state["last"]["id"].is_string(), "{state}");
    fs::remove_file(&place).unwrap();
    fs::rename(&aside, &place).unwrap();
    eventually("it goes on", WAIT, || async {
        (lab.done("first", &["admin", "backup"])["failure"] == Value::Null).then_some(())
    })
    .await;
    assert_eq!(process.terminate(), Some(0));
    lab.done("first", &["backup", "verify"]);
    for bytes in files(&place).values() {
        assert!(!bytes.windows(PASSPHRASE.len()).any(|part| part == PASSPHRASE.as_bytes()));
    }
    // Where the box says where they go, nothing need be typed.
    let off = lab.done("first", &["backup"]);
    assert_eq!((&off["hasKey"], &off["target"]), (&Value::Bool(true), &place.display().to_string().into()));
    assert!(off["removed"]["backups"].is_array(), "{off}");
}

#[test]
fn a_mistake_in_the_section_is_named() {
    for (key, value, part) in [
        ("BACKUP__TARGET", "backups", "backup.target: must be an absolute path or s3://BUCKET/PREFIX"),
        ("BACKUP__TARGET", "s3://b", "backup.target: "),
        ("BACKUP__SCHEDULE", "0 2 * * *", "backup.target: must be set where backup.schedule is"),
        ("BACKUP__KEEP_LAST", "0", "backup.keep_last: must be 1 to 10000"),
    ] {
        let lab = Lab::new(&[(key, value)]);
        let said = lab.refused("first", &["backup", "list", "backups"]);
        assert!(said.contains(part), "{key}={value}: {said}");
    }
    for (schedule, zone, part) in
        [("every day", "UTC", "backup.schedule: "), ("0 2 * * *", "Mars/Base", "backup.timezone: ")]
    {
        let lab = Lab::new(&[
            ("BACKUP__TARGET", "/nowhere"),
            ("BACKUP__SCHEDULE", schedule),
            ("BACKUP__TIMEZONE", zone),
        ]);
        let said = lab.refused("first", &["backup", "list"]);
        assert!(said.contains(part), "{schedule} {zone}: {said}");
    }
    let lab = Lab::new(&[("BACKUP__TARGET", "/nowhere")]);
    fs::write(lab.folder.path().join("short"), "short").unwrap();
    let said = lab.refused("first", &["backup", "backups", "--passphrase-file", "short"]);
    assert!(said.contains("must have 12 to 1024 bytes"), "{said}");
    let said = lab.refused("first", &["backup", "backups", "--passphrase-file", "missing"]);
    assert!(said.contains("missing cannot be read"), "{said}");
    let said = lab.refused("first", &["backup", "backups", "--without-key"]);
    assert!(said.contains("there is no store"), "{said}");
}
