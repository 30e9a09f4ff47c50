//! The rows of a batch, as the SQL console has them now.

use super::super::rows::OutputV2;
use super::gather::{BatchBody, chunks};
use crate::features::extraction::{RESULTS, ResultV4, plain_rows, table_of, typed_rows};
use base::ids::{JobId, OutputId};
use base::{Error, Result};
use sinks::Batch;
use sinks::files::Part;
use std::borrow::Cow;
use std::collections::BTreeMap;
use store::{OrgRead, OrgStore, readable};

/// What results are called of which no table has the values.
const OTHERS: &str = "results";
/// Results that one read transaction takes.
const RESULTS_PER_STEP: usize = 250;

/// The jobs whose results a batch is of.
pub fn jobs(tx: &OrgRead<'_>, output: OutputId, body: BatchBody) -> Result<Vec<JobId>> {
    Ok(chunks(tx, output, body)?.into_iter().flat_map(|(_, chunk)| chunk.jobs).collect())
}

/// The results of these jobs; what was removed meanwhile is left out.
pub async fn results(org: &OrgStore, jobs: Vec<JobId>) -> Result<Vec<ResultV4>> {
    let own = org.clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut all = Vec::with_capacity(jobs.len());
        for some in jobs.chunks(RESULTS_PER_STEP) {
            let found: Vec<_> =
                own.read(|tx| some.iter().map(|job| result(tx, *job)).collect::<Result<_>>())?;
            all.extend(found.into_iter().flatten());
        }
        Ok(all)
    });
    read.await.map_err(|e| Error::internal("read the results of a batch", e))?
}

fn result(tx: &OrgRead<'_>, job: JobId) -> Result<Option<ResultV4>> {
    Ok(readable("the result of a batch", job, tx.get(&RESULTS, &job))?.flatten())
}

/// Results as rows of the tables of their page types. Those of which nothing was read are rows of `results`, with what all have.
pub fn parts(tx: &OrgRead<'_>, results: Vec<ResultV4>) -> Result<Vec<Part>> {
    let mut kinds: BTreeMap<(bool, Option<String>), Vec<ResultV4>> = BTreeMap::new();
    for result in results {
        let name = result.page_type.map(|kind| kind.to_string());
        kinds.entry((result.was_read() && name.is_some(), name)).or_default().push(result);
    }
    let part = |((_, name), results): ((bool, Option<String>), Vec<ResultV4>)| {
        let kind = results.first().filter(|result| result.was_read()).and_then(|result| result.page_type);
        let table = kind.map_or(Cow::Borrowed(OTHERS), table_of);
        let (columns, rows) = match kind {
            Some(_) => typed_rows(tx, &table, &results)?,
            None => plain_rows(&results),
        };
        Ok(Part { table: table.into_owned(), page_type: name, batch: Batch { columns, rows } })
    };
    kinds.into_iter().map(part).collect()
}

/// Results as rows of one table: that of the output's page types, or one of all.
pub fn rows(tx: &OrgRead<'_>, output: &OutputV2, results: &[ResultV4]) -> Result<Batch> {
    let (columns, rows) = match output.page_types.first() {
        Some(page_type) => typed_rows(tx, &table_of(*page_type), results)?,
        None => plain_rows(results),
    };
    Ok(Batch { columns, rows })
}
