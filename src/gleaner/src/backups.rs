//! `gleaner backup` and `gleaner restore`: of a box that runs, through its socket, and of one that is off.

use crate::admin;
use crate::config::Config;
use crate::features::backups::{
    BackupStart, BackupState, Means, OrganizationRestoreStart, OrganizationRestoreState, PAGES, Place, about,
    read_passphrase, show,
};
use crate::features::wiring::commands::Request;
use crate::log;
use backup::{BackupId, Destination, Manifest, Passphrase, Progress, Repository, RowsOf};
use base::{Code, Error, Result};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{Import, ImportedRows, Inspection};
use tokio::runtime::Runtime;

/// How often a box that makes a backup is asked how far it is.
const ASKED_EVERY: Duration = Duration::from_millis(300);

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  gleaner backup /mnt/backups --without-key\n  gleaner backup /mnt/backups --passphrase-file /etc/gleaner/passphrase\n  gleaner backup list /mnt/backups\n  gleaner backup verify /mnt/backups"
)]
pub struct BackupArguments {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    #[command(flatten)]
    make: MakeArguments,
}

#[derive(Args)]
struct MakeArguments {
    /// Where it goes: a folder, or s3://BUCKET/PREFIX with the keys of [backup]; without it backup.target.
    to: Option<String>,
    /// The configuration of the appliance; without it appliance.toml of this folder, else /etc/gleaner/appliance.toml, else the
    /// defaults.
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// A file with the passphrase that the key file and the configuration are sealed with; without it backup.passphrase_file.
    #[arg(long, value_name = "FILE", conflicts_with = "without_key")]
    passphrase_file: Option<PathBuf>,
    /// Leave the key file out: it is kept elsewhere.
    #[arg(long)]
    without_key: bool,
    /// Write everything anew, also what earlier backups have: after `verify` has found damage.
    #[arg(long)]
    full: bool,
}

#[derive(Subcommand)]
enum BackupCommand {
    /// List the backups of a place, oldest first.
    #[command(after_help = "Examples:\n  gleaner backup list /mnt/backups")]
    List(FromArguments),
    /// Read every byte of the backups of a place and compare it with its checksum. Ends with 1 when something is wrong.
    #[command(
        after_help = "Examples:\n  gleaner backup verify /mnt/backups\n  gleaner backup verify /mnt/backups --backup ID"
    )]
    Verify {
        #[command(flatten)]
        from: FromArguments,
        /// Only this one.
        #[arg(long, value_name = "ID")]
        backup: Option<String>,
    },
}

#[derive(Args)]
struct FromArguments {
    /// Where the backups are: a folder, or s3://BUCKET/PREFIX; without it backup.target.
    from: Option<String>,
    /// The configuration with [backup].
    #[arg(long, short)]
    config: Option<PathBuf>,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  gleaner restore /mnt/backups --passphrase-file /etc/gleaner/passphrase\n  gleaner restore /mnt/backups --backup ID --without-key\n  gleaner restore /mnt/backups --organization \"Ada's Shop\""
)]
pub struct RestoreArguments {
    /// Where the backups are: a folder, or s3://BUCKET/PREFIX with the keys of [backup].
    from: String,
    /// Which backup; without it the newest.
    #[arg(long, value_name = "ID")]
    backup: Option<String>,
    /// The configuration of the appliance, which says where data folder and key file go: there must be none.
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// A file with the passphrase that the backup was sealed with.
    #[arg(long, value_name = "FILE", conflicts_with = "without_key")]
    passphrase_file: Option<PathBuf>,
    /// Leave out the key file that is in the backup: it will be put back from elsewhere.
    #[arg(long)]
    without_key: bool,
    /// Bring back this organization alone, by its id or name, into the appliance that runs. It must be gone there: nothing is
    /// written over. Its outputs come back switched off.
    #[arg(long, value_name = "NAME", conflicts_with = "without_key")]
    organization: Option<String>,
}

/// Reads a configuration.
pub type Load = fn(Option<PathBuf>) -> Result<Config>;

/// Does what `gleaner backup` was typed for, and gives what to print.
pub fn back_up(arguments: BackupArguments, load: Load, runtime: &Runtime) -> Result<Value> {
    match arguments.command {
        None => make(arguments.make, load, runtime),
        Some(BackupCommand::List(from)) => list(&repository(from, load, runtime)?),
        Some(BackupCommand::Verify { from, backup }) => {
            verify(&repository(from, load, runtime)?, backup.as_deref())
        }
    }
}

