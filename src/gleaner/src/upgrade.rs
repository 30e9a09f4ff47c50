//! `gleaner upgrade check`: what the first start of this release would change in a data folder, and about how long that takes.
//!
//! Nothing of the folder is changed: the store is read through a copy in memory (`src/store/src/untouched.rs`). How long it takes is
//! measured where it is asked: some of the folder's own rows are read, indexed and shown in a scratch folder (in the system's folder
//! for temporary files, `TMPDIR`), rows are written there, and what is left is reckoned at that speed.

use crate::config::Config;
use crate::doctor::{all_tables, newer, opened};
use crate::features::bi::snapshots_ahead;
use crate::features::extraction::{self, RESULTS};
use base::{Error, Result};
use search::SearchIndex;
use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::Inspection;
use uuid::Uuid;

/// Rows that are tried at most, and for how long.
const TRIED_ROWS_MAX: u64 = 2_000;
const TRIED_FOR: Duration = Duration::from_secs(3);
/// Rows of one look.
const ROWS_PER_LOOK: usize = 200;

/// When a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before anything is served.
    BeforeServing,
    /// While the box works; searches or statements find less, or wait, meanwhile.
    Meanwhile,
}

/// Something that the first start does.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub what: String,
    pub when: When,
    pub rows: u64,
    /// About how long, in seconds.
    pub seconds: f64,
}

/// What the first start of this release does with a folder.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The number of the layout that the folder has; none where there is no store.
    pub layout: Option<u32>,
    /// The number of the newest that this release knows.
    pub known_layout: u32,
    pub store_bytes: u64,
    pub steps: Vec<Step>,
    /// How fast this machine was, in words.
    pub measured: Vec<String>,
    /// Why this release does not open it.
    pub refused: Option<String>,
}

impl Plan {
    /// Whether the folder opens with this release.
    pub fn opens(&self) -> bool {
        self.refused.is_none()
    }

    pub fn json(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["opens"] = serde_json::Value::Bool(self.opens());
        value["secondsBeforeServing"] = self.seconds(When::BeforeServing).into();
        value["secondsMeanwhile"] = self.seconds(When::Meanwhile).into();
        value
    }

    fn seconds(&self, when: When) -> f64 {
        self.steps.iter().filter(|step| step.when == when).map(|step| step.seconds).sum()
    }

    /// As an operator reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = match self.layout {
            Some(layout) => writeln!(
                text,
                "layout {layout}, this release knows up to {}; the store has {} MiB",
                self.known_layout,
                self.store_bytes >> 20
            ),
            None => writeln!(text, "there is no store: the first start makes a new box"),
        };
        if let Some(why) = &self.refused {
            let _ = writeln!(text, "REFUSED  {why}");
            return text;
        }
        for Step { what, rows, seconds, when } in &self.steps {
            let when = match when {
                When::BeforeServing => "before serving",
                When::Meanwhile => "while it works",
            };
            let _ = writeln!(text, "{when}: {what}: {rows} rows, about {}", told(*seconds));
        }
        for line in &self.measured {
            let _ = writeln!(text, "measured {line}");
        }
        if self.steps.is_empty() {
            text.push_str("nothing changes: the folder is as this release leaves it\n");
        } else {
            let _ = writeln!(
                text,
                "ready after about {}; everything is found after about {} more",
                told(self.seconds(When::BeforeServing)),
                told(self.seconds(When::Meanwhile))
            );
        }
        text.push_str(
            "To go back to the release before, restore a backup that it has written: make one first.\n",
        );
        text
    }
}

fn told(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "a second".to_owned(),
        s if s < 120.0 => format!("{s:.0} seconds"),
        s if s < 7_200.0 => format!("{:.0} minutes", s / 60.0),
        s => format!("{:.1} hours", s / 3_600.0),
    }
}

/// Looks at the data folder of `config`, which no process may have open.
pub fn check(config: &Config) -> Result<Plan> {
    let mut plan =
        Plan { known_layout: u32::try_from(store::MIGRATIONS.len()).unwrap_or(u32::MAX), ..Plan::default() };
    let file = config.store_file();
    if !file.exists() {
        return Ok(plan);
    }
    let (store, layout) = match opened(config)? {
        Ok(opened) => opened,
        Err(why) => {
            plan.refused =
                Some(format!("{} cannot be opened ({why}): `gleaner doctor` says more", file.display()));
            return Ok(plan);
        }
    };
    plan.layout = Some(layout.0);
    plan.store_bytes = store.file_bytes();
    if layout.0 > layout.1 {
        plan.refused = Some(newer(layout).for_operator());
        return Ok(plan);
    }
    let scratch = Scratch::new()?;
    let mut speed = Speed { store: &store, scratch: &scratch, measured: Vec::new() };
    before_serving(&store, &mut speed, &mut plan)?;
    meanwhile(config, &store, &mut speed, &mut plan)?;
    plan.measured = speed.measured;
    Ok(plan)
}

