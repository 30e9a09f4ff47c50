//! Feeds: read as RSS and Atom, by their address alone, and by a reader that people use.

use super::{OUTPUTS, PATIENCE, cause, from_pypi, shown};
use crate::audit::patch;
use crate::harness::{Appliance, eventually, expect, get, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::process::Command;

async fn feed(api: &Client) -> (Value, String) {
    let new = json!({ "kind": "feed", "name": "Jobs & <more>", "events": ["job.queued"] });
    let made = expect(post(api, OUTPUTS, &new).await, 201);
    let address = made["secrets"][0].as_str().unwrap().to_owned();
    (made, format!("/api/v1/feeds/{}", address.rsplit('/').next().unwrap()))
}

async fn filled(api: &Client, made: &Value, count: u64) {
    eventually("the feed has them", PATIENCE, || async {
        (shown(api, made).await["delivered"] == count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_has_the_newest_events_and_is_fetched_when_it_has_changed() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let (made, address) = feed(&ada.api).await;
    assert_eq!(shown(&ada.api, &made).await["secrets"], Value::Null, "shown once");
    assert!(address.contains(text(&made, "tokenPrefix")), "{made}");
    let stranger = at.client();
    let empty = get(&stranger, &address).await;
    assert_eq!(empty.status, 200);
    cause(&ada.api, 130).await;
    // Another's events are not in it, however many there are.
    cause(&eve.api, 50).await;
    filled(&ada.api, &made, 130).await;
    let rss = get(&stranger, &address).await;
    let body = rss.text();
    assert_eq!((rss.status.as_u16(), body.matches("<item>").count()), (200, 100));
    assert!(rss.header("content-type").starts_with("application/rss+xml"));
    assert!(body.contains("Jobs &amp; &lt;more&gt;") && !body.contains("glf_"), "{body}");
    // The newest first.
    assert!(body.find("nobody.invalid/129").unwrap() < body.find("nobody.invalid/128").unwrap());
    assert!(!body.contains("nobody.invalid/29<"), "the oldest are gone");
    let atom = get(&stranger, &format!("{address}?format=atom")).await;
    assert_eq!(atom.text().matches("<entry>").count(), 100);
    for (name, value) in
        [("if-none-match", rss.header("etag")), ("if-modified-since", rss.header("last-modified"))]
    {
        let again = stranger.clone().header(name, value).get(&address).await.unwrap();
        assert_eq!((again.status.as_u16(), again.text().len()), (304, 0), "{name}");
    }
    at.clock.advance(std::time::Duration::from_secs(5));
    cause(&ada.api, 1).await;
    filled(&ada.api, &made, 131).await;
    let changed = stranger.clone().header("if-none-match", rss.header("etag")).get(&address).await.unwrap();
    assert_eq!(changed.status, 200);
    for wrong in ["/api/v1/feeds/glf_x", &format!("{}x", &address[..address.len() - 1]), "/api/v1/feeds/%00"]
    {
        assert_eq!(get(&stranger, wrong).await.status, 404, "{wrong}");
    }
    read_by_feedparser(&body, &atom.text());
    // A new address, and the old one leads nowhere.
    let one = format!("{OUTPUTS}/{}", text(&made, "id"));
    let rotated = expect(patch(&ada.api, &one, &json!({ "rotateSecret": true })).await, 200);
    let fresh = rotated["secrets"][0].as_str().unwrap();
    let fresh = format!("/api/v1/feeds/{}", fresh.rsplit('/').next().unwrap());
    assert_eq!(get(&stranger, &address).await.status, 404);
    assert_eq!(get(&stranger, &fresh).await.text().matches("<item>").count(), 100);
    for path in ["test", "recover"] {
        let body = if path == "test" { json!({}) } else { json!({ "since": "2026-01-01T00:00:00Z" }) };
        assert_eq!(post(&ada.api, &format!("{one}/{path}"), &body).await.status, 409, "{path}");
    }
    assert_eq!(ada.api.delete(&one).await.unwrap().status, 204);
    assert_eq!(get(&stranger, &fresh).await.status, 404);
    at.stop().await;
}

/// The reader of the Python world finds titles, times, ids and links in both, and nothing wrong.
fn read_by_feedparser(rss: &str, atom: &str) {
    let Some(tools) = from_pypi(&["feedparser==6.0.11"]) else { return };
    let folder = tempfile::TempDir::new().unwrap();
    for (name, text, version) in [("rss", rss, "rss20"), ("atom", atom, "atom10")] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let script = "
import sys, feedparser
feed = feedparser.parse(open(sys.argv[1], 'rb').read())
assert not feed.bozo, feed.bozo_exception
entries = feed.entries
assert all(e.title and e.id.startswith('urn:uuid:') and e.link.startswith('http') for e in entries)
assert all((e.get('published_parsed') or e.get('updated_parsed')) for e in entries)
assert len({e.id for e in entries}) == len(entries)
print(feed.version, len(entries), feed.feed.title)
";
        let mut python = Command::new("python3");
        let said = python.args(["-c", script]).arg(&file).env("PYTHONPATH", tools.path()).output().unwrap();
        let told = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        assert_eq!(told, format!("{version} 100 Jobs & <more>"), "{said:?}");
    }
}
