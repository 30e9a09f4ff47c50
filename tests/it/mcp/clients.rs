//! The protocol's own clients: the Python SDK (PyPI `mcp`), the TypeScript one (npm `@modelcontextprotocol/client`), and what of the
//! protocol's conformance suite asks for no tool of its own.

use super::{TOOLS, collected, shop};
use crate::harness::{Appliance, Member};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Runs a program apart from the threads that answer it; its output.
async fn run(mut command: Command) -> String {
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let told = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{told}\n{}", String::from_utf8_lossy(&ended.stderr));
    told
}

fn is_installed(mut installer: Command) -> bool {
    installer
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

/// A box with two collected pages, and who has them.
async fn served() -> (Appliance, Member, String) {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    collected(&member, &web).await;
    let page = web.url("/item/1");
    (at, member, page)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_uses_every_tool() {
    let tools = TempDir::new().unwrap();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
        .arg(tools.path());
    pip.arg("mcp==2.3.0");
    if !is_installed(pip) {
        println!("skipped: mcp cannot be had from PyPI");
        return;
    }
    let (at, member, page) = served().await;
    for mode in ["auto", "legacy"] {
        let mut python = Command::new("python3");
        python.arg("-c").arg(include_str!("client.py")).env("PYTHONPATH", tools.path());
        python.env("URL", format!("{}/mcp", at.client().base())).env("KEY", &member.key);
        python.env("MODE", mode).env("PAGE", &page).env("TOOLS", TOOLS.join(","));
        let told = run(python).await;
        let revision = if mode == "auto" { "2026-07-28" } else { "2025-11-25" };
        assert_eq!(told.trim(), format!("{revision} 9 tools 450 rows refused 401 403"), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_client_uses_every_tool() {
    let tools = TempDir::new().unwrap();
    if !npm(tools.path(), &["@modelcontextprotocol/client@2.4.0"]) {
        println!("skipped: @modelcontextprotocol/client cannot be had from npm");
        return;
    }
    let (at, member, page) = served().await;
    let script = tools.path().join("client.mjs");
    std::fs::write(&script, include_str!("client.mjs")).unwrap();
    let mut node = Command::new("node");
    node.arg(&script).current_dir(tools.path()).env("URL", format!("{}/mcp", at.client().base()));
    node.env("KEY", &member.key).env("PAGE", &page).env("TOOLS", TOOLS.join(","));
    assert_eq!(run(node).await.trim(), "9 tools 450 rows refused 401 403");
}

/// The last version of the suite that runs on Node.js 20. Its other scenarios want a server with tools of the suite's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conformance_suite_finds_no_fault() {
    let tools = TempDir::new().unwrap();
    if !npm(tools.path(), &["@modelcontextprotocol/conformance@0.1.13"]) {
        println!("skipped: @modelcontextprotocol/conformance cannot be had from npm");
        return;
    }
    let at = Appliance::start().await;
    let member = at.member("ada").await;
    let script = tools.path().join("conformance.mjs");
    std::fs::write(&script, include_str!("conformance.mjs")).unwrap();
    for scenario in [
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
    ] {
        let mut node = Command::new("node");
        node.arg(&script).arg(scenario).current_dir(tools.path());
        node.env("URL", at.client().base()).env("KEY", &member.key);
        let told = run(node).await;
        assert!(told.contains("0 failed"), "{scenario}: {told}");
    }
}

fn npm(folder: &Path, packages: &[&str]) -> bool {
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"]).args(packages);
    npm.current_dir(folder);
    is_installed(npm)
}
