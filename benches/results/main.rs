//! Looking for results and trying selectors, over HTTP against the real binary; and the search index alone.
//!
//! `cargo bench --bench results` (`-- 200000` for that many results instead of a million). What counts:
//! - *index*: the same questions of the index alone, with as many documents ([`index`]); alone with the word `index`.
//! - *search*: `GET /extraction/results` over a million results of pages with a title, a price and forty words each, nine
//!   tenths of them one organization's, in under 20 ms at the 99th percentile; ten kinds of questions of both, 200 times each.
//! - *trial*: `POST /extraction/test-xpath` with 24 attributes on a stored page of 1 MiB in under 30 ms, 500 times;
//!   alone with the word `trial`.
//!
//! The results come as they do in life: jobs, a provider that answers, pages that are kept and read. Words are drawn so that
//! the n-th commonest is n times as rare as the first.

use harness::process::Process;
use harness::vendors::{Asked, Reply, SCRAPINGBEE, Simulator, Told, Vendor};
use harness::web::{Answer, Web};
use harness::{collect, expect, get, member, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

mod index;
mod words;

use words::{VOCABULARY, mixed, text_of, title_of, word};

const RESULTS_DEFAULT: usize = 1_000_000;
const RESULTS_MAX: usize = 2_000_000;
const BATCH: usize = 1_000;
const DOMAINS: usize = 50;
/// One of so many results is the second organization's.
const SECOND_PART: usize = 10;
const TRIES: usize = 200;
const TRIALS: usize = 500;
const PAGE_BYTES: usize = 1 << 20;
/// Jobs that may wait at once; more are not submitted until some have ended.
const WAITING_MAX: usize = 20_000;
/// When nothing more comes for this long, the count is wrong.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);
const RESULTS: &str = "/api/v1/extraction/results";

/// The query of a try.
type Query = fn(usize) -> String;

#[tokio::main]
async fn main() {
    let is_asked = |mode: &str| std::env::args().any(|word| word == mode);
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let results = given.unwrap_or(RESULTS_DEFAULT).clamp(BATCH * SECOND_PART, RESULTS_MAX);
    println!("{} cores", std::thread::available_parallelism().map_or(0, usize::from));
    let is_all = !is_asked("index") && !is_asked("trial");
    if is_all || is_asked("trial") {
        trial().await;
    }
    if is_all || is_asked("index") {
        index::run(results as u64);
    }
    if is_all {
        search(results).await;
    }
}

/// The page of a URL that ends with a number.
fn page(asked: &Asked) -> Told {
    let told = (SCRAPINGBEE.answer)(asked)?;
    let number = asked.param("url").and_then(|url| url.rsplit('/').next()?.parse::<u64>().ok());
    let n = number.unwrap_or_default();
    let (title, words) = (title_of(n), text_of(n));
    let body = format!(
        "<html><head><meta charset=utf-8><title>{title}</title></head><body><h1>{title}</h1>\
         <p class=price>$ {}.{:02}</p><div class=text>{words}</div></body></html>",
        mixed(n) % 1_000,
        n % 100,
    );
    Some(Reply { body, ..told })
}

async fn search(results: usize) {
    let simulator = Simulator::open(Vendor { answer: page, ..SCRAPINGBEE }).await;
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let settings = [
        ("NETWORK__ALLOW", &*format!("[\"127.0.0.1/32:{}\"]", simulator.address.port())),
        ("DISPATCH__CONCURRENCY", "256"),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "16"),
        ("LOG__LEVEL", "warn"),
    ];
    let process = Process::start(&dir.path().join("data"), &settings);
    let large = owner(&process, &simulator, "large").await;
    let small = owner(&process, &simulator, "small").await;
    let begun = Instant::now();
    for begin in (0..results).step_by(BATCH) {
        let of = if (begin / BATCH).is_multiple_of(SECOND_PART) { &small } else { &large };
        let jobs: Vec<_> = (begin..begin + BATCH)
            .map(|n| json!({ "url": format!("http://page.d{}.test/{n}", n % DOMAINS) }))
            .collect();
        let mut told = post(of, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await;
        while told.status == 429 || told.status == 503 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            told = post(of, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await;
        }
        expect(told, 201);
        until_asked(&simulator, (begin + BATCH).saturating_sub(WAITING_MAX)).await;
    }
    until_asked(&simulator, results).await;
    let of_small = results.div_ceil(BATCH * SECOND_PART) * BATCH;
    until_found(&large, results - of_small).await;
    until_found(&small, of_small).await;
    println!("{results} results made and indexed in {:.0} s", begun.elapsed().as_secs_f64());
    let cases: [(&str, Query); 10] = [
        ("the newest", |_| String::new()),
        ("a number of one title", |n| format!("q={}", n * 4_999 + 11)),
        ("the commonest words", |n| format!("q={}", word(n % 5))),
        ("a middling word", |n| format!("q={}", word(200 + n))),
        ("two common words", |n| format!("q={}%20{}", word(n % 7), word(7 + n % 11))),
        ("two common words, by relevance", |n| {
            format!("q={}%20{}&sort=relevance", word(n % 7), word(7 + n % 11))
        }),
        ("a phrase", |n| format!("q=%22{}%20{}%22", word(n % 7), word(n % 5))),
        ("the beginning of a word", |n| format!("q={}*", &word(500 + n)[..4])),
        ("a domain and a common word", |n| format!("domain=d{}.test&q={}", n % DOMAINS, word(n % 9))),
        ("what none has", |n| format!("q=nosuchword{n}")),
    ];
    for (whose, client) in [("nine tenths", &large), ("one tenth", &small)] {
        for (name, query) in cases {
            find(client, whose, name, query).await;
        }
    }
    process.terminate();
}

/// An organization whose one provider is the simulator, with attributes of its own for all domains.
async fn owner(process: &Process, simulator: &Simulator, name: &str) -> Client {
    let client = member(&process.client(), &process.socket(), name).await.api;
    let own = expect(get(&client, "/api/v1/providers").await, 200);
    let own = format!("/api/v1/providers/{}", text(&own["items"][0], "id"));
    assert_eq!(client.delete(&own).await.expect("an answer").status, 204);
    let provider = json!({
        "adapter": SCRAPINGBEE.id, "name": "Simulated", "baseUrl": simulator.url(),
        "credentials": { "apiKey": "good-key" },
    });
    expect(post(&client, "/api/v1/providers", &provider).await, 201);
    let attributes = json!({ "attributes": [
        { "name": "name", "xpaths": ["//h1"], "type": "text" },
        { "name": "price", "xpaths": ["//*[@class='price']"], "type": "number" },
        { "name": "description", "xpaths": ["//*[@class='text']"], "type": "text" },
    ] });
    for domain in 0..DOMAINS {
        let path = format!("/api/v1/extraction/attributes/d{domain}.test");
        expect(client.put(&path, &attributes).await.expect("an answer"), 200);
    }
    client
}

async fn until_asked(simulator: &Simulator, wanted: usize) {
    let (mut seen, mut last) = (simulator.asked(), Instant::now());
    while seen < wanted {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = simulator.asked();
        if now > seen {
            (seen, last) = (now, Instant::now());
        }
        assert!(last.elapsed() < GIVE_UP_AFTER, "nothing comes any more: {seen} of {wanted}");
    }
}

async fn until_found(client: &Client, wanted: usize) {
    let (mut seen, mut last) = (0, Instant::now());
    while seen < wanted as u64 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = expect(get(client, &format!("{RESULTS}?limit=1")).await, 200)["total"]
            .as_u64()
            .unwrap_or_default();
        if now > seen {
            (seen, last) = (now, Instant::now());
        }
        assert!(last.elapsed() < GIVE_UP_AFTER, "{seen} of {wanted} are found");
    }
}

