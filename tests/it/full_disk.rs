//! A disk that fills up under load, a small tmpfs: nothing that was acknowledged is lost, nothing is corrupt, reads go on,
//! and work goes on by itself when there is room again.

use crate::harness::process::Process;
use crate::harness::smtp::MailServer;
use crate::harness::web::{Answer, Web};
use crate::harness::{Request, ended, eventually, expect, get, member, post, text};
use gleaner::admin;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(90);

/// A file system of its own in memory, unmounted in the end.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// None where this process may not mount one.
    fn mount(mebibytes: u32) -> Option<SmallDisk> {
        let dir = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]).arg(dir.path());
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Fills the disk to the last byte.
fn fill(disk: &SmallDisk) -> PathBuf {
    let path = disk.path().join("ballast");
    let mut file = fs::File::create(&path).unwrap();
    let block = vec![7; 64 << 10];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&[7]).is_ok() {}
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_that_was_acknowledged_and_ends_by_itself() {
    let Some(disk) = SmallDisk::mount(192) else {
        println!("skipped: no tmpfs may be mounted here");
        return;
    };
    let web = Web::open(|path| Some(Answer::html(format!("<title>{path}</title><p>It says {path}.")))).await;
    let mail = MailServer::plain().await;
    let (data, allow) = (disk.path().join("data"), web.allow());
    let of_mail = mail.settings(disk.path());
    let mut settings = vec![
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8"),
        ("STORAGE__RESERVE_MB", "32"),
        ("MAIL__OPERATOR", "operator@example.com"),
    ];
    settings.extend(of_mail.iter().map(|(key, value)| (*key, value.as_str())));
    let process = Process::start(&data, &settings);
    let client = process.client();
    let ada = member(&client, &process.socket(), "ada").await;
    let eve = member(&client, &process.socket(), "eve").await;
    let submit =
        async |n: u64| post(&ada.api, "/api/v1/jobs", &json!({ "url": web.url(&format!("/{n}")) })).await;

    // Under load the rest of the disk is taken, to the last byte.
    let mut acknowledged = BTreeSet::new();
    let (mut n, mut refused, mut ballast) = (0, 0, None);
    while refused < 5 {
        n += 1;
        assert!(n < 2_000, "it never says that the disk is full");
        let reply = submit(n).await;
        match reply.status.as_u16() {
            201 => drop(acknowledged.insert(text(&reply.json, "id").to_owned())),
            503 => refused += 1,
            _ => panic!("{}", reply.text()),
        }
        if n == 30 {
            ballast = Some(fill(&disk));
        }
    }
    assert!(acknowledged.len() >= 30, "{}", acknowledged.len());
    eventually("readiness says so", PATIENCE, || async {
        let ready = get(&client, "/readyz").await;
        (ready.status == 503 && ready.text().contains("reserve")).then_some(())
    })
    .await;
    // Reads go on.
    for id in &acknowledged {
        expect(get(&ada.api, &format!("/api/v1/jobs/{id}")).await, 200);
    }
    expect(get(&ada.api, "/api/v1/storage").await, 200);
    let told = |subject: &'static str| {
        let mail = &mail;
        eventually("the operator is told", PATIENCE, move || async move {
            let came = mail.received();
            let to_operator = came.iter().filter(|message| message.to == ["operator@example.com"]);
            to_operator
                .filter_map(|message| message.header("subject"))
                .any(|s| s.contains(subject))
                .then_some(())
        })
    };
    told("takes no new work").await;
    // An organization can be erased on a full disk; its receipt comes when there is room to write the rest anew.
    let confirm = json!({ "confirmName": "eve" });
    let gone = eve.browser.send(http::Method::DELETE, "/api/v1/orgs/current", Some(&confirm)).await.unwrap();
    let was_taken = gone.status == 202;
    assert!(was_taken || gone.status == 503, "{}", gone.text());

    fs::remove_file(ballast.unwrap()).unwrap();
    eventually("it is over by itself", PATIENCE, || async {
        (get(&client, "/readyz").await.status == 200).then_some(())
    })
    .await;
    told("takes work again").await;
    let after = expect(submit(n + 1).await, 201);
    assert_eq!(ended(&ada.api, text(&after, "id")).await["status"], "succeeded");
    if !was_taken {
        let gone = eve.browser.send(http::Method::DELETE, "/api/v1/orgs/current", Some(&confirm)).await;
        expect(gone.unwrap(), 202);
    }
    eventually("the receipt is there", PATIENCE, || async {
        let all = admin::call(&process.socket(), &Request::Erasures { limit: 10 }).await.unwrap();
        all.to_string().contains("\"done\"").then_some(())
    })
    .await;
    for id in &acknowledged {
        let job = ended(&ada.api, id).await;
        assert_eq!(job["status"], "succeeded", "{job}");
    }
    // A kill, and the doctor finds nothing wrong.
    process.kill();
    let doctor = Command::new(crate::harness::binary())
        .arg("doctor")
        .env("GLEANER_STORAGE__DATA_DIR", &data)
        .output()
        .unwrap();
    assert!(doctor.status.success(), "{}", String::from_utf8_lossy(&doctor.stdout));
    let process = Process::start(&data, &settings);
    let api = process.client().bearer(&ada.key);
    for id in &acknowledged {
        let job: Value = expect(get(&api, &format!("/api/v1/jobs/{id}")).await, 200);
        let result = text(&job, "resultId");
        let content =
            get(&api, &format!("/api/v1/extraction/results/by-id/{result}/content?format=text")).await;
        assert!(text(&expect(content, 200), "content").contains("It says"));
    }
}
