//! The README keeps its word: its tour is run as written. Links and paths in the pages for people lead somewhere, in a
//! checkout and on a box.

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, binary, get, ready};
use crate::shipped::Place;
use crate::tidy::{root, walk};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// The tour, as a script that stops at its first failure.
fn tour() -> String {
    let text = readme();
    let tour = text.split("<!-- tour: begin -->").nth(1).unwrap().split("<!-- tour: end -->").next().unwrap();
    let script = tour.trim().strip_prefix("```sh\n").unwrap().strip_suffix("```").unwrap();
    format!("set -euo pipefail\n{script}")
}

/// Runs the tour as typed where the box was started; gives whether it came to its end, what it printed, and its errors.
async fn take(folder: &Path, address: &str, page: String) -> (bool, String, String) {
    let mut command = Command::new("bash");
    command.arg("-c").arg(tour()).current_dir(folder).env_clear();
    command.env("PATH", std::env::var("PATH").unwrap()).env("GLEANER", binary());
    command.env("BOX", address).env("PAGE", page);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tour_runs_as_written_and_again() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: curl is not installed");
        return;
    }
    let web = Web::open(|path| match path {
        "/gone" => None,
        _ => Some(Answer::html("<h1>Of gleaning</h1><a href=/next>next</a>")),
    })
    .await;
    let dir = TempDir::new().unwrap();
    // The default configuration, but for the port and for the page, which is on this machine.
    let served = Place::at(dir.path()).with("GLEANER_NETWORK__ALLOW", web.allow()).serve();
    for (total, left) in [(1, 999_999), (2, 999_998)] {
        let (ended, printed, errors) = take(dir.path(), &served.url, web.url("/article")).await;
        assert!(ended, "{printed}\n{errors}");
        for part in [
            "\"status\":\"succeeded\"",
            "Of gleaning",
            &format!("\"total\":{total}"),
            &format!("\"pages\":{total}"),
            &format!("\"remainingCredits\":{left}"),
        ] {
            assert!(printed.contains(part), "{part} is not in {printed}");
        }
    }
    // Pages that cannot be had: a port that nobody listens at and no rule opens, and one that is not there.
    for (page, why) in
        [("http://127.0.0.1:1/".to_owned(), "does not take a job"), (web.url("/gone"), "was not fetched: ")]
    {
        let (ended, printed, errors) = take(dir.path(), &served.url, page).await;
        assert!(
            !ended && errors.contains(why) && errors.contains("et PAGE to a page that"),
            "{printed}\n{errors}"
        );
    }
    assert_eq!(served.terminate(), Some(0));
}

/// The pages for people that a checkout has, with their text.
fn pages() -> Vec<(String, String)> {
    let mut found: Vec<String> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/providers/README.md"]
        .map(str::to_owned)
        .into();
    found.extend(guides().into_iter().map(|name| format!("data/docs/{name}.md")));
    let read = |name: String| {
        let text = std::fs::read_to_string(root().join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        (name, text)
    };
    found.into_iter().map(read).collect()
}

/// The names of the files in `data/docs`.
fn guides() -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join("data/docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        names.push(name.strip_suffix(".md").unwrap_or_else(|| panic!("data/docs/{name}")).to_owned());
    }
    names.sort();
    names
}

/// The headings of a page. A line that begins with `#` inside of code is none.
fn headings(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if !in_code && line.starts_with('#') {
            found.push(line.trim_start_matches('#').trim());
        }
    }
    found
}

/// What a link to a heading ends in.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_of_pages_lead_to_files_and_headings() {
    let mut wrong = Vec::new();
    for (name, text) in pages() {
        let links =
            text.match_indices("](").map(|(at, found)| text[at + found.len()..].split(')').next().unwrap());
        for link in links.filter(|link| !link.starts_with("http")) {
            let (file, heading) =
                link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
            let path = match file {
                "" => root().join(&name),
                file => root().join(&name).parent().unwrap().join(file),
            };
            let is_there = match heading {
                None => path.exists(),
                Some(heading) => std::fs::read_to_string(&path)
                    .is_ok_and(|text| headings(&text).iter().any(|known| anchor(known) == heading)),
            };
            if !is_there {
                wrong.push(format!("{name} links to {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `src/store/src/tx.rs` in a page is a file of the checkout. What the worked example would add is not there.
#[test]
fn paths_in_pages_exist() {
    let mut wrong = Vec::new();
    for (name, text) in pages() {
        for word in text.split('`').skip(1).step_by(2) {
            let is_path =
                ["src/", "tests/", "benches/", "data/", ".ci/"].iter().any(|top| word.starts_with(top))
                    && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let is_known = word.starts_with("data/var") || word.contains("notes");
            if is_path && !is_known && !root().join(word).exists() {
                wrong.push(format!("{name} names {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A comment that cites a page (`data/docs/engines.md, "Store"`) names one of its headings.
#[test]
fn comments_cite_headings_that_exist() {
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches"] {
        walk(&root().join(folder), &mut files);
    }
    let (mut cited, mut wrong) = (0, Vec::new());
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let lines = text.lines().map(|line| line.trim_start().trim_start_matches(['/', '!']).trim());
        let text = lines.collect::<Vec<_>>().join(" ");
        for part in text.split("data/docs/").skip(1) {
            let Some((page, rest)) = part.split_once(".md, \"") else { continue };
            if !page.chars().all(|c| c.is_ascii_lowercase()) {
                continue;
            }
            let heading = rest.split('"').next().unwrap_or_default();
            let known =
                std::fs::read_to_string(root().join(format!("data/docs/{page}.md"))).unwrap_or_default();
            cited += 1;
            if !headings(&known).contains(&heading) {
                wrong.push(format!("{} cites \"{heading}\" of {page}.md", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cited > 50, "only {cited} citations were found");
}

/// From the box's home every link is followed: each guide, each error, each schema of the reference. (guidePage)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_box_serves_every_page_and_no_link_is_dead() {
    let at = Appliance::start().await;
    let client = at.client();
    ready(&client).await;
    let (mut pages, mut due) = (BTreeMap::new(), vec!["/".to_owned()]);
    let mut links = BTreeSet::new();
    while let Some(path) = due.pop() {
        if pages.contains_key(&path) {
            continue;
        }
        let reply = get(&client, &path).await;
        assert_eq!(reply.status, 200, "{path}");
        let html = reply.text();
        if reply.header("content-type").starts_with("text/html") {
            for link in html.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
                if link.starts_with("http") {
                    continue;
                }
                let (to, id) = link.split_once('#').map_or((link, ""), |(to, id)| (to, id));
                let to = if to.is_empty() { path.as_str() } else { to };
                assert!(to.starts_with('/'), "{path} links to {link}, which depends on where it is read");
                due.push(to.to_owned());
                links.insert((path.clone(), to.to_owned(), id.to_owned()));
            }
        }
        pages.insert(path, html);
    }
    for (from, to, id) in links {
        let is_there = id.is_empty() || pages[&to].contains(&format!("id=\"{id}\""));
        assert!(is_there, "{from} links to {to}#{id}, which is not there");
    }
    for name in guides() {
        let html = &pages[&format!("/docs/{name}")];
        assert!(pages["/docs"].contains(&format!("/docs/{name}\"")), "/docs does not list {name}");
        assert!(html.contains("</h1>") && html.contains("</h2>"), "{name}");
    }
    assert!(pages.len() > 50 && pages.contains_key("/docs/errors/not_found"), "{:?}", pages.keys());
    assert_eq!(get(&client, "/docs/nothing").await.status, 404);
    at.stop().await;
}
