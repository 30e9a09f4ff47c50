//! One organization out of a backup into the box that runs (`gleaner restore FROM --organization NAME`).
//!
//! For an organization that is gone: its people erased it, or it moves here from another box. Nothing is written over: where it
//! is still there, the restore is refused. Everything is looked through first (`survey.rs`); then rows, pages and files are put
//! in place behind the store's fence, where nobody sees them (`bring.rs`), search and SQL tables are made of them, and one
//! operation makes its people members again (`people.rs`), switches its outputs off and opens it.
//!
//! Which rows come is not listed: every table of organizations that a slice declares, as an erasure removes every one. Of the
//! tables without an organization each is one of `WITHOUT_ORGANIZATION`, with what becomes of it.
//!
//! A process that dies leaves what it put in place behind the fence, and a note ([`COMING`]); the next one removes it.

mod bring;
mod people;
mod state;
mod survey;

pub use state::Returns;

use super::config::read_passphrase;
use super::rows::{COMING, ComingV1};
use super::service::Backups;
use crate::features::wiring::commands::Operation;
use backup::{BackupId, Manifest, Parts};
use base::audit::Action;
use base::{Error, Result};
use bring::{Bringing, Done};
use people::People;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::Services;
use server::task::{Signals, TaskContext};
use state::{Coming, WantedOrganization};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::Event;
use survey::Survey;
use tokio::runtime::Handle;

/// The task that carries it.
pub(super) const TASK: &str = "backups.organization";

/// Tables without an organization, with what becomes of their rows when one comes back.
#[cfg(test)]
const WITHOUT_ORGANIZATION: &[(&str, &str)] = &[
    ("account_exports", "files for people, which are theirs and lapse"),
    ("backups", "of the box"),
    ("bi_kill_switches", "the operator's, of the box"),
    ("device_codes", "logins that are under way, for minutes"),
    ("drift_position", "of the box"),
    ("erasures", "receipts, which stay"),
    ("jobs.planned_stop", "of the box"),
    ("login_failures", "of people, for minutes"),
    ("login_networks", "of people; learned anew"),
    ("mail", "letters of then are not sent again"),
    ("oidc_organizations", "what the configuration of this box names"),
    ("organization_coming_back", "of the box"),
    ("orgs", "put in place last"),
    ("page_adoption", "of the box"),
    ("past_uses", "marks of this box's period"),
    ("platform_schemas", "of the box; results carry what they were read with"),
    ("provider_accounts", "of people; joined anew at the next sign-in"),
    ("refresh_tokens", "sessions, which have ended"),
    ("password_resets", "letters of then are not good any more"),
    ("platform_schemas_changes", "of the box"),
    ("platform_schema_heads", "of the box"),
    ("platform_schemas_confirmed", "of the box"),
    ("search_indexed", "of the box"),
    ("result_domains_filled", "of the box"),
    ("users", "accounts of members: see `people.rs`"),
    ("verifications", "letters of then are not good any more"),
];

/// Begins to bring an organization back.
#[derive(Debug, Serialize, Deserialize)]
pub struct OrganizationRestoreStart {
    /// A folder or `s3://BUCKET/PREFIX`.
    pub target: String,
    /// Which backup; none: the newest.
    pub backup: Option<String>,
    /// Its id or name in the backup.
    pub organization: String,
    /// A file with what the backup's key file was sealed with: tried, where it is given.
    pub passphrase_file: Option<PathBuf>,
}

impl Operation for OrganizationRestoreStart {
    const NAME: &'static str = "organization_restore_start";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        let backups = services.service::<Backups>();
        // What is wrong with what was typed is said at once.
        backups.place().repository(&self.target, &Handle::current())?;
        let wanted = WantedOrganization {
            target: self.target,
            backup: self.backup.map(|id| id.parse()).transpose()?,
            named: self.organization,
            passphrase: self.passphrase_file.as_deref().map(read_passphrase).transpose()?,
        };
        let backup = wanted.backup.as_ref().map_or_else(|| "newest".to_owned(), BackupId::to_string);
        let event = Event::new(Action::OrgRestoreStarted).with("backup", backup);
        let number = services.service::<Returns>().start(wanted)?;
        services.system().write_freeing(move |tx| tx.audit(event)).await?;
        services.service::<Signals>().wake(TASK);
        Ok(json!({ "number": number }))
    }
}

/// Where it stands.
#[derive(Debug, Serialize, Deserialize)]
pub struct OrganizationRestoreState {
    pub number: u64,
}

impl Operation for OrganizationRestoreState {
    const NAME: &'static str = "organization_restore_state";

    async fn run(self, services: Arc<Services>) -> Result<Value> {
        Ok(services.service::<Returns>().state(self.number))
    }
}

