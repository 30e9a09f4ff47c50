//! What files are read as, whatever the parts in which they come.

use super::intake::{Declared, Format, Intake};
use super::line::{Line, WrongLine};
use super::unpack::Coding;
use super::{READ_TIME_MAX, Reading, Registered, TurnEnd, Upload, UploadTurns};
use base::clock::Clock;
use base::ids::{OrgId, RequestId};
use base::limits::UPLOAD_LINES_MAX;
use base::{Code, Error, Result};
use bytes::Bytes;
use fetch::AddressGuard;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;
use store::fault::FaultyDisk;
use store::{MIGRATIONS, OrgStore, Origin, Store};

/// What a body is read as: a line of text for each of its lines, and the intake at its end.
fn read(
    body: &[u8],
    declared: Declared,
    charset: Option<&str>,
    size: usize,
) -> Result<(Vec<String>, Intake)> {
    let mut intake = Intake::new(declared, charset)?;
    let (mut parts, mut lines) = (body.chunks(size), Vec::new());
    loop {
        match intake.next()? {
            Some(Line::Entry { line, entry }) => {
                let tags = entry.tags.unwrap_or_default().join("+");
                let kind = entry.page_type.as_ref().map(|kind| kind.name()).unwrap_or_default();
                let metadata = entry.metadata.map(|members| serde_json::to_string(&members).unwrap());
                lines.push(format!("{line} {} {tags} {kind} {}", entry.url, metadata.unwrap_or_default()));
            }
            Some(Line::Wrong(wrong)) => lines.push(format!("{} ! {}", wrong.line, wrong.reason)),
            None if intake.is_over() => return Ok((lines, intake)),
            None => match parts.next() {
                Some(part) => intake.push(Bytes::copy_from_slice(part)),
                None => intake.end(),
            },
        }
    }
}

const PLAIN: Declared = Declared { coding: Coding::Plain, format: None };

fn lines(body: &[u8]) -> Vec<String> {
    let whole = read(body, PLAIN, None, 1 << 20).unwrap().0;
    for size in [1, 3, 50] {
        assert_eq!(read(body, PLAIN, None, size).unwrap().0, whole, "in parts of {size}");
    }
    whole
}

#[test]
fn columns_are_known_by_their_names() {
    let file = "Page Type;URL;Tags;Price;metadata;workflow_id\n\
                product;https://a.example/1;x | y|;4,50;\"{\"\"k\"\":[1]}\";\n\
                ;https://a.example/2;;;;\n\
                9 Poems;https://a.example/3;;;;\n\
                ;https://a.example/4;;;{;\n\
                ;https://a.example/5;;;[];\n\
                ;https://a.example/6;;;;seven\n\
                ;https://a.example/7;;;;;;too;many\n\
                ;;;;;\n\
                ;https://a.example/8;;;\n";
    let reasons = [
        "2 https://a.example/1 x+y product {\"Price\":\"4,50\",\"k\":[1]}",
        "3 https://a.example/2   ",
        "4 ! pageType: `9_poems` is no page type: one is a small letter and up to 39 small letters, digits and _",
        "5 ! metadata: is not JSON: EOF while parsing an object at line 1 column 1",
        "6 ! metadata: must be an object",
        "7 ! workflowId: must be a UUID",
        "8 ! has 9 fields, and there are 6 columns",
        "10 https://a.example/8   ",
    ];
    assert_eq!(lines(file.as_bytes()), reasons);
    let (_, intake) = read(file.as_bytes(), PLAIN, None, 10).unwrap();
    assert_eq!((intake.delimiter(), intake.metadata_columns()), (Some(';'), vec!["Price".to_owned()]));
    assert_eq!(intake.format(), Some(Format::Csv));
}

#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    let file = "\r\n\r\nurl,note\r\nhttps://a.example/1,\"two\r\nlines\"\r\n\r\nhttps://a.example/2,\r\nhttps://a.example/3,\"open\r\n";
    let found = [
        "4 https://a.example/1   {\"note\":\"two\\r\\nlines\"}",
        "7 https://a.example/2   ",
        "8 ! begins a quoted field that does not end",
    ];
    assert_eq!(lines(file.as_bytes()), found);
    let old = "url\rhttps://a.example/1\rnonsense,x\r";
    assert_eq!(
        lines(old.as_bytes()),
        ["2 https://a.example/1   ", "3 ! has 2 fields, and there are 1 columns"]
    );
}

