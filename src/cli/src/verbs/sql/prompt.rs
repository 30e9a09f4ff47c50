//! Statements at a prompt: with history, and completion of tables and columns.

use crate::commands::RowFormat;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Column, say, visible};
use crate::profile;
use crate::session::{Rows, Session, items};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Statements that are remembered.
const HISTORY_MAX: usize = 1_000;
/// How long the box holds an answer back, in milliseconds: until then no Ctrl-C can name what it ends.
const HELD_MS: u64 = 300;
const PROMPT: &str = "gleaner> ";
const WORDS: [&str; 22] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "JOIN",
    "LEFT JOIN",
    "ON",
    "AND",
    "OR",
    "NOT",
    "AS",
    "WITH",
    "HAVING",
    "DISTINCT",
    "COUNT(",
    "SUM(",
    "AVG(",
    "MIN(",
    "MAX(",
    "DESC",
];
const TABLES: [Column; 4] =
    [("TABLE", "/name"), ("ROWS", "/rowCount"), ("AGE (S)", "/freshnessSec"), ("ABOUT", "/description")];
const COLUMNS: [Column; 4] =
    [("COLUMN", "/name"), ("TYPE", "/type"), ("NULLABLE", "/nullable"), ("ABOUT", "/description")];

static AT_PROMPT: AtomicBool = AtomicBool::new(false);

/// Whether Ctrl-C ends a statement and not the program.
pub fn is_at_prompt() -> bool {
    AT_PROMPT.load(Ordering::Relaxed)
}

/// A table, as far as completion needs it.
struct Known {
    name: String,
    columns: Vec<Value>,
}

/// Asks for statements until there are no more.
pub async fn run(session: &Session, format: RowFormat) -> Outcome<()> {
    if matches!(format, RowFormat::Parquet | RowFormat::Arrow | RowFormat::Xlsx) {
        return Err(Failure::usage("--format", "is no text for a terminal; give a statement and --output"));
    }
    let known = known(session).await?;
    let failed = |e: ReadlineError| Failure::failed(format!("the terminal cannot be read: {e}"));
    let config =
        Config::builder().max_history_size(HISTORY_MAX).map_err(failed)?.history_ignore_space(true).build();
    let mut editor = Editor::<Names, FileHistory>::with_config(config).map_err(failed)?;
    editor.set_helper(Some(Names::of(&known)));
    let history = history();
    if let Some(file) = &history {
        // There is none yet at the first time.
        let _ = editor.load_history(file);
    }
    AT_PROMPT.store(true, Ordering::Relaxed);
    loop {
        let typed = match editor.readline(PROMPT) {
            Ok(typed) => typed,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        let typed = typed.trim();
        if typed.is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(typed);
        if let Some(file) = &history {
            let _ = editor.append_history(file);
        }
        if matches!(typed, "\\q" | "quit" | "exit" | "quit;" | "exit;") {
            break;
        }
        match answer(session, typed, format, &known).await {
            Err(failure) if failure.exit() == Exit::Quiet => return Err(failure),
            Err(failure) => say(&format!("gleaner: {}", visible(&failure.to_string()))),
            Ok(()) => {}
        }
    }
    AT_PROMPT.store(false, Ordering::Relaxed);
    Ok(())
}

/// The file of what was typed before; without a folder for it nothing is remembered.
fn history() -> Option<PathBuf> {
    let folder = profile::folder().ok()?;
    profile::prepare(&folder).ok()?;
    Some(folder.join("sql_history"))
}

async fn known(session: &Session) -> Outcome<Vec<Known>> {
    let page = session.remote.get("/api/v1/bi/tables?limit=200").await?;
    let mut known = Vec::new();
    for name in items(&page)?.iter().filter_map(|table| table["name"].as_str()) {
        let path = format!("/api/v1/bi/tables/{}", crate::http::escaped(name));
        let mut table = session.remote.get(&path).await?;
        let columns = match table["columns"].take() {
            Value::Array(columns) => columns,
            _ => Vec::new(),
        };
        known.push(Known { name: name.to_owned(), columns });
    }
    Ok(known)
}

async fn answer(session: &Session, typed: &str, format: RowFormat, known: &[Known]) -> Outcome<()> {
    if let Some(order) = typed.strip_prefix('\\') {
        let mut words = order.trim_end_matches(';').split_whitespace();
        return match (words.next(), words.next()) {
            (Some("d"), None) => {
                let rows = Rows { limit: 200, all: true };
                session.list("/api/v1/bi/tables", &[], &rows, &TABLES).await
            }
            (Some("d"), Some(name)) => match known.iter().find(|table| table.name == name) {
                Some(table) => session.rows(&table.columns, &COLUMNS),
                None => Err(Failure::new(Exit::NotFound, format!("there is no table {name}"))),
            },
            _ => Err(Failure::usage("\\", "\\d lists tables, \\d TABLE its columns, \\q leaves")),
        };
    }
    let statement = typed.trim_end_matches(';');
    // Begun before the statement, so that no Ctrl-C goes to nobody.
    let mut interrupts = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
        .map_err(|e| Failure::failed(format!("signals cannot be heard: {e}")))?;
    let mut running = None;
    let carried_out = async {
        let query = super::submit(session, statement, Vec::new(), HELD_MS).await?;
        running = super::id_of(&query).ok().map(str::to_owned);
        let id = super::finish(session, query, None).await?;
        super::print(session, &id, format, None, None).await
    };
    let ended = tokio::select! {
        ended = carried_out => Some(ended),
        _ = interrupts.recv() => None,
    };
    match (ended, running) {
        (Some(ended), _) => ended,
        (None, running) => {
            if let Some(id) = running {
                super::cancel(session, &id).await;
            }
            Err(Failure::new(Exit::Interrupted, "interrupted"))
        }
    }
}

/// What can stand at a place of a statement.
struct Names {
    words: Vec<String>,
    tables: Vec<(String, Vec<String>)>,
}

impl Names {
    fn of(known: &[Known]) -> Names {
        let names = |table: &Known| {
            table.columns.iter().filter_map(|column| column["name"].as_str().map(str::to_owned)).collect()
        };
        let tables: Vec<(String, Vec<String>)> =
            known.iter().map(|table| (table.name.clone(), names(table))).collect();
        let mut words: Vec<_> = tables.iter().flat_map(|(_, columns)| columns.clone()).collect();
        words.extend(tables.iter().map(|(name, _)| name.clone()));
        words.sort();
        words.dedup();
        words.extend(WORDS.map(str::to_owned));
        Names { words, tables }
    }

    /// Where the word before `at` begins, and what it may become.
    fn candidates(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let before = &line[..at];
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let begin = before
            .rfind(|c| !is_part(c))
            .map_or(0, |place| place + before[place..].chars().next().map_or(1, char::len_utf8));
        let word = &before[begin..];
        if let Some((table, column)) = word.split_once('.') {
            let columns = self.tables.iter().find(|(name, _)| name.eq_ignore_ascii_case(table));
            let found =
                columns.into_iter().flat_map(|(_, columns)| columns).filter(|name| begins(name, column));
            return (begin + table.len() + 1, found.cloned().collect());
        }
        if word.is_empty() {
            return (begin, Vec::new());
        }
        (begin, self.words.iter().filter(|name| begins(name, word)).cloned().collect())
    }
}

fn begins(name: &str, word: &str) -> bool {
    name.get(..word.len()).is_some_and(|front| front.eq_ignore_ascii_case(word))
}

impl Completer for Names {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(line, at))
    }
}

