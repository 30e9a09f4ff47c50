//! Inputs: where URLs come in by themselves. Somebody sends them ([`ingest`]), or the box looks for them.
//!
//! [`wire`] and, of crawls, [`crawl_wire`]: what an input may be; [`patterns`]: which URLs are meant; [`token`]: a webhook's token and signatures;
//! [`rows`] and [`runs`]: what is stored; [`changes`]: what the log of events is told. Of those that the box looks at itself:
//! [`service`]: the rules of ticks and runs; [`run`]: one step of a run, which asks for a document, has it read ([`read`])
//! and registered ([`register`]); [`crawl`]: one step of a walk through a site, whose rows are in [`crawl_rows`]; [`task`]: who
//! does all that, in turns over the organizations.

mod changes;
mod config;
mod crawl;
mod crawl_rows;
mod crawl_wire;
mod ingest;
mod patterns;
mod read;
mod register;
mod rows;
mod run;
mod runs;
mod service;
mod state;
mod stepping;
mod task;
mod token;
mod views;
mod wire;

pub use config::InputsConfig;

use super::{Feature, Holding};
use crate::config::SectionSpec;
use crate::features::jobs::SubmitContext;
use crate::features::providers::DispatchConfig;
use crate::features::schedules::Times;
use crate::features::urls;
use crate::features::wiring::Wiring;
use base::audit::Action;
use base::ids::{InputId, OrgId};
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use crawl_rows::{CRAWL_RUNS, CRAWLS, CrawlV1, FRONTIERS};
use fetch::{AddressGuard, Politeness};
use futures::future::BoxFuture;
use rows::{INPUTS, InputKind, InputV1, MESSAGES, WEBHOOK_DAY};
use runs::{BY_INPUT, DOCUMENTS, GONE, GoneV1, INPUT_URLS, InputRunStatus, InputRunV1, RUNS};
use schemars::JsonSchema;
use secrets::keyring::{Keyring, SealContext};
use serde::Deserialize;
use server::permit::{IntegrationsRead, IntegrationsWrite, Quota};
use server::task::{Signals, TaskSpec};
use server::{
    Accepted, Body, Created, Etag, Handler, IfMatch, Need, NoContent, Org, OrgContext, Path, Query, Route,
    apart_if,
};
use state::{Runner, RunnerParts};
use std::time::Duration;
use store::{Event, OrgRead, OrgWrite};
use token::Token;
use wire::{CheckedInput, InputUpdate, InputView, NewInput, RunView, Within};

/// Inputs of one organization.
const INPUTS_PER_ORG_MAX: usize = 1_000;
/// How soon a tick is seen, and a run that was begun elsewhere.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const REMOVE_EVERY: Duration = Duration::from_secs(60);
/// How often it is looked which messages are to be forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);

pub static FEATURE: Feature = Feature {
    name: "inputs",
    uses: &["billing", "events", "extraction", "jobs", "providers", "schedules", "urls"],
    sections: &[SectionSpec::of::<InputsConfig>()],
    events: changes::EVENTS,
    open: Some(open),
    tables: &[
        &INPUTS,
        &WEBHOOK_DAY,
        &MESSAGES,
        &RUNS,
        &DOCUMENTS,
        &INPUT_URLS,
        &GONE,
        &CRAWLS,
        &CRAWL_RUNS,
        &FRONTIERS,
        &crawl_rows::FRONTIER_TERMS,
        &crawl_rows::CRAWL_PAGES,
        &crawl_rows::CRAWL_SHAPES,
        &crawl_rows::CRAWL_CONTENTS,
        &crawl_rows::CRAWL_SEEN,
        &crawl_rows::FRONTIERS_GONE,
    ],
    routes: &[
        Route::get("/api/v1/inputs", "listInputs", &Handler::new(list))
            .about("The organization's inputs, newest first."),
        Route::post("/api/v1/inputs", "createInput", &Handler::new(create))
            .secret()
            .about("Makes an input. Of a webhook the answer has the address with its token, which is not shown again.")
            .fails(&[Code::InvalidInput, Code::InvalidUrl, Code::Conflict]),
        Route::get("/api/v1/inputs/{id}", "getInput", &Handler::new(get)).about("One input."),
        Route::patch("/api/v1/inputs/{id}", "updateInput", &Handler::new(update))
            .secret()
            .about("Gives an input other terms; what is left out stays.")
            .fails(&[Code::InvalidInput, Code::InvalidUrl, Code::NotFound]),
        Route::delete("/api/v1/inputs/{id}", "deleteInput", &Handler::new(delete))
            .about("Removes an input; its URLs, their jobs and results stay. A webhook's token ends.")
            .fails(&[Code::NotFound]),
        Route::post("/api/v1/inputs/{id}/run", "runInput", &Handler::new(run_now))
            .about("Runs an input at once: its document is asked for, or its site is walked, and its URLs are registered.")
            .fails(&[Code::NotFound, Code::Conflict]),
        Route::get("/api/v1/inputs/{id}/runs", "listInputRuns", &Handler::new(list_runs))
            .about("What became of an input's ticks and runs, newest first."),
        Route::post("/api/v1/webhooks/{token}/ingest", "ingestUrls", &Handler::new(ingest::ingest))
            .about("Registers the URLs that are sent to a webhook; the token in the path is the credential.")
            .fails(&[
                Code::InvalidInput,
                Code::InvalidUrl,
                Code::NotFound,
                Code::AuthInvalid,
                Code::Conflict,
                Code::RateLimited,
                Code::QuotaExceeded,
            ]),
    ],
    tasks: &[
        TaskSpec::new("inputs.tick", LOOK_EVERY, |context| Box::pin(task::tick_all(context))),
        TaskSpec::new(task::RUN, LOOK_EVERY, |context| Box::pin(task::run_all(context))),
        TaskSpec::new("inputs.remove", REMOVE_EVERY, |context| Box::pin(task::remove_old(context))),
        TaskSpec::new("inputs.forget", FORGET_EVERY, |context| Box::pin(ingest::forget_messages(context))),
    ],
    views: &[views::INPUT_VIEW, views::RUN_VIEW],
    holdings: &[Holding {
        name: "runs of inputs that go on",
        remove: |context, org| {
            Box::pin(async move {
                context.service::<Runner>().forget(org);
                Ok(0)
            })
        },
    }],
    needs: &[
        Need::of::<InputParts>(),
        Need::of::<AddressGuard>(),
        Need::of::<Keyring>(),
        Need::of::<SubmitContext>(),
        Need::of::<Runner>(),
    ],
    ..Feature::NONE
};

