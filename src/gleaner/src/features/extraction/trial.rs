//! Trying attributes on a page that is there already: what they find, and what each of their XPaths selects. Nothing is
//! fetched, and nothing is kept.

use super::body::{PageBody, is_document, is_readable};
use super::rows::{RESULTS, ResultV4};
use super::service::{read_stored, within_limits};
use super::site::{Site, has_page, newest_page};
use super::turns::ReadingTurns;
use super::wire::{AttributeErrorView, QualityView};
use base::ids::JobId;
use base::limits::HTML_BYTES_MAX;
use base::terms::PageType;
use base::web::{WebUrl, host_of};
use base::{Code, Error, Result};
use blob::BlobStore;
use bytes::Bytes;
use page::extract::{Attribute, AttributeTrace, Extraction, Outline, Reason, Schema, XPathTrace};
use page::xpath::Fuel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use server::permit::WorkflowsWrite;
use server::{Body, Org};
use store::OrgRead;

/// What is said of what cannot be read.
const NO_PAGE: &str = "what it fetched is no page that attributes could be tried on";
/// Bytes of the outlines of one answer; beyond, they are left out and counted.
const OUTLINES_BYTES_MAX: usize = 512 << 10;
/// Regular expressions of one request: each takes up to half a megabyte, and more while it is matched.
const TRIED_PATTERNS_MAX: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct XpathTest {
    /// A registrable domain, or one host of it.
    domain: String,
    #[expect(dead_code, reason = "the attributes are given, so the page's type decides nothing")]
    page_type: PageType,
    /// At least one.
    attributes: Vec<Attribute>,
    /// The job on whose page they are tried; else the newest one of the domain with a stored page. An answer that is JSON is taken where
    /// there is no other, or none of the attributes has XPaths.
    #[serde(default)]
    job_id: Option<JobId>,
}