impl Validator for Names {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_whole(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for Names {
    type Hint = String;
}
impl Highlighter for Names {}
impl Helper for Names {}

/// Whether what was typed is one whole statement: it ends with a semicolon that stands in no quotes and no comment.
fn is_whole(typed: &str) -> bool {
    let trimmed = typed.trim();
    if trimmed.is_empty() || trimmed.starts_with('\\') || matches!(trimmed, "quit" | "exit") {
        return true;
    }
    let mut rest = trimmed;
    let mut ends = false;
    while let Some(c) = rest.chars().next() {
        let inside = &rest[c.len_utf8()..];
        let closed_by = match c {
            '\'' => Some((inside, "'")),
            '"' => Some((inside, "\"")),
            _ if rest.starts_with("--") => Some((inside, "\n")),
            _ if rest.starts_with("/*") => Some((&inside[1..], "*/")),
            _ => None,
        };
        let is_comment = rest.starts_with("--") || rest.starts_with("/*");
        rest = match closed_by {
            None => inside,
            Some((inside, end)) => match inside.find(end) {
                Some(at) => &inside[at + end.len()..],
                None => return ends && end == "\n",
            },
        };
        if !is_comment && !c.is_whitespace() {
            ends = c == ';';
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_statement_ends_with_its_semicolon() {
        for whole in [
            "",
            "SELECT 1;",
            "\\d jobs",
            "quit",
            "SELECT ';';",
            "SELECT 1; -- end",
            "SELECT 1 /* ; */;",
            "SELECT 'it''s';",
        ] {
            assert!(is_whole(whole), "{whole}");
        }
        for open in
            ["SELECT 1", "SELECT ';", "SELECT \";", "SELECT 1 -- ;", "SELECT 1 /* ;", "SELECT 1; SELECT"]
        {
            assert!(!is_whole(open), "{open}");
        }
    }

    #[test]
    fn tables_and_their_columns_are_completed() {
        let columns = ["id", "domain", "größe"].map(|name| json!({ "name": name })).to_vec();
        let names = Names::of(&[Known { name: "jobs".to_owned(), columns }]);
        let candidates = |line: &str| names.candidates(line, line.len());
        assert_eq!(candidates("SELECT * FROM jo"), (14, vec!["jobs".to_owned(), "JOIN".to_owned()]));
        assert_eq!(candidates("SELECT jobs.do"), (12, vec!["domain".to_owned()]));
        assert_eq!(candidates("SELECT gr"), (7, vec!["größe".to_owned(), "GROUP BY".to_owned()]));
        assert_eq!(candidates("SELECT (DOM"), (8, vec!["domain".to_owned()]));
        assert_eq!(candidates("SELECT "), (7, Vec::new()));
        assert_eq!(candidates("SELECT é"), (7, Vec::new()));
        assert_eq!(candidates("x.y"), (2, Vec::new()));
    }
}
