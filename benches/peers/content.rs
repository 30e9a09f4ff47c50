//! Our side of `content.py`: the main content of pages, and how many a second.
//!
//! ```text
//! content PAGES [--rounds N]     PAGES holds one "file TAB url" a line; a line of JSON on stdout for each page, then
//!                                one with the seconds of each round, in thread CPU time
//! ```
//!
//! A round is bytes in memory to text: charset, tree, content, text, and the release of all of it.

use std::io::Write;
use std::time::Duration;

use content::{CONTENT_BYTES_MAX, Content};
use page::html::Document;
use serde_json::json;
use url::Url;

/// The pages are kept as UTF-8, whatever they say themselves.
const CONTENT_TYPE: Option<&str> = Some("text/html; charset=utf-8");

type Failure = Box<dyn std::error::Error>;

/// CPU time of the process, which a busy machine does not disturb; the work is on one thread.
fn cpu_time() -> Result<Duration, Failure> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: u64 = text.split_ascii_whitespace().next().ok_or("an empty schedstat")?.parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let list = arguments.next().ok_or("content PAGES [--rounds N]")?;
    let rounds: usize = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--rounds"), Some(count)) => count.parse()?,
        (None, _) => 0,
        _ => return Err("content PAGES [--rounds N]".into()),
    };
    let mut pages = Vec::new();
    for line in std::fs::read_to_string(list)?.lines() {
        let (file, url) = line.split_once('\t').unwrap_or((line, ""));
        pages.push((file.to_owned(), Url::parse(url).ok(), std::fs::read(file)?));
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (file, url, bytes) in &pages {
        let document = Document::parse_bytes(bytes, CONTENT_TYPE);
        let content = Content::of(&document, url.as_ref());
        let page = json!({
            "file": file,
            "title": content.title(),
            "language": content.language(),
            "text": content.text(CONTENT_BYTES_MAX).text,
            "markdown": content.markdown(CONTENT_BYTES_MAX).text,
        });
        writeln!(out, "{page}")?;
    }
    let mut seconds = Vec::new();
    for _ in 0..rounds {
        let begun = cpu_time()?;
        let mut length = 0;
        for (_, url, bytes) in &pages {
            let document = Document::parse_bytes(bytes, CONTENT_TYPE);
            length += Content::of(&document, url.as_ref()).markdown(CONTENT_BYTES_MAX).text.len();
        }
        std::hint::black_box(length);
        seconds.push((cpu_time()? - begun).as_secs_f64());
    }
    writeln!(out, "{}", json!({ "seconds": seconds }))?;
    Ok(())
}
