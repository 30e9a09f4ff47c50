//! The command line for a box's users, as the binary that is shipped: every example of its help as typed, what it prints
//! where, and how it ends.

mod configuration;
mod endings;
mod examples;
mod prompt;

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, binary};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A machine on which somebody types: a home, a working folder, and no variables but a few.
struct Desk {
    home: TempDir,
}

/// What came of a command.
struct Typed {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Desk {
    fn new() -> Desk {
        let home = TempDir::new().unwrap();
        std::fs::create_dir(home.path().join("work")).unwrap();
        Desk { home }
    }

    /// One at which a key of a member is known.
    async fn of(at: &Appliance, member: &Member) -> Desk {
        let desk = Desk::new();
        desk.sign_in(at, member, "default").await;
        desk
    }

    async fn sign_in(&self, at: &Appliance, member: &Member, profile: &str) {
        std::fs::write(self.folder().join("key"), &member.key).unwrap();
        let url = at.client().base().to_owned();
        let typed = self.run(&["login", &url, "--key-file", "key", "--profile", profile]).await;
        assert_eq!(typed.code, Some(0), "{}", typed.err);
        std::fs::remove_file(self.folder().join("key")).unwrap();
    }

    fn folder(&self) -> std::path::PathBuf {
        self.home.path().join("work")
    }

    fn configurations(&self) -> std::path::PathBuf {
        self.home.path().join("config")
    }

    /// A program of this desk, which is not started yet.
    fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = vec![binary().parent().unwrap().to_owned()];
        folders.extend(std::env::split_paths(&path));
        command.env_clear().env("PATH", std::env::join_paths(folders).unwrap());
        command.env("HOME", self.home.path()).env("XDG_CONFIG_HOME", self.configurations());
        command.current_dir(self.folder()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn gleaner(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(binary());
        command.args(arguments);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Typed {
        ended(self.gleaner(arguments)).await
    }

    /// What a command prints that must go well.
    async fn good(&self, arguments: &[&str]) -> String {
        let typed = self.run(arguments).await;
        assert_eq!(typed.code, Some(0), "{arguments:?}: {}", typed.err);
        typed.out
    }

    /// Asserts that a command ends with `code`, prints no data and says this.
    async fn refused(&self, arguments: &[&str], code: i32, part: &str) {
        let typed = self.run(arguments).await;
        assert_eq!(typed.code, Some(code), "{arguments:?}: {}{}", typed.out, typed.err);
        assert_eq!(typed.out, "", "{arguments:?}");
        assert!(typed.err.contains(part), "{arguments:?}: {}", typed.err);
    }
}

/// Runs a program apart from the threads that answer it.
async fn ended(mut command: Command) -> Typed {
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("what is printed is text");
    Typed { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// A shop with pages.
async fn shop() -> Web {
    Web::open(|path| {
        let name = path.trim_start_matches('/').to_owned();
        let page = Answer::html(format!(
            "<html><head><title>{name}</title></head><body><main><h1>Lamp {name}</h1>\
             <p>A lamp that stands on a desk and gives light to whoever reads there until late.</p></main></body></html>"
        ));
        Some(if name == "held" { page.held("held") } else { page })
    })
    .await
}

/// A box, its first member, and a desk of theirs.
async fn at_work(web: &Web) -> (Appliance, Member, Desk) {
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let desk = Desk::of(&at, &member).await;
    (at, member, desk)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// What the help of a command says; all of it, in lines that are not broken.
fn help(path: &[String]) -> String {
    let output = Command::new(binary()).args(path).arg("--help").env("COLUMNS", "400").output().unwrap();
    assert!(output.status.success(), "{path:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The names under `Commands:` of a help.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let list = list.lines().take_while(|line| !line.is_empty());
    let names = list.filter_map(|line| {
        let name = line.strip_prefix("  ")?;
        (!name.starts_with(' ')).then(|| name.split_whitespace().next().unwrap().to_owned())
    });
    names.filter(|name| name != "help").collect()
}

/// The lines under `Examples:` of a help.
fn examples(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nExamples:\n") else { return Vec::new() };
    list.lines().map_while(|line| line.strip_prefix("  ").map(str::to_owned)).collect()
}

/// The operator's commands, which have pages of their own.
const OPERATORS: [&str; 8] = ["serve", "demo", "admin", "doctor", "backup", "restore", "mcp", "openapi"];

/// Every command that has none below it, but the operator's: its words, and its help.
fn leaves() -> Vec<(Vec<String>, String)> {
    fn walk(path: &[String], found: &mut Vec<(Vec<String>, String)>) {
        let help = help(path);
        let below = subcommands(&help);
        if below.is_empty() {
            found.push((path.to_vec(), help));
            return;
        }
        for name in below.into_iter().filter(|name| !path.is_empty() || !OPERATORS.contains(&name.as_str())) {
            walk(&[path, &[name]].concat(), found);
        }
    }
    let mut found = Vec::new();
    walk(&[], &mut found);
    found
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}
