//! Exports: a result as a file, made in the background and fetched in as many pieces as it takes.
//!
//! - What is exported is the result as it was kept, so an export needs no worker and always has the rows that the pages
//!   have. A result that was cut at a cap is not exported: it is not the answer.
//! - The same result in the same format is made once. A request while it is there gives the one that is; when its file is
//!   lost, it is made anew.
//! - A file that would be larger than the byte cap is refused when it is asked for, where that can be known, and fails while
//!   it is made otherwise: `invalid_sql` both times, as the request is at fault.
//! - The file is fetched with a credential, or by a signed link that is good for [`LINK_TIME`] (`features/raw.rs`).
//! - A file goes [`KEPT`] after it was made, or failed to be; it can be made again for as long as its result is kept.

mod task;

pub(super) use task::{make, tidy};

use super::export_rows::{BY_QUERY, EXPORTS, ExportStatus, ExportV2, OPEN, is_whole, path};
use super::retention::ResultRetention;
use super::rows::{QUERIES, QueryFailureV1, QueryStatus, QueryV2};
use super::service::{Queries, given_up, not_ready};
use super::state::StatementState;
use crate::features::{Link, raw};
use base::audit::Action;
use base::clock::{Moment, Timestamp};
use base::ids::{BiExportId, OrgId, QueryId};
use base::permission::Permission;
use base::{Code, Error, Result};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use schemars::JsonSchema;
use secrets::link::Links;
use serde::{Deserialize, Serialize};
use server::permit::{BiRead, BiWrite};
use server::task::Signals;
use server::{
    Accepted, Anonymous, Body, Call, Download, FileDownload, Operation, Org, OrgContext, Output, Path,
    Response,
};
use sql::{ExportError, ExportFormat};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use store::{Event, Order, OrgRead, OrgStore, Principal};
use uuid::Uuid;

/// The task that makes exports.
pub(super) const TASK: &str = "bi.export";
/// How long a link to a file is good (data/docs/api.md, "Files and links").
const LINK_TIME: Duration = Duration::from_secs(15 * 60);
/// How long a file is kept.
const KEPT: Duration = Duration::from_secs(86_400);
/// Exports of one organization that wait or are being made.
const OPEN_PER_ORG_MAX: usize = 8;
/// Exports of one query that are looked through for one that can be given again.
const PER_QUERY_MAX: usize = 200;
/// The codes of an export that has failed.
const INVALID: &str = Code::InvalidSql.name();
const TRANSIENT: &str = Code::Transient.name();
/// The kind of the links.
const LINK: &str = "bi-export";

pub(super) static LINKS: &[Link] = &[Link { kind: LINK, open: open_link, media_types }];

/// Where the files are, and how they are reached.
pub struct Exports {
    folder: PathBuf,
    kept: Arc<ResultRetention>,
    links: Arc<Links>,
    /// The box's address, in front of links.
    public_url: String,
    /// Most bytes of one file.
    bytes_max: u64,
    work: Mutex<Work>,
    /// Files that were compared with their checksums, as they were then.
    whole: Mutex<HashMap<BiExportId, Seen>>,
}

/// A file as it was when it was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
}

/// Files of which it is remembered; beyond that they are compared again.
const WHOLE_MAX: usize = 10_000;

/// Whose files are being written.
#[derive(Default)]
struct Work {
    /// How many of each organization.
    writing: HashMap<OrgId, usize>,
    /// Organizations that are being erased: no file of theirs is begun any more.
    erased: HashSet<OrgId>,
}

impl Exports {
    /// Prepares the folder and removes files that were not finished.
    pub fn open(
        folder: PathBuf,
        kept: Arc<ResultRetention>,
        links: Arc<Links>,
        public_url: String,
        bytes_max: u64,
    ) -> io::Result<Exports> {
        disk::open_folder(&folder)?;
        for org in fs::read_dir(&folder)? {
            for file in fs::read_dir(org?.path()).into_iter().flatten() {
                let file = file?.path();
                if file.extension().is_some_and(|kind| kind == "part") {
                    fs::remove_file(file)?;
                }
            }
        }
        let (work, whole) = Default::default();
        Ok(Exports { folder, kept, links, public_url, bytes_max, work, whole })
    }

    /// The right to write a file of an organization, unless that is being erased.
    fn begin(self: &Arc<Self>, org: OrgId) -> Option<Writing> {
        let mut work = self.work.lock();
        if work.erased.contains(&org) {
            return None;
        }
        *work.writing.entry(org).or_default() += 1;
        Some(Writing { exports: Arc::clone(self), org })
    }

    fn is_erased(&self, org: OrgId) -> bool {
        self.work.lock().erased.contains(&org)
    }

