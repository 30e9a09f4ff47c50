//! How long the box learns from a domain: five pages of 100 KiB, parsed and discovered, one thread; and what hostile pages take.
//!
//! `cargo bench -p gleaner-induce`. Nothing but parsing and learning is in it.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use induce::{Discovery, LESSON_FUEL_MAX, Page, discover};
use page::html::Document;
use page::xpath::Fuel;
use url::Url;

const PAGES: usize = 5;
const PAGE_BYTES: usize = 100 << 10;
const ROUNDS: usize = 21;
/// What the box promises of ordinary pages.
const AIM: Duration = Duration::from_secs(1);

/// A shop's page of a product, with as much around it as shops have.
fn product(n: usize) -> String {
    let price = format!("{}.{:02}", 12 + 7 * n, 90 - n);
    let mut page = format!(
        "<!DOCTYPE html><html lang=en><head><title>Plane no. {n} | Tools</title>\
         <script type='application/ld+json'>{{\"@context\":\"https://schema.org\",\"@type\":\"Product\",\
         \"name\":\"Plane no. {n}\",\"sku\":\"PL-{n}{n}77\",\"brand\":{{\"@type\":\"Brand\",\"name\":\"Maker {n}\"}},\
         \"description\":\"Plane {n} takes shavings as thin as paper off oak and ash.\",\
         \"image\":\"https://shop.example/i/plane-{n}-1200x800.jpg\",\
         \"aggregateRating\":{{\"@type\":\"AggregateRating\",\"ratingValue\":\"4.{n}\",\"reviewCount\":\"{}\"}},\
         \"offers\":{{\"@type\":\"Offer\",\"price\":\"{price}\",\"priceCurrency\":\"EUR\",\
         \"availability\":\"https://schema.org/InStock\"}}}}</script></head><body class='product page-{n}'><nav>",
        31 + n
    );
    for link in 0..120 {
        let _ = write!(page, "<li class='menu__item'><a href='/c/{link}/'>Category {link}</a></li>");
    }
    let _ = write!(
        page,
        "</nav><main><h1 class=title>Plane no. {n}</h1><div class='buy box'><span class=price>€ {price}</span>\
         <p class=stock>In stock</p><img class='hero main' src='/i/plane-{n}-600x400.jpg'></div>\
         <div class=meta><b>Art. no.:</b> <span class=code>PL-{n}{n}77</span> by <a class=brand href='/b/{n}/x'>Maker {n}</a>\
         <span class=stars>4.{n}</span> (<span class=votes>{}</span>)</div>\
         <p class=intro>Plane {n} takes shavings as thin as paper off oak and ash.</p>",
        31 + n
    );
    let mut line = 0;
    while page.len() < PAGE_BYTES - 60 {
        let _ = write!(
            page,
            "<div class='review r{}'><h3>Review {line}</h3><span class=stars>{}</span>\
             <time datetime='2026-03-{:02}'>{0} March</time><p>It cuts well, and what I paid for no. {} was € {}.00.</p></div>",
            line % 9,
            line % 5 + 1,
            line % 28 + 1,
            n + line,
            line % 40 + 5
        );
        line += 1;
    }
    page + "</main></body></html>"
}

fn learn(sources: &[String], fuel: &mut Fuel) -> (Discovery, Duration) {
    let base = Url::parse("https://shop.example/").expect("an address");
    let sources = sources.to_vec();
    let start = Instant::now();
    let documents: Vec<Document> = sources.into_iter().map(Document::parse).collect();
    let pages: Vec<Page<'_>> = documents.iter().map(|document| Page { document, base: &base }).collect();
    let found = discover(&pages, None, fuel);
    (found, start.elapsed())
}

fn hostile(name: &str, page: String) {
    let bytes = page.len();
    let mut fuel = Fuel::new(LESSON_FUEL_MAX);
    let (found, took) = learn(&[page.clone(), page], &mut fuel);
    println!(
        "hostile, {name}: two pages of {:.1} MB, {:.2} s, {} attributes, {} of {LESSON_FUEL_MAX} units",
        bytes as f64 / 1e6,
        took.as_secs_f64(),
        found.attributes.len(),
        LESSON_FUEL_MAX - fuel.left()
    );
}

fn main() {
    let sources: Vec<String> = (1..=PAGES).map(product).collect();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let (found, took) = learn(&sources, &mut Fuel::new(LESSON_FUEL_MAX));
        assert!(found.attributes.len() > 6, "the pages teach: {:?}", found.attributes.len());
        times.push(took);
    }
    times.sort();
    let (median, longest) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    println!(
        "discovery of a domain from {PAGES} pages of {} KiB: median {median:.1?}, longest of {ROUNDS} {longest:.1?}",
        PAGE_BYTES >> 10
    );
    assert!(longest < AIM, "more than {AIM:?}");
    let told = product(3);
    let with = |hostile: String| told.replace("</main>", &hostile);
    hostile("a million nested elements", with("<div class=a>".repeat(1_000_000)));
    let attributes: String = (0..280_000).map(|n| format!("data-a{n}='PL-3377' ")).collect();
    hostile("5 MB of attributes", with(format!("<p {attributes}>x</p>")));
    hostile("a flood of entities", with(format!("<p>{}</p>", "&amp;&#8364;12&euro;".repeat(240_000))));
    hostile(
        "the values again and again",
        with("<p class=x><i>Plane no. 3</i> € 33.87 PL-3377</p>".repeat(90_000)),
    );
}
