//! The page of a result as it was fetched: a link to it that is good for a short while.
//!
//! What was collected is somebody else's, script and all. So it is served as a file to save, in a sandbox, and never as a page of
//! the box's own.

use super::rows::{RESULTS, RESULTS_BY_ID, ResultV4};
use super::service::read_stored;
use super::site::has_page;
use crate::features::Link;
use crate::features::raw;
use base::clock::{Now, Timestamp};
use base::ids::{JobId, OrgId, ResultId};
use base::permission::Permission;
use base::{Error, Result};
use blob::BlobStore;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use secrets::link::Links;
use serde::Serialize;
use server::permit::WorkflowsRead;
use server::{Anonymous, Body, Download, Org, Path};
use std::sync::Arc;
use std::time::Duration;
use store::Principal;
use uuid::Uuid;

/// How long a link to a page is good (data/docs/api.md, "Extraction").
const LINK_TIME: Duration = Duration::from_secs(5 * 60);
/// The kind of the links.
const LINK: &str = "stored-page";
/// What a page is served as when its own media type is none of [`MEDIA_TYPES`].
const OCTETS: &str = "application/octet-stream";
/// Media types that a page keeps, and the end of its file's name.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("text/html", "html"),
    ("application/xhtml+xml", "xhtml"),
    ("text/plain", "txt"),
    ("text/xml", "xml"),
    ("application/xml", "xml"),
    ("application/json", "json"),
    ("application/pdf", "pdf"),
];

pub(super) const LINKS: &[Link] = &[Link { kind: LINK, open: open_page, media_types }];

fn media_types() -> Vec<&'static str> {
    MEDIA_TYPES.iter().map(|(name, _)| *name).chain([OCTETS]).collect()
}

/// Makes links to stored pages. Hung up in the services.
pub struct PageLinks {
    links: Arc<Links>,
    /// The box's address, in front of links.
    public_url: String,
}

impl PageLinks {
    pub fn new(links: Arc<Links>, public_url: &str) -> PageLinks {
        PageLinks { links, public_url: public_url.trim_end_matches('/').to_owned() }
    }

    /// A link to the page of a job's result, for as long as `caller` may read results; and when it ends.
    fn link(&self, org: OrgId, job: JobId, caller: &Principal, now: &Now) -> (String, Timestamp) {
        let subject = [org.0.as_bytes().as_slice(), job.0.as_bytes()].concat();
        let (needs, end) = (Some(Permission::WorkflowsRead), now.moment.after(LINK_TIME));
        let token = raw::sign(&self.links, LINK, &subject, caller, needs, now.moment, end);
        (format!("{}/api/v1/raw/{token}", self.public_url), now.date_of(end))
    }
}

/// Where the page of a result is to be had.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredPageView {
    /// A link that needs no credential. It gives a file to save.
    url: String,
    /// Until when; five minutes from now.
    expires_at: Timestamp,
    /// Bytes of the page as it was fetched.
    byte_size: u64,
    /// As the target named it; null where it named none.
    content_type: Option<String>,
}

pub(super) async fn get_html(
    org: Org<WorkflowsRead>,
    Path(id): Path<ResultId>,
) -> Result<Body<StoredPageView>> {
    let found = org.read(|tx| {
        let row = tx.lookup(&RESULTS, &RESULTS_BY_ID, id)?;
        let row = row.ok_or_else(|| Error::not_found(RESULTS.noun()))?;
        let is_kept = has_page(tx, &row)?;
        Ok(Some(row).filter(|_| is_kept))
    })?;
    let message = "The page of this result is not kept any more.";
    let row = found.ok_or_else(|| Error::not_found("Page").message(message))?;
    let links = org.service::<PageLinks>();
    let (url, expires_at) = links.link(org.id(), row.job, org.principal(), &org.look());
    Ok(Body(StoredPageView {
        url,
        expires_at,
        byte_size: row.page.byte_size,
        content_type: row.content_type,
    }))
}

/// Serves what a link leads to.
fn open_page(caller: Anonymous, subject: Vec<u8>) -> BoxFuture<'static, Result<Download>> {
    Box::pin(async move {
        let (org, job) = subject.split_at_checked(16).ok_or_else(raw::gone)?;
        let org = Uuid::from_slice(org).map(OrgId).map_err(|_| raw::gone())?;
        let job = Uuid::from_slice(job).map(JobId).map_err(|_| raw::gone())?;
        let row = caller.system().org(org).read(|tx| {
            let Some(row) = tx.get(&RESULTS, &job)? else { return Ok(None) };
            let is_kept = has_page(tx, &row)?;
            Ok(Some(row).filter(|_| is_kept))
        })?;
        let row = row.ok_or_else(raw::gone)?;
        let pages = caller.service::<BlobStore>().org(org.0);
        let page = read_stored(&pages, &row.page).await?.ok_or_else(raw::gone)?;
        let (content_type, ending) = served_as(&row);
        Ok(Download::bytes(content_type, page).file_name(&format!("page-{}.{ending}", row.id)))
    })
}

/// The media type that a page is served as, and the end of its file's name. What it was sent with may be anything.
fn served_as(row: &ResultV4) -> (&'static str, &'static str) {
    let named = row.content_type.as_deref().unwrap_or("text/html");
    let media = named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    MEDIA_TYPES.iter().find(|(name, _)| *name == media).copied().unwrap_or((OCTETS, "bin"))
}
