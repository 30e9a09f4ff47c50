//! The store: its pages, every table against its indexes, the audit chains, and whether the keys are its own.

use super::report::{Finding, Mend, Remedy};
use super::{Part, Rows};
use crate::config::Config;
use crate::features::{self, auth};
use crate::trunk::{self, check_seal};
use base::Result;
use secrets::keyring::{Keyring, KeyringError};
use std::fmt::Write;
use std::io;
use store::{AnyTable, ChainReport, Inspection, SealCheck, TableReport};

/// All tables of all slices, and the box's own.
pub(crate) fn all_tables() -> Vec<&'static dyn AnyTable> {
    features::ALL.iter().flat_map(|feature| feature.tables).chain(trunk::TABLES).copied().collect()
}

/// Compares the checksums of all pages.
pub(super) fn pages(store: &Inspection) -> Result<Part> {
    let about = format!("{} MiB", store.file_bytes() >> 20);
    let finding = |reason: String| {
        let what = format!("pages of the file are damaged{reason}");
        Finding::derived("store", what, Mend::Salvage)
    };
    // redb says so with an error where it knows of no older state that is whole.
    Ok(match store.pages_are_whole() {
        Ok(true) => (about, Vec::new()),
        Ok(false) => (about, vec![finding("; an older state of it is whole".to_owned())]),
        Err(error) => (about, vec![finding(format!(" ({})", error.for_operator()))]),
    })
}

/// Compares rows and indexes, one table after the other, as `check` does it.
pub(super) fn tables(
    layout: (u32, u32),
    check: impl Fn(&'static dyn AnyTable) -> Result<TableReport>,
    counts: Vec<String>,
) -> Result<Part> {
    let (mut count, mut rows, mut entries, mut findings) = (0, 0, 0, Vec::new());
    let mut older = String::new();
    for table in all_tables() {
        let report = check(table)?;
        count += 1;
        rows += report.rows;
        entries += report.entries;
        for finding in &report.findings {
            let what = format!("table {}: {finding}", table.name());
            findings.push(match finding.is_derived {
                true => Finding::derived("tables", what, Mend::Derived),
                false => Finding::lost("tables", what),
            });
        }
        older.extend(report.older.iter().map(|what| format!("; {what}")));
    }
    let counts = counts.into_iter().map(|finding| format!("counts of storage: {finding}"));
    findings.extend(counts.map(|what| Finding::derived("tables", what, Mend::Derived)));
    if layout.0 < layout.1 {
        let _ =
            write!(older, "; layout {} of an earlier release, {} after the next start", layout.0, layout.1);
    }
    Ok((format!("{count} tables, {rows} rows, {entries} index entries{older}"), findings))
}

/// The box's keys, if they can be read and are its own.
pub(super) fn keys(rows: &impl Rows, config: &Config) -> (Part, Option<Keyring>) {
    let file = config.key_file();
    let keyring = match Keyring::load(&file) {
        Ok(keyring) => keyring,
        Err(error) => {
            let is_gone =
                matches!(&error, KeyringError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
            let why = if is_gone { "it is missing".to_owned() } else { error.to_string() };
            let what = format!(
                "{}: {why}. Without it the box does not start; put the key file back that belongs to this store; seals of \
                 the audit log are not checked",
                file.display()
            );
            return ((String::new(), vec![Finding::lost("keys", what)]), None);
        }
    };
    let is_own = |head: &[u8], seal: &[u8]| check_seal(&keyring, head, seal);
    let about = format!("{} to sign with", keyring.signing_ids().count());
    match rows.read(|tx| tx.knows_audit_seals(&is_own)) {
        Ok(true) => ((about, Vec::new()), Some(keyring)),
        Ok(false) => {
            let what = format!(
                "{} has the keys of another box: put the key file back that belongs to this store",
                file.display()
            );
            ((about, vec![Finding::new("keys", Remedy::Operator, what)]), None)
        }
        Err(error) => ((about, vec![Finding::lost("keys", error.for_operator())]), Some(keyring)),
    }
}

/// Proves every audit chain, which `chains` walks with what knows its seals.
pub(super) fn audit(
    keyring: Option<&Keyring>,
    chains: impl FnOnce(&'static str, Option<store::CheckSeal<'_>>) -> Result<Vec<ChainReport>>,
) -> Result<Part> {
    let check = |bytes: &[u8], seal: &[u8]| {
        keyring.map_or(SealCheck::Wrong, |keyring| check_seal(keyring, bytes, seal))
    };
    let reports = chains(auth::ORG.name(), keyring.is_some().then_some(&check))?;
    let rows: u64 = reports.iter().map(|report| report.rows).sum();
    let about = format!("{} chains, {rows} rows", reports.len());
    let mut findings = Vec::new();
    for report in reports {
        let whose = report.org.map_or("of the box".to_owned(), |org| format!("of organization {org}"));
        let told = report.findings.iter().map(|finding| format!("audit log {whose}: {finding}"));
        findings.extend(told.map(|what| Finding::lost("audit", what)));
    }
    Ok((about, findings))
}