    /// Lets no file of an organization be written any more; whether one still is.
    pub(super) fn end_all(&self, org: OrgId) -> bool {
        let mut work = self.work.lock();
        work.erased.insert(org);
        work.writing.contains_key(&org)
    }

    /// What all files take.
    pub(super) fn kept(&self) -> &ResultRetention {
        &self.kept
    }

    /// Whether a file is what was written. It is read once in the life of this process, and again when it was touched.
    async fn is_whole(&self, export: &ExportV2, path: &FilePath) -> io::Result<bool> {
        let Some(sum) = export.sum else { return Ok(true) };
        let about = fs::metadata(path)?;
        let seen = Seen { inode: about.ino(), bytes: about.len(), modified: about.modified().ok() };
        if self.whole.lock().get(&export.id) == Some(&seen) {
            return Ok(true);
        }
        let path = path.to_owned();
        let compared = tokio::task::spawn_blocking(move || is_whole(&path, sum)).await;
        let is_whole = compared.map_err(io::Error::other)??;
        if is_whole {
            let mut whole = self.whole.lock();
            if whole.len() >= WHOLE_MAX {
                whole.clear();
            }
            whole.insert(export.id, seen);
        }
        Ok(is_whole)
    }

    /// Where an organization's files are.
    pub(super) fn folder_of(&self, org: OrgId) -> PathBuf {
        self.folder.join(org.to_string())
    }

    fn path(&self, org: OrgId, export: &ExportV2) -> PathBuf {
        path(&self.folder, org, export)
    }

    /// A link that needs no credential, for as long as `caller` may read results.
    fn link(&self, org: OrgId, id: BiExportId, caller: &Principal, now: Moment) -> String {
        let subject = [org.0.as_bytes().as_slice(), id.0.as_bytes()].concat();
        let (needs, end) = (Some(Permission::BiRead), now.after(LINK_TIME));
        let token = raw::sign(&self.links, LINK, &subject, caller, needs, now, end);
        format!("{}/api/v1/raw/{token}", self.public_url.trim_end_matches('/'))
    }
}

/// A file is being written, until this is dropped.
struct Writing {
    exports: Arc<Exports>,
    org: OrgId,
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut work = self.exports.work.lock();
        if let Some(count) = work.writing.get_mut(&self.org) {
            *count -= 1;
            if *count == 0 {
                work.writing.remove(&self.org);
            }
        }
    }
}

/// What to make of a result.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NewExportView {
    format: ExportFormat,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ExportEnvelope {
    export: ExportView,
}

/// An export.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ExportView {
    id: BiExportId,
    /// The query whose result it is.
    query_id: QueryId,
    format: ExportFormat,
    status: ExportStatus,
    row_count: u64,
    /// Null until `success`.
    byte_size: Option<u64>,
    created_at: Timestamp,
    finished_at: Option<Timestamp>,
    /// When the file goes; null until it has ended.
    expires_at: Option<Timestamp>,
    /// A link that needs no credential, for 15 minutes from now or until you may not read results any more; null until
    /// `success`.
    #[schemars(extend("format" = "uri"))]
    download_url: Option<String>,
    /// Why there is no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ExportFailureView>")]
    error: Option<QueryFailureV1>,
}

/// Why an export has no file.
#[derive(JsonSchema)]
#[schemars(rename = "ExportFailure")]
#[expect(dead_code, reason = "for the reference alone: a failure is stored as that of a statement is")]
struct ExportFailureView {
    /// `invalid_sql` when the result does not fit the format or the byte cap; `transient` for what lies with the box.
    #[schemars(extend("enum" = [INVALID, TRANSIENT]))]
    code: String,
    message: String,
    /// Whether the same export may succeed when it is asked for again.
    retriable: bool,
}

impl ExportEnvelope {
    fn of(org: &OrgContext, export: ExportV2) -> ExportEnvelope {
        let is_made = export.status == ExportStatus::Success;
        let now = org.look();
        let link =
            is_made.then(|| org.service::<Exports>().link(org.id(), export.id, org.principal(), now.moment));
        let export = ExportView {
            id: export.id,
            query_id: export.query,
            format: export.format,
            status: export.status,
            row_count: export.rows,
            byte_size: export.bytes,
            created_at: export.created_at,
            finished_at: export.finished_at,
            expires_at: export.expires_at.map(|at| now.date_of(at)),
            download_url: link,
            error: export.failure,
        };
        ExportEnvelope { export }
    }
}

