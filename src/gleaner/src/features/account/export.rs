//! Exports of what the box holds on a person: a zip of one JSON file for each kind of thing, and a README.
//!
//! Every slice says in its `personal` what it holds and shows it page by page, so no read lives long and no export is held
//! in memory. One export is made at a time, on a thread that may block, into a file of the name `<id>.new` that takes its
//! own name when it is whole. A process that dies leaves a row that is not done, and it is made again. Rows and files go
//! after a week, and with the erasure of any organization that they tell of; a file without a row goes with the next round.

use super::Accounts;
use super::rows::{AccountExportV2, EXPORTS, EXPORTS_BY_END, EXPORTS_BY_USER, EXPORTS_OPEN, ExportStatusV1};
use crate::features::auth::USERS;
use crate::features::{self, Person, Personal};
use base::audit::Action;
use base::ids::{AccountExportId, OrgId, UserId};
use base::{Code, Error, Result};
use server::task::TaskContext;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{Event, Order, SysRead, SysWrite, System, readable};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// How long an export can be fetched.
pub(super) const EXPORT_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Time from one request of a person to the next that makes another export.
const REQUEST_PAUSE: Duration = Duration::from_secs(60);
/// Exports of one person that are kept; one more takes the place of the oldest.
const EXPORTS_PER_USER_MAX: usize = 3;
/// Items of one file.
const ITEMS_PER_FILE_MAX: usize = 100_000;
/// JSON of one file, bytes.
const FILE_BYTES_MAX: usize = 64 << 20;
const SWEEP_ROWS_MAX: usize = 256;

/// Asks for an export; the one that is not made yet, if there is one.
pub(super) fn request(tx: &SysWrite<'_>, user: UserId, org: Option<OrgId>) -> Result<AccountExportV2> {
    let own = tx.scan_index(&EXPORTS, &EXPORTS_BY_USER, user, Order::Ascending, 64)?;
    if let Some(open) = own.iter().find(|export| export.is_open()) {
        return Ok(open.clone());
    }
    // Whoever got nothing need not wait.
    if let Some(newest) = own.last().filter(|newest| newest.status != ExportStatusV1::Failed) {
        let wait = REQUEST_PAUSE.saturating_sub(tx.age(newest.requested_at));
        if !wait.is_zero() {
            return Err(Error::new(Code::RateLimited)
                .title("Too many exports")
                .message("Your last export is less than a minute old.")
                .header("retry-after", wait.as_millis().div_ceil(1000).to_string()));
        }
    }
    // Their files have no row any more and go with the next round.
    for oldest in own.iter().take((own.len() + 1).saturating_sub(EXPORTS_PER_USER_MAX)) {
        tx.delete(&EXPORTS, &oldest.id)?;
    }
    let row = AccountExportV2 {
        id: AccountExportId::new(),
        user,
        status: ExportStatusV1::Queued,
        requested_at: tx.now(),
        finished_at: None,
        expires_at: tx.moment().after(EXPORT_KEPT),
        byte_size: 0,
        orgs: None,
    };
    tx.insert(&EXPORTS, &row.id, &row)?;
    tx.audit_in(org, Event::new(Action::UserExportRequested).of(user))?;
    Ok(row)
}

