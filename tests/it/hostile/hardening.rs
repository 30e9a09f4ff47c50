//! What makes a break-in elsewhere worth less: answers that nobody keeps, files that nobody else reads, workers without
//! rights, names that do not turn the text around them, accounts that come slowly.

use crate::harness::process::Process;
use crate::harness::{Appliance, PASSWORD, eventually, expect, get, member, post, refused, text};
use serde_json::json;
use server::client::Reply;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

fn is_kept_by_nobody(what: &str, reply: &Reply) {
    assert!(reply.status.is_success(), "{what}: {}", reply.text());
    assert_eq!(reply.header("cache-control"), "no-store", "{what}");
    assert_eq!(reply.header("x-content-type-options"), "nosniff", "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_with_tokens_are_kept_by_nobody_and_pages_are_in_no_frame() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let login = json!({ "email": ada.email, "password": PASSWORD });
    let login = post(&at.client(), "/api/v1/auth/login", &login).await;
    is_kept_by_nobody("login", &login);
    let refresh = json!({ "refreshToken": login.json["refreshToken"] });
    is_kept_by_nobody("refresh", &post(&at.client(), "/api/v1/auth/refresh", &refresh).await);
    is_kept_by_nobody("key", &post(&ada.browser, "/api/v1/api-keys", &json!({ "name": "key" })).await);
    let start = json!({ "hostname": "laptop" });
    is_kept_by_nobody("device code", &post(&at.client(), "/api/v1/cli-auth/start", &start).await);
    let sql = json!({ "sql": "SELECT 1 AS one", "waitMs": 10000 });
    let execution = expect(post(&ada.api, "/api/v1/bi/queries", &sql).await, 200);
    let asked = format!("/api/v1/bi/queries/{}/exports", text(&execution, "jobId"));
    let export = expect(post(&ada.api, &asked, &json!({ "format": "csv" })).await, 202)["export"].clone();
    let path = format!("/api/v1/bi/exports/{}", text(&export, "id"));
    is_kept_by_nobody("a signed link", &get(&ada.api, &path).await);
    for page in [
        "/docs",
        "/docs/errors",
        "/docs/errors/not_found",
        "/docs/cli-auth",
        "/docs/architecture",
        "/verify-email",
        "/reset-password",
        "/invite",
    ] {
        let reply = get(&at.client(), page).await;
        assert_eq!(reply.status, 200, "{page}");
        assert!(reply.header("content-security-policy").contains("frame-ancestors 'none'"), "{page}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{page}");
    }
}

fn modes(folder: &Path, all: &mut Vec<(PathBuf, u32)>) {
    // The box works there: what has gone meanwhile has no mode.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            modes(&entry.path(), all);
        }
        all.push((entry.path(), about.permissions().mode() & 0o777));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_reads_what_the_box_writes() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let process = Process::start(&data, &[]);
    let ada = member(&process.client(), &process.socket(), "ada").await;
    let sql = json!({ "sql": "SELECT 1 AS one", "waitMs": 10000 });
    expect(post(&ada.api, "/api/v1/bi/queries", &sql).await, 200);
    let readable = || {
        let mut all = Vec::new();
        modes(&data, &mut all);
        assert!(all.len() > 10, "{all:?}");
        all.retain(|(_, mode)| mode & 0o077 != 0);
        all
    };
    assert_eq!(readable(), []);
    assert_eq!(process.terminate(), Some(0));
    // As an earlier release has left them.
    let mut all = Vec::new();
    modes(&data, &mut all);
    for (path, mode) in &all {
        fs::set_permissions(path, Permissions::from_mode(mode | 0o044)).unwrap();
    }
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let process = Process::start(&data, &[]);
    eventually("the modes are mended", Duration::from_secs(20), || async {
        readable().is_empty().then_some(())
    })
    .await;
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(process.terminate(), Some(0));
}

/// A line of the status of each child of a process.
fn of_children(parent: u32, line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if value("PPid:") == Some(parent.to_string().as_str()) {
            found.extend(value(line).map(str::to_owned));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_at_work_has_no_capabilities() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(&folder.path().join("data"), &[]);
    let ada = member(&process.client(), &process.socket(), "ada").await;
    let endless = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    let begun = post(&ada.api, "/api/v1/bi/queries", &json!({ "sql": endless, "waitMs": 0 })).await;
    assert!(begun.status == 202 || begun.status == 200, "{}", begun.text());
    let none = "0000000000000000";
    for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "CapBnd:"] {
        if set == "CapBnd:" && own_bounding_set_stays() {
            continue;
        }
        eventually("a worker without capabilities", Duration::from_secs(20), || async {
            of_children(process.id(), set).iter().any(|held| held == none).then_some(())
        })
        .await;
    }
    let secure = of_children(process.id(), "NoNewPrivs:");
    assert!(secure.iter().any(|value| value == "1"), "{secure:?}");
}

/// Who may not change capabilities cannot take any out of the set that bounds them; nothing is lost by that.
fn own_bounding_set_stays() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    u64::from_str_radix(held, 16).unwrap() & (1 << 8) == 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_makes_so_many_accounts_an_hour() {
    let at = Appliance::start_with(&[
        ("AUTH__REGISTRATIONS_PER_HOUR", "3"),
        ("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]"),
    ])
    .await;
    // Accounts are counted by the hour of the box's own time: none ends while this looks.
    const HOUR_MS: i64 = 3_600_000;
    let into_hour = at.clock.moment().millis().rem_euclid(HOUR_MS);
    let to_its_middle = (HOUR_MS / 2 - into_hour).rem_euclid(HOUR_MS);
    at.clock.advance(Duration::from_millis(to_its_middle.unsigned_abs()));
    let register = async |name: &str, from: &str| {
        let new = json!({ "email": format!("{name}@example.com"), "password": PASSWORD, "name": name });
        post(&at.client().header("x-forwarded-for", from), "/api/v1/auth/register", &new).await
    };
    for (number, from) in ["192.0.2.1", "192.0.2.2", "192.0.2.77"].iter().enumerate() {
        expect(register(&format!("p{number}"), from).await, 201);
    }
    let limited = register("p4", "192.0.2.250").await;
    refused(&limited, 429, "Too many registrations", "invitation");
    assert!(limited.header("retry-after").parse::<u64>().unwrap() <= 3_600);
    expect(register("p5", "198.51.100.1").await, 201);
    at.clock.advance(Duration::from_secs(3_600));
    expect(register("p6", "192.0.2.1").await, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_do_not_turn_what_stands_around_them() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    for name in ["Acme\u{202e}moc.elpmaxe", "\u{2066}x", "a\u{2028}b", "bell\u{7}"] {
        for (path, body) in [
            ("/api/v1/api-keys", json!({ "name": name })),
            ("/api/v1/cli-auth/start", json!({ "hostname": name })),
            ("/api/v1/workflows/smart", json!({ "name": name })),
        ] {
            refused(&post(&ada.browser, path, &body).await, 400, "Validation failed", "control characters");
        }
    }
    for name in ["Ada Łovelace", "עברית\u{200f}", "👩\u{200d}💻"] {
        expect(post(&ada.browser, "/api/v1/api-keys", &json!({ "name": name })).await, 201);
    }
}