/// What the slice knows of its box. Hung up in the services.
struct InputParts {
    /// How people reach the box, without a slash at the end.
    url: String,
    /// Pages that a run of a crawl may ask for.
    pages_max: u32,
}

/// Opens the slice's part.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let url = wiring.url.to_owned();
        let config = wiring.config.section::<InputsConfig>();
        wiring.hang::<InputParts>(InputParts { url, pages_max: config.max_pages_per_crawl });
        let runner = Runner::new(RunnerParts {
            direct: wiring.part(),
            politeness: wiring.part::<Politeness>().as_ref().clone(),
            guard: wiring.part(),
            submit: wiring.part(),
            blobs: wiring.part(),
            robots: wiring.config.section::<DispatchConfig>().robots,
            max_documents: config.max_documents_per_run,
            max_urls: config.max_urls_per_run,
        });
        wiring.hang::<Runner>(runner);
        Ok(())
    })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct InputFilter {
    kind: Option<InputKind>,
    is_enabled: Option<bool>,
}

async fn list(
    org: Org<IntegrationsRead>,
    Query(filter): Query<InputFilter>,
    page: PageRequest,
) -> Result<Body<Page<InputView>>> {
    let wanted = |row: &InputV1| {
        filter.kind.is_none_or(|kind| row.kind == kind)
            && filter.is_enabled.is_none_or(|is_enabled| row.is_enabled == is_enabled)
    };
    let rows = org.read(|tx| {
        let Page { items, next_cursor } = tx.page(&INPUTS, &page, wanted)?;
        let items = items.into_iter().map(|row| viewed(tx, row)).collect::<Result<_>>()?;
        Ok(Page { items, next_cursor })
    })?;
    Ok(Body(rows))
}

fn viewed(tx: &OrgRead<'_>, row: InputV1) -> Result<InputView> {
    let crawl = crawl_of(tx, &row)?;
    Ok(InputView::new(row, crawl))
}

fn crawl_of(tx: &OrgRead<'_>, row: &InputV1) -> Result<Option<CrawlV1>> {
    if row.kind == InputKind::Crawl { tx.get(&CRAWLS, &row.id) } else { Ok(None) }
}

async fn get(org: Org<IntegrationsRead>, Path(id): Path<InputId>) -> Result<Body<InputView>> {
    Ok(Body(org.read(|tx| viewed(tx, tx.require(&INPUTS, &id)?))?))
}

/// Where a webhook's secret is sealed.
fn place<'a>(org: &'a OrgId, id: &'a InputId) -> SealContext<'a> {
    SealContext { org: org.0.as_bytes(), table: INPUTS.name(), id: id.0.as_bytes(), field: "signingSecret" }
}

