//! What lies beside the store: pages, the search index, the SQL snapshots, results and exports.
//!
//! Index and snapshots are made of the store and can be thrown away: that they are damaged is said, and that they mend
//! themselves. A page is not made of anything.

use super::Part;
use crate::config::Config;
use crate::features::extraction::{PageKey, RESULTS, ResultV4};
use crate::features::storage::REMOTE;
use crate::features::{account, bi};
use base::ids::OrgId;
use base::{Error, Result};
use blob::{self, BlobHash};
use search::SearchIndex;
use sql::Snapshots;
use std::fs;
use std::io;
use std::path::Path;
use store::{Inspection, readable};

/// Rows of one look into the store.
const ROWS_PER_LOOK: usize = 200;
/// Findings of a part that are told; the rest is a number.
const TOLD_MAX: usize = 20;

/// The page of every result: that it is there, and what was put in. Of those in storages of organizations' own, nothing is
/// asked.
pub(super) fn pages(store: &Inspection, config: &Config) -> Result<Part> {
    let root = config.storage.data_dir.join("pages");
    let (mut looked, mut findings) = (0u64, Findings::default());
    let mut after = None;
    loop {
        let rows = store.read(|tx| {
            let mut step = tx.readable_all(&RESULTS, after.as_deref(), ROWS_PER_LOOK)?;
            after = step.next;
            step.rows.retain(|(org, ..)| !tx.is_fenced(*org));
            let is_here = |org: OrgId, row: &ResultV4| {
                let key = PageKey(row.page.hash);
                Ok(readable("where a page lies", key, tx.org(org).get(&REMOTE, &key))?.flatten().is_none())
            };
            let mut here = Vec::with_capacity(step.rows.len());
            for (org, job, row) in step.rows {
                if is_here(org, &row)? {
                    here.push((org, job, row));
                }
            }
            Ok(here)
        })?;
        for (org, job, row) in rows {
            looked += 1;
            let hash = BlobHash::from_bytes(row.page.hash);
            match blob::inspect(&root, org.0, &hash) {
                Ok(true) => {}
                Ok(false) => findings.add(format!("the page of job {job} is missing")),
                Err(error) => findings.add(format!("the page of job {job}: {error}")),
            }
        }
        if after.is_none() {
            break;
        }
    }
    Ok((format!("{looked} results"), findings.named("pages")))
}

/// The search index, file by file.
pub(super) fn search(config: &Config) -> Result<Part> {
    let found = SearchIndex::inspect(&config.storage.data_dir.join("search"));
    Ok(match found {
        Ok(None) => ("none, or of another release; it is made at the next start".to_owned(), Vec::new()),
        Ok(Some((damaged, documents))) => {
            let told = damaged.into_iter().map(|file| format!("search: {file} is damaged; {MADE_ANEW}"));
            (format!("{documents} documents"), told.collect())
        }
        Err(error) => {
            let cause =
                std::error::Error::source(&error).map_or_else(String::new, |cause| format!(" ({cause})"));
            (String::new(), vec![format!("search: {error}{cause}; {MADE_ANEW}")])
        }
    })
}

const MADE_ANEW: &str = "it is made anew from the store when the box runs";

/// The snapshots, organization by organization.
pub(super) fn snapshots(config: &Config) -> Result<Part> {
    let (mut organizations, mut files, mut findings) = (0, 0, Findings::default());
    for entry in entries(&config.storage.data_dir.join("snapshots"))? {
        let Ok(org) = entry.file_name().to_string_lossy().parse::<OrgId>() else { continue };
        organizations += usize::from(org.0 != sql::SHARED);
        match Snapshots::inspect(&entry.path()) {
            Ok(count) => files += count,
            Err(error) => findings.add(format!("SQL tables of organization {org}: {error} ({MADE_ANEW})")),
        }
    }
    Ok((format!("{organizations} organizations, {files} files"), findings.named("snapshots")))
}

/// Results of statements, exports of them and of personal data: that they are there, and as long as they were made.
pub(super) fn kept(store: &Inspection, config: &Config) -> Result<Part> {
    let data = &config.storage.data_dir;
    let files = store.read(|tx| bi::retained_files(tx, &data.join("results"), &data.join("exports")))?;
    let personal = store.read(|tx| account::kept_files(tx, &data.join("account-exports")))?;
    let about =
        format!("{} results and exports of statements, {} of personal data", files.len(), personal.len());
    let mut findings = Findings::default();
    for (path, bytes) in files.into_iter().map(|file| (file.path, file.bytes)).chain(personal) {
        match fs::metadata(&path) {
            Ok(about) if about.len() == bytes => {}
            Ok(about) => {
                findings.add(format!("{} has {} bytes instead of {bytes}", path.display(), about.len()));
            }
            Err(error) => findings.add(format!("{}: {error}", path.display())),
        }
    }
    Ok((about, findings.named("kept")))
}

fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.and_then(|entries| entries.collect()),
    };
    listed.map_err(|e| Error::internal("list a folder", e))
}

/// What is wrong with a part, the first few in words.
#[derive(Default)]
struct Findings {
    told: Vec<String>,
    hidden: u64,
}

impl Findings {
    fn add(&mut self, finding: String) {
        if self.told.len() < TOLD_MAX {
            self.told.push(finding);
        } else {
            self.hidden += 1;
        }
    }

    fn named(mut self, part: &str) -> Vec<String> {
        if self.hidden > 0 {
            self.told.push(format!("and {} more", self.hidden));
        }
        self.told.into_iter().map(|finding| format!("{part}: {finding}")).collect()
    }
}
