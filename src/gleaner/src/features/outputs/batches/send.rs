//! A try of a batch.

use super::super::attempt::{Tried, shown};
use super::super::kinds::postgres;
use super::super::rows::{DeliveryV1, FilesV1, OutputV2, PostgresV1, TargetV1};
use super::super::service::Deliverer;
use super::gather::BatchBody;
use super::read;
use base::{Error, Result};
use outputs::retry::Verdict;
use sinks::files::{self, Layout, Place};
use sinks::postgres::{Fault, FaultKind, Postgres, Written};
use std::sync::Arc;
use std::time::Instant;
use store::OrgStore;
use uuid::Uuid;

/// Batches that a turn sends, one after the other.
const BATCHES_PER_TURN: usize = 4;

/// Tries some deliveries in their order, up to one that does not go well; what came of those that were tried.
pub async fn send(
    deliverer: &Deliverer,
    org: &OrgStore,
    output: &OutputV2,
    due: &[DeliveryV1],
) -> Result<Vec<Tried>> {
    let mut all = Vec::new();
    let mut session = None;
    for row in due.iter().take(BATCHES_PER_TURN) {
        let begun = Instant::now();
        let one = match &output.target {
            TargetV1::Postgres(target) => {
                let written = into_table(deliverer, (org, output, target), row, &mut session).await?;
                of_table(written, begun)
            }
            TargetV1::Files(target) => into_files(deliverer, (org, output, target), row).await?,
            TargetV1::Webhook(_) | TargetV1::Chat(_) | TargetV1::Feed(_) | TargetV1::Email(_) => break,
        };
        let is_good = one.verdict == Verdict::Delivered;
        all.push(one);
        if !is_good {
            break;
        }
    }
    Ok(all)
}

/// Whether the target could be delivered to as it is now.
pub async fn test(deliverer: &Deliverer, org: &OrgStore, output: &OutputV2) -> Result<Vec<Tried>> {
    let begun = Instant::now();
    Ok(match &output.target {
        TargetV1::Postgres(target) => {
            let settings = postgres::settings(&deliverer.keyring, (org.id(), output.id), target)?;
            let none = org.read(|tx| read::rows(tx, output, &[]))?;
            let checked =
                async { Postgres::open(deliverer.connector(), &settings).await?.check(&none).await };
            let mut one = of_table(checked.await, begun);
            if one.verdict == Verdict::Delivered {
                one.told = format!("the table can be written to; {}", one.told);
            }
            vec![one]
        }
        TargetV1::Files(_) => {
            let (room, id) = (Arc::clone(&deliverer.room), org.id());
            let looked = tokio::task::spawn_blocking(move || room.refuses(id)).await;
            let looked = looked.map_err(|e| Error::internal("look at the room for files", e))?;
            let (verdict, told) = match looked {
                Ok(None) => (Verdict::Delivered, "files can be written".to_owned()),
                Ok(Some(told)) => (Verdict::Away, told),
                Err(error) => (Verdict::Away, format!("the folder cannot be used: {error}")),
            };
            vec![tried(verdict, &told, begun)]
        }
        TargetV1::Webhook(_) | TargetV1::Chat(_) | TargetV1::Feed(_) | TargetV1::Email(_) => Vec::new(),
    })
}

/// Writes a batch into files.
async fn into_files(
    deliverer: &Deliverer,
    (org, output, target): (&OrgStore, &OutputV2, &FilesV1),
    row: &DeliveryV1,
) -> Result<Tried> {
    let begun = Instant::now();
    let Some(body) = BatchBody::of(row) else { return Ok(tried(Verdict::Delivered, "", begun)) };
    let lost = |e| Error::internal("wait for a place to write files", e);
    let _place = deliverer.room.places.acquire().await.map_err(lost)?;
    let jobs = org.read(|tx| read::jobs(tx, output.id, body))?;
    let results = read::results(org, jobs).await?;
    let parts = org.read(|tx| read::parts(tx, results))?;
    let layout = Layout {
        format: target.format,
        is_delta: target.is_delta,
        writer: Uuid::from(output.id).simple().to_string(),
    };
    let place = Place { first: body.first_seq, last: body.last_seq, at_ms: row.event_at.millis() };
    let (room, id, path) = (Arc::clone(&deliverer.room), org.id(), target.path.clone());
    let written = tokio::task::spawn_blocking(move || {
        match room.refuses(id) {
            Ok(None) => {}
            Ok(Some(told)) => return Err(told),
            Err(error) => return Err(format!("the folder cannot be used: {error}")),
        }
        let written = files::write(&room.of(id).join(path), &layout, place, &parts);
        let written = written.map_err(|fault| fault.to_string())?;
        room.add(id, written.iter().flatten().map(|entry| entry.bytes).sum());
        Ok(written)
    });
    Ok(match written.await.map_err(|e| Error::internal("write files", e))? {
        Ok(Some(entries)) => {
            let rows: u64 = entries.iter().map(|entry| entry.rows).sum();
            tried(Verdict::Delivered, &format!("{rows} rows in {} files", entries.len()), begun)
        }
        Ok(None) => tried(Verdict::Delivered, "the files are there already", begun),
        Err(told) => tried(Verdict::Away, &told, begun),
    })
}

fn tried(verdict: Verdict, told: &str, begun: Instant) -> Tried {
    Tried { verdict, status: None, told: shown(told), retry_after: None, duration: begun.elapsed() }
}

/// Writes a batch into a table, over the session of the turn.
async fn into_table(
    deliverer: &Deliverer,
    (org, output, target): (&OrgStore, &OutputV2, &PostgresV1),
    row: &DeliveryV1,
    session: &mut Option<Postgres>,
) -> Result<std::result::Result<Written, Fault>> {
    let Some(body) = BatchBody::of(row) else { return Ok(Ok(Written::default())) };
    let jobs = org.read(|tx| read::jobs(tx, output.id, body))?;
    let results = read::results(org, jobs).await?;
    let batch = org.read(|tx| read::rows(tx, output, &results))?;
    if batch.rows.is_empty() {
        return Ok(Ok(Written::default()));
    }
    let open = match session.take() {
        Some(open) => Ok(open),
        None => {
            let settings = postgres::settings(&deliverer.keyring, (org.id(), output.id), target)?;
            Postgres::open(deliverer.connector(), &settings).await
        }
    };
    Ok(match open {
        Ok(mut open) => {
            let written = open.write(&batch).await;
            *session = Some(open);
            written
        }
        Err(fault) => Err(fault),
    })
}

fn of_table(written: std::result::Result<Written, Fault>, begun: Instant) -> Tried {
    let (verdict, told) = match written {
        Ok(written) => {
            let made = if written.is_new { ", the table was made" } else { "" };
            let added = match written.added.is_empty() {
                true => String::new(),
                false => format!(", columns that were added: {}", written.added.join(", ")),
            };
            (Verdict::Delivered, format!("{} rows written{made}{added}", written.rows))
        }
        // It will be the same for every batch until somebody mends it, so all of them wait.
        Err(Fault { kind: FaultKind::Away | FaultKind::Refused | FaultKind::Table, told }) => {
            (Verdict::Away, told)
        }
        Err(Fault { kind: FaultKind::Rows, told }) => (Verdict::Failed, told),
    };
    tried(verdict, &told, begun)
}
