//! The SQL console: an organization's own rows as tables, statements over them, results in pages.
//!
//! The parts: [`SnapshotFeed`] keeps the snapshots in step with the store, [`Queries`] takes statements in and
//! carries them to their end. Parsing, planning and running happen in worker processes (crate `sql`).

mod asked;
mod commands;
mod compile;
mod computation_line;
mod computed;
mod config;
mod content;
mod erase;
mod export_rows;
mod exports;
mod feed;
mod known_values;
mod open;
mod quiesce;
mod refusals;
mod retention;
mod rows;
mod run;
mod samples;
mod saved;
mod scope;
mod service;
mod standing;
mod standing_rights;
mod state;
mod submissions;
mod switch;
mod tables;
mod task;
mod view;
mod watched;

pub use asked::{
    AgentSave, Answered, Asked, Asking, DescribedTable, is_name_taken, is_of_statement, is_saved,
    save_for_agent,
};
pub use computed::Computed;
pub use config::BiConfig;
pub use export_rows::is_whole as is_export_whole;
pub use exports::Exports;
pub use feed::{SnapshotFeed, ahead as snapshots_ahead};
pub use retention::{ResultRetention, RetainedFile, RetainedOf, RetentionBounds, give_up, retained_files};
pub use rows::SAVED_QUERIES;
pub use service::{BiSettings, Queries};
pub use standing::{StandingFailure, StandingRows, StandingStatement};
pub use standing_rights::lacks;
pub use switch::{KillSwitchOrder, KillTarget, load_kill_switches};
pub use task::recover;
pub use watched::StatementWatcher;

use super::{Comeback, Feature};
use crate::config::SectionSpec;
use crate::features::wiring::ConsumerSpec;
use base::ids::QueryId;
use base::limits::{
    RESULT_PAGE_ROWS_DEFAULT, RESULT_PAGE_ROWS_MAX, STATEMENT_WAIT_MS_DEFAULT, STATEMENT_WAIT_MS_MAX,
};
use base::page::{Page, PageRequest};
use base::permission::Permission;
use base::{Code, Error, Result};
use content::Content;
use rows::{QUERIES, QueryStatus, QueryV2};
use serde_json::{Value, json};
use server::permit::BiRead;
use server::task::{Stage, TaskSpec};
use server::{
    Accepted, Body, Either, Entitlement, Handler, Mount, Need, Org, OrgContext, Path, PathParam, Query,
    RefusalCodes, Route, WebPage,
};
use service::{NewQuery, Submitted};
use sql::TableName;
use state::StatementState;
use std::time::Duration;
use view::{
    CanceledView, EligibilityView, ExecutionView, ManifestEnvelope, ManifestView, NewQueryView, PageQuery,
    PageSizeQuery, QueryFilter, ResultPageView, TableItemView, TableView,
};

/// Everything of the console wants its entitlement and a verified address, and refuses with codes of its own (data/docs/api.md,
/// "The SQL console").
pub static MOUNT: Mount = Mount {
    path: "/api/v1/bi",
    plan: Some(Entitlement("sqlConsole")),
    verified: true,
    structured: true,
    refusals: RefusalCodes {
        org: Code::NoOrg,
        plan: Code::FeatureDisabled,
        unverified: Code::EmailNotVerified,
        permission: Code::InsufficientPermissions,
    },
};

static ERRORS_PAGE: WebPage = WebPage::about_errors("bi", include_str!("../../../../../data/errors/bi.md"));

/// How soon the tables are up to date that are the same for every organization.
const SHARE_EVERY: Duration = Duration::from_secs(1);