/// Migrations, and what slices fill once before anything is served.
fn before_serving(store: &Inspection, speed: &mut Speed<'_>, plan: &mut Plan) -> Result<()> {
    let mut due = Vec::new();
    for (name, rows, _) in store.migrations_due()? {
        due.push((format!("migration \"{name}\""), rows));
    }
    let results = store.entries(RESULTS.name())?;
    if store.read(extraction::pages_to_adopt)? && results > 0 {
        due.push(("the pages of earlier results are named".to_owned(), results));
    }
    if store.read(extraction::domains_to_fill)? && results > 0 {
        due.push(("results are entered into the index of domains".to_owned(), results));
    }
    for (before, name) in all_tables().iter().flat_map(|table| table.moved_indexes()) {
        let entries = store.entries(before)?;
        if entries > 0 {
            due.push((format!("entries of the index {before} move to {name}"), entries));
        }
    }
    if due.is_empty() {
        return Ok(());
    }
    let (reading, writing) = (speed.reading()?, speed.writing()?);
    for (what, rows) in due {
        let seconds = rows as f64 * (reading.recip() + writing.recip());
        plan.steps.push(Step { what, when: When::BeforeServing, rows, seconds });
    }
    Ok(())
}

/// The search index and the SQL tables, where they are made anew.
fn meanwhile(config: &Config, store: &Inspection, speed: &mut Speed<'_>, plan: &mut Plan) -> Result<()> {
    let (search, snapshots) =
        (config.storage.data_dir.join("search"), config.storage.data_dir.join("snapshots"));
    let id = store.id()?;
    let failed = |e| Error::unavailable(format!("the search index cannot be looked at: {e}"));
    let is_ours = |of: Option<String>| of.is_none_or(|of| id.is_some_and(|id| of == id.to_string()));
    let results = store.entries(RESULTS.name())?;
    let is_fit = SearchIndex::is_of_this_release(&search).map_err(failed)?
        && is_ours(extraction::index_is_of(&search)?);
    if !is_fit && results > 0 {
        let seconds = results as f64 / speed.indexing()?;
        let what = "the search index is filled anew".to_owned();
        plan.steps.push(Step { what, when: When::Meanwhile, rows: results, seconds });
    }
    let range = (store.read(|tx| tx.changes_begin())?, store.newest_change()?);
    let mut rows = 0;
    for source in snapshots_ahead::sources() {
        rows += store.entries(source)?;
    }
    if !snapshots_ahead::fits(&snapshots, id.unwrap_or(Uuid::nil()), range)? && rows > 0 {
        let seconds = rows as f64 / speed.showing()?;
        let what = "the SQL tables are made anew".to_owned();
        plan.steps.push(Step { what, when: When::Meanwhile, rows, seconds });
    }
    Ok(())
}

/// How fast this machine is, with this folder's own rows.
struct Speed<'a> {
    store: &'a Inspection,
    scratch: &'a Scratch,
    measured: Vec<String>,
}

impl Speed<'_> {
    fn note(&mut self, doing: &str, rows: u64, begun: Instant) -> f64 {
        let per_second = rows.max(1) as f64 / begun.elapsed().as_secs_f64().max(1e-6);
        self.measured.push(format!("{doing}: {rows} rows of this folder, {per_second:.0} a second"));
        per_second
    }

    fn reading(&mut self) -> Result<f64> {
        let (begun, mut rows, mut after) = (Instant::now(), 0, None::<Vec<u8>>);
        while rows < TRIED_ROWS_MAX && begun.elapsed() < TRIED_FOR {
            let step = self.store.read(|tx| tx.readable_all(&RESULTS, after.as_deref(), ROWS_PER_LOOK))?;
            rows += step.rows.len() as u64;
            after = step.next;
            if after.is_none() {
                break;
            }
        }
        Ok(self.note("reading", rows, begun))
    }

    fn writing(&mut self) -> Result<f64> {
        let per_second = store::rows_written_per_second(&self.scratch.0)?;
        self.measured
            .push(format!("writing: {per_second:.0} rows of 200 bytes a second, in commits of 2000"));
        Ok(per_second)
    }

    fn indexing(&mut self) -> Result<f64> {
        let (begun, folder) = (Instant::now(), self.scratch.0.join("search"));
        let until = begun + TRIED_FOR;
        let rows = self.store.read(|tx| extraction::try_indexing(tx, &folder, TRIED_ROWS_MAX, until))?;
        Ok(self.note("indexing", rows, begun))
    }

    fn showing(&mut self) -> Result<f64> {
        let (begun, folder) = (Instant::now(), self.scratch.0.join("snapshots"));
        let until = begun + TRIED_FOR;
        let rows = self.store.read(|tx| snapshots_ahead::try_rebuild(tx, &folder, TRIED_ROWS_MAX, until))?;
        Ok(self.note("making SQL tables", rows, begun))
    }
}

/// A folder for trying, gone when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        let folder = std::env::temp_dir().join(format!("gleaner-upgrade-{}", Uuid::now_v7()));
        let made = disk::make_scratch(&folder);
        made.map_err(|e| {
            Error::unavailable(format!("{}: {e}; TMPDIR names another place", folder.display()))
        })?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is in the folder for temporary files, which is cleared.
        let _ = fs::remove_dir_all(&self.0);
    }
}
