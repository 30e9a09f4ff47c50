//! `gleaner doctor`: checks the data of a box, says what is wrong, and mends what is made of something else.
//!
//! It looks at the files themselves ([`folder`]), at the store's pages (checksums), at every table against its indexes, at every
//! audit chain: that no row was cut out, changed or moved, also not at the end ([`rows`]); and at what lies beside the store
//! ([`files`], [`kept`], [`leftovers`]). What it cannot see is a data folder that was replaced whole by an older one; who keeps
//! a row's `hash` elsewhere (`GET /audit-logs` shows it) can.
//!
//! A look changes no byte. With `--repair` it mends what is derived and looks again, so that what it calls mended is
//! ([`mod@repair`]). A box that runs is asked itself ([`live`]).

mod files;
mod folder;
mod kept;
mod leftovers;
mod live;
mod repair;
mod report;
mod rows;

pub(crate) use live::Checkup;
pub use repair::repair;
pub use report::{Diagnosis, Finding, Looked, Remedy};
pub(crate) use rows::all_tables;

use crate::config::Config;
use base::{Code, Error, Result};
use report::Mend;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use store::{Inspection, SysRead, System};
use uuid::Uuid;

/// What a part says of itself, and what is wrong with it.
type Part = (String, Vec<Finding>);

/// Ends with it when nothing is wrong, or everything that was has been mended.
pub const EXIT_SOUND: u8 = 0;
/// Ends with it when something is wrong.
pub const EXIT_FAULTS: u8 = 1;
/// Ends with it when it could not look.
pub const EXIT_CANNOT: u8 = 2;

