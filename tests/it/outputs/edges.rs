//! Endpoints that hang, drip and pour, organizations beside each other, and outputs at their limits.

use super::{OUTPUTS, PATIENCE, Receiver, Said, boxed, cause, deliveries, output, received, shown};
use crate::harness::{Appliance, Request, eventually, expect, get, post, refused, text};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Beyond it something has waited for an endpoint that hangs, which is given up after 15 s. What has not is
/// sooner, also in a debug build on a machine with other work.
const LATE: Duration = Duration::from_secs(10);
/// In which a refusal comes that costs next to nothing.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_that_hang_hold_up_nobody() {
    let hanging = Receiver::open(|_| Said { after: Duration::from_secs(60), ..Said::status(200) }).await;
    let good = Receiver::open(|_| Said::status(200)).await;
    let at = boxed(&[hanging.address, good.address]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    for n in 0..60 {
        output(&eve.api, &hanging.url(&format!("/{n}")), json!({})).await;
    }
    for n in 0..5 {
        output(&ada.api, &hanging.url(&format!("/{n}")), json!({})).await;
    }
    let mine = output(&ada.api, &good.url("/mine"), json!({})).await;
    cause(&eve.api, 50).await;
    eventually("endpoints hang", PATIENCE, || async { (hanging.count() > 20).then_some(()) }).await;
    let mut slowest = Duration::ZERO;
    for round in 1..=20 {
        let begun = Instant::now();
        cause(&ada.api, 1).await;
        received(&good, round).await;
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < LATE, "{slowest:?} from the request to the message");
    assert_eq!(shown(&ada.api, &mine).await["state"], "ok");
    // Nothing of one came to the other.
    for message in good.received() {
        assert_eq!(message.path, "/mine");
    }
    // A try that hangs ends by itself.
    let first = expect(get(&ada.api, &format!("{OUTPUTS}?limit=200")).await, 200);
    let hung = first["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| text(row, "url").ends_with("/0"))
        .unwrap()
        .clone();
    let attempt = eventually("a try is given up", PATIENCE, || async {
        deliveries(&ada.api, &hung).await.into_iter().find_map(|row| row["attempts"].get(0).cloned())
    })
    .await;
    assert_eq!(attempt["status"], Value::Null);
    assert!(text(&attempt, "told").contains("15 s"), "{attempt}");
    at.stop().await;
}

/// Fifty endpoints, of which five hang, and events at the pace of 10,000 a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_endpoints_hear_soon_beside_some_that_hang() {
    let hanging = Receiver::open(|_| Said { after: Duration::from_secs(60), ..Said::status(200) }).await;
    let good = Receiver::open(|_| Said::status(200)).await;
    let at = boxed(&[hanging.address, good.address]).await;
    let ada = at.member("ada").await;
    for n in 0..50 {
        let place = if n % 10 == 0 { &hanging } else { &good };
        output(&ada.api, &place.url(&format!("/{n}")), json!({ "tags": [format!("t{n}")] })).await;
    }
    let send = async |round: u64| {
        let job = |n: u64| json!({ "url": format!("http://nobody.invalid/{round}/{n}"), "tags": [format!("t{n}")] });
        let jobs: Vec<_> = (0..50).map(job).collect();
        expect(post(&ada.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    };
    // The first message of each tells which endpoints work.
    send(0).await;
    received(&good, 45).await;
    for round in 1..=10 {
        send(round).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let messages = received(&good, 45 * 11).await;
    let mut took: Vec<Duration> = messages[45..]
        .iter()
        .map(|message| {
            let at: base::clock::Timestamp = text(&message.json(), "timestamp").parse().unwrap();
            let happened = std::time::UNIX_EPOCH + Duration::from_millis(at.millis().unsigned_abs());
            message.at.duration_since(happened).unwrap_or_default()
        })
        .collect();
    took.sort();
    let p99 = took[took.len() * 99 / 100];
    println!("p50 {:?}, p99 {p99:?} from the event to the message", took[took.len() / 2]);
    assert!(p99 < LATE, "{p99:?}");
    at.stop().await;
}

/// Whoever is erased is sent nothing more, whatever waits; others are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_organization_that_ends_sends_nothing_more() {
    let receiver =
        Receiver::open(|message| Said::status(if message.path == "/eve" { 500 } else { 200 })).await;
    let at = boxed(&[receiver.address]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    output(&eve.api, &receiver.url("/eve"), json!({})).await;
    output(&ada.api, &receiver.url("/ada"), json!({})).await;
    cause(&eve.api, 3).await;
    received(&receiver, 1).await;
    let of_eve = || receiver.received().iter().filter(|message| message.path == "/eve").count();
    let end = json!({ "confirmName": "eve" });
    let ended = eve.browser.send(http::Method::DELETE, "/api/v1/orgs/current", Some(&end)).await.unwrap();
    expect(ended, 202);
    // Tries that were under way have ended by then.
    eventually("she is erased", Duration::from_secs(120), || async {
        let all = at.operator(Request::Erasures { limit: 5 }).await;
        (all[0]["state"] == "done").then_some(())
    })
    .await;
    let before = of_eve();
    at.clock.advance(Duration::from_secs(600));
    cause(&ada.api, 1).await;
    eventually("others are told", PATIENCE, || async {
        receiver.received().iter().any(|message| message.path == "/ada").then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(of_eve(), before);
    at.stop().await;
}

/// Answers a head and then a byte now and then, or no end of bytes.
async fn dripping(pours: bool) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 4_096];
                let _ = stream.read(&mut buffer).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").await;
                loop {
                    let part: &[u8] = if pours { &[b'x'; 4_096] } else { b"\x1b" };
                    if stream.write_all(part).await.is_err() {
                        return;
                    }
                    if !pours {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_without_an_end_are_cut_off() {
    let (drips, pours) = (dripping(false).await, dripping(true).await);
    let at = boxed(&[drips, pours]).await;
    let ada = at.member("ada").await;
    for place in [drips, pours] {
        let made = output(&ada.api, &format!("http://{place}/"), json!({})).await;
        let begun = Instant::now();
        let tested = post(&ada.api, &format!("{OUTPUTS}/{}/test", text(&made, "id")), &json!({})).await;
        let tested = expect(tested, 200);
        assert!(begun.elapsed() < LATE, "{:?}", begun.elapsed());
        assert_eq!(tested["sent"]["isDelivered"], true, "what counts is the status");
        let told = text(&tested["sent"], "told");
        assert!(told.len() <= 500 && !told.contains('\x1b'), "{told:?}");
    }
    // A name that leads inside is one that does not resolve, to whoever asks.
    let inside = output(&ada.api, "http://inside.invalid/", json!({})).await;
    let tested = post(&ada.api, &format!("{OUTPUTS}/{}/test", text(&inside, "id")), &json!({})).await;
    let tested = expect(tested, 200);
    assert!(text(&tested["sent"], "told").contains("does not resolve"), "{tested}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_texts_have_their_limits() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let base = json!({ "kind": "webhook", "url": "https://a.example/", "events": ["job.*"] });
    let large = "x".repeat(1_000_000);
    let many = |part: &str| Value::Array(vec![json!(part); 100_000]);
    for (field, value, named) in [
        ("name", json!(large), "name"),
        ("url", json!(format!("https://a.example/{large}")), "url"),
        ("events", many("job.*"), "events"),
        ("events", json!([large]), "events"),
        ("tags", json!([large]), "tags"),
        ("tags", Value::Array((0..50_000).map(|n| json!(n.to_string())).collect()), "tags"),
        ("domain", json!(large), "domain"),
        ("pageTypes", many("product"), "pageTypes"),
        ("condition", json!(large), "at character 2001"),
        ("condition", json!(format!("{}sale", "(".repeat(1_900))), "at character 33"),
        ("condition", json!("matches(a, '(a{1000}){1000}')"), "at character 12"),
        ("signatures", many("v1"), "signatures"),
        ("secret", json!(format!("whsec_{large}")), "secret"),
    ] {
        let mut body = base.clone();
        body[field] = value;
        let begun = Instant::now();
        let reply = post(&ada.api, OUTPUTS, &body).await;
        let sentence = if field == "url" { "Invalid URL" } else { "Validation failed" };
        refused(&reply, 400, sentence, named);
        assert!(reply.text().len() < 4_000, "{field}: the answer has no million of characters");
        assert!(begun.elapsed() < SOON, "{field}");
    }
    // As many as there may be, and one more.
    let have =
        expect(get(&ada.api, &format!("{OUTPUTS}?limit=200")).await, 200)["items"].as_array().unwrap().len();
    for _ in have..100 {
        expect(post(&ada.api, OUTPUTS, &base).await, 201);
    }
    assert_eq!(post(&ada.api, OUTPUTS, &base).await.status, 409);
    // They cost a job next to nothing: all of them fail, and jobs go on.
    assert_eq!(cause(&ada.api, 5).await.len(), 5);
    at.stop().await;
}
