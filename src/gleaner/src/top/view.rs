//! The lines of a live view: what two looks say, in as many lines and columns as there are.

use base::printable::is_hidden;
use base::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of an organization's name in a table.
const NAME_COLUMNS: usize = 28;
/// Lines that a table of the two keeps at least, where there is room for no more.
const TABLE_LINES_MIN: usize = 2;

/// How much fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub lines: usize,
    pub columns: usize,
}

/// How a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Heading,
    Trouble,
}

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub text: String,
    pub style: Style,
}

/// A look, as far as it is shown. What a box of another release does not say is nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Look {
    version: String,
    url: String,
    at: String,
    uptime_ms: u64,
    trouble: Vec<String>,
    requests: Requests,
    memory: Memory,
    disk: Disk,
    store: Store,
    feeds: Vec<Feed>,
    jobs: Jobs,
    statements: Statements,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Requests {
    answered: u64,
    failed: u64,
    running: i64,
    connections: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Memory {
    own_bytes: Option<u64>,
    resident_bytes: Option<u64>,
    others_bytes: Option<u64>,
    machine_free_bytes: Option<u64>,
    machine_bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Disk {
    free_bytes: Option<u64>,
    reserve_bytes: u64,
    store_bytes: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Store {
    operations: u64,
    commits: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Feed {
    name: String,
    lag_sec: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Jobs {
    running: u64,
    queued: Option<u64>,
    organizations: Vec<OrgJobs>,
    is_all: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OrgJobs {
    org: String,
    name: Option<String>,
    running: u64,
    queued: u64,
    is_more: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Statements {
    running: u64,
    waiting: u64,
    longest: Vec<RunningStatement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RunningStatement {
    org: String,
    name: Option<String>,
    query: String,
    statement: String,
    seconds: u64,
}

impl Look {
    pub(super) fn read(value: &Value) -> Result<Look> {
        Look::deserialize(value).map_err(|e| Error::internal("read what the appliance says", e))
    }
}

/// What happened in a second, between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub answered: f64,
    pub failed: f64,
    pub operations: f64,
    pub commits: f64,
}

/// Nothing where there is no look before, or one of before the box was started again.
pub(super) fn rates(before: Option<&Look>, now: &Look) -> Rates {
    let Some(before) = before.filter(|before| before.uptime_ms < now.uptime_ms) else {
        return Rates::default();
    };
    let seconds = (now.uptime_ms - before.uptime_ms) as f64 / 1e3;
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    Rates {
        answered: rate(before.requests.answered, now.requests.answered),
        failed: rate(before.requests.failed, now.requests.failed),
        operations: rate(before.store.operations, now.store.operations),
        commits: rate(before.store.commits, now.store.commits),
    }
}

/// What is shown of `now`.
pub(super) fn lines(before: Option<&Look>, now: &Look, size: Size) -> Vec<Line> {
    let mut head = head(before, now);
    head.push(plain(String::new()));
    let room = size.lines.saturating_sub(head.len() + 3);
    let (jobs, statements) = (&now.jobs.organizations, &now.statements.longest);
    // Jobs have what the statements leave, and each has a little in any case.
    let of_statements = statements.len().min((room / 2).max(TABLE_LINES_MIN));
    let of_jobs = jobs.len().min(room.saturating_sub(of_statements).max(TABLE_LINES_MIN));
    let more = if now.jobs.is_all && of_jobs == jobs.len() { "" } else { " (those with the most)" };
    let mut all = head;
    let columns = format!("{:>9} {:>9}", "RUNNING", "QUEUED");
    all.push(heading(format!("{} {columns}{more}", padded("ORGANIZATION", NAME_COLUMNS))));
    all.extend(jobs.iter().take(of_jobs).map(|own| {
        let queued = format!("{}{}", own.queued, if own.is_more { "+" } else { "" });
        let name = padded(own.name.as_ref().unwrap_or(&own.org), NAME_COLUMNS);
        plain(format!("{name} {:>9} {queued:>9}", own.running))
    }));
    all.push(plain(String::new()));
    let name = padded("ORGANIZATION", NAME_COLUMNS);
    all.push(heading(format!("{name} {:>9} {:16} {}", "SECONDS", "STATEMENT", "QUERY")));
    all.extend(statements.iter().take(of_statements).map(|own| {
        let name = padded(own.name.as_ref().unwrap_or(&own.org), NAME_COLUMNS);
        plain(format!("{name} {:>9} {:16} {}", own.seconds, own.statement, own.query))
    }));
    fit(all, size)
}

fn head(before: Option<&Look>, now: &Look) -> Vec<Line> {
    let (rates, requests, memory) = (rates(before, now), &now.requests, &now.memory);
    let connections = requests.connections.map_or("?".to_owned(), |count| count.to_string());
    let feeds: Vec<_> =
        now.feeds.iter().map(|feed| format!("{} {:.1} s behind", feed.name, feed.lag_sec)).collect();
    let queued = now.jobs.queued.map_or("?".to_owned(), |count| count.to_string());
    let mut head = vec![
        plain(format!(
            "gleaner {} at {}, up {}, {}",
            now.version,
            now.url,
            lasting(now.uptime_ms / 1_000),
            now.at
        )),
        plain(format!(
            "requests    {:.1}/s answered, {:.1}/s failed, {} running, {connections} connections",
            rates.answered, rates.failed, requests.running,
        )),
        plain(format!(
            "store       {:.1}/s operations, {:.1}/s commits, {}",
            rates.operations,
            rates.commits,
            bytes(Some(now.disk.store_bytes))
        )),
        plain(format!(
            "memory      {} own, {} with files, {} of workers and browsers; {} of {} free",
            bytes(memory.own_bytes),
            bytes(memory.resident_bytes),
            bytes(memory.others_bytes),
            bytes(memory.machine_free_bytes),
            bytes(memory.machine_bytes)
        )),
        plain(format!(
            "disk        {} free, reserve {}",
            bytes(now.disk.free_bytes),
            bytes(Some(now.disk.reserve_bytes))
        )),
        plain(format!("feeds       {}", feeds.join(", "))),
        plain(format!("jobs        {} running, {queued} queued", now.jobs.running)),
        plain(format!("statements  {} running, {} waiting", now.statements.running, now.statements.waiting)),
    ];
    head.extend(now.trouble.iter().map(|text| trouble(text)));
    head
}

/// What is shown while the box does not answer.
pub(super) fn away(reason: &str, size: Size) -> Vec<Line> {
    fit(vec![trouble(reason), plain("It is looked for again and again; q ends this.".to_owned())], size)
}

fn plain(text: String) -> Line {
    Line { text, style: Style::Plain }
}

fn heading(text: String) -> Line {
    Line { text, style: Style::Heading }
}

fn trouble(text: &str) -> Line {
    Line { text: format!("! {text}"), style: Style::Trouble }
}

/// As much as fits, and nothing that would move the cursor.
fn fit(lines: Vec<Line>, size: Size) -> Vec<Line> {
    let shown = lines.into_iter().take(size.lines);
    shown.map(|line| Line { text: cut(&line.text, size.columns), ..line }).collect()
}

fn cut(text: &str, columns: usize) -> String {
    let (mut cut, mut width) = (String::with_capacity(text.len().min(columns)), 0);
    for letter in text.chars() {
        let letter = if is_hidden(letter) || letter.is_control() { '·' } else { letter };
        width += letter.width().unwrap_or_default();
        if width > columns {
            break;
        }
        cut.push(letter);
    }
    cut
}

fn padded(text: &str, columns: usize) -> String {
    let cut = cut(text, columns);
    let missing = columns.saturating_sub(cut.width());
    format!("{cut}{}", " ".repeat(missing))
}

fn bytes(count: Option<u64>) -> String {
    let Some(count) = count else { return "?".to_owned() };
    match count {
        0..=1_048_575 => format!("{} KiB", count >> 10),
        1_048_576..=1_073_741_823 => format!("{} MiB", count >> 20),
        _ => format!("{:.1} GiB", count as f64 / f64::from(1 << 30)),
    }
}

fn lasting(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
    if days == 0 { clock } else { format!("{days} d {clock}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn look(uptime_ms: u64, answered: u64) -> Look {
        let orgs: Vec<_> = (0..30)
            .map(|n| json!({ "org": format!("id{n}"), "name": format!("Org\u{1b}[2J {n}"), "queued": 7 }))
            .collect();
        let look = json!({
            "version": "1.2.3", "url": "http://box", "at": "2026-01-01T00:00:00Z", "uptimeMs": uptime_ms,
            "requests": { "answered": answered, "running": 2, "connections": 5 },
            "memory": { "ownBytes": 300 << 20, "machineBytes": 24_u64 << 30 },
            "feeds": [{ "name": "search", "lagSec": 1.25 }],
            "jobs": { "running": 3, "queued": 210, "organizations": orgs, "isAll": true },
            "statements": { "running": 1, "longest": [{ "org": "id1", "seconds": 9, "statement": "ab", "query": "q" }] },
            "trouble": ["the disk is full"],
            "later": { "release": true },
        });
        Look::read(&look).unwrap()
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| format!("{}\n", line.text)).collect()
    }

    #[test]
    fn two_looks_say_what_happened_between_them() {
        let (first, second) = (look(90_000_000, 100), look(90_002_000, 150));
        let shown = text(&lines(Some(&first), &second, Size { lines: usize::MAX, columns: usize::MAX }));
        assert!(shown.starts_with("gleaner 1.2.3 at http://box, up 1 d 01:00:02, 2026"), "{shown}");
        for part in [
            "requests    25.0/s answered, 0.0/s failed, 2 running, 5 connections",
            "memory      300 MiB own, ? with files, ? of workers and browsers; ? of 24.0 GiB free",
            "feeds       search 1.2 s behind",
            "jobs        3 running, 210 queued",
            "! the disk is full",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(shown.matches("Org··[2J").count() + shown.matches("Org·[2J").count(), 30, "{shown}");
        assert!(!shown.contains('\u{1b}'));
        // A box that was started again has counted from nothing.
        assert_eq!(rates(Some(&second), &look(500, 3)), Rates::default());
        assert_eq!(rates(None, &first), Rates::default());
    }

    #[test]
    fn what_is_shown_fits_the_terminal_whatever_its_size() {
        let shown = look(1_000, 1);
        for (lines_max, columns) in [(1, 1), (5, 20), (12, 40), (24, 80), (60, 200), (0, 0)] {
            let size = Size { lines: lines_max, columns };
            let lines = lines(None, &shown, size);
            assert!(lines.len() <= lines_max, "{size:?}");
            assert!(lines.iter().all(|line| line.text.width() <= columns), "{size:?}");
        }
        let small = text(&lines(None, &shown, Size { lines: 24, columns: 80 }));
        assert!(small.contains("(those with the most)") && small.contains("SECONDS"), "{small}");
        assert!(small.contains("id1 "), "the statement is there: {small}");
        assert_eq!(away("gone\n", Size { lines: 1, columns: 5 })[0].text, "! gon");
    }
}
