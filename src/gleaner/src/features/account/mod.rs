//! Leaving: what the box holds on a person as a file for them, their erasure, and the erasure of an organization.
//!
//! What there is to show and to erase is said by the slices themselves, in `personal` and `holdings`; an organization's
//! rows are the store's to remove, whichever slice they are of. This slice asks for the password, makes files, and leads
//! erasures to their receipts (`erase.rs`).
//!
//! Rules:
//! - the last owner of an organization cannot erase their account: whoever has an organization in their hands gives it
//!   to somebody else first, or erases it, by its name. Nothing that others work with goes by the way;
//! - an erased person's id stays where they did something (audit rows, jobs, statements), as a pseudonym: nobody can tell
//!   any more whose it was.

mod commands;
mod erase;
mod export;
mod personal;
mod rows;

pub use erase::{ErasureView, list_erasures, open_erasure, who_left};
pub use export::{forget_export, kept_files};

use crate::features::auth::{self, Auth, USERS};
use crate::features::wiring::{Folder, Wiring};
use crate::features::{Feature, Link, orgs, raw};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{AccountExportId, ErasureId};
use base::{Code, Error, Result};
use erase::{ErasureRetries, RewriteTimes};
use futures::future::BoxFuture;
use rows::{AccountExportV2, ERASURES, EXPORTS, ErasureV1, ExportStatusV1, SubjectV1};
use schemars::JsonSchema;
use secrets::link::Links;
use serde::{Deserialize, Serialize};
use server::permit::{ByBrowser, Member};
use server::task::{Signals, TaskSpec};
use server::{
    Accepted, Anonymous, Body, Browser, ClientIp, Download, FileDownload, Handler, Need, Org, Path, Route,
};
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;
use store::{Event, SysWrite};
use uuid::Uuid;

const ERASE: &str = "account.erase";
const SCRUB: &str = "account.scrub";
const EXPORT: &str = "account.exports";
/// The kind of links to exports.
const EXPORT_LINK: &str = "account-export";
const EXPORT_MEDIA_TYPE: &str = "application/zip";
/// The longest pause after a failure: somebody waits for what these do.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// How long a link to an export is good.
const LINK_TIME: Duration = Duration::from_secs(15 * 60);

/// Where exports are kept, in the data folder.
const FOLDER: &str = "account-exports";

/// Opens the slice's parts.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let accounts = Accounts::open(wiring.data(FOLDER))?;
        wiring.hang::<Accounts>(accounts);
        Ok(())
    })
}

pub static FEATURE: Feature = Feature {
    name: "account",
    uses: &["auth", "orgs", "raw"],
    open: Some(open),
    commands: Some(commands::COMMANDS),
    folders: &[Folder { name: FOLDER, is_needed: false }],
    tables: &[&ERASURES, &EXPORTS],
    routes: &[
        Route::post("/api/v1/account/export", "requestAccountExport", &Handler::new(request_export))
            .about("Asks for a file of everything held on the caller; kept for a week.")
            .fails(&[Code::RateLimited]),
        Route::get("/api/v1/account/exports/{id}", "getAccountExport", &Handler::new(get_export))
            .secret()
            .about("Where an export stands, and a link to its zip that is good for 15 minutes.")
            .fails(&[Code::NotFound]),
        Route::delete("/api/v1/account", "deleteAccount", &Handler::new(delete_account))
            .about(
                "Erases the caller's account and whatever tells who they are. Sessions and keys end at once.",
            )
            .fails(&[Code::AuthForbidden, Code::Conflict, Code::RateLimited]),
        Route::delete("/api/v1/orgs/current", "deleteOrg", &Handler::new(delete_org))
            .about("Erases the organization with everything in it. Owners only; it is out of reach at once.")
            .fails(&[Code::InvalidInput, Code::AuthForbidden]),
    ],
    needs: &[Need::of::<Accounts>(), Need::of::<Auth>(), Need::of::<Links>()],
    tasks: &[
        TaskSpec::new(ERASE, Duration::from_secs(5), |context| Box::pin(erase::run(context)))
            .tried_again_within(PAUSE_MAX),
        TaskSpec::new(SCRUB, Duration::from_secs(5), |context| Box::pin(erase::scrub(context)))
            .tried_again_within(PAUSE_MAX),
        TaskSpec::new(EXPORT, Duration::from_secs(60), |context| Box::pin(export::run(context)))
            .tried_again_within(PAUSE_MAX),
    ],
    personal: personal::KINDS,
    holdings: personal::HOLDINGS,
    links: &[Link { kind: EXPORT_LINK, open: open_export, media_types: || vec![EXPORT_MEDIA_TYPE] }],
    ..Feature::NONE
};

