//! Which box a command speaks to, as whom, and in which form it answers.

use crate::failure::{Exit, Failure, Outcome};
use crate::http::Remote;
use crate::output::{self, Column, Sink, Table, cell};
use crate::profile::{Profiles, USUAL_URL};
use base::web::WebUrl;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// Rows that the box gives at once.
const PAGE_ROWS: usize = 200;

/// What every command of a user takes.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// The profile to use, as `gleaner profiles` lists them.
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,
    /// A file of certificate authorities (PEM) that are trusted beside the machine's.
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Answer in JSON: a list as one object a line, else one document. Errors are a line of JSON on standard error.
    #[arg(long, global = true)]
    pub json: bool,
}

/// Which rows of a list.
#[derive(clap::Args, Clone, Debug)]
pub struct Rows {
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "all")]
    pub limit: usize,
    /// All of them.
    #[arg(long)]
    pub all: bool,
}

/// A box that a command has been given.
#[derive(Debug, PartialEq)]
struct Chosen {
    url: String,
    key: Option<String>,
    ca: Option<PathBuf>,
}

/// A named profile; else what the environment says; else the profile that is the usual one. A key goes to no box but its own.
fn choose(
    named: Option<&str>,
    url: Option<String>,
    key: Option<String>,
    profiles: impl FnOnce() -> Outcome<Profiles>,
) -> Outcome<Option<Chosen>> {
    if let (None, Some(key)) = (named, &key) {
        let url = url.unwrap_or_else(|| USUAL_URL.to_owned());
        return Ok(Some(Chosen { url, key: Some(key.clone()), ca: None }));
    }
    let profiles = profiles()?;
    let of = |profile: &crate::profile::Profile| Chosen {
        url: profile.url.clone(),
        key: Some(profile.key.clone()),
        ca: profile.ca.clone(),
    };
    match (named, url) {
        (None, Some(url)) => {
            let is_same = |profile: &&crate::profile::Profile| {
                let (one, other) = (WebUrl::parse(&profile.url), WebUrl::parse(&url));
                matches!((one, other), (Ok(one), Ok(other)) if one.as_str() == other.as_str())
            };
            let known = profiles.profiles.values().find(is_same).map(of);
            Ok(Some(known.unwrap_or(Chosen { url, key: None, ca: None })))
        }
        (named, _) => Ok(profiles.named(named)?.map(|(_, profile)| of(profile))),
    }
}

/// A variable of the environment, where it says something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// A command's box, and how it is answered.
pub struct Session {
    pub remote: Remote,
    pub json: bool,
}

impl Session {
    /// The box that is meant, with a key of it.
    pub fn open(common: &Common) -> Outcome<Session> {
        let chosen = choose(
            common.profile.as_deref(),
            variable("GLEANER_URL"),
            variable("GLEANER_API_KEY"),
            Profiles::load,
        )?;
        let chosen = chosen.ok_or_else(|| signed_out("gleaner login URL signs in to a box"))?;
        let ca = common.ca.as_deref().or(chosen.ca.as_deref());
        let remote = Remote::new(&chosen.url, chosen.key.as_deref(), ca)?;
        if !remote.has_key() {
            return Err(signed_out(&format!(
                "set GLEANER_API_KEY, or sign in with gleaner login {}",
                remote.place()
            )));
        }
        Ok(Session { remote, json: common.json })
    }

    /// Prints one thing: the document, or the values of `columns` a line each.
    pub fn show(&self, value: &Value, columns: &[Column]) -> Outcome<()> {
        let mut sink = Sink::open(None)?;
        match self.json {
            true => sink.line(&pretty(value))?,
            false => {
                let widest = columns.iter().map(|(heading, _)| heading.len()).max().unwrap_or(0);
                for (heading, place) in columns {
                    let line = format!("{heading:<widest$}  {}", cell(value.pointer(place)));
                    sink.line(line.trim_end())?;
                }
            }
        }
        sink.end()
    }

    /// Prints rows that are there already.
    pub fn rows(&self, rows: &[Value], columns: &[Column]) -> Outcome<()> {
        let mut printer = Printer::new(self.json, columns)?;
        for row in rows {
            printer.row(row)?;
        }
        printer.end()
    }

    /// Prints a list of the box, page after page.
    pub async fn list(
        &self,
        path: &str,
        query: &[(&str, Option<String>)],
        rows: &Rows,
        columns: &[Column],
    ) -> Outcome<()> {
        let mut printer = Printer::new(self.json, columns)?;
        let mut left = if rows.all { usize::MAX } else { rows.limit };
        let mut cursor = None;
        while left > 0 {
            let mut query = query.to_vec();
            query.push(("limit", Some(left.min(PAGE_ROWS).to_string())));
            query.push(("cursor", cursor));
            let page = self.remote.get(&crate::http::with_query(path, &query)).await?;
            let items = items(&page)?;
            for item in items.iter().take(left) {
                printer.row(item)?;
            }
            left = left.saturating_sub(items.len());
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return printer.end();
            }
        }
        printer.end()?;
        output::say("gleaner: there are more; a larger --limit has them");
        Ok(())
    }
}

