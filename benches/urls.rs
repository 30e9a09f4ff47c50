//! Uploading URLs and finding them by text, over HTTP against the real binary.
//!
//! `cargo bench --bench urls` (`-- 200000` for that many URLs instead of a million). What counts:
//! - *upload*: 100,000 URLs as CSV in one request, in under 20 s on two cores, with under 64 MiB of memory more than before;
//!   plain, and packed with gzip. Its own memory (RssAnon) is looked at every 20 ms, and the page cache of the store fills
//!   beforehand.
//! - *find*: on a million rows `GET /urls?q=` in under 50 ms: texts that are in one URL, in some, in all and in none, 200
//!   times each, each time another one where there are others.

use harness::process::Process;
use harness::{expect, member};
use http::Method;
use server::client::Client;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const URLS_DEFAULT: usize = 1_000_000;
const URLS_MAX: usize = 2_000_000;
const PER_UPLOAD: usize = 100_000;
const TRIES: usize = 200;

/// What is searched for at a try.
type Text = fn(usize) -> String;

#[tokio::main]
async fn main() {
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let wanted: usize = given.unwrap_or(URLS_DEFAULT).clamp(PER_UPLOAD, URLS_MAX);
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let process = Arc::new(Process::start(&dir.path().join("data"), &[("LOG__LEVEL", "warn")]));
    let client = member(&process.client(), &process.socket(), "urls").await.api;
    println!("{} cores", std::thread::available_parallelism().map_or(0, usize::from));
    // The first one fills what stays filled; the second and third are what counts.
    for (number, begin) in (0..wanted).step_by(PER_UPLOAD).enumerate() {
        upload(&process, &client, begin, number % 3 == 2).await;
    }
    let cases: [(&str, Text); 7] = [
        ("a number of one URL", |n| format!("/p{}-", (n * 4_999) % PER_UPLOAD)),
        ("the end of one URL", |n| format!("item={}", (n * 7_919) % PER_UPLOAD)),
        ("part of a word", |n| ["hoe", "ockin", "ackpac", "amp"][n % 4].to_owned()),
        ("two letters", |n| ["42", "sh", "zz", "p9"][n % 4].to_owned()),
        ("what every URL has", |_| "https://".to_owned()),
        ("what none has", |n| format!("no-such-{n}")),
        ("parts that all have, in an order that none has", |n| format!("example/item{}", n % 10)),
    ];
    for (name, text) in cases {
        find(&client, name, text).await;
    }
}

fn file(begin: usize) -> String {
    let words = ["shoes", "stockings", "backpacks", "lamps", "tables", "books", "phones"];
    let mut file = "url,tags,pageType,note\n".to_owned();
    for n in begin..begin + PER_UPLOAD {
        let word = words[n % words.len()];
        let shop = n % 50;
        writeln!(
            file,
            "https://www.shop{shop}.example/{word}/p{n}-{:x}?item={n},{word}|shop{shop},product,row {n}",
            n.wrapping_mul(2_654_435_761) & 0xFFFF_FFFF
        )
        .expect("memory");
    }
    file
}

async fn upload(process: &Arc<Process>, client: &Client, begin: usize, is_packed: bool) {
    let text = file(begin).into_bytes();
    let bytes = text.len();
    let (client, body) = if is_packed {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&text).expect("memory");
        (client.header("content-encoding", "gzip"), encoder.finish().expect("memory"))
    } else {
        (client.clone(), text)
    };
    let (before, most) = (process.counted("RssAnon") << 10, Arc::new(AtomicU64::new(0)));
    let is_over = Arc::new(AtomicBool::new(false));
    let looking = {
        let (process, most, is_over) = (Arc::clone(process), Arc::clone(&most), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(process.counted("RssAnon") << 10, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let begun = Instant::now();
    let reply = client.send_bytes(Method::POST, "/api/v1/urls/upload", Some("text/csv"), body).await;
    let took = begun.elapsed();
    is_over.store(true, Ordering::Relaxed);
    looking.join().expect("it looks and ends");
    let answer = expect(reply.expect("an answer"), 200);
    assert_eq!(answer["created"], PER_UPLOAD, "{answer}");
    println!(
        "{PER_UPLOAD} URLs behind {begin}, {:.1} MB{}: {:.1} s, {:.1} MiB of memory more than before",
        bytes as f64 / 1e6,
        if is_packed { " in gzip" } else { "" },
        took.as_secs_f64(),
        most.load(Ordering::Relaxed).saturating_sub(before) as f64 / f64::from(1 << 20)
    );
}

async fn find(client: &Client, name: &str, text: Text) {
    let (mut times, mut found) = (Vec::with_capacity(TRIES), 0);
    for n in 0..TRIES {
        let query: String = text(n).bytes().map(|byte| format!("%{byte:02x}")).collect();
        let begun = Instant::now();
        let reply = client.get(&format!("/api/v1/urls?q={query}")).await.expect("an answer");
        times.push(begun.elapsed());
        found += expect(reply, 200)["items"].as_array().map_or(0, Vec::len);
    }
    times.sort_unstable();
    let ms = |part: usize| times[TRIES * part / 100].as_secs_f64() * 1e3;
    println!(
        "q, {name:48} p50 {:6.2} ms, p99 {:6.2} ms, {:.1} found on the first page",
        ms(50),
        ms(99),
        found as f64 / TRIES as f64
    );
}