/// Seals what is secret of an input; its new token, if it is to have one, goes out once, in the address that is given back.
fn sealed(
    org: &OrgContext,
    row: &mut InputV1,
    secret: Option<Vec<u8>>,
    new_token: bool,
) -> Result<Option<String>> {
    if let Some(secret) = secret {
        let sealed = org.service::<Keyring>().seal(&place(&org.id(), &row.id), &secret);
        row.signing_secret = Some(sealed.map_err(|e| Error::internal("seal a webhook's secret", e))?);
    }
    if !new_token {
        return Ok(None);
    }
    let token = Token::generate()?;
    (row.token, row.token_shown) = (Some(token.digest()), Some(token.shown().to_owned()));
    let base = &org.service::<InputParts>().url;
    Ok(Some(format!("{base}/api/v1/webhooks/{}/ingest", token.as_str())))
}

/// What an input refers to must be the organization's.
fn check_references(
    tx: &OrgRead<'_>,
    (row, crawl): (&InputV1, Option<&CrawlV1>),
    before: Option<&InputV1>,
) -> Result<()> {
    let is_kept = before.is_some_and(|before| before.page_type == row.page_type);
    urls::check_page_type(tx, "pageType", row.page_type.filter(|_| !is_kept))?;
    for (at, rule) in crawl.into_iter().flat_map(|crawl| &crawl.rules).enumerate() {
        let page_type = rule.keep.as_ref().and_then(|keep| keep.page_type);
        urls::check_page_type(tx, &format!("rules[{at}].keep.pageType"), page_type)?;
    }
    match row.workflow_id {
        Some(id) if before.and_then(|row| row.workflow_id) != Some(id) && !urls::is_usable(tx, id)? => {
            Err(Error::invalid("workflowId", format!("there is no workflow {id}")))
        }
        _ => Ok(()),
    }
}

/// Goes on with its ticks from now on.
fn from_now(tx: &OrgRead<'_>, row: &mut InputV1, times: Option<&Times>) {
    row.decided_until = tx.now();
    row.next_at = times.and_then(|times| times.after(row.decided_until));
}

async fn create(org: Org<IntegrationsWrite>, Body(new): Body<NewInput>) -> Result<Created<InputView>> {
    let (guard, pages_max) = (org.service::<AddressGuard>(), org.service::<InputParts>().pages_max);
    let (is_heavy, now) = (new.is_heavy(), org.store().clock().now());
    let check = move || new.checked(&Within { guard: &guard, now, pages_max });
    let checked = apart_if(is_heavy, check).await??;
    let CheckedInput { mut row, secret, times, crawl } = checked;
    let is_webhook = row.kind == InputKind::Webhook;
    let address = sealed(&org, &mut row, secret, is_webhook)?;
    let made = org.write(move |tx| {
        if tx.count(&INPUTS, INPUTS_PER_ORG_MAX)? >= INPUTS_PER_ORG_MAX {
            let reason =
                format!("An organization has at most {INPUTS_PER_ORG_MAX} inputs; delete one first.");
            return Err(Error::conflict(reason));
        }
        check_references(tx, (&row, crawl.as_ref()), None)?;
        (row.created_at, row.updated_at) = (tx.now(), tx.now());
        from_now(tx, &mut row, times.as_ref());
        tx.insert(&INPUTS, &row.id, &row)?;
        if let Some(crawl) = &crawl {
            tx.insert(&CRAWLS, &row.id, crawl)?;
        }
        tx.audit(Event::new(Action::InputCreated).of(row.id).with("kind", row.kind.name()))?;
        Ok(InputView::new(row, crawl))
    });
    Ok(Created(made.await?.with_ingest_url(address)))
}

async fn update(
    org: Org<IntegrationsWrite>,
    Path(id): Path<InputId>,
    condition: IfMatch,
    Body(update): Body<InputUpdate>,
) -> Result<Body<InputView>> {
    let (guard, pages_max) = (org.service::<AddressGuard>(), org.service::<InputParts>().pages_max);
    let (is_heavy, now) = (update.is_heavy(), org.store().clock().now());
    let check = move || update.checked(&Within { guard: &guard, now, pages_max });
    let update = apart_if(is_heavy, check).await??;
    let read = |tx: &OrgRead<'_>| {
        let row = tx.require(&INPUTS, &id)?;
        let crawl = crawl_of(tx, &row)?;
        Ok((row, crawl))
    };
    let (before, crawl_before) = org.read(read)?;
    let rotates = update.rotates;
    let checked = update.applied(before.clone(), crawl_before.clone(), now)?;
    let CheckedInput { mut row, secret, times, crawl } = checked;
    let address = sealed(&org, &mut row, secret, rotates)?;
    let updated = org.write(move |tx| {
        let present = tx.require(&INPUTS, &id)?;
        let crawl_now = crawl_of(tx, &present)?;
        condition.check(&Etag::of(&InputView::new(present.clone(), crawl_now.clone()))?)?;
        if !is_same(&present, &before) || crawl_now != crawl_before {
            return Err(Error::conflict("The input was changed meanwhile: ask for it and change it again."));
        }
        let is_walked_alike = crawl == crawl_before;
        if is_same(&row, &present) && is_walked_alike {
            tx.unaudited("nothing is changed");
            return Ok(InputView::new(present, crawl));
        }
        let new_crawl = crawl.as_ref().filter(|_| !is_walked_alike);
        check_references(tx, (&row, new_crawl), Some(&present))?;
        keep_state(tx, &mut row, &present, times.as_ref());
        if !is_walked_alike {
            row.terms = present.terms.wrapping_add(1);
        }
        tx.put(&INPUTS, &id, &row)?;
        if let Some(crawl) = &crawl {
            tx.put(&CRAWLS, &id, crawl)?;
        }
        tx.audit(Event::new(Action::InputUpdated).of(id))?;
        Ok(InputView::new(row, crawl))
    });
    Ok(Body(updated.await?.with_ingest_url(address)))
}

