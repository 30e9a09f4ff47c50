//! Watching a box, from outside: its metrics and their reference, rules and dashboard, the live view, slow things in the log, the log's
//! level, traces.

mod level;
mod monitoring;
mod reference;
mod slow;
mod top;
mod traces;

use crate::harness::process::Process;
use crate::harness::{binary, eventually};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A box whose log lies in a file, as JSON.
struct LoggedBox {
    folder: TempDir,
    process: Process,
}

impl LoggedBox {
    fn start(settings: &[(&str, &str)]) -> LoggedBox {
        let folder = TempDir::new().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let settings = [&[("LOG__FORMAT", "json"), ("LOG__LEVEL", "info")], settings].concat();
        let process = Process::start_logging_to(&folder.path().join("data"), &settings, Stdio::from(log));
        LoggedBox { folder, process }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// The whole lines of a target.
    fn lines(&self, target: &str) -> Vec<Value> {
        let log = self.log();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
        lines.filter(|line| line["target"] == target).collect()
    }

    /// Waits for a line of a target that is like this.
    async fn line(&self, target: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually("the log has the line", PATIENCE, || async {
            self.lines(target).into_iter().find(|line| is(line))
        })
        .await
    }

    /// Waits until the log has the line of a request.
    async fn logged(&self, request_id: &str) {
        self.line("gleaner::request", |line| line["fields"]["request_id"] == request_id).await;
    }

    /// What the operator types behind `gleaner admin`: exit code, output, errors.
    fn admin(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        admin(&self.process.socket(), arguments)
    }
}

fn admin(socket: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(binary())
        .args(["admin", "--socket"])
        .arg(socket)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Whether a program is there; says so where it is not.
fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