/// The rows of a store, of a box that is off or of one that runs.
trait Rows {
    /// Runs `run` on a snapshot.
    fn read<T>(&self, run: impl FnOnce(&SysRead<'_>) -> Result<T>) -> Result<T>;

    /// The number of the newest change record, and the store's id.
    fn life(&self) -> Result<(u64, Option<Uuid>)>;

    /// Whether a box works with them meanwhile.
    fn is_served(&self) -> bool;

    /// Whether there is a change of a table of this name behind a change record.
    fn has_changes(&self, table: &str, after: u64) -> Result<bool> {
        let mut at = after;
        loop {
            let changes = self.read(|tx| tx.changes(at, CHANGES_PER_LOOK))?;
            let Some(last) = changes.last() else { return Ok(false) };
            if changes.iter().any(|change| change.table == table) {
                return Ok(true);
            }
            at = last.sequence;
        }
    }
}

/// Change records of one look.
const CHANGES_PER_LOOK: usize = 1_000;

impl Rows for Inspection {
    fn read<T>(&self, run: impl FnOnce(&SysRead<'_>) -> Result<T>) -> Result<T> {
        Inspection::read(self, run)
    }

    fn life(&self) -> Result<(u64, Option<Uuid>)> {
        Ok((self.newest_change()?, self.id()?))
    }

    fn is_served(&self) -> bool {
        false
    }
}

impl Rows for System {
    fn read<T>(&self, run: impl FnOnce(&SysRead<'_>) -> Result<T>) -> Result<T> {
        System::read(self, run)
    }

    fn life(&self) -> Result<(u64, Option<Uuid>)> {
        Ok((*self.store().sequence().borrow(), Some(self.store().id())))
    }

    fn is_served(&self) -> bool {
        true
    }
}

/// Checks the data folder of `config`, which no process may have open. An error says why it cannot be looked at.
pub fn examine(config: &Config) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::default();
    if !is_there(config)? {
        return Ok(without_store(config, diagnosis));
    }
    diagnosis.part("folder", || folder::look(config));
    let (store, layout) = match opened(config)? {
        Ok(opened) => opened,
        Err(reason) => {
            let what = format!("{} cannot be opened ({reason})", config.store_file().display());
            diagnosis.findings.push(Finding::lost("store", what));
            return Ok(diagnosis);
        }
    };
    if layout.0 > layout.1 {
        return Err(newer(layout));
    }
    // Pages that contradict each other lead anywhere, in circles too.
    if !diagnosis.part("store", || rows::pages(&store)) {
        let what = "not looked at with all that they name, their pages are damaged";
        diagnosis.findings.push(Finding::lost("tables", what));
        return Ok(diagnosis);
    }
    diagnosis.part("tables", || rows::tables(layout, |table| store.table(table), store.counts()?));
    let mut keyring = None;
    diagnosis.part("keys", || {
        let (part, own) = rows::keys(&store, config);
        keyring = own;
        Ok(part)
    });
    diagnosis.part("audit", || rows::audit(keyring.as_ref(), |must, seal| store.audit(must, seal)));
    let mut results = files::ResultsOf::default();
    diagnosis.part("pages", || files::pages(&store, config, &mut results));
    diagnosis.part("kept", || kept::look(&store, config));
    diagnosis.part("search", || files::search(&store, config, &results));
    diagnosis.part("sql", || files::snapshots(config));
    diagnosis.part("left", || leftovers::look(&store, config));
    Ok(diagnosis)
}

pub(crate) fn newer((layout, known): (u32, u32)) -> Error {
    Error::unavailable(format!(
        "the data folder has layout {layout}, this release knows up to {known}: it was written by a newer one. Use that \
         release, or restore a backup that this one has written"
    ))
}

/// Whether there is a store's file with something in it; an error where nothing can be looked at.
fn is_there(config: &Config) -> Result<bool> {
    let (data, file) = (&config.storage.data_dir, config.store_file());
    let refused = |reason: String| Error::invalid("storage.data_dir", reason);
    match fs::metadata(data) {
        Ok(about) if about.is_dir() => {}
        Ok(_) => return Err(refused(format!("{} is not a folder", data.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !config.key_file().exists() => {
            return Err(refused(format!("there is no box at {}", data.display())));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(refused(cannot(data, &error))),
    }
    match fs::metadata(&file) {
        Ok(about) => Ok(about.is_file() && about.len() > 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(refused(cannot(&file, &error))),
    }
}

fn cannot(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be looked at: {error}. Whoever runs the box may look at its data", path.display())
}

/// What there is to say of a box without a store.
fn without_store(config: &Config, mut diagnosis: Diagnosis) -> Diagnosis {
    let file = config.store_file();
    let lack = if file.exists() { "is empty (0 bytes)" } else { "is missing" };
    let what = format!(
        "the store {} {lack}: mount the disk that it is on, or restore it from a backup. Nothing else was looked at",
        file.display()
    );
    diagnosis.findings.push(Finding::lost("store", what));
    diagnosis
}

/// A store that was opened, the number of its layout, and that of the newest that this release knows.
pub(crate) type OpenedStore = (Inspection, (u32, u32));

/// The store; what is wrong with it where it cannot be opened. An error where it is not the file's fault.
pub(crate) fn opened(config: &Config) -> Result<std::result::Result<OpenedStore, String>> {
    let (file, cache_bytes) = (config.store_file(), config.storage.cache_mb << 20);
    let opened = catch_unwind(|| {
        let store = Inspection::open(&file, cache_bytes)?;
        let layout = store.layout()?;
        Ok::<_, Error>((store, layout))
    });
    match opened {
        Ok(Ok(opened)) => Ok(Ok(opened)),
        Ok(Err(error)) if error.code() != Code::InternalError => Err(error),
        Ok(Err(error)) => Ok(Err(error.for_operator())),
        Err(_) => Ok(Err("its pages contradict each other".to_owned())),
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::unavailable(format!("{}: {error}", path.display()))
}

impl Diagnosis {
    /// Looks at one part; whether the next ones can be looked at. A part that could not be walked to its end is a finding.
    fn part(&mut self, name: &'static str, look: impl FnOnce() -> Result<Part>) -> bool {
        // redb can panic on pages that were damaged.
        match catch_unwind(AssertUnwindSafe(look)) {
            Ok(Ok((about, findings))) => {
                let is_whole = !findings.iter().any(|finding| finding.mend == Mend::Salvage);
                self.looked_at.push(Looked { part: name, about });
                self.findings.extend(findings);
                return is_whole;
            }
            Ok(Err(error)) => self.findings.push(Finding::lost(name, error.for_operator())),
            Err(_) => {
                let what = "the file is so damaged that it cannot be walked";
                self.findings.push(Finding::lost(name, what));
            }
        }
        false
    }
}