/// What this slice keeps beside the store; one for the box.
pub struct Accounts {
    exports: PathBuf,
    scrubs: RewriteTimes,
    retries: ErasureRetries,
}

impl Accounts {
    /// Exports are kept in `exports`, a folder that is made if need be and that only the box's user can enter.
    pub fn open(exports: PathBuf) -> Result<Accounts> {
        disk::open_folder(&exports).map_err(|e| Error::internal("make the folder of exports", e))?;
        Ok(Accounts { exports, scrubs: RewriteTimes::default(), retries: ErasureRetries::default() })
    }

    fn exports_dir(&self) -> &FilePath {
        &self.exports
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DeleteAccountRequest {
    /// The caller's password: a token that somebody found erases nobody. Who has signed in through the company's provider in the
    /// last ten minutes needs none.
    #[serde(default)]
    password: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DeleteOrgRequest {
    /// The organization's name, letter by letter.
    confirm_name: String,
}

/// An erasure that goes on in the background.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ErasureStartedView {
    /// By which the operator finds it.
    erasure_id: ErasureId,
    message: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ExportRequestedView {
    id: AccountExportId,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ExportStatusView {
    Queued,
    Running,
    Success,
    Failed,
}

#[derive(Serialize, JsonSchema)]
// The console has exports, too.
#[schemars(rename = "AccountExportView")]
#[serde(rename_all = "camelCase")]
struct ExportView {
    id: AccountExportId,
    status: ExportStatusView,
    requested_at: Timestamp,
    finished_at: Option<Timestamp>,
    /// When the file goes.
    expires_at: Timestamp,
    /// Null until it is made.
    byte_size: Option<u64>,
    /// A link that needs no credential, for 15 minutes from now. Null until the export is made.
    download_url: Option<String>,
}

async fn request_export(caller: Browser) -> Result<Accepted<ExportRequestedView>> {
    let (user, org) = (caller.principal().user(), caller.principal().org());
    let signals = caller.service::<Signals>();
    let request = caller.system().write(move |tx| {
        tx.after_commit(move |_| signals.wake(EXPORT));
        export::request(tx, user, org)
    });
    let export = request.await?;
    Ok(Accepted::new(ExportRequestedView { id: export.id }).retry_after(2))
}

async fn get_export(caller: Browser, Path(id): Path<AccountExportId>) -> Result<Body<ExportView>> {
    let (user, now) = (caller.principal().user(), caller.look());
    let row = caller.system().read(|tx| tx.get(&EXPORTS, &id))?;
    let row = row.filter(|row| row.user == user && row.expires_at > now.moment);
    let row = row.ok_or_else(|| Error::not_found(EXPORTS.noun()))?;
    let is_made = row.status == ExportStatusV1::Success;
    let download_url = is_made.then(|| {
        let (links, end) = (caller.service::<Links>(), now.moment.after(LINK_TIME));
        let subject = row.id.0.as_bytes();
        let token = raw::sign(&links, EXPORT_LINK, subject, caller.principal(), None, now.moment, end);
        format!("{}/api/v1/raw/{token}", caller.service::<Auth>().public_url())
    });
    Ok(Body(ExportView {
        id,
        status: match row.status {
            ExportStatusV1::Queued => ExportStatusView::Queued,
            ExportStatusV1::Running => ExportStatusView::Running,
            ExportStatusV1::Success => ExportStatusView::Success,
            ExportStatusV1::Failed => ExportStatusView::Failed,
        },
        requested_at: row.requested_at,
        finished_at: row.finished_at,
        expires_at: now.date_of(row.expires_at),
        byte_size: is_made.then_some(row.byte_size),
        download_url,
    }))
}

/// Serves what a link to an export leads to.
fn open_export(caller: Anonymous, subject: Vec<u8>) -> BoxFuture<'static, Result<Download>> {
    Box::pin(async move {
        let id = Uuid::from_slice(&subject).map(AccountExportId).map_err(|_| raw::gone())?;
        let row = caller.system().read(|tx| tx.get(&EXPORTS, &id))?;
        let is_there =
            |row: &AccountExportV2| row.status == ExportStatusV1::Success && row.expires_at > caller.moment();
        let row = row.filter(is_there).ok_or_else(raw::gone)?;
        let day = row.requested_at.to_string();
        let name = format!("gleaner-account-{}.zip", day.get(..10).unwrap_or(&day));
        let path = caller.service::<Accounts>().export_path(id);
        let made = row.finished_at.unwrap_or(row.requested_at);
        let file = FileDownload::open(&path, EXPORT_MEDIA_TYPE, name, id.0.as_bytes(), made).await;
        let file = file.map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => raw::gone(),
            _ => Error::internal("open an export", e),
        })?;
        if file.bytes() != row.byte_size {
            tracing::error!(export = %id, made = row.byte_size, found = file.bytes(), "an export is damaged");
            return Err(raw::gone());
        }
        Ok(file.into())
    })
}

async fn delete_account(
    caller: Browser,
    ClientIp(ip): ClientIp,
    Body(request): Body<DeleteAccountRequest>,
) -> Result<Accepted<ErasureStartedView>> {
    let (user, session) = (caller.principal().user(), caller.principal().session());
    caller.service::<Auth>().confirm((user, session), request.password.as_deref(), ip).await?;
    let signals = caller.service::<Signals>();
    let erasure_id = caller
        .system()
        .write_freeing(move |tx| {
            // Another request of the same person may have been faster.
            let user = tx.get(&USERS, &user)?.ok_or_else(|| Error::new(Code::AuthInvalid))?;
            let keys = orgs::end_membership(tx, &user)?;
            let org = user.membership.map(|(org, _)| org);
            let subject = SubjectV1::Person { id: user.id, email: user.email.clone(), org };
            let mut erasure = ErasureV1::new(subject, user.id, tx.now());
            for (name, count) in auth::erase_account(tx, &user)? {
                erasure.count(name, count);
            }
            tx.audit_in(
                org,
                Event::new(Action::UserErased).of(user.id).with("keys", keys.len()).ids("keyIds", keys),
            )?;
            tx.after_commit(move |_| signals.wake(ERASE));
            store(tx, &erasure)
        })
        .await?;
    Ok(Accepted::new(ErasureStartedView {
        erasure_id,
        message: "Your account is erased. What is left of it in other places goes within the next minutes.",
    }))
}

async fn delete_org(
    org: Org<ByBrowser<Member>>,
    Body(request): Body<DeleteOrgRequest>,
) -> Result<Accepted<ErasureStartedView>> {
    let (id, caller, signals) = (org.id(), org.principal().user(), org.service::<Signals>());
    let erasure_id = org
        .service::<Auth>()
        .system()
        .write_freeing(move |tx| {
            orgs::dissolve(tx, id, caller, &request.confirm_name)?;
            // In the box's own chain: the organization's goes with it.
            tx.audit(Event::new(Action::OrgErased).of(id))?;
            tx.after_commit(move |_| signals.wake(ERASE));
            store(tx, &ErasureV1::new(SubjectV1::Organization { id }, caller, tx.now()))
        })
        .await?;
    Ok(Accepted::new(ErasureStartedView {
        erasure_id,
        message: "The organization is out of everybody's reach. What it kept is being removed.",
    }))
}

fn store(tx: &SysWrite<'_>, erasure: &ErasureV1) -> Result<ErasureId> {
    tx.insert(&ERASURES, &erasure.id, erasure)?;
    Ok(erasure.id)
}