fn make(arguments: MakeArguments, load: Load, runtime: &Runtime) -> Result<Value> {
    let config = load(arguments.config)?;
    // The box stands in another folder than who types.
    let target = arguments.to.map(|to| target(&to)).transpose()?;
    let passphrase_file = arguments.passphrase_file.as_deref().map(absolute).transpose()?;
    let start =
        BackupStart { target, passphrase_file, without_key: arguments.without_key, full: arguments.full };
    let place = Place::of(&config);
    // What is wrong with what was typed is said without asking anybody.
    let wanted = start.wanted(&place)?;
    match runtime.block_on(admin::call(&config.socket(), &Request::of(&start)?)) {
        Ok(begun) => {
            let ask = Request::of(&BackupState { number: begun["number"].as_u64() })?;
            runtime.block_on(follow(&config.socket(), &ask, backup_shown))
        }
        // Nobody answers: the box is off, or the store says who has it.
        Err(error) if error.code() == Code::ServiceUnavailable => {
            let store = Inspection::open(&config.store_file(), config.storage.cache_mb << 20)?;
            let id =
                store.id()?.ok_or_else(|| Error::conflict("the store has no id yet: start the box once"))?;
            let (layout, known) = store.layout()?;
            if layout > known {
                return Err(Error::conflict("the store was written by a newer release"));
            }
            let mut export = |take: store::TakeRows<'_>| store.export(&|| false, take);
            // Nobody removes anything of a box that is off: the store is open here.
            let hold = || -> Box<dyn std::any::Any> { Box::new(()) };
            let (stop, progress) = (|| false, Progress::default());
            let means = Means { hold: &hold, stop: &stop, progress: &progress, runtime: runtime.handle() };
            let done = place.back_up(&wanted, id, &mut export, &means)?;
            Ok(show(&done, &wanted.target))
        }
        Err(error) => Err(error),
    }
}

/// A place as the box may have it named: a path that is relative is meant from here.
fn target(given: &str) -> Result<String> {
    if given.contains("://") {
        return Ok(given.to_owned());
    }
    let path = std::path::absolute(given).map_err(|e| Error::invalid("TO", e))?;
    path.into_os_string().into_string().map_err(|_| Error::invalid("TO", "is not UTF-8"))
}

/// Waits for the end of what the box does, and shows how far it is to whoever looks.
async fn follow(socket: &Path, ask: &Request, shown_as: fn(&Value) -> String) -> Result<Value> {
    let (mut shown, is_terminal) = (Value::Null, io::stderr().is_terminal());
    loop {
        let state = admin::call(socket, ask).await?;
        if let Some(failure) = state["ended"]["failure"].as_str() {
            return Err(Error::conflict(failure));
        }
        if state["ended"].is_object() {
            return Ok(state["ended"].clone());
        }
        let running = &state["running"];
        if is_terminal && *running != shown {
            log::say(&mut io::stderr(), &shown_as(running));
            shown = running.clone();
        }
        tokio::time::sleep(ASKED_EVERY).await;
    }
}

/// How far a backup is.
fn backup_shown(running: &Value) -> String {
    format!(
        "{} pages ({} new), {} rows, {} MB written",
        running["pages"],
        running["newPages"],
        running["rows"],
        running["writtenBytes"].as_u64().unwrap_or_default() / 1_000_000
    )
}

/// How far the restore of an organization is.
fn restore_shown(running: &Value) -> String {
    let phase = running["phase"].as_str().unwrap_or_default();
    format!("{phase}: {} pages, {} rows", running["pages"], running["rows"])
}

fn repository(from: FromArguments, load: Load, runtime: &Runtime) -> Result<Repository> {
    let place = Place::of(&load(from.config)?);
    let given = from.from.map(|from| target(&from)).transpose()?;
    let named = given.or_else(|| Some(place.backup.target.clone())).filter(|target| !target.is_empty());
    let named = named.ok_or_else(|| {
        Error::invalid("FROM", "is missing: say where the backups are, or set backup.target")
    })?;
    place.repository(&named, runtime.handle())
}

fn list(repository: &Repository) -> Result<Value> {
    let listing = repository.list()?;
    let backups: Vec<_> = listing.backups.iter().map(about).collect();
    Ok(json!({ "place": repository.name(), "backups": backups, "damaged": listing.damaged }))
}

