//! The console: its files (consolePage, consoleFile), its sessions, and what people do with it in a browser. That it fits the
//! types of the API is held where it is built, by `src/console/build.rs`.
//!
//! Journeys are driven by Node.js and Debian's Chromium against real boxes, one for each file of them. Where one of these
//! programs, or npm's registry, is not there, the test says so and does nothing.

mod session;

use crate::clients::{run, skipped, tools};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, PASSWORD, Request, collect, eventually, expect, get, join, post};
use crate::tidy::root;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Notify;

/// What drives the browser and looks at what is there.
const DRIVER: &[&str] = &["playwright-core@1.65.1", "axe-core@4.14.1"];
/// Where the files of journeys are.
const JOURNEYS: &str = "tests/it/console/journeys";
/// The journeys of one of them, on a machine that does other things as well.
const JOURNEYS_TIME_MAX: Duration = Duration::from_secs(1_200);

/// npm, about to install these into the folder.
fn npm(folder: &Path, packages: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]);
    npm.arg(folder).args(packages);
    npm
}

fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("GLEANER_CHROMIUM").map(PathBuf::from);
    let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    named.into_iter().chain(usual.map(PathBuf::from)).find(|path| path.exists())
}

/// Chromium, and the folder of what drives it; none, said, where the console or one of them is not there.
pub(crate) async fn browser() -> Option<(PathBuf, PathBuf)> {
    if webui::shell().is_none() {
        skipped("the console", "this box was built without it");
        return None;
    }
    let Some(chromium) = chromium() else {
        skipped("Chromium", "there is none on this machine");
        return None;
    };
    match tools("node", DRIVER, |folder| npm(folder, DRIVER)).await {
        Ok(tools) => Some((chromium, tools)),
        Err(why) => {
            skipped("playwright-core", &why);
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_come_compressed_and_are_kept_as_long_as_they_may_be() {
    let at = Appliance::start().await;
    let browser = at.client().header("accept", "text/html,*/*");
    let shell = get(&at.client(), "/console").await;
    assert_eq!((shell.status.as_u16(), shell.header("content-type")), (200, "text/html; charset=utf-8"));
    if webui::shell().is_none() {
        assert!(shell.text().contains("built without its console"), "{}", shell.text());
        assert_eq!(get(&browser, "/").await.status, 200, "there is nowhere to lead to");
        return skipped("the console", "this box was built without it");
    }
    let led = get(&browser, "/").await;
    assert_eq!((led.status.as_u16(), led.header("location")), (303, "/console"));
    assert_eq!(get(&at.client(), "/").await.status, 200, "a program is shown what there is");
    let policy = shell.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("require-trusted-types-for 'script'"), "{policy}");
    assert_eq!(shell.header("cache-control"), "no-cache");
    let text = shell.text();
    assert!(!text.contains("<style") && !text.contains("://"), "{text}");
    let known = at.client().header("if-none-match", shell.header("etag"));
    assert_eq!(get(&known, "/console").await.status, 304);
    for file in webui::all().iter().filter(|file| file.name != "index.html") {
        let path = format!("/console/assets/{}", file.name);
        let plain = get(&at.client(), &path).await;
        assert_eq!((plain.status.as_u16(), plain.header("content-type")), (200, file.media_type()), "{path}");
        assert!(plain.header("cache-control").ends_with("immutable"), "{path}");
        assert_eq!(plain.bytes, file.plain, "{path}");
        let packed = get(&at.client().header("accept-encoding", "gzip, br"), &path).await;
        assert_eq!((packed.header("content-encoding"), &packed.bytes[..]), ("br", file.brotli), "{path}");
    }
    for missing in ["index.html", "main.js", "%2e%2e%2fsecrets", "x".repeat(300).as_str()] {
        assert_eq!(get(&at.client(), &format!("/console/assets/{missing}")).await.status, 404, "{missing}");
    }
}

/// Pages of a small site that lead to each other: a start, three lists, and four pages of each.
fn site(path: &str) -> Option<Answer> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let links: Vec<String> = match parts.as_slice() {
        ["site"] => (1..=3).map(|list| format!("/site/c/{list}")).collect(),
        ["site", "c", _] => (1..=4).map(|page| format!("{path}/p/{page}")).collect(),
        ["site", "c", _, "p", _] => Vec::new(),
        _ => return None,
    };
    let links: String = links.iter().map(|link| format!("<a href=\"{link}\">{link} &lt;b></a>")).collect();
    Some(Answer::html(format!("<title>{path}</title><h1>Page {path}</h1>{links}")))
}

/// A page whose template changes once it is turned; what it says stays.
fn turning(number: &str, is_turned: bool) -> Answer {
    let makers = ["Veritas", "Lynx", "Record", "Juuma", "Clifton", "Bahco", "Gramercy"];
    let maker = makers[number.parse::<usize>().unwrap_or_default() % makers.len()];
    Answer::html(match is_turned {
        false => format!("<h1>Turning {number}</h1><p class=cost>{maker} {number}7.25</p>"),
        true => format!(
            "<h1>Turning {number}</h1><dl><dt>Asked for it</dt><dd class=asked>{maker} {number}7.25</dd></dl>"
        ),
    })
}

/// A page whose number and text are others at each visit.
fn counting(visit: u32) -> Answer {
    Answer::html(format!(
        "<title>Counted</title><h1>Counted plane</h1><p>It is a plane of beech for edges and ends, and this is the text that \
         stays as it is at every visit.</p><p>Today it was seen <b class=seen>{visit}</b> times, and never before.</p>"
    ))
}

/// A shop whose pages and names are full of markup. Of `/slow` nothing comes; who asks for `/control/restart` asks the test to
/// restart the box, and who asks for `/control/turn` turns what stands below `/turn`.
async fn hostile_shop(restart: Arc<Notify>) -> Web {
    let (turned, visits) = (AtomicBool::new(false), AtomicU32::new(1));
    Web::open(move |path| {
        if path == "/control/restart" {
            restart.notify_one();
            return Some(Answer::status(202));
        }
        if path.starts_with("/site") {
            return site(path);
        }
        if path == "/control/turn" {
            turned.store(true, Ordering::Relaxed);
            return Some(Answer::status(200));
        }
        if let Some(number) = path.strip_prefix("/turn/") {
            return Some(turning(number, turned.load(Ordering::Relaxed)));
        }
        if path.starts_with("/count/") {
            return Some(counting(visits.fetch_add(1, Ordering::Relaxed)));
        }
        if path.starts_with("/slow/") {
            return Some(Answer::html("<title>slow</title>").held("slow"));
        }
        let is_gone = path.starts_with("/gone/");
        let number = path.rsplit('/').next().filter(|_| !is_gone)?.parse::<u32>().ok()?;
        let json = json!({
            "@context": "https://schema.org", "@type": "Product", "sku": number.to_string(),
            "name": format!("<img src=x onerror=\"document.title='owned'\"> plane {number}"),
            "description": "javascript:alert(1) \"><svg onload=alert(1)>",
            "offers": { "@type": "Offer", "price": f64::from(number) + 0.5, "priceCurrency": "EUR" },
        });
        let json = json.to_string().replace('<', "\\u003c");
        Some(Answer::html(format!(
            "<title>&lt;script>Plane {number}</title><script type=\"application/ld+json\">{json}</script><h1>Plane \
             {number}</h1><p class=price>{number}.50 EUR</p><script>document.title='owned'</script>"
        )))
    })
    .await
}

/// The journeys of a file, in a browser at a box of their own.
async fn drive(name: &str) {
    let Some((chromium, tools)) = browser().await else { return };
    let restart = Arc::new(Notify::new());
    let web = hostile_shop(restart.clone()).await;
    let mut at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    join(&at, &member.browser, "vi", "viewer").await;
    at.operator(Request::UserVerify { email: "vi@example.com".to_owned() }).await;
    let pages: Vec<_> = (1..=8).map(|n| web.url(&format!("/p/{n}"))).collect();
    let tagged = |url: &String| json!({ "url": url, "tags": ["<b>bold</b>", "javascript:alert(1)"], "pageType": "product" });
    let urls: Vec<_> = pages.iter().map(tagged).collect();
    expect(post(&member.api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    for page in &pages {
        assert_eq!(collect(&member.api, page).await["status"], "succeeded");
    }
    eventually("SQL has the jobs", Duration::from_secs(60), || async {
        let asked = json!({ "sql": "SELECT count(*) AS n FROM jobs", "waitMs": 10_000 });
        let answer = expect(post(&member.api, "/api/v1/bi/queries", &asked).await, 200);
        (answer["results"]["rows"][0]["n"] == 8).then_some(())
    })
    .await;
    let mut node = Command::new("node");
    node.args(["--test", "--test-concurrency=1", "--test-reporter=spec"]);
    node.arg(root().join(JOURNEYS).join(format!("{name}.test.mjs")));
    node.env("GLEANER_URL", at.app().url())
        .env("GLEANER_EMAIL", &member.email)
        .env("GLEANER_PASSWORD", PASSWORD);
    node.env("GLEANER_KEY", &member.key).env("GLEANER_SHOP", web.url("")).env("GLEANER_TOOLS", tools);
    node.env("GLEANER_CHROMIUM", chromium).env("GLEANER_VIEWER", "vi@example.com");
    node.env("GLEANER_SOCKET", at.app().socket());
    // The box comes back where its pages look for it.
    let address = at.app().url().trim_start_matches("http://").to_owned();
    at.set("SERVER__LISTEN", &address);
    let mut journeys = pin!(run(&mut node, JOURNEYS_TIME_MAX));
    let said = loop {
        tokio::select! {
            said = &mut journeys => break said,
            () = restart.notified() => at.restart().await,
        }
    };
    println!("{}", said.as_ref().map_or_else(String::as_str, String::as_str));
    assert!(said.is_ok(), "journeys of {name} failed");
}

/// A test for each file of journeys, so that one that fails is tried again without the others.
macro_rules! journeys {
    ($($name:ident),+) => {
        mod journeys {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::drive(stringify!($name)).await;
                }
            )+
        }

        #[test]
        fn every_file_of_journeys_is_driven() {
            let files = std::fs::read_dir(root().join(JOURNEYS)).unwrap();
            let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            let mut found: Vec<_> =
                names.filter_map(|name| name.strip_suffix(".test.mjs").map(str::to_owned)).collect();
            found.sort();
            assert_eq!(found, [$(stringify!($name)),+]);
        }
    };
}
journeys!(ask, dispatch, keys, keys_more, letters, lists, people, rest, teach, views, watch, work);