#[test]
fn a_file_without_a_header_is_one_of_urls() {
    let file = "https://a.example/1\nhttps://a.example/2\n";
    assert_eq!(lines(file.as_bytes()), ["1 https://a.example/1   ", "2 https://a.example/2   "]);
    // Each line is a URL whole, whatever it has of separators; a quote around it is none of it, and a tab is in none.
    let whole = "http://a.example/j1;jsessionid=AA\n\"https://a.example/2,3;4\"\nhttps://a.example/5\tx\n\
                 https://a.example/6\0\n\"https://a.example/7\",\"x\"\n";
    let found = [
        "1 http://a.example/j1;jsessionid=AA   ",
        "2 https://a.example/2,3;4   ",
        "3 ! has a line end or another control character in the URL",
        "4 ! has a byte 0",
        "5 ! has text behind the closing quote of column 1, on line 5",
    ];
    assert_eq!(lines(whole.as_bytes()), found);
    assert_eq!(read(whole.as_bytes(), PLAIN, None, 9).unwrap().1.delimiter(), None);
    for (wrong, reason) in [
        ("name,address\na,b\n", "no column named url; the first line has: name, address"),
        ("url,url\n", "line 1: the column url is there twice"),
        ("url,a,a\n", "the column a is there twice"),
        ("\nurl,\"a\u{7}\"\n", "line 2: the name of column 2"),
        ("url,\"a\n", "line 1: the header begins a quoted field"),
    ] {
        let error = read(wrong.as_bytes(), PLAIN, None, 4).err().unwrap();
        let detail = error.detail().unwrap();
        assert!(detail.starts_with("body: ") && detail.contains(reason), "{detail}");
    }
}

/// The URL is in the second column: a line of text that has one in the first is not taken for a record.
#[test]
fn a_stray_quote_swallows_no_urls_without_a_word() {
    let file = "note,url\n5 pipe,http://a.example/1\n\"6 pipe,http://a.example/2\n7 pipe,http://a.example/3\n\
                8\",http://a.example/4\n\"http://a.example/x, and\nmore\",http://a.example/5\n";
    let found = [
        "2 http://a.example/1   {\"note\":\"5 pipe\"}",
        "3 ! has a quote that is not closed: it holds lines 3 to 5 together",
        "6 http://a.example/5   {\"note\":\"http://a.example/x, and\\nmore\"}",
    ];
    assert_eq!(lines(file.as_bytes()), found);
    let header =
        read(b"url,\"note\nhttp://a.example/1,x\nhttp://a.example/2,\"y\n", PLAIN, None, 5).err().unwrap();
    let detail = header.detail().unwrap();
    assert!(
        detail.contains("line 1: the header has a quote that is not closed: it holds lines 1 to 3"),
        "{detail}"
    );
}

#[test]
fn a_member_that_two_columns_give_is_not_chosen_of() {
    let other = "Price,url,metadata\n2,https://a.example/1,\"{\"\"Price\"\":1}\"\n";
    assert_eq!(lines(other.as_bytes()), ["2 ! metadata: has a member Price, and so has the column Price"]);
    let file = "url,metadata,Price\nhttps://a.example/1,\"{\"\"Price\"\":1}\",2\n\
                https://a.example/2,\"{\"\"Price\"\":1}\",\nhttps://a.example/3,\"{\"\"price\"\":1}\",2\n";
    let found = [
        "2 ! metadata: has a member Price, and so has the column Price",
        "3 https://a.example/2   {\"Price\":1}",
        "4 https://a.example/3   {\"price\":1,\"Price\":\"2\"}",
    ];
    assert_eq!(lines(file.as_bytes()), found);
}

#[test]
fn ndjson_is_read_line_by_line() {
    let file = "{\"url\":\"https://a.example/1\",\"tags\":[\"x\"],\"pageType\":\"serp\",\"label\":1}\n\r\n\
                \"https://a.example/2\"\n\
                {\"url\":\"https://a.example/3\",\"tags\":null,\"metadata\":{\"a\":null}}\r\n\
                {\"url\":7}\n{}\n[\"https://a.example/4\"]\n{\"url\":\n{\"url\":\"https://a.example/5\",\"tags\":\"x\"}\nnull\n\
                {\"url\":\"https://a.example/\\u0000\"}\n{\"url\":\"https://a.example/6\"}";
    let found = [
        "1 https://a.example/1 x serp ",
        "3 https://a.example/2   ",
        "4 https://a.example/3   {\"a\":null}",
        "5 ! url: must be a string, not integer 7",
        "6 ! url: is required",
        "7 ! must be a URL or an object with a url",
        "8 ! is not JSON: EOF while parsing a value, at character 7",
        "9 ! tags: must be an array, not a string",
        "10 ! must be a URL or an object with a url",
        "11 ! has a control character in the URL",
        "12 https://a.example/6   ",
    ];
    assert_eq!(lines(file.as_bytes()), found);
    let (_, intake) = read(file.as_bytes(), PLAIN, None, 10).unwrap();
    assert_eq!((intake.format(), intake.ignored_members()), (Some(Format::Ndjson), vec!["label".to_owned()]));
    let long = format!(
        "{{\"url\":\"https://a.example/1\"}}\n{{\"url\":\"{}\"}}\n\"https://a.example/2\"",
        "x".repeat(200_000)
    );
    assert_eq!(
        lines(long.as_bytes()),
        ["1 https://a.example/1   ", "2 ! is longer than 64 KiB", "3 https://a.example/2   "]
    );
}