fn verify(repository: &Repository, id: Option<&str>) -> Result<Value> {
    let (backups, mut findings) = match id {
        Some(id) => (vec![repository.manifest(&id.parse()?)?], Vec::new()),
        None => {
            let listing = repository.list()?;
            (listing.backups, listing.damaged)
        }
    };
    if backups.is_empty() && findings.is_empty() {
        return Err(Error::conflict(format!("{} has no backup", repository.name())));
    }
    let checked = backup::check(repository, &backups.iter().collect::<Vec<_>>(), &|| false)?;
    findings.extend(checked.findings);
    if !findings.is_empty() {
        for finding in &findings {
            log::say(&mut io::stderr(), &format!("DAMAGED  {finding}"));
        }
        return Err(Error::conflict(match findings.len() {
            1 => "a backup is damaged".to_owned(),
            n => format!("backups are damaged: {n} findings"),
        }));
    }
    let ids: Vec<_> = backups.iter().map(|backup| &backup.id).collect();
    Ok(json!({
        "place": repository.name(),
        "whole": ids,
        "objects": checked.objects,
        "bytes": checked.bytes,
    }))
}

/// Does what `gleaner restore` was typed for, and gives what to print.
pub fn restore(arguments: &RestoreArguments, load: Load, runtime: &Runtime) -> Result<Value> {
    let config = load(arguments.config.clone())?;
    if let Some(organization) = &arguments.organization {
        return runtime.block_on(restore_organization(arguments, organization, &config.socket()));
    }
    let place = Place::of(&config);
    let repository = place.repository(&target(&arguments.from)?, runtime.handle())?;
    let backup = chosen(&repository, arguments.backup.as_deref())?;
    let passphrase = passphrase(arguments, &backup)?;
    secrets::keyring::refuse_inside(&place.key_file, &place.data)
        .map_err(|e| Error::invalid("storage.key_file", e))?;
    let kept_config = beside(&place.data, "restored.toml");
    let into = Destination {
        data: &place.data,
        pages: PAGES,
        key_file: &place.key_file,
        config: &kept_config,
        passphrase: passphrase.as_ref(),
        stop: &|| false,
    };
    let file = config.store_file();
    let mut store = || -> Result<Box<dyn backup::Store>> { Ok(Box::new(Restored(Import::begin(&file)?))) };
    let (restored, rows) = backup::restore(&repository, &backup, &into, &mut store)?;
    let mut told = json!({
        "backup": backup.id,
        "moment": backup.moment,
        "madeBy": backup.version,
        "data": place.data,
        "rows": rows,
        "pages": restored.pages,
        "files": restored.files,
        "keyFile": Some(&place.key_file).filter(|_| restored.key),
        "configuration": Some(&kept_config).filter(|_| restored.config),
    });
    if !restored.key && !place.key_file.exists() {
        let key = place.key_file.display();
        told["next"] = json!(format!("put the box's key file back at {key}, mode 0600, before you start it"));
    }
    Ok(told)
}

/// Has the box that runs bring one organization back, and waits for the end.
async fn restore_organization(
    arguments: &RestoreArguments,
    organization: &str,
    socket: &Path,
) -> Result<Value> {
    let start = OrganizationRestoreStart {
        target: target(&arguments.from)?,
        backup: arguments.backup.clone(),
        organization: organization.to_owned(),
        passphrase_file: arguments.passphrase_file.as_deref().map(absolute).transpose()?,
    };
    let begun = admin::call(socket, &Request::of(&start)?).await?;
    let ask =
        Request::of(&OrganizationRestoreState { number: begun["number"].as_u64().unwrap_or_default() })?;
    follow(socket, &ask, restore_shown).await
}

/// The path as the box may have it, which stands in another folder.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::internal("find the working directory", e))
}

/// The name of the data folder with another end.
fn beside(data: &Path, end: &str) -> PathBuf {
    let folder: PathBuf = data.components().collect();
    let mut name = folder.into_os_string();
    name.push(".");
    name.push(end);
    PathBuf::from(name)
}

fn chosen(repository: &Repository, id: Option<&str>) -> Result<Manifest> {
    match id {
        Some(id) => repository.manifest(&id.parse::<BackupId>()?),
        None => repository.newest(),
    }
}

fn passphrase(arguments: &RestoreArguments, backup: &Manifest) -> Result<Option<Passphrase>> {
    match &arguments.passphrase_file {
        Some(file) => read_passphrase(file).map(Some),
        None if backup.has_key() && !arguments.without_key => Err(Error::invalid(
            "--passphrase-file",
            "or --without-key must be given: the backup has the box's key file, sealed with a passphrase",
        )),
        None => Ok(None),
    }
}

/// The store's file that is being made.
struct Restored(Import);

impl backup::Store for Restored {
    fn put(&mut self, rows: RowsOf) -> Result<()> {
        self.0.put(ImportedRows { table: rows.table, rows: rows.rows })
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        self.0.finish()
    }
}