/// Whether two states of an input have the same terms, whatever its runs have noted in it.
fn is_same(one: &InputV1, other: &InputV1) -> bool {
    let terms = |row: &InputV1| InputV1 {
        decided_until: other.decided_until,
        next_at: other.next_at,
        last_run_at: other.last_run_at,
        failures: other.failures,
        ..row.clone()
    };
    terms(one) == *other
}

/// What the box has noted in an input goes on with its new terms, as far as it holds under them.
fn keep_state(tx: &OrgWrite<'_>, row: &mut InputV1, present: &InputV1, times: Option<&Times>) {
    (row.decided_until, row.next_at) = (present.decided_until, present.next_at);
    (row.last_run_at, row.failures) = (present.last_run_at, present.failures);
    row.updated_at = tx.now();
    let when = |row: &InputV1| (row.cron.clone(), row.timezone.clone(), row.is_enabled);
    if when(row) != when(present) {
        from_now(tx, row, times);
    }
    let read_under = |row: &InputV1| {
        let lists = (row.include.clone(), row.exclude.clone(), row.tags.clone());
        (row.url.clone(), lists, row.page_type, row.workflow_id, row.any_domain)
    };
    if read_under(row) != read_under(present) {
        row.terms = present.terms.wrapping_add(1);
    }
}

async fn delete(org: Org<IntegrationsWrite>, Path(id): Path<InputId>) -> Result<NoContent> {
    let deleted = org.write_freeing(move |tx| {
        tx.require(&INPUTS, &id)?;
        tx.delete(&INPUTS, &id)?;
        crawl::forget(tx, id)?;
        // Its runs and what it remembers may be many; they go behind it.
        tx.put(&GONE, &id, &GoneV1 { at: tx.now() })?;
        tx.audit(Event::new(Action::InputDeleted).of(id))
    });
    deleted.await?;
    Ok(NoContent)
}

/// How it is run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct RunRequest {
    /// Whether all documents are read, also those that are said not to have changed.
    full: bool,
}

async fn run_now(
    org: Org<Quota<IntegrationsWrite>>,
    Path(id): Path<InputId>,
    request: Option<Body<RunRequest>>,
) -> Result<Accepted<RunView>> {
    let is_full = request.is_some_and(|Body(request)| request.full);
    let run = org.write(move |tx| {
        let run = service::trigger(tx, id, is_full)?;
        tx.audit(Event::new(Action::InputTriggered).of(id).with("runId", uuid::Uuid::from(run.id)))?;
        Ok((run, tx.require(&INPUTS, &id)?.kind))
    });
    let (run, kind) = run.await?;
    org.service::<Signals>().wake(task::RUN);
    Ok(Accepted::new(RunView::new(run, kind, None)))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct RunFilter {
    status: Option<InputRunStatus>,
}

async fn list_runs(
    org: Org<IntegrationsRead>,
    Path(id): Path<InputId>,
    Query(filter): Query<RunFilter>,
    page: PageRequest,
) -> Result<Body<Page<RunView>>> {
    let wanted = |run: &InputRunV1| filter.status.is_none_or(|status| run.status == status);
    let rows = org.read(|tx| {
        let input = tx.require(&INPUTS, &id)?;
        let frontier = tx.get(&FRONTIERS, &id)?;
        let Page { items, next_cursor } = tx.page_by(&RUNS, &BY_INPUT, id, &page, wanted)?;
        let viewed = |run: InputRunV1| {
            let is_running = run.status == InputRunStatus::Running;
            let crawl = tx.get(&CRAWL_RUNS, &run.id)?;
            let crawl = crawl.map(|crawl| (crawl, frontier.clone().filter(|_| is_running)));
            Ok(RunView::new(run, input.kind, crawl))
        };
        let items = items.into_iter().map(viewed).collect::<Result<_>>()?;
        Ok(Page { items, next_cursor })
    })?;
    Ok(Body(rows))
}
