//! How fast sitemaps and feeds are read: a sitemap of 50,000 URLs (packed as well), an RSS feed and a JSON feed of 2,000 entries.
//!
//! `cargo bench -p gleaner-feeds`. Nothing but the reader is in it: bytes in memory to entries.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;

use base::web::WebUrl;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use feeds::{Document, Limits, read};

const SITEMAP_URLS: usize = 50_000;
const FEED_ENTRIES: usize = 2_000;

fn sitemap() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
    );
    for n in 0..SITEMAP_URLS {
        let _ = writeln!(
            text,
            "  <url>\n    <loc>https://shop.example.org/category-{}/product-{n}.html?ref=map&amp;page=1</loc>\n    \
             <lastmod>2026-{:02}-{:02}T10:00:00+00:00</lastmod>\n    <changefreq>daily</changefreq>\n    \
             <priority>0.8</priority>\n  </url>",
            n % 97,
            n % 12 + 1,
            n % 28 + 1
        );
    }
    text.push_str("</urlset>\n");
    text
}

fn rss() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" \
         xmlns:content=\"http://purl.org/rss/1.0/modules/content/\"><channel><title>Kitchen &amp; garden</title>\n",
    );
    // As long as articles are, which a feed carries whole.
    let article =
        "<p>Water &amp; leaves, <a href=\"https://shop.example.org/\">and more</a>.</p>\n".repeat(40);
    for n in 0..FEED_ENTRIES {
        let _ = writeln!(
            text,
            "<item><title>Kettle &amp;amp; pot no. {n}</title><link>https://shop.example.org/post/{n}</link>\
             <guid isPermaLink=\"false\">post-{n}</guid><pubDate>Fri, 02 Jan 2026 03:04:05 GMT</pubDate>\
             <dc:creator>Ada</dc:creator><category>kettles</category><category>pots</category>\
             <description>Short &lt;b&gt;text&lt;/b&gt;</description><content:encoded><![CDATA[{article}]]></content:encoded></item>"
        );
    }
    text.push_str("</channel></rss>\n");
    text
}

fn json() -> String {
    let mut text =
        String::from("{\"version\":\"https://jsonfeed.org/version/1.1\",\"title\":\"Kitchen\",\"items\":[");
    for n in 0..FEED_ENTRIES {
        let comma = if n == 0 { "" } else { "," };
        let _ = write!(
            text,
            "{comma}{{\"id\":\"{n}\",\"url\":\"https://shop.example.org/post/{n}\",\"title\":\"Kettle {n}\",\
             \"content_html\":\"{}\",\"date_published\":\"2026-01-02T03:04:05Z\",\"tags\":[\"kettles\"]}}",
            "<p>Water and leaves.<\\/p>".repeat(100)
        );
    }
    text.push_str("]}");
    text
}

fn packed(text: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).expect("memory takes bytes");
    gzip.finish().expect("memory takes bytes")
}

fn all(criterion: &mut Criterion) {
    let document = WebUrl::parse("https://shop.example.org/map.xml").expect("an address");
    let limits = Limits::default();
    let read_all = |bytes: &[u8]| -> Document { read(bytes, &document, None, &limits).expect("a document") };
    let sitemap = sitemap();
    let cases = [
        ("sitemap", sitemap.clone().into_bytes(), sitemap.len(), SITEMAP_URLS),
        ("sitemap packed", packed(&sitemap), sitemap.len(), SITEMAP_URLS),
        ("rss", rss().into_bytes(), rss().len(), FEED_ENTRIES),
        ("json", json().into_bytes(), json().len(), FEED_ENTRIES),
    ];
    let mut group = criterion.benchmark_group("feeds");
    group.sample_size(20);
    for (name, bytes, length, entries) in &cases {
        let found = read_all(bytes);
        assert!(found.complete && found.notes.is_empty(), "{name}: {:?}", found.notes);
        assert_eq!(found.entries.len(), *entries, "{name}");
        group.throughput(Throughput::Bytes(*length as u64));
        group.bench_function(*name, |bencher| bencher.iter(|| read_all(black_box(bytes))));
    }
    group.finish();
}

criterion_group!(benches, all);
criterion_main!(benches);
