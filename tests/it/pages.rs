//! What the pages for people say in numbers, names and commands is what the program has: the tables of limits and of roles, the
//! descriptions of the reference, and the operator's commands.

use crate::tidy::root;
use base::limits::*;
use base::permission::{Permission, Role};
use clap::{Command, Subcommand};
use dispatch::dag::{ATTEMPTS_MAX, EDGES_MAX, NODES_MAX, RACE_MAX, WAIT_MS_MAX};
use gleaner::admin::commands::AdminCommand;
use gleaner::config::DEFAULTS;
use std::collections::BTreeSet;

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("data/docs").join(name)).unwrap()
}

/// The part of a page below a heading.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, below) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    below.split("\n## ").next().unwrap()
}

/// The rows of the first table there, without its head.
fn rows(text: &str) -> Vec<&str> {
    let table =
        text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    table.skip(2).collect()
}

/// As people write it: 10,000.
fn number(value: impl TryInto<u64>) -> String {
    let digits = value.try_into().unwrap_or_default().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_table_of_limits_is_that_of_the_program() {
    let settings: toml::Table = DEFAULTS.parse().unwrap();
    let of_run = settings["schedules"]["max_urls_per_run"].as_integer().unwrap();
    let kib = |bytes: usize| format!("{} KiB", bytes >> 10);
    let seconds = |ms: u64| format!("{} s", ms / 1_000);
    let expected = [
        format!(
            "| URLs of one registration; jobs of one batch; ids of one poll; results of one deletion | {}; {}; {}; {} |",
            number(URLS_PER_REQUEST_MAX),
            number(JOBS_PER_BATCH_MAX),
            number(JOBS_PER_POLL_MAX),
            number(RESULTS_PER_DELETE_MAX)
        ),
        format!(
            "| a file of URLs: on the wire; unpacked; lines; a line | {} MiB; {} MiB, and from {} MiB on {UPLOAD_RATIO_MAX} times what came; {}; {} |",
            UPLOAD_BYTES_MAX >> 20,
            UPLOAD_UNPACKED_BYTES_MAX >> 20,
            UPLOAD_RATIO_FROM_BYTES >> 20,
            number(UPLOAD_LINES_MAX),
            kib(UPLOAD_LINE_BYTES_MAX)
        ),
        format!(
            "| tags of a URL or job; characters of a tag; metadata | {TAGS_MAX}; {TAG_CHARS_MAX}; {} of JSON |",
            kib(METADATA_BYTES_MAX)
        ),
        format!(
            "| a page; headers that a job adds | {} MB; {} |",
            HTML_BYTES_MAX >> 20,
            kib(JOB_HEADERS_BYTES_MAX)
        ),
        format!(
            "| site sessions; cookies or headers of one; their names and values | {SITE_SESSIONS_PER_ORG_MAX}; {SITE_SESSION_COOKIES_MAX} or {SITE_SESSION_HEADERS_MAX}; {} |",
            kib(SITE_SESSION_BYTES_MAX)
        ),
        format!(
            "| pages that a discovery names; examples, attributes and texts of a list of a lesson | {DISCOVERY_PAGES_MAX}; {LESSON_EXAMPLES_MAX}, {LESSON_ATTRIBUTES_MAX}, {LESSON_TEXTS_MAX} |"
        ),
        format!("| storages that pages go to or still lie in | {PAGE_STORAGES_MAX} |"),
        format!(
            "| domains, and pairs of a domain and a page type, whose drift is watched: the first | {} each |",
            number(DRIFT_WATCHED_MAX)
        ),
        format!(
            "| outputs; messages of one that wait; characters of a condition | {OUTPUTS_PER_ORG_MAX}; {}; {} |",
            number(DELIVERIES_PENDING_MAX),
            number(outputs::condition::TEXT_CHARS_MAX)
        ),
        format!(
            "| recipients of an output's letters; events that a letter shows; people asked in a day | {RECIPIENTS_PER_OUTPUT_MAX}; {}; {RECIPIENTS_ASKED_PER_DAY_MAX} |",
            outputs::letter::EVENTS_MAX
        ),
        format!(
            "| dashboards; tiles of one; rows and bytes that a tile keeps | {DASHBOARDS_PER_ORG_MAX}; {DASHBOARD_TILES_MAX}; {} and 128 KiB |",
            number(TILE_ROWS_MAX)
        ),
        format!("| monitors; runs in which a condition must hold | {MONITORS_PER_ORG_MAX}; 100 |"),
        format!(
            "| providers of a race; nodes, edges, attempts of a graph; a wait | {RACE_MAX}; {NODES_MAX}, {EDGES_MAX}, {ATTEMPTS_MAX}; {} |",
            seconds(WAIT_MS_MAX.into())
        ),
        format!("| URLs of a benchmark; benchmarks at once | {URLS_PER_BENCHMARK_MAX}; 1 |"),
        format!(
            "| URLs of a schedule's run; URLs that a schedule names; schedules | `schedules.max_urls_per_run` ({}); {}; by plan |",
            number(of_run),
            number(URLS_PER_SCHEDULE_MAX)
        ),
        format!(
            "| page of a SQL result | {} rows unless asked, {} at most, from page 0 |",
            number(RESULT_PAGE_ROWS_DEFAULT),
            number(RESULT_PAGE_ROWS_MAX)
        ),
        format!(
            "| a statement's wait in the request (`waitMs`) | {} unless asked, {} at most |",
            seconds(STATEMENT_WAIT_MS_DEFAULT),
            seconds(STATEMENT_WAIT_MS_MAX)
        ),
    ];
    let api = page("api.md");
    assert_eq!(rows(section(&api, "Limits")), expected);
    let lists = format!("`limit` is {PAGE_ROWS_DEFAULT} unless given, {PAGE_ROWS_MAX} at most");
    assert!(section(&api, "Lists").contains(&lists), "{lists}");
}

#[test]
fn descriptions_name_the_limits_that_hold() {
    let document = server::openapi::document(&gleaner::app::routes());
    for (path, limit) in [
        ("/urls", URLS_PER_REQUEST_MAX),
        ("/jobs/batch", JOBS_PER_BATCH_MAX),
        ("/jobs/poll", JOBS_PER_POLL_MAX),
    ] {
        let operation = &document["paths"][format!("/api/v1{path}")]["post"];
        let said = operation["summary"].as_str().or(operation["description"].as_str()).unwrap();
        assert!(said.contains(&format!("up to {} ", number(limit))), "{path}: {said}");
    }
}

/// The areas of the rows, by their beginnings.
const AREAS: &[(&str, &[&str])] = &[
    ("workflows", &["workflows", "jobs", "urls", "schedules", "providers"]),
    ("SQL console", &["bi"]),
    ("billing", &["billing"]),
    ("organization", &["org", "audit"]),
];

#[test]
fn the_table_of_roles_is_that_of_the_program() {
    const COLUMNS: &[&[Role]] =
        &[&[Role::Owner, Role::Admin], &[Role::Editor], &[Role::Analyst], &[Role::Viewer]];
    let may = |role: &Role, area: &str| {
        let words = ["read", "write"].into_iter().filter(|word| {
            let permission: Permission = format!("{area}:{word}").parse().unwrap();
            role.permissions().contains(permission)
        });
        let words: Vec<_> = words.collect();
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    };
    let api = page("api.md");
    let rows = rows(section(&api, "People, organizations and keys"));
    assert_eq!(rows.len(), AREAS.len());
    for (row, (begins, areas)) in rows.iter().zip(AREAS) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert!(cells[0].starts_with(begins) && cells.len() == COLUMNS.len() + 1, "{row}");
        for (cell, roles) in cells[1..].iter().zip(COLUMNS) {
            for (role, area) in roles.iter().flat_map(|role| areas.iter().map(move |area| (role, area))) {
                assert_eq!(*cell, may(role, area), "{role} and {area}");
            }
        }
    }
}

