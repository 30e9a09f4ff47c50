//! `gleaner doctor`: checks the data of a box that is off, and says what is wrong.
//!
//! It looks at the store's pages (checksums), at every table against its indexes, at every audit chain: that no row was
//! cut out, changed or moved, also not at the end; and at what lies beside the store ([`files`]). What it cannot see is a data folder that was replaced whole by an older
//! one; who keeps a row's `hash` elsewhere (`GET /audit-logs` shows it) can.

mod files;

use crate::app;
use crate::config::Config;
use crate::features::{self, auth};
use base::{Code, Error, Result};
use secrets::keyring::Keyring;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::{Inspection, SealCheck};

/// What was looked at, and what was found wrong.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// One line for each part that was looked at.
    pub looked_at: Vec<String>,
    /// What is wrong; empty for a sound box.
    pub findings: Vec<String>,
}

impl Diagnosis {
    /// The report as an operator reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.looked_at {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        for finding in &self.findings {
            let _ = writeln!(text, "DAMAGED  {finding}");
        }
        match self.findings.len() {
            0 => text.push_str("nothing is wrong\n"),
            1 => text.push_str(
                "1 finding. Keep a copy of the data folder as it is before you restore a backup.\n",
            ),
            n => {
                let _ = writeln!(
                    text,
                    "{n} findings. Keep a copy of the data folder as it is before you restore a backup."
                );
            }
        }
        text
    }
}

/// Checks the data folder of `config`, which no process may have open.
pub fn examine(config: &Config) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::default();
    let (file, cache_bytes) = (config.store_file(), config.storage.cache_mb << 20);
    let opened = catch_unwind(|| {
        let store = Inspection::open(&file, cache_bytes)?;
        let layout = store.layout()?;
        Ok::<_, Error>((store, layout))
    });
    let (store, (layout, known)) = match opened {
        Ok(Err(error)) if error.code() != Code::InternalError => return Err(error),
        Ok(Ok(opened)) => opened,
        damaged => {
            let reason = match damaged {
                Ok(Err(error)) => error.for_operator(),
                _ => "its pages contradict each other".to_owned(),
            };
            let finding = format!("store: {} cannot be opened ({reason})", file.display());
            diagnosis.findings.push(finding);
            return Ok(diagnosis);
        }
    };
    if layout > known {
        return Err(Error::unavailable(format!(
            "the data folder has layout {layout}, this release knows up to {known}: it was written by a newer one"
        )));
    }
    let keyring = Keyring::load(&config.key_file());
    if let Err(error) = &keyring {
        diagnosis.findings.push(format!("secrets: {error}; seals of the audit log are not checked"));
    }
    if diagnosis.part("store", || pages(&store)) {
        diagnosis.part("tables", || tables(&store));
        diagnosis.part("audit", || audit(&store, keyring.as_ref().ok()));
        diagnosis.part("pages", || files::pages(&store, config));
        diagnosis.part("kept", || files::kept(&store, config));
    } else {
        // Pages that contradict each other lead anywhere, in circles too.
        diagnosis.findings.push("tables and audit log: not looked at, their pages are damaged".to_owned());
    }
    diagnosis.part("search", || files::search(config));
    diagnosis.part("sql", || files::snapshots(config));
    Ok(diagnosis)
}

/// What a part says of itself, and what is wrong with it.
type Part = (String, Vec<String>);

impl Diagnosis {
    /// Looks at one part; whether it could be walked to its end. One that could not is a finding.
    fn part(&mut self, name: &str, look: impl FnOnce() -> Result<Part>) -> bool {
        // redb can panic on pages that were damaged.
        match catch_unwind(AssertUnwindSafe(look)) {
            Ok(Ok((about, findings))) => {
                self.looked_at.push(format!("{name:<8} {about}"));
                self.findings.extend(findings);
                return true;
            }
            Ok(Err(error)) => self.findings.push(format!("{name}: {}", error.for_operator())),
            Err(_) => self.findings.push(format!("{name}: the file is so damaged that it cannot be walked")),
        }
        false
    }
}

fn pages(store: &Inspection) -> Result<Part> {
    let mut about = format!("{} MiB", store.file_bytes() >> 20);
    for left in store.leftovers() {
        let _ = write!(
            about,
            "; beside it {}, left by a rewriting that was cut off: it may hold erased rows, and the next start removes it",
            left.display()
        );
    }
    let damaged = "store: pages were damaged; redb went back to the newest state that is whole".to_owned();
    Ok((about, if store.pages_are_whole()? { Vec::new() } else { vec![damaged] }))
}

fn tables(store: &Inspection) -> Result<Part> {
    let (mut count, mut rows, mut entries, mut findings) = (0, 0, 0, Vec::new());
    let mut older = String::new();
    for table in features::ALL.iter().flat_map(|feature| feature.tables).chain(app::TABLES) {
        let report = store.table(*table)?;
        count += 1;
        rows += report.rows;
        entries += report.entries;
        findings.extend(report.findings.iter().map(|finding| format!("table {}: {finding}", table.name())));
        older.extend(report.older.iter().map(|what| format!("; {what}")));
    }
    findings.extend(store.counts()?.into_iter().map(|finding| format!("counts of storage: {finding}")));
    Ok((format!("{count} tables, {rows} rows, {entries} index entries{older}"), findings))
}

fn audit(store: &Inspection, keyring: Option<&Keyring>) -> Result<Part> {
    let check = |bytes: &[u8], seal: &[u8]| {
        keyring.map_or(SealCheck::Wrong, |keyring| app::check_seal(keyring, bytes, seal))
    };
    let reports = store.audit(auth::ORG.name(), keyring.is_some().then_some(&check))?;
    let rows: u64 = reports.iter().map(|report| report.rows).sum();
    let about = format!("{} chains, {rows} rows", reports.len());
    let mut findings = Vec::new();
    for report in reports {
        let whose = report.org.map_or("of the box".to_owned(), |org| format!("of organization {org}"));
        findings.extend(report.findings.iter().map(|finding| format!("audit log {whose}: {finding}")));
    }
    Ok((about, findings))
}