pub(super) async fn request(
    org: Org<BiWrite>,
    Path(id): Path<QueryId>,
    Body(wanted): Body<NewExportView>,
) -> Result<Accepted<ExportEnvelope>> {
    let (format, requested_by) = (wanted.format, org.principal().user());
    let exports = org.service::<Exports>();
    let lost = lost(&exports, org.store(), id, format).await?;
    let state = org.service::<Queries>().state(id);
    let (bytes_max, signals) = (exports.bytes_max, org.service::<Signals>());
    let export = org
        .write(move |tx| {
            let query = StatementState::told(state.as_ref(), tx.require(&QUERIES, &id)?);
            let rows = exportable(&query)?;
            let there = there(tx, id, format)?;
            let mut good = there.iter().filter(|export| is_good(export, tx.moment()));
            if let Some(export) = good.find(|export| !lost.contains(&export.id)) {
                tx.unaudited("the export that was asked for is there already");
                return Ok(export.clone());
            }
            fits(&query, format, bytes_max, &there)?;
            for export in there.into_iter().filter(|export| lost.contains(&export.id)) {
                tx.put(&EXPORTS, &export.id, &ExportV2 { expires_at: Some(tx.moment()), ..export })?;
            }
            if tx.scan_index(&EXPORTS, &OPEN, (), Order::Ascending, OPEN_PER_ORG_MAX)?.len()
                >= OPEN_PER_ORG_MAX
            {
                return Err(Error::new(Code::TooManyQueries).message(format!(
                    "{OPEN_PER_ORG_MAX} exports of this organization wait already; ask again when one is made."
                )));
            }
            let export = ExportV2 {
                id: BiExportId::new(),
                query: id,
                format,
                status: ExportStatus::Queued,
                rows,
                bytes: None,
                failure: None,
                attempts: 0,
                requested_by,
                created_at: tx.now(),
                finished_at: None,
                expires_at: None,
                sum: None,
            };
            tx.put(&EXPORTS, &export.id, &export)?;
            tx.after_commit(move |_| signals.wake(TASK));
            let event = Event::new(Action::BiExportRequested).of(export.id);
            tx.audit(event.with("queryId", Uuid::from(id)).with("format", format.name()))?;
            Ok(export)
        })
        .await?;
    Ok(Accepted::new(ExportEnvelope::of(&org, export)))
}

/// The rows of a result that can be exported.
fn exportable(query: &QueryV2) -> Result<u64> {
    let refused = |message: String| Err(Error::new(Code::InvalidSql).message(message));
    let Some(result) = query.result.filter(|_| query.status == QueryStatus::Success) else {
        return Err(not_ready(query.status));
    };
    if query.dry {
        return refused("A dry run has no rows to export; submit the query itself.".to_owned());
    }
    if result.cut_at_rows {
        let rows = result.rows;
        return refused(format!(
            "The result was cut at the row cap of {rows} rows, and a part is not exported: filter or aggregate."
        ));
    }
    if result.cut_at_bytes {
        let bytes = result.bytes;
        return refused(format!(
            "The result was cut at the byte cap ({bytes} bytes), and a part is not exported: select fewer columns or rows."
        ));
    }
    if !result.kept {
        return Err(given_up());
    }
    Ok(result.rows)
}

/// The exports of a query in one format, newest first.
fn there(tx: &OrgRead<'_>, query: QueryId, format: ExportFormat) -> Result<Vec<ExportV2>> {
    let mut all = tx.scan_index(&EXPORTS, &BY_QUERY, query, Order::Descending, PER_QUERY_MAX)?;
    all.retain(|export| export.format == format);
    Ok(all)
}

/// Those of them whose file is not there any more, or not as it was made: somebody cleared the folder, the disk is failing.
async fn lost(
    exports: &Exports,
    store: &OrgStore,
    query: QueryId,
    format: ExportFormat,
) -> Result<HashSet<BiExportId>> {
    let made = store.read(|tx| {
        let mut all = there(tx, query, format)?;
        all.retain(|export| export.status == ExportStatus::Success && is_good(export, tx.moment()));
        Ok(all)
    })?;
    let mut lost = HashSet::new();
    for export in made {
        let is_lost = match tokio::fs::metadata(exports.path(store.id(), &export)).await {
            Ok(metadata) => Some(metadata.len()) != export.bytes,
            // Whatever else is wrong with the folder is wrong for a new file, too.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if is_lost {
            tracing::warn!(export = %export.id, "its file is lost; it is made anew");
            lost.insert(export.id);
        }
    }
    Ok(lost)
}