/// The task: removes what a process left that died, then brings back what was asked for.
pub(super) async fn carry(context: TaskContext) -> Result<()> {
    let backups = context.service::<Backups>();
    clear_left(&context, &backups).await?;
    let returns = context.service::<Returns>();
    let Some(coming) = returns.running() else { return Ok(()) };
    let told = match bring_back(&context, &backups, &coming).await {
        Ok(told) => told,
        Err(error) => {
            let error = error.for_operator();
            tracing::warn!(organization = coming.wanted.named, error, "an organization was not restored");
            json!({ "failure": error })
        }
    };
    // What it left is gone before anybody reads that it failed, or goes with the next try or start.
    let cleared = if context.stopping() { Ok(()) } else { clear_left(&context, &backups).await };
    returns.end(&coming, told);
    cleared
}

async fn clear_left(context: &TaskContext, backups: &Backups) -> Result<()> {
    let Some(left) = context.system().read(|tx| tx.get(&COMING, &()))? else { return Ok(()) };
    tracing::warn!(organization = %left.org, backup = left.backup, "what a restore that was cut off has left is removed");
    bring::clear(context, &backups.place().data, left.org).await
}

async fn bring_back(context: &TaskContext, backups: &Arc<Backups>, coming: &Arc<Coming>) -> Result<Value> {
    let (context, backups, coming) = (context.clone(), Arc::clone(backups), Arc::clone(coming));
    let brought = tokio::task::spawn_blocking(move || {
        let runtime = Handle::current();
        let repository = backups.place().repository(&coming.wanted.target, &runtime)?;
        let backup = match &coming.wanted.backup {
            Some(id) => repository.manifest(id)?,
            None => repository.newest()?,
        };
        let stop = || context.stopping();
        let parts = Parts { repository: &repository, backup: &backup, stop: &stop };
        if let Some(passphrase) = &coming.wanted.passphrase {
            parts.try_passphrase(passphrase)?;
        }
        coming.enter("looking through the backup");
        let damaged = |error: Error| match error.code() {
            base::Code::Conflict => Error::conflict(format!(
                "nothing was restored from backup {}: {}",
                backup.id,
                error.for_operator()
            )),
            _ => error,
        };
        let survey = Survey::of(&parts, &coming.wanted.named).map_err(damaged)?;
        let system = context.system();
        let people = system.read(|tx| {
            bring::refuse_if_there(tx, &survey.entry)?;
            People::of(tx, &survey.members)
        })?;
        let (org, began_at) = (survey.entry.id, context.now());
        let note = ComingV1 { org, backup: backup.id.to_string(), began_at };
        let entry = survey.entry.clone();
        system.write_blocking(move |tx| bring::begin(tx, &entry, &note))?;
        runtime.block_on(bring::erase_rows(system, org))?;
        let data = &backups.place().data;
        let bringing = Bringing {
            context: &context,
            parts: &parts,
            data,
            coming: &coming,
            survey: &survey,
            people: &people,
        };
        let done = bringing.run()?;
        // What the log of then says of where somebody was who has left since goes as it went here.
        for person in &people.left {
            runtime.block_on(system.erase_personal(*person))?;
        }
        tracing::info!(organization = %org, backup = %backup.id, "an organization came back from a backup");
        Ok(told(&backup, &survey, &people, &coming, &done, backup.store == system.store().id()))
    });
    brought.await.map_err(|e| Error::internal("restore an organization", e))?
}

/// What came of it, as the operator reads it.
fn told(
    backup: &Manifest,
    survey: &Survey,
    people: &People,
    coming: &Coming,
    done: &Done,
    is_of_this_box: bool,
) -> Value {
    let mut told = json!({
        "backup": backup.id,
        "moment": backup.moment,
        "organization": { "id": survey.entry.id, "name": survey.entry.name },
        "rows": coming.rows.load(Ordering::Relaxed),
        "pages": survey.pages.pages,
        "files": survey.files.len(),
        "members": {
            "again": people.again.len(),
            "withAccount": people.with_account.len(),
            "elsewhere": people.elsewhere,
            "erasedThemselves": people.left.len(),
        },
        "unknownTables": done.unknown,
    });
    for (name, count) in &done.opened {
        told[name] = count.clone();
    }
    let mut next = vec![
        "its outputs are switched off, so that nothing is sent twice: have an owner switch them on again",
    ];
    if !is_of_this_box {
        next.push(
            "the backup is of another box, whose key seals credentials of providers, site sessions and outputs: have them \
             entered anew",
        );
    }
    told["next"] = json!(next);
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::ALL;
    use std::collections::BTreeSet;

    /// A new table without an organization says here what becomes of it; one of organizations comes back by itself.
    #[test]
    fn of_every_table_it_is_said_what_becomes_of_it() {
        let tables = ALL.iter().flat_map(|feature| feature.tables);
        let without: BTreeSet<_> =
            tables.filter(|table| !table.is_of_orgs()).map(|table| table.name()).collect();
        let said: BTreeSet<_> = WITHOUT_ORGANIZATION.iter().map(|(name, _)| *name).collect();
        assert_eq!(without, said);
    }
}