#[test]
fn letters_and_packings_do_not_matter() {
    let file = "url;note\nhttps://a.example/1;caf\u{e9}\n";
    let found = "2 https://a.example/1   {\"note\":\"caf\u{e9}\"}";
    let utf16: Vec<u8> = file.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin: Vec<u8> = file.chars().map(|c| c as u8).collect();
    for body in [file.as_bytes().to_vec(), [b"\xFF\xFE", utf16.as_slice()].concat(), utf16, latin.clone()] {
        assert_eq!(lines(&body), [found]);
    }
    let (_, intake) = read(&latin, PLAIN, None, 7).unwrap();
    assert_eq!(intake.charset(), "windows-1252");
    let zstd = Declared { coding: Coding::Zstd, format: None };
    let packed = zstd::encode_all(file.as_bytes(), 3).unwrap();
    assert_eq!(read(&packed, zstd, None, 5).unwrap().0, [found]);
    // Packed, and nobody said so.
    let error = read(&packed, PLAIN, None, 100).err().unwrap();
    assert!(error.detail().unwrap().contains("Content-Encoding: zstd"), "{error}");
    let strict = read(&latin, PLAIN, Some("utf-8"), 7).unwrap().0;
    assert_eq!(strict, ["2 ! is not UTF-8, which it says to be"]);
}

fn store() -> Store {
    let disk = FaultyDisk::new();
    Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap()
}

/// A reading of a whole file.
fn reading(file: &str, from_line: usize) -> Reading {
    reading_for(store().system().org(OrgId::new()), file, from_line)
}

fn reading_for(org: OrgStore, file: &str, from_line: usize) -> Reading {
    let mut intake = Intake::new(PLAIN, None).unwrap();
    intake.push(Bytes::from(file.to_owned()));
    intake.end();
    let guard = Arc::new(AddressGuard::new(&[], &[]));
    Reading::new(intake, org, guard, from_line)
}

fn upload(reading: Option<Reading>) -> Upload {
    Upload {
        begun: Instant::now(),
        reading,
        turns: Arc::new(UploadTurns::new()),
        done: Registered::default(),
        wrong: Vec::new(),
        wrong_total: 0,
        until: 0,
        full: None,
    }
}

/// Also where the first write of an upload is more than there is room for.
#[tokio::test]
async fn the_room_that_there_is_is_filled_and_the_rest_is_told() {
    let store = store();
    store.limit_room(Box::new(|_, adding| {
        let urls = adding.tables.iter().find(|(table, ..)| *table == "urls");
        match urls.is_some_and(|(_, used, growth)| growth.rows > 0 && used.rows > 423) {
            true => Err(Error::new(Code::QuotaExceeded).message("423 URLs.")),
            false => Ok(()),
        }
    }));
    let rows = store.system().org(OrgId::new());
    let file: String = (1..=1_100).map(|n| format!("https://a.example/{n}\n")).collect();
    for (from_line, created) in [(101, Some(423)), (524, None), (1, None)] {
        let mut upload = upload(Some(reading_for(rows.clone(), &file, from_line)));
        let request = Origin::request(IpAddr::V4(Ipv4Addr::LOCALHOST), RequestId::accept(None));
        let done = request.scope(async {
            loop {
                let end = upload.step().await?;
                upload.write(&rows).await?;
                if end == TurnEnd::Over {
                    return upload.answer();
                }
            }
        });
        match (done.await, created) {
            (Ok(answer), Some(created)) => {
                assert_eq!((answer.created, answer.lines, answer.invalid_total), (created, 1_000, 577));
                assert_eq!((answer.next_line, answer.invalid[0].line), (Some(524), 524));
                assert_eq!(answer.invalid[0].reason, "not registered: 423 URLs.");
            }
            (Err(full), None) => assert_eq!(full.code(), Code::QuotaExceeded),
            (found, _) => panic!("from line {from_line}: {found:?}"),
        }
    }
}

