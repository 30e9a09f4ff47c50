//! A try of a batch that becomes files: in a folder of the box, or on a shelf elsewhere.

use super::super::attempt::{Tried, shown};
use super::super::kinds::files::{Away, settings};
use super::super::places::{FilesAwayV1, FilesV1, PlaceV1};
use super::super::room::AwayLane;
use super::super::rows::{DeliveryV1, OutputV2, STATES, TargetV1};
use super::super::service::Deliverer;
use super::gather::BatchBody;
use super::read;
use base::{Error, Result};
use outputs::retry::Verdict;
use s3::{Bounds, Bucket};
use sinks::files::{self, Entry, Layout, Place, Shelf};
use sinks::sftp::Sftp;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::OrgStore;
use uuid::Uuid;

/// How long a request to a storage may take, and how often it is repeated within a try: the ledger tries again, with longer pauses.
const BOUNDS: Bounds =
    Bounds { attempt: Duration::from_secs(30), retries: 1, operation: Duration::from_secs(60) };
/// How long a batch may take until all of it is elsewhere, whatever each step of it may.
const BATCH_TIME: Duration = Duration::from_secs(600);

/// What became of a try: what is told of it, or of why it did not go well.
type Told = std::result::Result<String, String>;

pub fn tried(verdict: Verdict, told: &str, begun: Instant) -> Tried {
    Tried { verdict, status: None, told: shown(told), retry_after: None, duration: begun.elapsed() }
}

/// It will be the same for every batch until somebody mends it, or the place is back: so all of them wait.
fn of_told(told: Told, begun: Instant) -> Tried {
    match told {
        Ok(told) => tried(Verdict::Delivered, &told, begun),
        Err(told) => tried(Verdict::Away, &told, begun),
    }
}

fn told_of(entries: Option<Vec<Entry>>) -> String {
    let Some(entries) = entries else { return "the files are there already".to_owned() };
    let rows: u64 = entries.iter().map(|entry| entry.rows).sum();
    format!("{rows} rows in {} files", entries.len())
}

fn writer(output: &OutputV2) -> String {
    Uuid::from(output.id).simple().to_string()
}

fn layout(output: &OutputV2, files: &FilesV1) -> Layout {
    Layout { format: files.format, is_delta: files.is_delta, writer: writer(output) }
}

/// The rows of a batch, and where it is in the log.
async fn rows(
    org: &OrgStore,
    output: &OutputV2,
    row: &DeliveryV1,
) -> Result<Option<(Vec<files::Part>, Place)>> {
    let Some(body) = BatchBody::of(row) else { return Ok(None) };
    let jobs = org.read(|tx| read::jobs(tx, output.id, body))?;
    let results = read::results(org, jobs).await?;
    let parts = org.read(|tx| read::parts(tx, results))?;
    let place = Place { first: body.first_seq, last: body.last_seq, at_ms: row.event_at.millis() };
    Ok(Some((parts, place)))
}

/// Writes a batch into files. `shelf` is one elsewhere that is open, and stays open for the next batch.
pub async fn write(
    deliverer: &Deliverer,
    (org, output): (&OrgStore, &OutputV2),
    row: &DeliveryV1,
    shelf: &mut Option<Shelf>,
) -> Result<Tried> {
    let begun = Instant::now();
    let told = match &output.target {
        TargetV1::Files(target) => into_folder(deliverer, (org, output, target), row).await?,
        TargetV1::FilesAway(target) => {
            let lane = lane(org, output)?;
            let place = deliverer.room.away(lane).enter(org.id()).await;
            let _place =
                place.map_err(|e| Error::internal("wait for a place to send files", format!("{e:?}")))?;
            let sent = into_away(deliverer, (org, output, target), row, shelf);
            tokio::time::timeout(BATCH_TIME, sent).await.unwrap_or_else(|_elapsed| {
                Ok(Err(format!("the files were not written within {} s", BATCH_TIME.as_secs())))
            })?
        }
        _ => Ok(String::new()),
    };
    if told.is_err() {
        // What a session has said half of is not gone on with.
        *shelf = None;
    }
    Ok(of_told(told, begun))
}

/// Whether the output did well last: those that did not wait for each other.
fn lane(org: &OrgStore, output: &OutputV2) -> Result<AwayLane> {
    let state = org.read(|tx| tx.get(&STATES, &output.id))?.unwrap_or_default();
    let is_well = state.failing_since.is_none() && state.last_delivered_at.is_some();
    Ok(if is_well { AwayLane::Well } else { AwayLane::Unknown })
}

async fn into_folder(
    deliverer: &Deliverer,
    (org, output, target): (&OrgStore, &OutputV2, &FilesV1),
    row: &DeliveryV1,
) -> Result<Told> {
    let lost = |e| Error::internal("wait for a place to write files", e);
    let _place = deliverer.room.places.acquire().await.map_err(lost)?;
    if let Some(told) = refused(deliverer, org, true).await? {
        return Ok(Err(told));
    }
    let Some((parts, place)) = rows(org, output, row).await? else { return Ok(Ok(String::new())) };
    let room = &deliverer.room;
    let mut shelf = Shelf::Folder(room.of(org.id()).join(&target.path));
    let scratch = room.scratch();
    let written = files::write(&mut shelf, &scratch, &layout(output, target), place, parts).await;
    Ok(written.map_err(|fault| fault.to_string()).map(|entries| {
        room.add(org.id(), entries.iter().flatten().map(|entry| entry.bytes).sum());
        told_of(entries)
    }))
}

