//! Registering URLs, and listing them.

use crate::commands::{UrlFormat, UrlsCommand};
use crate::failure::{Exit, Failure, Outcome};
use crate::http::{Payload, with_query};
use crate::output::{Column, say, visible};
use crate::session::{Session, open_reader};
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

/// URLs that are registered at once.
const URLS_AT_ONCE: usize = 1_000;
/// Bytes of a line: no URL is as long.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Lines that were refused and are told one by one.
const REFUSED_SHOWN: usize = 20;

const URLS: [Column; 6] = [
    ("ID", "/id"),
    ("URL", "/url"),
    ("TAGS", "/tags"),
    ("TYPE", "/pageType"),
    ("LAST", "/lastStatus"),
    ("COLLECTED", "/lastScrapedAt"),
];
const ADDED: [Column; 4] = [
    ("CREATED", "/created"),
    ("UPDATED", "/updated"),
    ("DUPLICATES", "/duplicates"),
    ("INVALID", "/invalidTotal"),
];

pub async fn carry_out(session: &Session, command: UrlsCommand) -> Outcome<()> {
    match command {
        UrlsCommand::List { tag, domain, search, rows } => {
            let query = [("tag", tag), ("domain", domain), ("q", search)];
            session.list("/api/v1/urls", &query, &rows, &URLS).await
        }
        UrlsCommand::Add { file, tag, format: UrlFormat::Lines } => {
            let mut lines = Lines::open("FILE", &file).await?;
            let mut added = Added::default();
            loop {
                let part = lines.part(URLS_AT_ONCE).await?;
                if part.is_empty() {
                    break;
                }
                added.register(session, &part, &tag).await?;
            }
            added.end(session)
        }
        UrlsCommand::Add { tag, .. } if !tag.is_empty() => {
            Err(Failure::usage("--tag", "is for --format lines; CSV and NDJSON have a column of tags"))
        }
        UrlsCommand::Add { file, format, .. } => upload(session, &file, format).await,
    }
}

/// A file of lines, a part at a time.
pub struct Lines {
    reader: BufReader<Box<dyn tokio::io::AsyncRead + Send + Unpin>>,
    what: &'static str,
    number: u64,
}

impl Lines {
    pub async fn open(what: &'static str, file: &Path) -> Outcome<Lines> {
        Ok(Lines { reader: BufReader::new(open_reader(what, file).await?), what, number: 0 })
    }

    /// The next URLs with the numbers of their lines; none at the end.
    pub async fn part(&mut self, most: usize) -> Outcome<Vec<(u64, String)>> {
        let mut part = Vec::new();
        while part.len() < most {
            let mut line = Vec::new();
            let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
            if read.map_err(|e| Failure::usage(self.what, e))? == 0 {
                break;
            }
            self.number += 1;
            if line.len() as u64 == LINE_BYTES_MAX {
                let reason = format!("line {} has more than {LINE_BYTES_MAX} bytes", self.number);
                return Err(Failure::usage(self.what, reason));
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_start_matches('\u{feff}').trim();
            if !text.is_empty() && !text.starts_with('#') {
                part.push((self.number, text.to_owned()));
            }
        }
        Ok(part)
    }
}

/// What came of registering.
#[derive(Default)]
struct Added {
    created: u64,
    updated: u64,
    duplicates: u64,
    invalid: Vec<Value>,
    invalid_total: u64,
}

impl Added {
    async fn register(&mut self, session: &Session, part: &[(u64, String)], tags: &[String]) -> Outcome<()> {
        let entry = |(_, url): &(u64, String)| match tags {
            [] => json!({ "url": url }),
            tags => json!({ "url": url, "tags": tags }),
        };
        let body = json!({ "urls": part.iter().map(entry).collect::<Vec<_>>() });
        let told = session.remote.post("/api/v1/urls", &body).await?;
        let count = |name: &str| told[name].as_u64().unwrap_or(0);
        self.created += count("created");
        self.updated += count("updated");
        self.duplicates += count("duplicates");
        for refused in told["invalid"].as_array().into_iter().flatten() {
            self.invalid_total += 1;
            let line = refused["index"].as_u64().and_then(|at| part.get(at as usize)).map(|(line, _)| *line);
            if self.invalid.len() < REFUSED_SHOWN {
                self.invalid
                    .push(json!({ "line": line, "url": refused["url"], "reason": refused["reason"] }));
            }
        }
        Ok(())
    }

    fn end(self, session: &Session) -> Outcome<()> {
        let told = json!({
            "created": self.created, "updated": self.updated, "duplicates": self.duplicates,
            "invalidTotal": self.invalid_total, "invalid": self.invalid,
        });
        tell(session, &told)
    }
}

/// Says what was registered, and what was not and why; some that were not is a failure.
fn tell(session: &Session, told: &Value) -> Outcome<()> {
    session.show(told, &ADDED)?;
    let refused = told["invalidTotal"].as_u64().unwrap_or(0);
    if refused == 0 {
        return Ok(());
    }
    for line in told["invalid"].as_array().into_iter().flatten().take(REFUSED_SHOWN) {
        let text = |name: &str| visible(line[name].as_str().unwrap_or_default());
        // In JSON they stand in the answer.
        if !session.json {
            say(&format!("gleaner: line {}: {}: {}", line["line"], text("url"), text("reason")));
        }
    }
    Err(Failure::new(Exit::Failed, format!("{refused} lines were not registered")))
}

/// A file that the box reads itself, sent as it is read. What the box reads of it is registered up to where it stopped.
async fn upload(session: &Session, file: &Path, format: UrlFormat) -> Outcome<()> {
    let (format, media) = match format {
        UrlFormat::Ndjson => ("ndjson", "application/x-ndjson"),
        UrlFormat::Csv | UrlFormat::Lines => ("csv", "text/csv"),
    };
    let path = with_query("/api/v1/urls/upload", &[("format", Some(format.to_owned()))]);
    let body = Payload::Stream(media.to_owned(), open_reader("FILE", file).await?);
    let told = session.remote.ask(http::Method::POST, &path, body).await?;
    for note in told["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        say(&format!("gleaner: {}", visible(note)));
    }
    tell(session, &told)?;
    match told["nextLine"].as_u64() {
        None => Ok(()),
        Some(line) => Err(Failure::failed(format!("the box read up to line {line} and no further"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_in_parts_with_their_numbers() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("urls.txt");
        std::fs::write(&file, "\u{feff}https://a/\r\n\n# no\n  https://b/ \nhttps://c/").unwrap();
        let mut lines = Lines::open("FILE", &file).await.unwrap();
        assert_eq!(lines.part(2).await.unwrap(), [(1, "https://a/".into()), (4, "https://b/".into())]);
        assert_eq!(lines.part(2).await.unwrap(), [(5, "https://c/".into())]);
        assert!(lines.part(2).await.unwrap().is_empty());
        std::fs::write(&file, vec![b'x'; LINE_BYTES_MAX as usize + 1]).unwrap();
        let refused = Lines::open("FILE", &file).await.unwrap().part(1).await.unwrap_err();
        assert!(refused.to_string().contains("line 1 has more than"), "{refused}");
        let missing = Lines::open("FILE", &folder.path().join("none")).await.err().unwrap();
        assert_eq!(missing.exit(), Exit::Usage);
    }
}
