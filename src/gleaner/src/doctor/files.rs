//! What lies beside the store: pages, the search index, the SQL snapshots.
//!
//! Index and snapshots are made of the store and can be thrown away. A page is not made of anything.

use super::report::{Finding, Findings, Mend};
use super::{Part, Rows, failed};
use crate::config::Config;
use crate::features::extraction::{self, PageKey, RESULTS, ResultV4};
use crate::features::storage::REMOTE;
use base::Result;
use base::ids::OrgId;
use blob::BlobHash;
use search::SearchIndex;
use sql::Snapshots;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use store::readable;

/// Rows of one look into the store.
const ROWS_PER_LOOK: usize = 200;

/// How many results each organization has.
pub(super) type ResultsOf = BTreeMap<OrgId, u64>;

/// The page of every result that keeps one: that it is there, and what was put in. Of those in storages of organizations' own,
/// nothing is asked.
pub(super) fn pages(rows: &impl Rows, config: &Config, results: &mut ResultsOf) -> Result<Part> {
    let root = config.storage.data_dir.join("pages");
    let (mut looked, mut findings) = (0u64, Findings::of("pages"));
    let mut after = None;
    loop {
        let step = rows.read(|tx| {
            let mut step = tx.readable_all(&RESULTS, after.as_deref(), ROWS_PER_LOOK)?;
            after = step.next;
            step.rows.retain(|(org, ..)| !tx.is_fenced(*org));
            let is_here = |org: OrgId, row: &ResultV4| {
                let key = PageKey(row.page.hash);
                let is_away = readable("where a page lies", key, tx.org(org).get(&REMOTE, &key))?.flatten();
                Ok(is_away.is_none() && extraction::keeps_page(tx, org, row)?)
            };
            let mut all = Vec::with_capacity(step.rows.len());
            for (org, job, row) in step.rows {
                let is_here = is_here(org, &row)?;
                all.push((org, job, row, is_here));
            }
            Ok(all)
        })?;
        for (org, job, row, is_here) in step {
            *results.entry(org).or_default() += 1;
            if !is_here {
                continue;
            }
            looked += 1;
            let wrong = match blob::inspect(&root, org.0, &BlobHash::from_bytes(row.page.hash)) {
                Ok(true) => continue,
                Ok(false) => " is missing".to_owned(),
                Err(error) => format!(": {error}"),
            };
            // Of a box at work it may have gone since its row was read.
            if !rows.is_served() || rows.read(|tx| extraction::keeps_page(tx, org, &row))? {
                findings.add(Finding::lost("pages", format!("the page of job {job}{wrong}")));
            }
        }
        if after.is_none() {
            break;
        }
    }
    Ok((format!("{looked} of results"), findings.take()))
}

/// The search index, file by file, and whether it is of this store and has every result.
pub(super) fn search(rows: &impl Rows, config: &Config, results: &ResultsOf) -> Result<Part> {
    let folder = config.storage.data_dir.join("search");
    let wrong = |what: String| {
        let what = format!("{what}; {MADE_ANEW}");
        vec![Finding::derived("search", what, Mend::Remove(folder.clone()))]
    };
    let found = match SearchIndex::inspect(&folder) {
        Ok(None) => {
            return Ok(("none, or of another release; it is made at the next start".to_owned(), Vec::new()));
        }
        Ok(Some(found)) => found,
        Err(error) => {
            let cause =
                std::error::Error::source(&error).map_or_else(String::new, |cause| format!(" ({cause})"));
            return Ok((String::new(), wrong(format!("{error}{cause}"))));
        }
    };
    let about = format!("{} documents", found.documents);
    if !found.damaged.is_empty() {
        return Ok((about, wrong(format!("damaged files: {}", found.damaged.join(", ")))));
    }
    let (newest, id) = rows.life()?;
    let stamp = extraction::index_is_of(&folder)?;
    if found.position > newest || stamp.is_some_and(|of| id.is_some_and(|id| of != id.to_string())) {
        return Ok((about, wrong("the index is of another life of the store".to_owned())));
    }
    let due: u64 = results.values().sum();
    // Behind the store it is made up for by itself.
    if found.position > 0 && found.documents != due && !rows.has_changes(RESULTS.name(), found.position)? {
        let what = format!("the index has {} documents for {due} results", found.documents);
        return Ok((about, wrong(what)));
    }
    Ok((about, Vec::new()))
}

const MADE_ANEW: &str = "it is made anew from the store when the box runs";

/// The snapshots, organization by organization. Those of another life of the store the next start makes anew by itself.
pub(super) fn snapshots(config: &Config) -> Result<Part> {
    let (mut organizations, mut files, mut findings) = (0, 0, Findings::of("sql"));
    for entry in entries(&config.storage.data_dir.join("snapshots"))? {
        let (path, name) = (entry.path(), entry.file_name());
        let Some(org) = name.to_str().and_then(|name| name.parse::<OrgId>().ok()) else { continue };
        organizations += usize::from(org.0 != sql::SHARED);
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let wrong = match Snapshots::inspect(&path) {
            Ok(count) if is_folder => {
                files += count;
                continue;
            }
            Ok(_) => "a file has the name of their folder".to_owned(),
            Err(error) => error.to_string(),
        };
        let what = format!("SQL tables of organization {org}: {wrong} ({MADE_ANEW})");
        findings.add(Finding::derived("sql", what, Mend::Remove(path)));
    }
    Ok((format!("{organizations} organizations, {files} files"), findings.take()))
}

/// What stands in a folder; nothing where there is none.
pub(super) fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.and_then(|entries| entries.collect()),
    };
    listed.map_err(|e| failed(folder, &e))
}