/// The task: makes what was asked for, removes what is over.
pub(super) async fn run(context: TaskContext) -> Result<()> {
    let accounts = context.service::<Accounts>();
    // What is asked for meanwhile stands behind what is there.
    let mut after = None::<Vec<u8>>;
    loop {
        let open = context
            .system()
            .read(|tx| tx.readable_by(&EXPORTS, &EXPORTS_OPEN, (), None, after.as_deref(), 1))?;
        for (id, export) in open.rows.iter().filter(|(_, export)| export.is_open()) {
            if context.stopping() {
                return Ok(());
            }
            // One that cannot be made keeps no other from being made.
            if readable("an export", id, make(&context, &accounts, export.clone()).await)?.is_none() {
                let failed =
                    set_status(context.system(), *id, ExportStatusV1::Failed, BuiltExport::default()).await;
                readable("an export", id, failed)?;
            }
        }
        match open.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let now = context.moment();
    let ends_at = |row: &AccountExportV2| row.expires_at;
    context.system().sweep(&EXPORTS, &EXPORTS_BY_END, ends_at, now, || context.stopping()).await?;
    remove_stray_files(&accounts, context.system())
}

async fn make(context: &TaskContext, accounts: &Accounts, export: AccountExportV2) -> Result<()> {
    let system = context.system();
    let path = accounts.export_path(export.id);
    let user = system.read(|tx| tx.get(&USERS, &export.user))?;
    let Some(user) = user else {
        // Erased since: the erasure takes the row, and there is nothing to show.
        return system.write_freeing(move |tx| tx.delete(&EXPORTS, &export.id).map(drop)).await;
    };
    set_status(system, export.id, ExportStatusV1::Running, BuiltExport::default()).await?;
    let person = Person {
        id: user.id,
        email: user.email,
        org: user.membership.map(|(org, _)| org),
        asked_at: system.clock().now(),
    };
    let (reading, stop, to) = (system.clone(), context.clone(), path.clone());
    let built = tokio::task::spawn_blocking(move || build(&reading, &person, &to, &|| stop.stopping()))
        .await
        .map_err(|e| Error::internal("make an export", e))?;
    match built {
        Ok(built) => {
            if !set_status(system, export.id, ExportStatusV1::Success, built).await? {
                remove_file(&path)?;
            }
            Ok(())
        }
        // It stands in the index of open ones and is begun anew after the restart.
        Err(_) if context.stopping() => Ok(()),
        Err(error) => {
            tracing::error!(export = %export.id, %error, "an export of personal data failed");
            set_status(system, export.id, ExportStatusV1::Failed, BuiltExport::default()).await.map(drop)
        }
    }
}

/// A file that was made.
#[derive(Default)]
struct BuiltExport {
    bytes: u64,
    /// Whose things it tells of.
    orgs: BTreeSet<OrgId>,
}

/// Whether the export is still there, and may be: one that tells of an organization that is being erased goes instead.
async fn set_status(
    system: &System,
    id: AccountExportId,
    status: ExportStatusV1,
    built: BuiltExport,
) -> Result<bool> {
    system
        .write(move |tx| {
            let Some(mut row) = tx.get(&EXPORTS, &id)? else { return Ok(false) };
            if built.orgs.iter().any(|org| tx.is_fenced(*org)) {
                tx.delete(&EXPORTS, &id)?;
                return Ok(false);
            }
            row.status = status;
            row.byte_size = built.bytes;
            row.orgs = Some(built.orgs.into_iter().collect());
            if !row.is_open() {
                row.finished_at = Some(tx.now());
                row.expires_at = tx.moment().after(EXPORT_KEPT);
            }
            tx.put(&EXPORTS, &id, &row)?;
            Ok(true)
        })
        .await
}

/// Writes the zip.
fn build(system: &System, person: &Person, path: &Path, stop: &dyn Fn() -> bool) -> Result<BuiltExport> {
    let unfinished = path.with_extension("new");
    let failed = |e: io::Error| Error::internal("write an export", e);
    remove_file(&unfinished)?;
    let file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).map_err(failed)?;
    let mut zip = ZipWriter::new(BufWriter::new(file));
    let kinds: Vec<&'static Personal> = features::ALL.iter().flat_map(|feature| feature.personal).collect();
    let options =
        SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).unix_permissions(0o600);
    let zipped = |e: zip::result::ZipError| Error::internal("write an export", e);
    zip.start_file("README.txt", options).map_err(zipped)?;
    zip.write_all(readme(&kinds, &system.clock().now().to_string()).as_bytes()).map_err(failed)?;
    let mut orgs: BTreeSet<OrgId> = person.org.into_iter().collect();
    for kind in kinds {
        zip.start_file(format!("{}.json", kind.name), options).map_err(zipped)?;
        write_kind(&mut zip, system, person, kind, &mut orgs, stop)?;
    }
    let file = zip.finish().map_err(zipped)?.into_inner().map_err(|e| failed(e.into_error()))?;
    file.sync_all().map_err(failed)?;
    disk::rename(&unfinished, path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    Ok(BuiltExport { bytes, orgs })
}

/// One file: `{"about": "...", "items": [...], "truncated": false}`. Adds the organizations that its items name to `orgs`;
/// what names none is of the person's own.
fn write_kind(
    zip: &mut ZipWriter<impl Write + Seek>,
    system: &System,
    person: &Person,
    kind: &Personal,
    orgs: &mut BTreeSet<OrgId>,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let failed = |e: io::Error| Error::internal("write an export", e);
    let json = |e: serde_json::Error| Error::internal("write an export", e);
    let (mut items, mut bytes, mut place, mut truncated) = (0, 0, Vec::new(), false);
    let head = serde_json::to_string(kind.about).map_err(json)?;
    write!(zip, "{{\"about\":{head},\"items\":[").map_err(failed)?;
    loop {
        if stop() {
            return Err(Error::unavailable("the box drains; the export is made anew after the restart"));
        }
        let shown = system.read(|tx| (kind.show)(tx, person, &place))?;
        for row in shown.rows {
            let text = serde_json::to_string(&row).map_err(json)?;
            let comma = if items == 0 { "\n" } else { ",\n" };
            write!(zip, "{comma}{text}").map_err(failed)?;
            orgs.extend(row["organizationId"].as_str().and_then(|org| org.parse::<OrgId>().ok()));
            items += 1;
            bytes += text.len();
        }
        truncated =
            truncated || (shown.next.is_some() && (items >= ITEMS_PER_FILE_MAX || bytes >= FILE_BYTES_MAX));
        match shown.next {
            Some(next) if !truncated => place = next,
            _ => break,
        }
    }
    write!(zip, "\n],\"truncated\":{truncated}}}\n").map_err(failed)
}