/// Why nothing may be written, if so: for the disk, or for what the organization has in its folder.
async fn refused(deliverer: &Deliverer, org: &OrgStore, is_kept: bool) -> Result<Option<String>> {
    let (room, id) = (Arc::clone(&deliverer.room), org.id());
    let looked = tokio::task::spawn_blocking(move || room.refuses(id, is_kept)).await;
    let looked = looked.map_err(|e| Error::internal("look at the room for files", e))?;
    Ok(looked.unwrap_or_else(|error| Some(format!("the folder cannot be used: {error}"))))
}

async fn into_away(
    deliverer: &Deliverer,
    (org, output, target): (&OrgStore, &OutputV2, &FilesAwayV1),
    row: &DeliveryV1,
    kept: &mut Option<Shelf>,
) -> Result<Told> {
    // They are written on the box's disk first.
    if let Some(told) = refused(deliverer, org, false).await? {
        return Ok(Err(told));
    }
    let mut shelf = match kept.take() {
        Some(shelf) => shelf,
        None => match opened(deliverer, (org, output, target)).await? {
            Ok(shelf) => shelf,
            Err(told) => return Ok(Err(told)),
        },
    };
    // Where the storage keeps no condition, one batch after the other is what keeps a table's log whole.
    let table = deliverer.room.table(org.id(), table_of(target));
    let _alone = match &target.place {
        PlaceV1::S3(place) if target.files.is_delta && !place.conditional_puts => Some(table.lock().await),
        _ => None,
    };
    if target.files.is_delta && !deliverer.room.is_proven(output.id, output.revision) {
        // Whether it holds to what a Delta log needs is seen, and not believed.
        if let Err(fault) = shelf.probe(&writer(output), true).await {
            return Ok(Err(fault.to_string()));
        }
        deliverer.room.prove(output.id, output.revision);
    }
    let Some((parts, place)) = rows(org, output, row).await? else { return Ok(Ok(String::new())) };
    let scratch = deliverer.room.scratch();
    let written = files::write(&mut shelf, &scratch, &layout(output, &target.files), place, parts).await;
    let told = written.map_err(|fault| fault.to_string()).map(told_of);
    *kept = Some(shelf);
    Ok(told)
}

/// What names the folder of a bucket.
fn table_of(target: &FilesAwayV1) -> String {
    match &target.place {
        PlaceV1::S3(place) => {
            let endpoint = place.endpoint.as_deref().unwrap_or(&place.region);
            // A folder has one name, however much of it is the prefix.
            format!("{endpoint} {} {}/{}", place.bucket, place.prefix, target.files.path)
        }
        PlaceV1::Sftp(place) => {
            format!("{}:{} {} {}", place.host, place.port, place.folder, target.files.path)
        }
    }
}

async fn opened(
    deliverer: &Deliverer,
    (org, output, target): (&OrgStore, &OutputV2, &FilesAwayV1),
) -> Result<std::result::Result<Shelf, String>> {
    let connector = deliverer.direct.connector();
    Ok(match settings(&deliverer.keyring, (org.id(), output.id), target)? {
        Away::Bucket(settings) => {
            let bucket = Bucket::new(&settings, Arc::clone(connector), Some(org.id()), BOUNDS);
            let has_conditional_puts = settings.conditional_puts;
            bucket.map(|bucket| Shelf::Bucket { bucket, has_conditional_puts }).map_err(|e| e.to_string())
        }
        Away::Server(settings) => {
            let sftp = Sftp::open(connector, &settings).await;
            sftp.map(|sftp| Shelf::Server(Box::new(sftp))).map_err(|fault| fault.to_string())
        }
    })
}

/// Whether files could be written as it is now.
pub async fn test(deliverer: &Deliverer, org: &OrgStore, output: &OutputV2) -> Result<Tried> {
    let begun = Instant::now();
    let told = match &output.target {
        TargetV1::FilesAway(target) => {
            let tried =
                tokio::time::timeout(BOUNDS.operation, probed(deliverer, (org, output, target))).await;
            tried.unwrap_or_else(|_elapsed| {
                Ok(Err(format!("the place did not answer within {} s", BOUNDS.operation.as_secs())))
            })?
        }
        _ => match refused(deliverer, org, true).await? {
            None => Ok("files can be written".to_owned()),
            Some(told) => Err(told),
        },
    };
    Ok(of_told(told, begun))
}

async fn probed(
    deliverer: &Deliverer,
    (org, output, target): (&OrgStore, &OutputV2, &FilesAwayV1),
) -> Result<Told> {
    let mut shelf = match opened(deliverer, (org, output, target)).await? {
        Ok(shelf) => shelf,
        Err(told) => return Ok(Err(told)),
    };
    // Under a name of this test alone: a batch may be tried beside it.
    let name = format!("test-{}", Uuid::now_v7().simple());
    Ok(match shelf.probe(&name, target.files.is_delta).await {
        Ok(()) => Ok("files can be written, replaced and read".to_owned()),
        Err(fault) => Err(fault.to_string()),
    })
}