pub static FEATURE: Feature = Feature {
    name: "bi",
    uses: &["auth", "billing", "raw"],
    commands: Some(commands::COMMANDS),
    sections: &[SectionSpec::of::<BiConfig>()],
    open: Some(open::open),
    descriptors: Some(open::descriptors),
    folders: open::FOLDERS,
    consumer: Some(ConsumerSpec::of::<SnapshotFeed>("bi.feed", FEED_PAUSE_MAX, "snapshot files")),
    start_test: Some(open::START_TEST),
    status: Some(open::status),
    gauges: Some(open::gauges),
    look: Some(open::look),
    tables: &[
        &QUERIES,
        &SAVED_QUERIES,
        &rows::SUBMISSIONS,
        &rows::CATALOG,
        &rows::SAMPLES,
        &export_rows::EXPORTS,
        &switch::KILL_SWITCHES,
    ],
    routes: &[
        Route::post("/api/v1/bi/queries", "submitBiQuery", &Handler::new(submit))
            .waits()
            .about("Runs a query over the organization's tables; 200 when it ended within waitMs, else 202.")
            .fails(&[
                Code::InvalidSql,
                Code::SyntaxError,
                Code::RlsDenied,
                Code::InvalidExecutionContext,
                Code::KillSwitched,
                Code::TooManyQueries,
            ])
            .fails_as(STATEMENT_SWITCHED_OFF),
        Route::get("/api/v1/bi/queries", "listBiQueries", &Handler::new(list))
            .about("Submitted statements, newest first."),
        Route::get("/api/v1/bi/queries/{id}", "getBiQuery", &Handler::new(get))
            .about("One submitted statement."),
        Route::post("/api/v1/bi/queries/{id}/cancel", "cancelBiQuery", &Handler::new(cancel))
            .about("Ends a statement that waits or runs; one that has ended stays as it is."),
        Route::get("/api/v1/bi/queries/{id}/results", "getBiResults", &Handler::new(results))
            .about("One page of a successful statement's rows.")
            .fails(&[Code::NotReady, Code::Transient]),
        Route::get("/api/v1/bi/queries/{id}/result-manifest", "getBiManifest", &Handler::new(manifest))
            .about("How large a result is, how fresh, and how long it is kept."),
        Route::post("/api/v1/bi/queries/{id}/exports", "requestBiExport", &Handler::new(exports::request))
.secret()
            .about("Makes a file of a successful statement's rows, in the background.")
            .fails(&[Code::NotReady, Code::Transient, Code::InvalidSql, Code::TooManyQueries]),
        Route::get("/api/v1/bi/exports/{id}", "getBiExport", &Handler::new(exports::get))
.secret()
            .about("Where an export stands, and a link to its file that is good for 15 minutes."),
        Route::get("/api/v1/bi/exports/{id}/download", "downloadBiExport", &Handler::new(exports::download))
            .about("The file, whole or from where a download broke off.")
            .fails(&[Code::NotReady]),
        Route::get("/api/v1/bi/tables", "listBiTables", &Handler::new(tables))
            .about("The tables that a statement can read."),
        Route::get("/api/v1/bi/tables/{name}", "getBiTable", &Handler::new(table))
            .about("One table with its columns and example values.")
            .fails(&[Code::InvalidTableName]),
        Route::get("/api/v1/bi/saved-queries", "listSavedQueries", &Handler::new(saved::list))
            .about("Saved queries, newest first."),
        Route::post("/api/v1/bi/saved-queries", "createSavedQuery", &Handler::new(saved::create))
            .about("Saves a query under a name that its scope does not have yet.")
            .fails(&[
                Code::AlreadyExists,
                Code::Conflict,
                Code::InvalidSql,
                Code::SyntaxError,
                Code::RlsDenied,
                Code::InvalidExecutionContext,
            ]),
        Route::get("/api/v1/bi/saved-queries/{id}", "getSavedQuery", &Handler::new(saved::get))
            .about("One saved query."),
        Route::patch("/api/v1/bi/saved-queries/{id}", "updateSavedQuery", &Handler::new(saved::update))
            .about("Changes name, description or content; the scope is as it was made.")
            .fails(&[
                Code::AlreadyExists,
                Code::InvalidSql,
                Code::SyntaxError,
                Code::RlsDenied,
                Code::InvalidExecutionContext,
            ]),
        Route::delete("/api/v1/bi/saved-queries/{id}", "deleteSavedQuery", &Handler::new(saved::delete))
            .about("Removes a saved query; what it has run stays."),
        Route::post(
            "/api/v1/bi/saved-queries/{id}/convert",
            "convertSavedQuery",
            &Handler::new(saved::convert),
        )
        .about("A saved structured query as a statement that PostgreSQL takes.")
        .fails(&[Code::InvalidSql, Code::SavedQueryNotExecutable]),
        Route::post("/api/v1/bi/saved-queries/{id}/run", "runSavedQuery", &Handler::new(saved::run))
            .waits()
            .about("Runs a saved query, once in 24 hours for each Idempotency-Key; 200 when it ended in time, else 202.")
            .fails(&[
                Code::InvalidExecutionContext,
                Code::InvalidSql,
                Code::SyntaxError,
                Code::RlsDenied,
                Code::SavedQueryNotExecutable,
                Code::KillSwitched,
                Code::TooManyQueries,
            ])
            .fails_as(STATEMENT_SWITCHED_OFF),
    ],
    pages: &[Route::get("/docs/errors/bi", "biErrorsPage", &ERRORS_PAGE)],
    mount: Some(&MOUNT),
    tasks: &[
        TaskSpec::new("bi.share", SHARE_EVERY, task::share),
        TaskSpec::new("bi.merge", Duration::from_secs(1), task::merge).stage(Stage::Derive),
        TaskSpec::new(exports::TASK, Duration::from_secs(60), exports::make).tried_again_within(FEED_PAUSE_MAX),
        TaskSpec::new("bi.tidy", Duration::from_secs(3_600), task::tidy),
    ],
    needs: &[Need::of::<Queries>(), Need::of::<SnapshotFeed>(), Need::of::<Exports>()],
    personal: erase::KINDS,
    comeback: Comeback { files: Some(erase::recount), ..Comeback::NONE },
    holdings: erase::HOLDINGS,
    links: exports::LINKS,
    ..Feature::NONE
};