fn readme(kinds: &[&Personal], now: &str) -> String {
    let mut text = format!(
        "What this Gleaner box holds on you, as of {now}.\n\n\
         Each file is JSON: \"items\" is the list; \"truncated\" is true where there was more than fits. Times are UTC.\n\
         Secrets (your password, tokens, keys) are kept as hashes only and are not in here. What you collected belongs\n\
         to your organization and is not in here either.\n\n"
    );
    for kind in kinds {
        text.push_str(&format!("{}.json: {}\n", kind.name, kind.about));
    }
    text
}

/// Removes the files of a person's exports.
pub(super) fn remove_files_of(accounts: &Accounts, system: &System, user: UserId) -> Result<()> {
    // Also those whose rows cannot be read.
    let own = system.read(|tx| tx.lookup_keys(&EXPORTS, &EXPORTS_BY_USER, user, 64))?;
    own.iter().try_for_each(|id| remove_file(&accounts.export_path(*id)))
}

/// Removes the exports that tell of an organization, with their files; how many.
pub(super) async fn remove_of_org(context: TaskContext, org: OrgId) -> Result<u64> {
    let accounts = context.service::<Accounts>();
    let (mut after, mut removed) = (None::<Vec<u8>>, 0);
    loop {
        let step = context.system().read(|tx| tx.readable(&EXPORTS, after.as_deref(), SWEEP_ROWS_MAX))?;
        let Some(next) = step.next else { return Ok(removed) };
        after = Some(next);
        let gone = step.rows.into_iter().filter(|(_, row)| row.tells_of(org));
        let gone: Vec<_> = gone.map(|(id, _)| id).collect();
        if gone.is_empty() {
            continue;
        }
        gone.iter().try_for_each(|id| remove_file(&accounts.export_path(*id)))?;
        removed += gone.len() as u64;
        let delete =
            move |tx: &SysWrite<'_>| gone.iter().try_for_each(|id| tx.delete(&EXPORTS, id).map(drop));
        context.system().write_freeing(delete).await?;
    }
}

/// The file of every export that is made, in their folder, and how long it is.
pub fn kept_files(tx: &SysRead<'_>, folder: &Path) -> Result<Vec<(AccountExportId, PathBuf, u64)>> {
    let (mut files, mut after) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let step = tx.readable(&EXPORTS, after.as_deref(), SWEEP_ROWS_MAX)?;
        let Some(next) = step.next else { return Ok(files) };
        after = Some(next);
        let made = step.rows.iter().filter(|(_, row)| row.status == ExportStatusV1::Success);
        files.extend(made.map(|(id, row)| (*id, file_of(folder, *id), row.byte_size)));
    }
}

/// Notes that the file of an export is lost: it can be asked for again.
pub async fn forget_export(system: &System, id: AccountExportId) -> Result<()> {
    let forgotten = system.write_freeing(move |tx| {
        tx.unaudited("an export whose file is lost goes by itself, as those do that are too old");
        tx.delete(&EXPORTS, &id)
    });
    forgotten.await.map(drop)
}

fn file_of(folder: &Path, id: AccountExportId) -> PathBuf {
    folder.join(format!("{id}.zip"))
}

/// Removes every file of which no row speaks.
fn remove_stray_files(accounts: &Accounts, system: &System) -> Result<()> {
    let failed = |e: io::Error| Error::internal("list the exports", e);
    for entry in fs::read_dir(accounts.exports_dir()).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let id = path.file_stem().and_then(|stem| stem.to_str()?.parse::<AccountExportId>().ok());
        // The file of a row that cannot be read stays.
        let is_stray = |id: AccountExportId| {
            let row = readable("an export", id, system.read(|tx| tx.get(&EXPORTS, &id)))?;
            Ok::<_, Error>(row.is_some_and(|row| row.is_none()))
        };
        if id.map_or(Ok(true), is_stray)? {
            remove_file(&path)?;
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::internal("remove an export", error))
        }
        _ => Ok(()),
    }
}

impl Accounts {
    pub(super) fn export_path(&self, id: AccountExportId) -> PathBuf {
        file_of(self.exports_dir(), id)
    }
}