async fn find(client: &Client, whose: &str, name: &str, query: Query) {
    let (mut times, mut found) = (Vec::with_capacity(TRIES), 0);
    for n in 0..TRIES {
        let path = format!("{RESULTS}?{}", query(n));
        let begun = Instant::now();
        let reply = client.get(&path).await.expect("an answer");
        times.push(begun.elapsed());
        found += expect(reply, 200)["total"].as_u64().unwrap_or_default();
    }
    let found = found as f64 / TRIES as f64;
    told(&format!("{whose}: {name}"), times, &format!("{found:.0} found"));
}

fn told(name: &str, mut times: Vec<Duration>, more: &str) {
    times.sort_unstable();
    let ms = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e3;
    println!("{name:48} p50 {:6.2} ms, p99 {:6.2} ms, {more}", ms(50), ms(99));
}

/// A shop's list of 1 MiB: cards with a picture, a price, a rating and a text.
fn long_page() -> String {
    let mut page =
        "<!doctype html><html><head><title>All of it</title></head><body><main id=list>".to_owned();
    let mut n = 0;
    while page.len() < PAGE_BYTES {
        writeln!(
            page,
            "<article class='card item-{n}' data-sku=S{n}><h2 class=title><a href='/p/{n}'>{} {}</a></h2>\
             <img src='/i/{n}.webp' alt='{}'><p class='price now'>$ {}.{:02}</p><span class=stars>{}.{} of 5</span>\
             <p class=text>{} {} {}</p></article>",
            word(n),
            word(n * 7 % VOCABULARY),
            word(n * 3 % VOCABULARY),
            n % 900,
            n % 100,
            n % 5,
            n % 10,
            word(n * 11 % VOCABULARY),
            word(n * 13 % VOCABULARY),
            word(n * 17 % VOCABULARY),
        )
        .expect("memory");
        n += 1;
    }
    page.push_str("</main></body></html>");
    page
}

