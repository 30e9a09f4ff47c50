//! The audit log as its readers see it: pages, filters, and the whole of it as JSON lines.
//!
//! Rows are written below the slices (`store/audit`), by the operations that they tell of. They hold ids; what people and
//! keys are called is looked up here when a row is shown, so an erased person has no name in old rows either.

mod commands;
mod config;
mod export;
mod view;

pub use config::AuditConfig;

use super::Feature;
use crate::config::SectionSpec;
use crate::features::auth::Auth;
use crate::features::wiring::Wiring;
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::OrgId;
use base::limits::PAGE_ROWS_MAX;
use base::page::{Page, PageRequest};
use base::{Error, Result};
use export::{JsonLines, wants_json_lines};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use server::permit::AuditRead;
use server::task::{Stage, TaskContext, TaskSpec};
use server::{Accept, Body, Either, Handler, Need, Org, Query, Route};
use std::time::Duration;
use store::{AuditFilter, System};
use uuid::Uuid;
use view::{AuditLogView, Reader};

/// Opens the slice's parts.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let retention_days = wiring.config.section::<AuditConfig>().retention_days;
        wiring.hang::<AuditSettings>(AuditSettings { retention_days });
        Ok(())
    })
}

pub static FEATURE: Feature = Feature {
    name: "audit",
    uses: &["api_keys", "auth"],
    sections: &[SectionSpec::of::<AuditConfig>()],
    open: Some(open),
    commands: Some(commands::COMMANDS),
    routes: &[Route::get("/api/v1/audit-logs", "listAuditLogs", &Handler::new(list)).about(
        "Who did what, newest first. With Accept: application/x-ndjson the whole of it, one line a row, without pages.",
    )],
    needs: &[Need::of::<AuditSettings>(), Need::of::<Auth>()],
    tasks: &[
        // Once more in a drain, so that only a crash loses what was counted.
        TaskSpec::new("audit.refusals", Duration::from_secs(15), |context| Box::pin(flush(context)))
            .stage(Stage::Derive),
        TaskSpec::new("audit.prune", Duration::from_secs(3_600), |context| Box::pin(prune(context))),
    ],
    ..Feature::NONE
};

/// What the `[audit]` section says.
#[derive(Clone, Copy, Debug)]
pub struct AuditSettings {
    /// Days that rows are kept; 0 keeps them for good.
    pub retention_days: u32,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct AuditQuery {
    /// A user's id: what they did, also through their API keys, and refused logins to their account. Or a key's id.
    #[schemars(with = "Option<String>")]
    actor: Option<Uuid>,
    action: Option<Action>,
    /// The kind of thing that it was done to, such as `job`.
    resource_type: Option<String>,
    /// At this moment or later.
    from: Option<Timestamp>,
    /// Before this moment.
    to: Option<Timestamp>,
}

impl AuditQuery {
    fn filter(self) -> Result<AuditFilter> {
        if let Some(kind) = &self.resource_type
            && !Action::ALL.iter().any(|action| action.resource() == kind)
        {
            let mut kinds: Vec<_> = Action::ALL.iter().map(|action| action.resource()).collect();
            kinds.sort_unstable();
            kinds.dedup();
            return Err(Error::invalid("resourceType", format!("must be one of {}", kinds.join(", "))));
        }
        Ok(AuditFilter {
            actor: self.actor,
            action: self.action,
            resource_type: self.resource_type,
            from: self.from,
            to: self.to,
        })
    }
}

async fn list(
    org: Org<AuditRead>,
    accept: Accept,
    Query(query): Query<AuditQuery>,
    page: PageRequest,
) -> Result<Either<Body<Page<AuditLogView>>, JsonLines>> {
    let filter = query.filter()?;
    let reader = Reader::new(org.service::<Auth>().system().clone(), Some(org.id()));
    if wants_json_lines(&accept) {
        return JsonLines::start(reader, filter, page.cursor).map(Either::Right);
    }
    reader.page(&filter, &page).map(|page| Either::Left(Body(page)))
}

/// The newest rows of an organization's log, or of the box's own; what `gleaner admin audit` prints.
pub fn newest(system: &System, org: Option<OrgId>, limit: usize) -> Result<Vec<AuditLogView>> {
    let reader = Reader::new(system.clone(), org);
    let (mut rows, mut cursor) = (Vec::new(), None);
    while rows.len() < limit {
        let request = PageRequest { limit: (limit - rows.len()).min(PAGE_ROWS_MAX), cursor };
        let page = reader.page(&AuditFilter::default(), &request)?;
        rows.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(rows)
}

async fn flush(context: TaskContext) -> Result<()> {
    context.system().flush_refusals(context.stopping()).await
}

/// Removes rows that are older than they are kept.
async fn prune(context: TaskContext) -> Result<()> {
    let days = context.service::<AuditSettings>().retention_days;
    if days == 0 {
        return Ok(());
    }
    let kept = Duration::from_secs(u64::from(days) * 86_400);
    let before = context.moment().before(kept);
    let gone = context.system().prune_audit(before, || context.stopping()).await?;
    if gone > 0 {
        tracing::info!(rows = gone, days, "old audit rows were removed");
    }
    Ok(())
}
