//! Results of statements, exports of them and of personal data: that they are there, and what was written.
//!
//! Each can be had again by asking again, so one that is damaged goes, and its row says so.

use super::report::{Finding, Findings, Lost, Mend};
use super::{Part, Rows};
use crate::config::Config;
use crate::features::account;
use crate::features::bi::{self, RetainedFile, RetainedOf};
use base::Result;
use std::fs;
use std::path::Path;
use store::System;
use zip::ZipArchive;

const PART: &str = "kept";

/// Looks at every file that a row says is there.
pub(super) fn look(rows: &impl Rows, config: &Config) -> Result<Part> {
    let data = &config.storage.data_dir;
    let files = rows.read(|tx| bi::retained_files(tx, &data.join("results"), &data.join("exports")))?;
    let personal = rows.read(|tx| account::kept_files(tx, &data.join("account-exports")))?;
    let about =
        format!("{} results and exports of statements, {} of personal data", files.len(), personal.len());
    let mut findings = Findings::of(PART);
    for RetainedFile { path, bytes, sum, of } in files {
        let wrong = differs(&path, bytes).or_else(|| match of {
            RetainedOf::Result(..) => sql::ResultFile::open(&path).err().map(|e| e.to_string()),
            RetainedOf::Export(..) => match bi::is_export_whole(&path, sum?) {
                Ok(true) => None,
                Ok(false) => Some("is not what was written".to_owned()),
                Err(error) => Some(error.to_string()),
            },
        });
        // Of a box at work it may have gone since its row was read.
        if let Some(wrong) = wrong.filter(|_| !rows.is_served() || path.exists()) {
            let what = format!("{}: {wrong}", path.display());
            findings.add(Finding::derived(PART, what, Mend::GiveUp(Lost::Statement(path, of))));
        }
    }
    for (id, path, bytes) in personal {
        let wrong = differs(&path, bytes).or_else(|| unzips(&path).err());
        if let Some(wrong) = wrong.filter(|_| !rows.is_served() || path.exists()) {
            let what = format!("{}: {wrong}", path.display());
            findings.add(Finding::derived(PART, what, Mend::GiveUp(Lost::Personal(path, id))));
        }
    }
    Ok((about, findings.take()))
}

/// In which way a file is not there with so many bytes.
fn differs(path: &Path, bytes: u64) -> Option<String> {
    match fs::metadata(path) {
        Ok(about) if about.len() == bytes => None,
        Ok(about) => Some(format!("has {} bytes instead of {bytes}", about.len())),
        Err(error) => Some(error.to_string()),
    }
}

/// Reads every file of a zip to its end, where its checksum is compared.
fn unzips(path: &Path) -> std::result::Result<(), String> {
    let told = |e: &dyn std::fmt::Display| format!("is not what was written ({e})");
    let file = fs::File::open(path).map_err(|e| told(&e))?;
    let mut zip = ZipArchive::new(file).map_err(|e| told(&e))?;
    for at in 0..zip.len() {
        let mut entry = zip.by_index(at).map_err(|e| told(&e))?;
        std::io::copy(&mut entry, &mut std::io::sink()).map_err(|e| told(&e))?;
    }
    Ok(())
}

/// Lets what is lost be gone, by its row too.
pub(super) async fn give_up(system: &System, lost: &Lost) -> Result<()> {
    let (Lost::Statement(path, _) | Lost::Personal(path, _)) = lost;
    disk::remove(path).map_err(|e| super::failed(path, &e))?;
    match lost {
        Lost::Statement(_, of) => bi::give_up(system, *of).await,
        Lost::Personal(_, id) => account::forget_export(system, *id).await,
    }
}