/// 24 attributes as people write them: by id and class, by text, by position, a list each of texts and of URLs.
fn tried() -> Value {
    let mut attributes = vec![
        json!({ "name": "names", "xpaths": ["//h2[contains(@class, 'title')]/a"], "type": "text[]" }),
        json!({ "name": "links", "xpaths": ["//article//h2/a/@href"], "type": "url[]" }),
        json!({ "name": "title", "xpaths": ["//title", "//h1"], "type": "text" }),
        json!({ "name": "last", "xpaths": ["//article[last()]//h2"], "type": "text" }),
    ];
    for n in 0..20 {
        let xpaths = match n % 4 {
            0 => [
                format!("//*[@data-sku='S{n}']//p[@class='price']"),
                format!("//*[contains(@class, 'item-{n} ')]//p[1]"),
            ],
            1 => [format!("(//h2)[{}]", n + 1), format!("//h2[position() = {}]", n + 1)],
            2 => {
                [format!("//img[@src='/i/{n}.png']/@alt"), format!("//img[contains(@src, '/{n}.webp')]/@alt")]
            }
            _ => [format!("//h3[contains(., '{n}')]"), format!("//span[starts-with(., '{}.')]", n % 5)],
        };
        attributes.push(json!({ "name": format!("a{n}"), "xpaths": xpaths, "type": "text" }));
    }
    json!(attributes)
}

async fn trial() {
    let page = long_page();
    let bytes = page.len();
    let web = Web::open(move |path| (path == "/all").then(|| Answer::html(page.clone()))).await;
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let settings = [("NETWORK__ALLOW", &*web.allow()), ("LOG__LEVEL", "warn")];
    let process = Process::start(&dir.path().join("data"), &settings);
    let client = member(&process.client(), &process.socket(), "trial").await.api;
    collect(&client, &web.url("/all")).await;
    let body = json!({ "domain": "127.0.0.1", "pageType": "product_list", "attributes": tried() });
    let mut times = Vec::with_capacity(TRIALS);
    let mut found = 0;
    for _ in 0..TRIALS {
        let begun = Instant::now();
        let reply = post(&client, "/api/v1/extraction/test-xpath", &body).await;
        times.push(begun.elapsed());
        found = expect(reply, 200)["values"].as_object().map_or(0, serde_json::Map::len);
    }
    told(&format!("test-xpath, 24 attributes, {bytes} bytes"), times, &format!("{found} of them found"));
    process.terminate();
}
