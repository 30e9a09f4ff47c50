//! How commands end: wrong usage, other organizations, boxes that are away, output that nobody reads, much of it.

use super::{Desk, at_work, ended, lines, shop, write};
use crate::harness::{Appliance, collect, expect, post, text};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_wrong_is_told_before_the_box_is_asked() {
    let desk = Desk::new();
    desk.refused(&["colect", "x"], 2, "'collect'").await;
    desk.refused(&["urls", "lst"], 2, "'list'").await;
    desk.refused(&["jobs", "get"], 2, "<ID>").await;
    desk.refused(&["whoami"], 3, "gleaner login").await;
    desk.refused(&["login", "box"], 2, "https://box.example").await;
    desk.refused(&["login", "http://127.0.0.1:1", "--profile", "a b"], 2, "--profile").await;
    desk.refused(&["login", "http://127.0.0.1:1"], 5, "cannot be reached").await;
    desk.refused(&["login", "http://127.0.0.1:1", "--ca", "none.pem"], 2, "none.pem").await;
    desk.refused(&["whoami", "--profile", "x"], 3, "no profile").await;
    let asked = [("GLEANER_URL", "http://127.0.0.1:1"), ("GLEANER_API_KEY", "key")];
    for (arguments, code, part) in [
        (&["whoami"][..], 5, "cannot be reached"),
        (&["sql"], 2, "is empty"),
        (&["urls", "add", "none.txt"], 2, "none.txt"),
        (&["urls", "add", "-", "--format", "csv", "--tag", "x"], 2, "--tag"),
        (&["schemas", "test", "d", "product", "--attribute", "x"], 2, "NAME=XPATH"),
        (&["api", "FETCH", "jobs"], 2, "METHOD"),
        (&["api", "GET", "https://elsewhere.example/"], 2, "PATH"),
        (&["outputs", "listen", "x", "--forward-to", "there"], 2, "--forward-to"),
    ] {
        let mut command = desk.gleaner(arguments);
        command.envs(asked);
        let typed = ended(command).await;
        assert_eq!(typed.code, Some(code), "{arguments:?}: {}", typed.err);
        assert!(typed.out.is_empty() && typed.err.contains(part), "{arguments:?}: {}", typed.err);
    }
    assert!(!desk.configurations().join("gleaner/credentials.toml").exists(), "nothing was written down");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_organizations_at_one_desk_see_nothing_of_each_other() {
    let web = shop().await;
    let (at, ada, desk) = at_work(&web).await;
    let eve = at.member("eve").await;
    desk.sign_in(&at, &eve, "eve").await;
    let job = collect(&ada.api, &web.url("/secret")).await;
    let job = text(&job, "id");
    assert!(desk.good(&["jobs", "get", job]).await.contains("succeeded"));
    for arguments in [
        &["jobs", "get", job, "--profile", "eve"][..],
        &["jobs", "cancel", job, "--profile", "eve"],
        &["results", "get", job, "--profile", "eve"],
        &["schedules", "trigger", job, "--profile", "eve"],
        &["outputs", "listen", job, "--forward-to", "http://127.0.0.1:1", "--profile", "eve"],
    ] {
        desk.refused(arguments, 4, "not found").await;
    }
    let none = desk.good(&["jobs", "list", "--json", "--profile", "eve"]).await;
    assert_eq!(none, "");
    let of = async |profile: &str| {
        lines(&desk.good(&["whoami", "--json", "--profile", profile]).await.replace('\n', "")).remove(0)
    };
    assert_eq!(of("eve").await["organization"]["name"], "eve");
    assert_eq!(of("default").await["organization"]["name"], "ada");
    let profiles = desk.good(&["profiles", "--use", "eve", "--json"]).await;
    assert!(!profiles.contains(&eve.key) && !profiles.contains(&ada.key), "keys are not shown");
    assert!(desk.good(&["whoami"]).await.contains("eve@example.com"));

    let file = desk.configurations().join("gleaner/credentials.toml");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    desk.refused(&["whoami"], 1, "chmod 600").await;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();

    // Another address gets no key of this one's.
    let mut elsewhere = desk.gleaner(&["whoami"]);
    elsewhere.env("GLEANER_URL", web.url("/").trim_end_matches('/'));
    let typed = ended(elsewhere).await;
    assert_eq!(typed.code, Some(3), "{}", typed.err);

    let typed = desk.run(&["logout", "--json"]).await;
    assert_eq!(lines(&typed.out)[0]["keyDeleted"], true, "{}", typed.err);
    let gone = eve.api.get("/api/v1/auth/me").await.unwrap();
    assert_eq!(gone.status, 401, "the key is gone there, too");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_the_box_are_told_with_field_reason_and_request() {
    let web = shop().await;
    let (at, _ada, desk) = at_work(&web).await;
    desk.refused(&["jobs", "list", "--status", "sleeping"], 1, "status").await;
    let typed = desk.run(&["jobs", "list", "--status", "sleeping", "--json"]).await;
    let told = lines(&typed.err).remove(0);
    assert_eq!(
        (&told["status"], &told["exitCode"], &told["error"]),
        (&json!(400), &json!(1), &json!("Validation failed"))
    );
    assert!(told["message"].as_str().unwrap().contains("status") && told["requestId"].is_string(), "{told}");
    desk.refused(&["sql", "SELECT * FROM nowhere"], 3, "nowhere").await;
    desk.refused(&["api", "GET", "jobs?zz=1"], 1, "zz").await;
    desk.refused(&["api", "GET", "nothing"], 4, "").await;
    write(&desk.folder(), "urls.txt", &format!("{}\nnot a url\n", web.url("/a")));
    let typed = desk.run(&["urls", "add", "urls.txt", "--json"]).await;
    assert_eq!(typed.code, Some(1), "{}", typed.err);
    let told: serde_json::Value = serde_json::from_str(&typed.out).unwrap();
    assert_eq!((&told["created"], &told["invalid"][0]["line"]), (&json!(1), &json!(2)));
    let typed = desk.run(&["schemas", "list", "--domain", "nowhere.example", "--json"]).await;
    assert_eq!((typed.code, typed.out.as_str()), (Some(0), ""));
    // A page that does not come in time; then one that cannot be had.
    let typed = desk.run(&["collect", &web.url("/held"), "--wait", "--timeout", "1"]).await;
    assert_eq!(typed.code, Some(6), "{}", typed.err);
    assert!(typed.out.contains("/held"), "what is known by then is told: {}", typed.out);
    assert!(
        !typed.err.contains('\u{1b}') && !typed.out.contains('\u{1b}'),
        "no bar and no colours off a terminal"
    );
    let typed = desk.run(&["collect", "http://127.0.0.1:1/", "--wait", "--json"]).await;
    assert_eq!(typed.code, Some(1), "{}", typed.err);
    desk.refused(&["events", "--follow", "--timeout", "1"], 6, "the time is over").await;
    web.release_all();
    at.stop().await;
    desk.refused(&["whoami"], 5, "cannot be reached").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_comes_whole_and_a_reader_who_leaves_is_no_failure() {
    let web = shop().await;
    let (at, ada, desk) = at_work(&web).await;
    let urls: Vec<_> = (0..2_500).map(|n| web.url(&format!("/p/{n}"))).collect();
    write(&desk.folder(), "many.txt", &urls.join("\n"));
    let told = desk.good(&["urls", "add", "many.txt", "--tag", "many", "--json"]).await;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["created"], 2_500);
    let listed = lines(&desk.good(&["urls", "list", "--tag", "many", "--all", "--json"]).await);
    let names: std::collections::BTreeSet<_> =
        listed.iter().map(|url| url["url"].as_str().unwrap()).collect();
    assert_eq!((listed.len(), names.len()), (2_500, 2_500));
    let typed = desk.run(&["urls", "list", "--limit", "3"]).await;
    assert_eq!(typed.out.lines().count(), 4, "a heading and three rows");
    assert!(typed.err.contains("--limit"), "{}", typed.err);
    let rows = "SELECT n, repeat('x', 200) AS text FROM generate_series(1, 20000) AS t(n) ORDER BY n";
    let csv = desk.good(&["sql", rows, "--format", "csv"]).await;
    let numbers: Vec<u32> =
        csv.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert!(
        numbers.len() >= 10_000 && numbers.windows(2).all(|pair| pair[0] < pair[1]),
        "{} rows",
        numbers.len()
    );

    // `head -n 1`, and one who takes nothing.
    for arguments in [&["sql", rows, "--format", "csv"][..], &["urls", "list", "--all", "--json"]] {
        let mut child = desk.gleaner(arguments).spawn().unwrap();
        let (mut out, mut err) = (BufReader::new(child.stdout.take().unwrap()), child.stderr.take().unwrap());
        let ended = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            drop(out);
            let mut told = String::new();
            err.read_to_string(&mut told).unwrap();
            (child.wait().unwrap().code(), line, told)
        });
        let (code, line, told) = ended.await.unwrap();
        assert!(code == Some(0) && !line.is_empty() && told.is_empty(), "{arguments:?}: {code:?} {told}");
    }

    // Ctrl-C while it follows.
    let mut command = desk.gleaner(&["events", "--follow", "--after", "0", "--kind", "job.queued"]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    expect(post(&ada.api, "/api/v1/jobs", &json!({ "url": web.url("/e") })).await, 201);
    let ended = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        (line, child.wait().unwrap().code())
    });
    let (line, code) = ended.await.unwrap();
    assert!(line.contains("job.queued") && code == Some(130), "{line} {code:?}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_where_it_was_after_the_box_was_away() {
    let web = shop().await;
    let mut at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let ada = at.member("ada").await;
    // The same address before and after.
    let address = at.client().base().trim_start_matches("http://").to_owned();
    let desk = Desk::of(&at, &ada).await;
    at.set("SERVER__LISTEN", &address);
    let mut command = desk.gleaner(&[
        "events",
        "--follow",
        "--after",
        "0",
        "--kind",
        "job.succeeded",
        "--count",
        "2",
        "--json",
    ]);
    let mut child = command.spawn().unwrap();
    let first = collect(&ada.api, &web.url("/1")).await;
    // It must be there before the box goes: one that finds no box says so and ends.
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let heard = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        (line, out)
    });
    let (mut told, mut out) = heard.await.unwrap();
    at.restart().await;
    let second = collect(&ada.api, &web.url("/2")).await;
    let ended = tokio::task::spawn_blocking(move || {
        out.read_to_string(&mut told).unwrap();
        (told, child.wait_with_output().unwrap())
    });
    let (told, output) = ended.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let events = lines(&told);
    let ids: Vec<_> = events.iter().map(|event| event["subject"]["id"].clone()).collect();
    assert_eq!(ids, [first["id"].clone(), second["id"].clone()], "nothing is missed and nothing comes twice");
    at.stop().await;
}
