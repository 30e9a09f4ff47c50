//! Every example of the help, run as it stands; and the page that lists the commands.

use super::{Desk, ended, examples, leaves, lines, shop, write};
use crate::harness::{Appliance, Member, collect, eventually, expect, get, post, text};
use crate::tidy::root;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

/// What the variables of examples are.
async fn variables(
    at: &Appliance,
    member: &Member,
    web: &crate::harness::web::Web,
) -> BTreeMap<&'static str, String> {
    let mut variables = BTreeMap::new();
    let job = collect(&member.api, &web.url("/one")).await;
    let result = eventually("the result is found", WAIT, || async {
        let page = expect(get(&member.api, "/api/v1/extraction/results").await, 200);
        page["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let held = expect(post(&member.api, "/api/v1/jobs", &json!({ "url": web.url("/held") })).await, 201);
    let schedule =
        json!({ "name": "nightly", "cron": "0 3 * * *", "timezone": "UTC", "tagFilters": ["shop"] });
    let schedule = expect(post(&member.api, "/api/v1/schedules", &schedule).await, 201);
    let output = json!({ "kind": "feed", "events": ["job.succeeded"] });
    let output = expect(post(&member.api, "/api/v1/outputs", &output).await, 201);
    let output = output.get("output").unwrap_or(&output).clone();
    variables.insert("URL", web.url("/two"));
    variables.insert("JOB", text(&job, "id").to_owned());
    variables.insert("DOMAIN", text(&job, "domain").to_owned());
    variables.insert("RESULT", result);
    variables.insert("WAITING", text(&held, "id").to_owned());
    variables.insert("SCHEDULE", text(&schedule, "id").to_owned());
    variables.insert("OUTPUT", text(&output, "id").to_owned());
    assert!(at.client().base().starts_with("http"));
    variables
}

fn files(desk: &Desk, member: &Member, web: &crate::harness::web::Web) {
    let folder = desk.folder();
    write(&folder, "urls.txt", &format!("# the shop\n{}\n\n{}\n", web.url("/a"), web.url("/b")));
    write(&folder, "catalogue.csv", &format!("url,tags\n{},shop\n", web.url("/c")));
    write(&folder, "robot.key", &format!("{}\n", member.key));
    write(&folder, "report.sql", "SELECT id, status\nFROM jobs;\n");
    write(&folder, "attributes.json", r#"[{"name": "heading", "type": "text", "xpaths": ["//h1"]}]"#);
    write(&folder, "new.json", &json!({ "urls": [web.url("/d")] }).to_string());
    write(&folder, "secret.txt", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    write(&folder, "appliance.toml", "[log]\nlevel = \"warn\"\n");
}

/// Signs in as a person does: reads the code that the command line shows, and approves it.
async fn sign_in(desk: &Desk, member: &Member, line: &str) {
    let mut child = desk.program("sh").arg("-c").arg(line).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    told.read_line(&mut first).unwrap();
    let code = first.strip_prefix("Approve the code ").and_then(|rest| rest.split(' ').next());
    let code = code.unwrap_or_else(|| panic!("{line}: {first}"));
    let body = json!({ "user_code": code });
    expect(post(&member.browser, "/api/v1/cli-auth/approve", &body).await, 200);
    let ended = tokio::task::spawn_blocking(move || {
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        (child.wait().unwrap(), rest)
    });
    let (status, rest) = ended.await.unwrap();
    assert!(status.success() && rest.contains("Signed in to http"), "{line}: {rest}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_of_the_help_runs_as_typed() {
    let (web, receiver) = (shop().await, shop().await);
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let desk = Desk::new();
    let variables = variables(&at, &member, &web).await;
    files(&desk, &member, &web);
    let url = at.client().base().to_owned();
    let mut all = leaves();
    // Who has signed out can do nothing more.
    all.sort_by_key(|(path, _)| match path[0].as_str() {
        "login" => 0,
        "logout" => 2,
        _ => 1,
    });
    let mut ran = 0;
    for (path, help) in &all {
        let examples = examples(help);
        assert!(!examples.is_empty(), "{path:?} has no example");
        for example in examples {
            assert!(example.contains(&format!("gleaner {}", path.join(" "))), "{path:?}: {example}");
            let line = example.replace("https://box.example", &url);
            let line = line.replace("http://127.0.0.1:3000", receiver.url("").trim_end_matches('/'));
            ran += 1;
            if path[0] == "login" && !line.contains("--key-file") {
                sign_in(&desk, &member, &line).await;
                continue;
            }
            let mut shell = desk.program("sh");
            shell.arg("-c").arg(&line).envs(&variables);
            let typed = ended(shell).await;
            assert_eq!(typed.code, Some(0), "{example}\n{}\n{}", typed.out, typed.err);
            assert!(!typed.err.contains("panicked"), "{example}: {}", typed.err);
            if line.contains("--json") && !line.contains("sql") {
                let is_document = serde_json::from_str::<Value>(&typed.out).is_ok();
                assert!(is_document || !lines(&typed.out).is_empty() || typed.out.is_empty(), "{example}");
            }
        }
    }
    assert!(ran > 45, "{ran} examples");
    let csv = std::fs::read_to_string(desk.folder().join("report.csv")).unwrap();
    assert!(csv.starts_with("id,status\r\n"), "{csv}");
    let parquet = std::fs::read(desk.folder().join("jobs.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let page = std::fs::read_to_string(desk.folder().join("page.html")).unwrap();
    assert!(page.contains("<h1>Lamp one</h1>"), "the page as it was fetched");
    desk.good(&["man", "man1"]).await;
    let page = std::fs::read_to_string(desk.folder().join("man1/gleaner-urls-add.1")).unwrap();
    assert!(page.contains("ndjson"), "{page}");
    web.release_all();
    at.stop().await;
}

/// The page lists the commands that there are, and the exit codes.
#[test]
fn the_page_agrees_with_the_commands() {
    let page = std::fs::read_to_string(root().join("data/docs/command-line.md")).unwrap();
    let told: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `gleaner ")?.split_once('`').map(|(path, _)| path.to_owned()))
        .collect();
    let all: Vec<_> = leaves().into_iter().map(|(path, _)| path.join(" ")).collect();
    let (mut sorted_told, mut sorted_all) = (told.clone(), all.clone());
    sorted_told.sort();
    sorted_all.sort();
    assert_eq!(sorted_told, sorted_all);
    let rows: Vec<_> =
        page.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()).collect();
    let codes: Vec<_> =
        cli::Exit::ALL.iter().map(|exit| format!("| {} | {} |", exit.code(), exit.about())).collect();
    assert_eq!(rows, codes);
}
