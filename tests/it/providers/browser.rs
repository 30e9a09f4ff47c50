//! Pages through a Chromium on the box, from the catalog to the job's attempt; skipped, and said so, where there is none.

use super::{connect, direct_id, patch};
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, eventually, expect, get, member, post, refused, text};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A page whose heading is made by a script.
const PAGE: &str =
    "<!doctype html><title>t</title><script>document.write('<h1>' + 'ren' + 'dered</h1>')</script>";

fn answer(path: &str) -> Option<Answer> {
    Some(match path {
        "/page" => Answer::html(PAGE),
        "/moved" => Answer::redirect("/page"),
        "/wall" => Answer::status(403),
        "/never" => Answer::html("late").after_ms(120_000),
        _ => return None,
    })
}

/// Why the adapter cannot be used, as the catalog has it.
async fn unavailable(member: &crate::harness::Member) -> Option<String> {
    let catalog = expect(get(&member.api, "/api/v1/providers/catalog").await, 200);
    let items = catalog["items"].as_array().expect("a list");
    let browser =
        items.iter().find(|item| item["adapter"] == "browser").expect("the adapter is always named");
    browser["unavailable"].as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_gets_what_a_browser_shows() {
    let web = Web::open(answer).await;
    // Tests may run as root, where Chromium has no sandbox.
    let sandbox = (!rustix::process::geteuid().is_root()).to_string();
    let settings = [("NETWORK__ALLOW", web.allow()), ("BROWSER__SANDBOX", sandbox)];
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let appliance = Appliance::start_with(&settings).await;
    let member = appliance.member("rendered").await;
    if let Some(reason) = unavailable(&member).await {
        println!("skipped: {reason}");
        return;
    }
    let browser = connect(&member, &json!({ "adapter": "browser" })).await;
    let defaults = json!({ "obeyRobots": true, "waitUntil": "idle", "waitMs": 5_000, "loadMedia": false });
    assert_eq!((&browser["settings"], &browser["credentialsSet"]), (&defaults, &json!(false)));
    let job = |path: &str, timeout_ms: u32, render: bool| {
        let options = json!({ "timeoutMs": timeout_ms, "render": render });
        let job = json!({ "url": web.url(path), "options": options });
        let api = member.api.clone();
        async move {
            let job = expect(post(&api, "/api/v1/jobs", &job).await, 201);
            let path = format!("/api/v1/jobs/{}", text(&job, "id"));
            // A browser's cold start on a loaded machine takes its time.
            eventually("the job ends", Duration::from_secs(200), || async {
                let job = expect(get(&api, &path).await, 200);
                (!matches!(text(&job, "status"), "queued" | "running")).then_some(job)
            })
            .await
        }
    };
    // A job that wants its page rendered finds the provider that can, and one that does not goes straight.
    let rendered = job("/moved", 120_000, true).await;
    let attempt = &rendered["attempts"][0];
    assert_eq!(
        (&attempt["providerId"], &attempt["outcome"]),
        (&browser["id"], &json!("success")),
        "{rendered}"
    );
    assert_eq!((&attempt["httpStatus"], &rendered["creditsCharged"]), (&json!(200), &json!(5)), "{rendered}");
    let straight = job("/page", 30_000, false).await;
    assert_ne!(straight["attempts"][0]["providerId"], browser["id"], "{straight}");

    for (path, outcome, status, charged) in
        [("/none", "target_error", json!(404), 5), ("/wall", "blocked", json!(403), 0)]
    {
        let job = job(path, 120_000, true).await;
        let attempt = &job["attempts"][0];
        assert_eq!((&attempt["outcome"], &attempt["httpStatus"]), (&json!(outcome), &status), "{job}");
        assert_eq!(job["creditsCharged"], charged, "{job}");
    }
    let late = job("/never", 3_000, true).await;
    assert_eq!(
        (&late["attempts"][0]["outcome"], &late["creditsCharged"]),
        (&json!("timeout"), &json!(0)),
        "{late}"
    );

    let direct = direct_id(&member).await;
    expect(patch(&member, &direct, &json!({ "isEnabled": false })).await, 200);
    let path = format!("/api/v1/providers/{}/test", text(&browser, "id"));
    let tried = expect(post(&member.api, &path, &json!({ "url": web.url("/moved") })).await, 200);
    assert_eq!(
        (&tried["outcome"], &tried["finalUrl"]),
        (&json!("success"), &json!(web.url("/page"))),
        "{tried}"
    );
    let plain = "<!DOCTYPE html><html><head><title>t</title></head><body></body></html>".len();
    assert!(
        tried["pageBytes"].as_u64().is_some_and(|bytes| bytes as usize > plain + "<h1>rendered</h1>".len())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_without_a_browser_says_so_where_one_is_wanted() {
    let appliance = Appliance::start_with(&[("BROWSER__PAGES", "0")]).await;
    let member = appliance.member("without").await;
    let reason = unavailable(&member).await.expect("there is none");
    assert!(reason.contains("browser.pages = 0"), "{reason}");
    let new = json!({ "adapter": "browser" });
    refused(
        &post(&member.api, "/api/v1/providers", &new).await,
        400,
        "Validation failed",
        "adapter: browser cannot be used: this box renders no pages",
    );
    let catalog = expect(get(&member.api, "/api/v1/providers/catalog").await, 200);
    let others =
        catalog["items"].as_array().expect("a list").iter().filter(|item| item["adapter"] != "browser");
    assert!(others.into_iter().all(|item| item["unavailable"] == Value::Null));
}

/// A job that wants its page rendered; its path.
async fn submit(member: &Member, url: &str) -> String {
    let job = json!({ "url": url, "options": { "timeoutMs": 120_000, "render": true } });
    let job = expect(post(&member.api, "/api/v1/jobs", &job).await, 201);
    format!("/api/v1/jobs/{}", text(&job, "id"))
}

async fn ended(member: &Member, path: &str) -> Value {
    eventually("the job ends", Duration::from_secs(300), || async {
        let job = expect(get(&member.api, path).await, 200);
        (!matches!(text(&job, "status"), "queued" | "running")).then_some(job)
    })
    .await
}

/// A box with a browser that reaches the web, and two organizations that have connected it; none where there is none.
async fn shared_box(web: &Web, more: &[(&str, &str)]) -> Option<(Appliance, [Member; 2])> {
    let sandbox = (!rustix::process::geteuid().is_root()).to_string();
    let allow = web.allow();
    let mut settings = vec![
        ("NETWORK__ALLOW", allow.as_str()),
        ("BROWSER__SANDBOX", sandbox.as_str()),
        ("BROWSER__PAGES", "2"),
        // What is shared here is the browser; the site takes any number of visits.
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "100"),
    ];
    settings.extend(more);
    let appliance = Appliance::start_with(&settings).await;
    let members = [appliance.member("first").await, appliance.member("second").await];
    if let Some(reason) = unavailable(&members[0]).await {
        println!("skipped: {reason}");
        return None;
    }
    for member in &members {
        connect(member, &json!({ "adapter": "browser" })).await;
    }
    Some((appliance, members))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_pages_of_one_organization_do_not_fail_anothers() {
    let web = Web::open(|path| match path {
        "/page" => Some(Answer::html(PAGE)),
        never if never.starts_with("/never") => Some(Answer::html("late").held("never")),
        _ => None,
    })
    .await;
    let Some((_appliance, [first, second])) = shared_box(&web, &[]).await else { return };
    let mut endless = Vec::new();
    for i in 0..12 {
        endless.push(submit(&first, &web.url(&format!("/never/{i}"))).await);
    }
    eventually("the last of them waits for its place", Duration::from_secs(120), || async {
        let job = expect(get(&first.api, &endless[11]).await, 200);
        (job["waiting"]["reason"] == "browser_place").then_some(())
    })
    .await;
    for _ in 0..2 {
        let job = ended(&second, &submit(&second, &web.url("/page")).await).await;
        assert_eq!(
            (&job["status"], &job["attempts"][0]["outcome"]),
            (&json!("succeeded"), &json!("success")),
            "{job}"
        );
    }
    for path in endless {
        expect(post(&first.api, &format!("{path}/cancel"), &json!({})).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_brings_the_browser_down_fails_only_itself() {
    // It does not come to rest before the box has seen how much it takes.
    const HOG: &str = "<script>fetch('/never'); const kept = [];         setInterval(() => { if (kept.length < 40) kept.push(new Uint8Array(64 << 20).fill(1)); }, 1)</script>";
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let web = Web::open(|path| match path {
        "/hog" => Some(Answer::html(HOG)),
        // The first time it stays open until its browser is gone.
        "/page" if ASKED.fetch_add(1, Ordering::SeqCst) == 0 => Some(Answer::html("late").held("never")),
        "/page" => Some(Answer::html(PAGE)),
        "/never" => Some(Answer::html("late").held("never")),
        _ => None,
    })
    .await;
    let Some((_appliance, [first, second])) = shared_box(&web, &[("BROWSER__MEMORY_MB", "1024")]).await
    else {
        return;
    };
    let theirs = submit(&second, &web.url("/page")).await;
    eventually("the second's page is open", Duration::from_secs(120), || async {
        (ASKED.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
    let hog = ended(&first, &submit(&first, &web.url("/hog")).await).await;
    let attempt = &hog["attempts"][0];
    assert_eq!((&hog["status"], &attempt["outcome"]), (&json!("failed"), &json!("provider_error")), "{hog}");
    assert!(text(attempt, "error").contains("more memory than the browser may have"), "{hog}");
    let job = ended(&second, &theirs).await;
    assert_eq!(
        (&job["status"], job["attempts"].as_array().map(Vec::len)),
        (&json!("succeeded"), Some(1)),
        "{job}"
    );
}

/// Processes of browsers that keep their profile in this data folder.
fn browser_processes(data: &Path) -> usize {
    let profile = format!("--user-data-dir={}", data.display());
    let processes = std::fs::read_dir("/proc").expect("a kernel that tells");
    let commands = processes.flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    commands.filter(|command| String::from_utf8_lossy(command).contains(&profile)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_is_killed_leaves_no_browser_behind() {
    let web = Web::open(answer).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let sandbox = (!rustix::process::geteuid().is_root()).to_string();
    let process = Process::start(&data, &[("NETWORK__ALLOW", &web.allow()), ("BROWSER__SANDBOX", &sandbox)]);
    let member = member(&process.client(), &process.socket(), "killed").await;
    if let Some(reason) = unavailable(&member).await {
        println!("skipped: {reason}");
        return;
    }
    connect(&member, &json!({ "adapter": "browser" })).await;
    let job = json!({ "url": web.url("/never"), "options": { "timeoutMs": 120_000, "render": true } });
    expect(post(&member.api, "/api/v1/jobs", &job).await, 201);
    let data = data.as_path();
    eventually("a browser runs", Duration::from_secs(120), || async move {
        (browser_processes(data) > 0).then_some(())
    })
    .await;
    process.kill();
    eventually("its last process has ended", Duration::from_secs(60), || async move {
        (browser_processes(data) == 0).then_some(())
    })
    .await;
}