/// When so many seconds are over; none where that is beyond any clock.
pub fn ends_after(seconds: Option<u64>) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_secs(seconds?))
}

/// The rows of a page of a list.
pub fn items(page: &Value) -> Outcome<&Vec<Value>> {
    page["items"].as_array().ok_or_else(|| Failure::failed("the answer is no list: is this a box?"))
}

fn signed_out(how: &str) -> Failure {
    Failure::new(Exit::Forbidden, "not signed in").message(how)
}

pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Prints rows as they come.
struct Printer<'c> {
    sink: Sink,
    columns: &'c [Column],
    /// None: in JSON.
    table: Option<Table>,
}

impl<'c> Printer<'c> {
    fn new(json: bool, columns: &'c [Column]) -> Outcome<Printer<'c>> {
        let headings = columns.iter().map(|(heading, _)| (*heading).to_owned());
        let table = (!json).then(|| Table::new(headings, output::width()));
        Ok(Printer { sink: Sink::open(None)?, columns, table })
    }

    fn row(&mut self, row: &Value) -> Outcome<()> {
        match &mut self.table {
            None => self.sink.line(&row.to_string()),
            Some(table) => {
                let cells = self.columns.iter().map(|(_, place)| cell(row.pointer(place))).collect();
                table.row(cells, &mut self.sink)
            }
        }
    }

    fn end(mut self) -> Outcome<()> {
        if let Some(table) = self.table.take() {
            table.end(&mut self.sink)?;
        }
        self.sink.end()
    }
}

/// The text of a file, or of standard input for `-`.
pub async fn read_text(what: &str, file: &Path, bytes_max: u64) -> Outcome<String> {
    use tokio::io::AsyncReadExt;
    let wrong = |e: std::io::Error| Failure::usage(what, format!("{}: {e}", file.display()));
    let mut bytes = Vec::new();
    open_reader(what, file).await?.take(bytes_max + 1).read_to_end(&mut bytes).await.map_err(wrong)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Failure::usage(what, format!("{}: more than {bytes_max} bytes", file.display())));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(what, format!("{} is not UTF-8", file.display())))
}

/// A file, or standard input for `-`, to be read as it comes.
pub async fn open_reader(what: &str, file: &Path) -> Outcome<Box<dyn tokio::io::AsyncRead + Send + Unpin>> {
    if file == Path::new("-") {
        use std::os::fd::AsFd;
        let input = std::io::stdin().as_fd().try_clone_to_owned();
        let input = input.map_err(|e| Failure::usage(what, format!("standard input: {e}")))?;
        return Ok(Box::new(tokio::fs::File::from_std(input.into())));
    }
    let opened = tokio::fs::File::open(file).await;
    Ok(Box::new(opened.map_err(|e| Failure::usage(what, format!("{}: {e}", file.display())))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    fn known() -> Outcome<Profiles> {
        let mut profiles = Profiles::default();
        for (name, url) in [("work", "https://work.example"), ("home", "http://127.0.0.1:1")] {
            let (url, key) = (url.to_owned(), format!("key of {name}"));
            profiles.put(name, Profile { url, key, organization: String::new(), ca: None });
        }
        Ok(profiles)
    }

    fn chosen(named: Option<&str>, url: Option<&str>, key: Option<&str>) -> (String, Option<String>) {
        let chosen = choose(named, url.map(str::to_owned), key.map(str::to_owned), known).unwrap().unwrap();
        (chosen.url, chosen.key)
    }

    #[test]
    fn the_nearest_word_says_which_box() {
        let (work, home) = ("https://work.example".to_owned(), "http://127.0.0.1:1".to_owned());
        assert_eq!(chosen(None, None, None), (work.clone(), Some("key of work".into())));
        assert_eq!(chosen(Some("home"), None, None), (home.clone(), Some("key of home".into())));
        assert_eq!(chosen(Some("home"), Some("https://x"), Some("k")), (home, Some("key of home".into())));
        assert_eq!(chosen(None, Some("https://x"), Some("k")), ("https://x".into(), Some("k".into())));
        assert_eq!(chosen(None, None, Some("k")), (USUAL_URL.into(), Some("k".into())));
    }

    #[test]
    fn a_key_is_sent_to_no_box_but_its_own() {
        assert_eq!(chosen(None, Some("https://evil.example"), None), ("https://evil.example".into(), None));
        let same = chosen(None, Some("https://WORK.example/"), None);
        assert_eq!(same, ("https://work.example".into(), Some("key of work".into())));
        assert!(choose(Some("gone"), None, None, known).is_err());
        assert_eq!(choose(None, None, None, || Ok(Profiles::default())).unwrap(), None);
    }
}
