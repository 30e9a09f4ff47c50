//! What crashes have left, which nobody reads: drafts that never got their name, pages that no row knows, folders of
//! organizations that are gone. And what is not the box's at all, which is named and stays.

use super::files::entries;
use super::report::{Finding, Findings, Mend, Remedy};
use super::{Part, Rows, failed};
use crate::config::Config;
use crate::features::extraction;
use base::Result;
use base::ids::OrgId;
use blob::BlobHash;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PART: &str = "left";
/// A page that no row knows may be one of a job that is on its way, until it is so old.
const ORPHAN_AGE: Duration = Duration::from_secs(24 * 3_600);
/// What the box itself makes in its folder, beside the folders of the slices.
const OWN: [&str; 3] = ["gleaner.redb", "admin.sock", "spill"];
/// What is left beside the store's file by a start, or a rewriting, that was cut off.
const DRAFTS: [&str; 3] = ["gleaner.redb.first", "gleaner.redb.new", "gleaner.redb.old"];
/// Where a repair keeps the file that was damaged.
const DAMAGED: &str = "gleaner.redb.damaged";

/// Looks for leftovers in a box that is off.
pub(super) fn look(rows: &impl Rows, config: &Config) -> Result<Part> {
    let data = &config.storage.data_dir;
    let mut left = Left { files: 0, bytes: 0, findings: Findings::of(PART) };
    let known: Vec<&str> = crate::features::ALL
        .iter()
        .flat_map(|feature| feature.folders)
        .map(|folder| folder.name)
        .chain(OWN)
        .collect();
    for entry in entries(data)? {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        match name.as_str() {
            "admin.sock" => left.add(&path, "the operator's socket of a box that is off"),
            name if DRAFTS.contains(&name) => left.add(
                &path,
                "left by a rewriting that was cut off: it may hold erased rows, and the next start removes it",
            ),
            DAMAGED => {
                let what = "the damaged store, which a repair has put aside; remove it when the box is in order";
                let what = format!("{}: {what}", path.display());
                left.findings.add(Finding::new(PART, Remedy::Leftover, what));
            }
            name if name.starts_with(".probe-") => left.add(&path, "left by a look at the disk"),
            name if known.contains(&name) => {}
            _ => {
                let what = format!("{} is not the box's, which does not read it", path.display());
                left.findings.add(Finding::new(PART, Remedy::Leftover, what));
            }
        }
    }
    for entry in entries(&data.join("spill"))? {
        left.add(&entry.path(), "left by a statement");
    }
    for (folder, draft) in [("exports", "part"), ("results", "part"), ("account-exports", "new")] {
        for path in below(&data.join(folder))? {
            if path.extension().is_some_and(|end| end == draft) {
                left.add(&path, "a file that was not finished");
            }
        }
    }
    for (folder, draft) in [("search", "store.new"), ("snapshots", "feed.new")] {
        let path = data.join(folder).join(draft);
        if path.exists() {
            left.add(&path, "a file that was not finished");
        }
    }
    pages(rows, &data.join("pages"), &mut left)?;
    gone(rows, data, &mut left)?;
    Ok((format!("{} leftovers, {} KiB", left.files, left.bytes >> 10), left.findings.take()))
}

struct Left {
    files: u64,
    bytes: u64,
    findings: Findings,
}

impl Left {
    fn add(&mut self, path: &Path, what: &str) {
        self.files += 1;
        self.bytes +=
            fs::symlink_metadata(path).map_or(0, |about| if about.is_file() { about.len() } else { 0 });
        let what = format!("{}: {what}", path.display());
        self.findings.add(Finding {
            mend: Mend::Remove(path.to_owned()),
            ..Finding::new(PART, Remedy::Leftover, what)
        });
    }
}

/// The files in a folder and in the folders in it.
fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in entries(folder)? {
        match entry.file_type().map_err(|e| failed(folder, &e))? {
            kind if kind.is_dir() => {
                files.extend(entries(&entry.path())?.into_iter().map(|entry| entry.path()));
            }
            _ => files.push(entry.path()),
        }
    }
    Ok(files)
}

/// Pages that were not finished, and those that no row knows.
fn pages(rows: &impl Rows, root: &Path, left: &mut Left) -> Result<()> {
    for entry in entries(root)? {
        let Some(org) = org_of(&entry) else {
            if entry.file_name() == "try" {
                left.add(&entry.path(), "left by a look at the disk");
            }
            continue;
        };
        for shard in entries(&entry.path())? {
            for file in entries(&shard.path())? {
                let (path, name) = (file.path(), file.file_name().to_string_lossy().into_owned());
                if name.contains('#') {
                    left.add(&path, "a page that was not finished");
                    continue;
                }
                let hash = name.strip_suffix(".zst").and_then(|hex| hex.parse::<BlobHash>().ok());
                let Some(hash) = hash else { continue };
                let age = file.metadata().and_then(|about| about.modified()).ok();
                let is_old = age.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > ORPHAN_AGE);
                if is_old && !rows.read(|tx| extraction::is_known_page(tx, org, *hash.as_bytes()))? {
                    left.add(&path, "a page that no result names");
                }
            }
        }
    }
    Ok(())
}

/// Folders of organizations that were erased.
fn gone(rows: &impl Rows, data: &Path, left: &mut Left) -> Result<()> {
    for folder in ["snapshots", "results", "exports"] {
        for entry in entries(&data.join(folder))? {
            let Some(org) = org_of(&entry).filter(|org| org.0 != sql::SHARED) else { continue };
            if rows.read(|tx| Ok(tx.is_fenced(org)))? {
                left.add(&entry.path(), "of an organization that was erased");
            }
        }
    }
    Ok(())
}

fn org_of(entry: &fs::DirEntry) -> Option<OrgId> {
    entry.file_name().to_str().and_then(|name| name.parse().ok())
}