#[test]
fn what_is_passed_over_does_not_count_as_read() {
    let file: String = (1..=6).map(|n| format!("https://a.example/{n}\n")).collect();
    let mut reading = reading(&file, 4);
    reading.lines = UPLOAD_LINES_MAX - 2;
    let error = reading.read_some().err().unwrap();
    assert_eq!(error.code(), Code::PayloadTooLarge);
    assert_eq!((reading.batch.until, reading.batch.candidates.len()), (5, 2));
}

/// What one write operation takes is bounded by what hangs on the URLs as well.
#[test]
fn large_entries_are_written_some_at_a_time() {
    let tags: String = (0..32).map(|tag| format!("{tag}|")).collect();
    let cases = [
        (format!(",{}", "x".repeat(15_000)), 15, 20),
        (format!("{tags},"), 100, 150),
        ("a,b".to_owned(), 500, 500),
    ];
    for (rest, least, most) in cases {
        let file: String = (0..600).map(|n| format!("https://a.example/{n},{rest}\n")).collect();
        let mut reading = reading(&format!("url,tags,note\n{file}"), 1);
        assert_eq!(reading.read_some().unwrap(), TurnEnd::Full);
        let count = reading.batch.candidates.len();
        assert!((least..=most).contains(&count), "{count}, not {least} to {most}");
    }
}

#[test]
fn a_reason_that_quotes_the_line_is_cut() {
    let long = format!("{{\"url\":\"https://a.example/\",\"tags\":\"{}\"}}\n", "x".repeat(60_000));
    let found = lines(long.as_bytes());
    assert!(found[0].starts_with("1 ! tags: must be an array") && found[0].len() < 400, "{}", found[0].len());
    let wrong = WrongLine::new(1, &"é".repeat(9_000), "ü".repeat(9_000));
    assert_eq!((wrong.url.chars().count(), wrong.reason.chars().count()), (200, 300));
}

/// What a failure half way says: where to go on, also where an end of the room came before it, and when the time is over.
#[test]
fn a_failure_says_where_to_go_on() {
    let mut upload = upload(None);
    upload.done = Registered { created: 400, updated: 7, ..Registered::default() };
    upload.until = 501;
    upload.in_time().unwrap();
    let said = |upload: &Upload, error: Error| upload.broken(error).detail().unwrap_or_default().to_owned();
    let broke = || Error::new(Code::InvalidInput).message("The body broke off.");
    let told = said(&upload, broke());
    assert!(
        told.starts_with("The body broke off. Before line 502 ") && told.ends_with("?fromLine=502."),
        "{told}"
    );
    upload.full = Some((301, "not registered".to_owned()));
    assert!(said(&upload, broke()).ends_with("(400 new, 7 changed). Send the file again whole, which changes nothing of that, or from there on with ?fromLine=301."));
    let cut = said(&upload, Error::invalid("body", "the gzip ends before its end"));
    assert!(cut.starts_with("body: the gzip ends before its end. Before line 301 "), "{cut}");
    // What is passed over counts for the size of a body.
    let large = said(&upload, Error::new(Code::PayloadTooLarge).message("The body is larger than 64 MiB."));
    assert!(
        large.contains("Send the lines from 301 on as a file of their own") && !large.contains("fromLine"),
        "{large}"
    );
    upload.begun = Instant::now().checked_sub(READ_TIME_MAX).expect("a machine that is up for ten minutes");
    let late = upload.in_time().err().unwrap();
    assert_eq!(late.code(), Code::RequestTimeout);
    assert!(said(&upload, late).contains("570 s"));
}

#[test]
fn a_media_type_without_letters_is_none() {
    assert_eq!(Declared::of(Some(""), None, None).unwrap(), PLAIN);
    assert_eq!(Declared::of(None, None, None).unwrap(), PLAIN);
    assert_eq!(Declared::of(Some("text/html"), None, None).err().unwrap().code(), Code::UnsupportedMediaType);
}

#[test]
fn what_stands_behind_a_gzip_is_noted() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(b"url\nhttps://a.example/1\n").unwrap();
    let body = [encoder.finish().unwrap(), b"\n".to_vec()].concat();
    let (found, intake) = read(&body, Declared { coding: Coding::Gzip, format: None }, None, 7).unwrap();
    assert_eq!(found, ["2 https://a.example/1   "]);
    assert_eq!(
        intake.notes(),
        ["Behind the end of the gzip are 1 bytes that are not of it; they were not read."]
    );
}
