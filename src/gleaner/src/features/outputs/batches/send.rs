//! A try of a batch.

use super::super::attempt::Tried;
use super::super::kinds::postgres;
use super::super::rows::{DeliveryV1, OutputV2, PostgresV1, TargetV1};
use super::super::service::Deliverer;
use super::files::{self, tried};
use super::gather::BatchBody;
use super::read;
use base::Result;
use outputs::retry::Verdict;
use sinks::postgres::{Fault, FaultKind, Postgres, Written};
use std::time::Instant;
use store::OrgStore;

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
    let (mut session, mut shelf) = (None, None);
    for row in due.iter().take(BATCHES_PER_TURN) {
        let begun = Instant::now();
        let one = match &output.target {
            TargetV1::Postgres(target) => {
                let written = into_table(deliverer, (org, output, target), row, &mut session).await?;
                of_table(written, begun)
            }
            TargetV1::Files(_) | TargetV1::FilesAway(_) => {
                files::write(deliverer, (org, output), row, &mut shelf).await?
            }
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
        TargetV1::Files(_) | TargetV1::FilesAway(_) => vec![files::test(deliverer, org, output).await?],
        TargetV1::Webhook(_) | TargetV1::Chat(_) | TargetV1::Feed(_) | TargetV1::Email(_) => Vec::new(),
    })
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
