//! Backups and restores from outside: the binary as an operator types it, over boxes that run, are off, or die.

mod away;
mod damage;
mod disk;
mod load;
mod organization;
mod own;

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{binary, collect, eventually, expect, get, member, post, ready};
use crate::shipped::Place;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

pub(super) const WAIT: Duration = Duration::from_secs(120);
/// More than the 12 bytes that a passphrase must have.
const PASSPHRASE: &str = "correct horse battery";

/// A folder with boxes, each in one of its own, and a place for backups.
pub(super) struct Lab {
    pub folder: TempDir,
    /// What every box and command is told beside its folder.
    pub settings: Vec<(&'static str, String)>,
}

impl Lab {
    pub fn new(settings: &[(&'static str, &str)]) -> Lab {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("passphrase"), format!("{PASSPHRASE}\n")).unwrap();
        let settings = settings.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Lab { folder, settings }
    }

    pub fn place(&self) -> PathBuf {
        self.folder.path().join("backups")
    }

    /// The data folder of a box.
    pub fn data(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder.join("var")
    }

    pub fn start(&self, name: &str) -> Process {
        let settings: Vec<_> = self.settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        Process::start(&self.data(name), &settings)
    }

    /// A command of the box of that name: exit code, output, errors.
    pub fn run(&self, name: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.folder.path());
        command.env("GLEANER_STORAGE__DATA_DIR", self.data(name));
        for (key, value) in &self.settings {
            command.env(format!("GLEANER_{key}"), value);
        }
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// What a command that succeeds prints.
    pub fn done(&self, name: &str, arguments: &[&str]) -> Value {
        let (code, printed, errors) = self.run(name, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {errors}");
        serde_json::from_str(&printed).unwrap()
    }

    /// What a command that fails says.
    pub fn refused(&self, name: &str, arguments: &[&str]) -> String {
        let (code, printed, errors) = self.run(name, arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {printed}{errors}");
        errors
    }

    pub fn back_up(&self, name: &str) -> Value {
        self.done(name, &["backup", "backups", "--passphrase-file", "passphrase"])
    }

    pub fn restore(&self, name: &str, backup: &str) -> Value {
        let asked = ["restore", "backups", "--backup", backup, "--passphrase-file", "passphrase"];
        self.done(name, &asked)
    }

    /// `gleaner doctor` finds nothing wrong with a box that is off.
    pub fn is_sound(&self, name: &str) {
        let (code, printed, errors) = self.run(name, &["doctor"]);
        assert_eq!(code, Some(0), "{printed}{errors}");
        assert!(printed.contains("nothing is wrong"), "{printed}");
    }
}

/// Every file below a folder with its bytes.
pub(super) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    let path = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    found.insert(path, fs::read(entry.path()).unwrap());
                }
            }
        }
    }
    found
}

/// Pages with their path in them.
pub(super) async fn pages() -> Web {
    Web::open(|path| Some(Answer::html(format!("<title>{path}</title><h1>page {path}</h1>")))).await
}

/// Waits until search and SQL have so many results.
pub(super) async fn answers(api: &server::client::Client, results: u64) {
    eventually("search has them", WAIT, || async {
        let found = expect(get(api, "/api/v1/extraction/results").await, 200);
        (found["total"] == results).then_some(())
    })
    .await;
    eventually("SQL has them", WAIT, || async {
        let asked = json!({ "sql": "SELECT count(*) AS n FROM readings", "waitMs": 10_000 });
        let answer = post(api, "/api/v1/bi/queries", &asked).await;
        (answer.json["results"]["rows"][0]["n"] == results).then_some(())
    })
    .await;
}

/// As somebody has it who just installed it: no configuration, the commands of the README.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_shipped_a_running_box_is_backed_up_and_restored() {
    let web = pages().await;
    let dir = TempDir::new().unwrap();
    let at = |name: &str| {
        let folder = dir.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        Place::at(&folder).with("GLEANER_NETWORK__ALLOW", web.allow())
    };
    let (first, second) = (at("first"), at("second"));
    fs::write(dir.path().join("passphrase"), PASSPHRASE).unwrap();
    let served = first.serve();
    ready(&served.client()).await;
    let ada = member(&served.client(), &dir.path().join("first/data/var/admin.sock"), "ada").await;
    assert_eq!(collect(&ada.api, &web.url("/one")).await["status"], "succeeded");

    let (code, _, said) = first.run(&["backup", "../backups"]);
    assert_eq!(code, Some(1), "what becomes of the key has to be said");
    assert!(said.contains("--passphrase-file: or --without-key must be given"), "{said}");
    let (code, _, said) = first.run(&["backup", "data/var/inside", "--without-key"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("lies in the data folder"), "{said}");

    let made = first.done(&["backup", "../backups", "--passphrase-file", "../passphrase"]);
    assert_eq!((&made["hasKey"], &made["summary"]["pages"]), (&json!(true), &json!(1)), "{made}");
    let again = first.done(&["backup", "../backups", "--passphrase-file", "../passphrase"]);
    assert_eq!(again["summary"]["newPages"], 0, "{again}");
    let listed = first.done(&["backup", "list", "../backups"]);
    assert_eq!(listed["backups"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed["damaged"], json!([]));
    let whole = first.done(&["backup", "verify", "../backups"]);
    assert_eq!(whole["whole"].as_array().unwrap().len(), 2, "{whole}");
    let status = first.done(&["admin", "status"]);
    assert_eq!((&status["backup"]["last"]["id"], &status["backup"]["failure"]), (&again["id"], &Value::Null));
    let metrics = get(&served.client(), "/metrics").await.text();
    assert!(metrics.contains("gleaner_backup_failed 0") && metrics.contains("gleaner_backup_age_seconds "));
    let audit = first.done(&["admin", "audit"]).to_string();
    assert!(audit.contains("backup.started"), "{audit}");
    assert!(!audit.contains(PASSPHRASE));

    // Not over a box that is there.
    let (code, _, said) = first.run(&["restore", "../backups", "--passphrase-file", "../passphrase"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("is not empty"), "{said}");
    assert_eq!(served.terminate(), Some(0));

    let restored = second.done(&["restore", "../backups", "--passphrase-file", "../passphrase"]);
    assert_eq!(restored["backup"], again["id"], "the newest one");
    let (code, printed, errors) = second.run(&["doctor"]);
    assert_eq!(code, Some(0), "{printed}{errors}");
    let served = second.serve();
    ready(&served.client()).await;
    // Her key and what she has collected are there, search and SQL are made anew.
    let api = served.client().bearer(&ada.key);
    answers(&api, 1).await;
    assert_eq!(collect(&api, &web.url("/two")).await["status"], "succeeded");
    assert_eq!(served.terminate(), Some(0));

    // A box that is off is backed up by the same command.
    let off = second.done(&["backup", "../backups", "--without-key"]);
    assert_eq!((&off["hasKey"], &off["summary"]["pages"]), (&json!(false), &json!(2)), "{off}");
    assert_eq!(off["summary"]["newPages"], 1, "a restored box goes on where the first one was");
    let third = at("third");
    let told = third.done(&["restore", "../backups"]);
    assert!(told["next"].as_str().unwrap().contains("put the box's key file back"), "{told}");
    let (code, _, said) = third.run(&["serve"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("storage.key_file"), "{said}");
    fs::copy(dir.path().join("first/data/var.key"), dir.path().join("third/data/var.key")).unwrap();
    let served = third.serve();
    ready(&served.client()).await;
    answers(&served.client().bearer(&ada.key), 2).await;
}