/// What the attributes find on the page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct XpathTestView {
    /// By attribute; attributes without a value are absent.
    values: Map<String, Value>,
    quality_score: QualityView,
    job_id: JobId,
    /// The URL that was asked for.
    url: String,
    /// One for every attribute without a value, and for those whose value is not trusted.
    attribute_errors: Vec<AttributeErrorView>,
    /// What became of each XPath, in the order of the request.
    attributes: Vec<AttributeTrialView>,
    /// How many outlines (`first`) are left out because the answer would be too long.
    outlines_omitted: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AttributeTrialView {
    name: String,
    /// The place of the XPath from which the value comes, from 0; null where none gives one.
    matched: Option<usize>,
    xpaths: Vec<XpathTrialView>,
    /// The same of the JSONPaths, where no XPath gives a value.
    matched_json_path: Option<usize>,
    /// `first` has only text here: a value, or what it is instead of one.
    json_paths: Vec<XpathTrialView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct XpathTrialView {
    /// Why it gives no value; null where it gives one, also where an earlier one was taken.
    reason: Option<Reason>,
    detail: Option<String>,
    /// How many nodes it selects; null where it comes to a text, a number or a truth value, or to nothing.
    nodes: Option<usize>,
    /// The first thing that it selects.
    first: Option<OutlineView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OutlineView {
    /// The element, or that in which a text or an attribute stands; null for what stands nowhere.
    tag: Option<String>,
    id: Option<String>,
    classes: Vec<String>,
    /// The attribute that was selected.
    attribute: Option<String>,
    /// 200 characters at most, without surplus white space.
    text: String,
}

impl OutlineView {
    fn bytes(&self) -> usize {
        let names = [&self.tag, &self.id, &self.attribute];
        let names: usize = names.into_iter().flatten().map(String::len).sum();
        names + self.classes.iter().map(String::len).sum::<usize>() + self.text.len()
    }
}

impl From<Outline> for OutlineView {
    fn from(outline: Outline) -> OutlineView {
        OutlineView {
            tag: outline.tag,
            id: outline.id,
            classes: outline.classes,
            attribute: outline.attribute,
            text: outline.text,
        }
    }
}

impl From<XPathTrace> for XpathTrialView {
    fn from(trace: XPathTrace) -> XpathTrialView {
        XpathTrialView {
            reason: trace.reason,
            detail: Some(trace.detail).filter(|detail| !detail.is_empty()),
            nodes: trace.nodes,
            first: trace.first.map(OutlineView::from),
        }
    }
}

pub(super) async fn test_xpath(
    org: Org<WorkflowsWrite>,
    Body(asked): Body<XpathTest>,
) -> Result<Body<XpathTestView>> {
    let site = Site::parse("domain", &asked.domain)?;
    let has_xpaths = asked.attributes.iter().any(|attribute| !attribute.xpaths.is_empty());
    let turn = org.service::<ReadingTurns>().next(org.id()).await?;
    let schema = blocking(move || Schema::compile_within(&asked.attributes, TRIED_PATTERNS_MAX)).await?;
    let schema = schema.map_err(|error| Error::invalid(&error.path, error.message))?;
    let row = org.read(|tx| page_to_try(tx, &site, asked.job_id, has_xpaths))?;
    let page = read_stored(&org.service::<BlobStore>().org(org.id().0), &row.page).await?;
    let page = page.ok_or_else(|| Error::not_found("Page"))?;
    let tried = blocking(move || {
        let tried = try_on(&schema, row, &page);
        drop(turn);
        tried
    });
    Ok(Body(tried.await??))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|e| Error::internal("try attributes on a page", e))
}

/// The result whose page is read: the job's, or the newest one of the site, for XPaths rather a page than JSON. 413 for a page that is
/// too large.
pub(super) fn page_to_try(
    tx: &OrgRead<'_>,
    site: &Site,
    job: Option<JobId>,
    has_xpaths: bool,
) -> Result<ResultV4> {
    let row = match job {
        Some(job) => page_of_job(tx, site, job)?,
        None => {
            let message = match site.host == site.domain {
                true => "There is no stored page of the domain: collect one first.",
                // So many results of other hosts may lie in front of it.
                false => {
                    "There is no stored page of the host among the newest results of its domain: collect one, or name a job (`jobId`)."
                }
            };
            let page = if has_xpaths { newest_page(tx, site, is_document)? } else { None };
            let page = page.map_or_else(|| newest_page(tx, site, is_readable), |page| Ok(Some(page)))?;
            page.ok_or_else(|| Error::not_found("Page").message(message))?
        }
    };
    if row.page.byte_size > HTML_BYTES_MAX as u64 {
        let message = format!("The page has {} bytes; one of at most 5 MB can be tried.", row.page.byte_size);
        return Err(Error::new(Code::PayloadTooLarge).message(message));
    }
    Ok(row)
}

fn page_of_job(tx: &OrgRead<'_>, site: &Site, job: JobId) -> Result<ResultV4> {
    let row = tx.require(&RESULTS, &job)?;
    if !site.has(&row) {
        let (host, wanted) = (host_of(&row.url), &site.host);
        return Err(Error::invalid("jobId", format!("its page is of {host}, which is not {wanted}")));
    }
    if !is_readable(row.content_type.as_deref()) {
        return Err(Error::invalid("jobId", NO_PAGE));
    }
    if !has_page(tx, &row)? {
        return Err(Error::not_found("Page").message("The page of this job is not kept any more."));
    }
    Ok(row)
}

fn try_on(schema: &Schema, row: ResultV4, page: &Bytes) -> Result<XpathTestView> {
    let url = WebUrl::parse(&row.final_url).map_err(|e| Error::internal("read the URL of a result", e))?;
    let mut fuel = Fuel::for_page();
    let body = PageBody::read(page, row.content_type.as_deref(), &url, &mut fuel);
    let body = body.ok_or_else(|| Error::invalid("jobId", NO_PAGE))?;
    let extraction = body.extract(schema, &mut fuel);
    let traces = body.trace(schema, &mut Fuel::for_page());
    Ok(view(row, extraction, traces))
}

fn view(row: ResultV4, extraction: Extraction, traces: Vec<AttributeTrace>) -> XpathTestView {
    let extraction = within_limits(extraction, traces.len());
    let (mut room, mut omitted) = (OUTLINES_BYTES_MAX, 0);
    let mut trial = |trace: XPathTrace| {
        let mut view = XpathTrialView::from(trace);
        match view.first.as_ref().map(|first| room.checked_sub(first.bytes())) {
            Some(Some(left)) => room = left,
            Some(None) => {
                view.first = None;
                omitted += 1;
            }
            None => {}
        }
        view
    };
    let attributes = traces
        .into_iter()
        .map(|trace| AttributeTrialView {
            name: trace.name,
            matched: trace.matched,
            xpaths: trace.xpaths.into_iter().map(&mut trial).collect(),
            matched_json_path: trace.matched_json_path,
            json_paths: trace.json_paths.into_iter().map(&mut trial).collect(),
        })
        .collect();
    XpathTestView {
        quality_score: QualityView::from(extraction.quality),
        values: extraction.values,
        job_id: row.job,
        url: row.url,
        attribute_errors: extraction.errors.into_iter().map(AttributeErrorView::from).collect(),
        attributes,
        outlines_omitted: omitted,
    }
}
