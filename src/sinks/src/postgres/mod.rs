//! Rows into a table of somebody's own PostgreSQL.
//!
//! [`settings`]: which server and table, checked; [`connect`]: a connection through the address guard; [`tls`]: what `sslmode` means;
//! [`table`]: the table as it is there, made or widened where that is allowed; [`rows`]: the statement that takes a batch in;
//! [`fault`]: what went wrong, and whether it is a matter of the server, the settings or the rows.
//!
//! Each row is there once, however often a batch is written: the table has a unique key, the result's id or the page's URL, and
//! a row that is there is replaced. A batch is one transaction.

mod connect;
mod fault;
mod names;
mod rows;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod tls;

pub use fault::{Fault, FaultKind};
pub use names::NAME_BYTES_MAX;
pub use settings::{Settings, SslMode, WriteMode, check_certificates, place};

use crate::Batch;
use connect::Session;
use fetch::Connector;
use std::time::Duration;
use tokio::time::timeout;

/// How long a batch may take, from its first statement on.
const BATCH_TIME: Duration = Duration::from_secs(120);

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows that the server has written; of a page that is there already as it is now, none.
    pub rows: u64,
    /// Columns that were added to the table.
    pub added: Vec<String>,
    /// Whether the table was made.
    pub is_new: bool,
}

/// A server that may be written to.
pub struct Postgres {
    session: Session,
    settings: Settings,
}

impl Postgres {
    /// Connects and logs in.
    pub async fn open(connector: &Connector, settings: &Settings) -> Result<Postgres, Fault> {
        let session = connect::open(connector, settings).await?;
        Ok(Postgres { session, settings: settings.clone() })
    }

    /// Writes a batch: all of it, or nothing.
    pub async fn write(&mut self, batch: &Batch) -> Result<Written, Fault> {
        let Postgres { session, settings } = self;
        let written = async {
            let transaction = session.client.transaction().await?;
            let (table, mut written) = table::prepare(&transaction, settings, batch).await?;
            written.rows = rows::write(&transaction, settings, &table, batch).await?;
            transaction.commit().await?;
            Ok(written)
        };
        timeout(BATCH_TIME, written).await.unwrap_or_else(|_elapsed| {
            Err(Fault::away(format!("the server has not taken a batch within {} s", BATCH_TIME.as_secs())))
        })
    }

    /// Makes or widens the table as rows of these columns would need it, and writes nothing.
    pub async fn check(&mut self, batch: &Batch) -> Result<Written, Fault> {
        let Postgres { session, settings } = self;
        let checked = async {
            let transaction = session.client.transaction().await?;
            let (_, checked) = table::prepare(&transaction, settings, batch).await?;
            transaction.rollback().await?;
            Ok(checked)
        };
        timeout(BATCH_TIME, checked)
            .await
            .unwrap_or_else(|_elapsed| Err(Fault::away("the server did not answer in time".to_owned())))
    }
}