/// One statement is switched off, and another one would do: then it is the request that is wrong.
const STATEMENT_SWITCHED_OFF: &[(u16, Code)] = &[(400, Code::KillSwitched)];
/// The longest pause of a feed that fails: what it fails for (a full disk, a busy store) passes, and rows wait.
const FEED_PAUSE_MAX: Duration = Duration::from_secs(5);

async fn submit(
    org: Org<BiRead>,
    Body(body): Body<NewQueryView>,
) -> Result<Either<Body<ExecutionView>, Accepted<ExecutionView>>> {
    let queries = org.service::<Queries>();
    let wait = wait(body.wait_ms)?;
    let scope = queries.scope(org.store(), body.scope_kind.as_deref(), body.scope_agent_id.as_deref())?;
    let content = Content::required(body.sql, body.structured)?.with_parameters(body.params)?;
    let new = NewQuery {
        content: queries.runnable(org.store(), content)?,
        scope,
        submitted_by: org.principal().user(),
        saved: None,
        key: None,
        dry: body.dry_run.unwrap_or(false),
        wait,
    };
    answer(&org, new).await
}

/// Submits a statement and answers with its first page when it ended in time.
async fn answer(
    org: &OrgContext,
    new: NewQuery,
) -> Result<Either<Body<ExecutionView>, Accepted<ExecutionView>>> {
    let submitted = org.service::<Queries>().submit(org.store(), new).await?;
    shown(org, submitted).await
}

/// A submitted statement, with its first page when it has ended well.
async fn shown(
    org: &OrgContext,
    submitted: Submitted,
) -> Result<Either<Body<ExecutionView>, Accepted<ExecutionView>>> {
    let (queries, query) = (org.service::<Queries>(), &submitted.query);
    if !query.status.has_ended() {
        return Ok(Either::Right(Accepted::new(ExecutionView::submitted(submitted, None))));
    }
    let page = match query.status {
        QueryStatus::Success if !query.dry => {
            match queries.first_page(org.id(), &submitted, RESULT_PAGE_ROWS_DEFAULT).await {
                Ok(page) => Some(ResultPageView::of(query, page)),
                // An earlier run answers a replay, and its rows may have gone since; so may those of this one, to make room.
                // The caller is told which statement it was; its pages say why there are none.
                Err(error) if error.code() == Code::Transient => None,
                Err(error) => return Err(error),
            }
        }
        _ => None,
    };
    Ok(Either::Left(Body(ExecutionView::submitted(submitted, page))))
}

fn wait(given_ms: Option<u64>) -> Result<Duration> {
    match given_ms.unwrap_or(STATEMENT_WAIT_MS_DEFAULT) {
        ms if ms <= STATEMENT_WAIT_MS_MAX => Ok(Duration::from_millis(ms)),
        _ => Err(Error::invalid("waitMs", format!("must be 0 to {STATEMENT_WAIT_MS_MAX}"))),
    }
}