/// What is typed on a line, before its comment.
fn typed(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in line.split('"').enumerate() {
        match number % 2 {
            0 => words.extend(part.split('#').next().unwrap().split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
        if number % 2 == 0 && part.contains('#') {
            break;
        }
    }
    words
}

/// The commands that do something, each with those that it stands behind.
fn leaves(command: &Command, before: &[String], found: &mut BTreeSet<Vec<String>>) {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let path = [before, &[inner.get_name().to_owned()]].concat();
        match inner.has_subcommands() {
            true => leaves(inner, &path, found),
            false => drop(found.insert(path)),
        }
    }
}

#[test]
fn the_operators_commands_are_those_of_the_page() {
    let command = AdminCommand::augment_subcommands(Command::new("admin"));
    let mut all = BTreeSet::new();
    leaves(&command, &[], &mut all);
    let operating = page("operating.md");
    let lines: Vec<_> = operating.lines().filter(|line| line.starts_with("gleaner admin ")).collect();
    for line in &lines {
        let read = command.clone().try_get_matches_from(typed(line).into_iter().skip(1));
        assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
    }
    for path in &all {
        let (own, group) = path.split_last().unwrap();
        let group = [&["gleaner".to_owned(), "admin".to_owned()], group].concat();
        let is_told = |line: &&&str| {
            typed(line).starts_with(&group)
                && line.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == own)
        };
        assert!(lines.iter().any(|line| is_told(&line)), "operating.md does not tell of {path:?}");
    }
    assert!(all.len() > 15, "{all:?}");
}