/// Refuses an export that is certain to fail: the file would be too large, as can be computed or as was found out earlier.
fn fits(query: &QueryV2, format: ExportFormat, bytes_max: u64, there: &[ExportV2]) -> Result<()> {
    let columns = query.plan.0["columns"].as_array().into_iter().flatten();
    let columns: Vec<&str> = columns.filter_map(|column| column["name"].as_str()).collect();
    let result = query.result.unwrap_or_default();
    let too_large = ExportError::TooLarge { bytes_max }.to_string();
    // A result does not change, and the cap seldom does.
    let was_too_large = |export: &ExportV2| {
        export.failure.as_ref().is_some_and(|failure| failure.code == INVALID && failure.message == too_large)
    };
    let foreseen = format.foresee(result.rows, &columns, result.bytes, bytes_max);
    if foreseen.is_err() || there.iter().any(was_too_large) {
        return Err(Error::new(Code::InvalidSql).message(too_large));
    }
    Ok(())
}

/// Whether a request for the same may be answered with it.
fn is_good(export: &ExportV2, now: Moment) -> bool {
    export.status != ExportStatus::Failed && export.expires_at.is_none_or(|at| at > now)
}

/// An export that has not gone yet.
fn find(tx: &OrgRead<'_>, id: BiExportId) -> Result<ExportV2> {
    let export = tx.require(&EXPORTS, &id)?;
    if export.expires_at.is_some_and(|at| at <= tx.moment()) {
        return Err(Error::not_found(EXPORTS.noun()));
    }
    Ok(export)
}

pub(super) async fn get(org: Org<BiRead>, Path(id): Path<BiExportId>) -> Result<Body<ExportEnvelope>> {
    let export = org.read(|tx| find(tx, id))?;
    Ok(Body(ExportEnvelope::of(&org, export)))
}

/// The media types of all formats.
fn media_types() -> Vec<&'static str> {
    ExportFormat::ALL.iter().map(|format| format.media_type()).collect()
}

/// The file of an export.
pub(super) struct ExportFile(FileDownload);

impl Output for ExportFile {
    fn respond(self, call: &Call) -> Result<Response> {
        self.0.respond(call)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.file_response(&media_types());
    }
}

pub(super) async fn download(org: Org<BiRead>, Path(id): Path<BiExportId>) -> Result<ExportFile> {
    let export = org.read(|tx| find(tx, id))?;
    if export.status != ExportStatus::Success {
        let status = export.status.name();
        return Err(Error::new(Code::NotReady)
            .message(format!("The export is {status}; only one that succeeded has a file."))
            .field("status", status));
    }
    let file = open_file(&org.service::<Exports>(), org.store(), &export).await?;
    file.map(ExportFile).ok_or_else(|| Error::not_found(EXPORTS.noun()))
}

/// Serves what a link leads to.
fn open_link(caller: Anonymous, subject: Vec<u8>) -> BoxFuture<'static, Result<Download>> {
    Box::pin(async move {
        let (org, id) = subject.split_at_checked(16).ok_or_else(raw::gone)?;
        let org = Uuid::from_slice(org).map(OrgId).map_err(|_| raw::gone())?;
        let id = Uuid::from_slice(id).map(BiExportId).map_err(|_| raw::gone())?;
        let store = caller.system().org(org);
        let is_there = |export: &ExportV2| export.expires_at.is_some_and(|at| at > caller.moment());
        let export = store.read(|tx| tx.get(&EXPORTS, &id))?.filter(is_there).ok_or_else(raw::gone)?;
        let file = open_file(&caller.service::<Exports>(), &store, &export).await?;
        file.map(Download::from).ok_or_else(raw::gone)
    })
}

/// The file of an export; none when there is none (any more).
async fn open_file(exports: &Exports, store: &OrgStore, export: &ExportV2) -> Result<Option<FileDownload>> {
    let (ExportStatus::Success, Some(modified)) = (export.status, export.finished_at) else {
        return Ok(None);
    };
    let name = format!("query-{}.{}", export.query, export.format.name());
    let (path, media_type) = (exports.path(store.id(), export), export.format.media_type());
    match FileDownload::open(&path, media_type, name, export.id.0.as_bytes(), modified).await {
        // Half a file would be taken for the whole. Asked for again, it is made anew.
        Ok(file) if export.bytes.is_some_and(|bytes| bytes != file.bytes()) => {
            tracing::error!(export = %export.id, made = export.bytes, found = file.bytes(), "an export is damaged");
            Ok(None)
        }
        Ok(file) => match exports.is_whole(export, &path).await {
            Ok(true) => Ok(Some(file)),
            Ok(false) => {
                tracing::error!(export = %export.id, "an export is not what was written");
                Ok(None)
            }
            Err(error) => Err(Error::internal("read an export", error)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::internal("open an export", error)),
    }
}