async fn list(
    org: Org<BiRead>,
    Query(filter): Query<QueryFilter>,
    page: PageRequest,
) -> Result<Body<Page<ExecutionView>>> {
    let states = org.service::<Queries>().states(org.id());
    let told = |query: QueryV2| StatementState::told(states.get(&query.id), query);
    let accepts = |query: &QueryV2| match states.contains_key(&query.id) {
        true => filter.accepts(&told(query.clone())),
        false => filter.accepts(query),
    };
    let rows = org.read(|tx| tx.page(&QUERIES, &page, accepts))?;
    Ok(Body(rows.map(|query| ExecutionView::from(told(query)))))
}

async fn get(org: Org<BiRead>, Path(id): Path<QueryId>) -> Result<Body<ExecutionView>> {
    Ok(Body(org.service::<Queries>().find(org.store(), id)?.into()))
}

async fn cancel(org: Org<BiRead>, Path(id): Path<QueryId>) -> Result<Body<CanceledView>> {
    let query = org.service::<Queries>().cancel(org.store(), id).await?;
    Ok(Body(CanceledView { status: query.status }))
}

async fn results(
    org: Org<BiRead>,
    Path(id): Path<QueryId>,
    Query(wanted): Query<PageQuery>,
) -> Result<Body<ResultPageView>> {
    let page_size = page_size(wanted.page_size)?;
    let query = org.service::<Queries>().find(org.store(), id)?;
    let page = org.service::<Queries>().page(org.id(), &query, wanted.page.unwrap_or(0), page_size).await?;
    let mut page = ResultPageView::of(&query, page);
    page.export_eligibility = Some(EligibilityView::of(&query, org.may(Permission::BiWrite)));
    Ok(Body(page))
}

async fn manifest(
    org: Org<BiRead>,
    Path(id): Path<QueryId>,
    Query(wanted): Query<PageSizeQuery>,
) -> Result<Body<ManifestEnvelope>> {
    let page_size = page_size(wanted.page_size)?;
    let query = org.service::<Queries>().find(org.store(), id)?;
    let kept = org.service::<Queries>().results_kept();
    let freshness_sec = match query.freshness_sec {
        Some(seconds) => seconds,
        // It has read nothing, and will not.
        None if query.status.has_ended() => 0,
        // It has not begun: what it would read now.
        None => org.service::<SnapshotFeed>().pin(org.id(), Vec::new())?.1,
    };
    Ok(Body(ManifestEnvelope { manifest: ManifestView::of(&query, page_size, kept, freshness_sec) }))
}

/// Like the limit of a list: clamped above, refused below.
fn page_size(given: Option<u64>) -> Result<u64> {
    match given.unwrap_or(RESULT_PAGE_ROWS_DEFAULT) {
        0 => Err(Error::invalid("pageSize", "must be at least 1")),
        size => Ok(size.min(RESULT_PAGE_ROWS_MAX)),
    }
}

async fn tables(org: Org<BiRead>, page: PageRequest) -> Result<Body<Page<TableItemView>>> {
    let feed = org.service::<SnapshotFeed>();
    feed.settled(org.id()).await?;
    let (tables, freshness_sec) = feed.tables(org.store())?;
    let views = tables.into_iter().map(|table| TableItemView::of(table, freshness_sec)).collect();
    Ok(Body(page.of_whole("bi_tables", views, |view: &TableItemView| &view.name)?))
}

/// Any other text than an identifier is refused: it cannot be a table's name, and nobody's existence shows by that.
struct TableParam(TableName);

impl PathParam for TableParam {
    fn parse(text: &str) -> Result<Self> {
        TableName::parse(text)
            .map(Self)
            .map_err(|e| Error::new(Code::InvalidTableName).message(e.to_string()))
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$" })
    }
}

async fn table(org: Org<BiRead>, Path(TableParam(name)): Path<TableParam>) -> Result<Body<TableView>> {
    let feed = org.service::<SnapshotFeed>();
    feed.settled(org.id()).await?;
    let (tables, freshness_sec) = feed.tables(org.store())?;
    let found = tables.into_iter().find(|table| table.spec.name == name);
    let found = found.ok_or_else(|| Error::not_found("Table"))?;
    let samples = org.service::<Queries>().samples(org.store(), &found).await?;
    Ok(Body(TableView::of(found, freshness_sec, samples)))
}
