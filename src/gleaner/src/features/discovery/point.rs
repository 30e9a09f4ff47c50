//! Pointing: XPaths for an element that somebody chose on a stored page, and what they give there and on the other stored pages of
//! the domain. Nothing is kept: who likes one adds it to the organization's own attributes.

use super::learn::{ParsedPage, check_stored, gone, parse, rounded};
use super::page_of_job;
use super::sample::{StoredPage, choose_own, read_pages};
use crate::features::extraction::{ReadingTurns, ResultV4, Site};
use base::ids::JobId;
use base::terms::PageType;
use base::{Error, Result};
use blob::BlobStore;
use induce::{Bound, LESSON_FUEL_MAX, Pointing, point as point_at};
use page::extract::{Attribute, AttributeType, Schema, collapse_space, root_context};
use page::html::{AttrId, Document, NodeId};
use page::xpath::{Fuel, NodeRef, Value as Found, XPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::permit::WorkflowsWrite;
use server::{Body, Org};

/// Other pages of the domain on which is shown what is proposed.
const OTHER_PAGES_MAX: usize = 10;
/// Bytes of the path to an element, and of its text.
const ELEMENT_BYTES_MAX: usize = 4 << 10;
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Work of finding the element.
const FIND_FUEL_MAX: u64 = 4_000_000;
/// Characters of what stands at the element that are told.
const SHOWN_CHARS_MAX: usize = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct XpathWish {
    /// A registrable domain, or one host of it.
    domain: String,
    /// The type of the other pages; those of no known type count as well.
    page_type: PageType,
    /// The job that fetched the page.
    job_id: JobId,
    /// An XPath that leads to the element, such as `/html/body/div[2]/p[1]`. The first node that it selects is meant.
    element: String,
    /// The element's text. Where the path leads to another one, because a browser has changed the page, the element is found by it.
    #[serde(default)]
    text: Option<String>,
    /// The element's attribute that is to be read, such as `href`; null for its text.
    #[serde(default)]
    attribute: Option<String>,
    /// Whether all that is like it is wanted, as a list.
    #[serde(default)]
    list: Option<bool>,
}

/// Expressions for an element, and what they give.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct XpathWishView {
    /// What stands there.
    text: String,
    /// What an attribute of it would be.
    #[serde(rename = "type")]
    kind: AttributeType,
    /// The most robust first; each hangs on something else of the page, so one change of the site does not break them all. Empty
    /// where a list is wanted and nothing on the page is like the element.
    proposals: Vec<ProposedXpath>,
    /// The page itself, and behind it the newest other stored pages of the domain.
    pages: Vec<WishedPage>,
    /// Limits that were reached, so that there may be more to propose.
    notes: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ProposedXpath {
    xpath: String,
    /// How many nodes it selects on the page; of a single value the first is the element.
    nodes: usize,
    /// The share of the other pages on which it gives a value; null where there are none.
    coverage: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WishedPage {
    job_id: JobId,
    url: String,
    /// What each proposal gives there, in their order; null for nothing.
    values: Vec<Value>,
}

pub(super) async fn propose(
    org: Org<WorkflowsWrite>,
    Body(asked): Body<XpathWish>,
) -> Result<Body<XpathWishView>> {
    let site = Site::parse("domain", &asked.domain)?;
    let element = compile_element(&asked)?;
    let turn = org.service::<ReadingTurns>().next(org.id()).await?;
    let (row, others) = org.read(|tx| {
        let row = page_of_job(tx, &site, "jobId", asked.job_id)?;
        check_stored(tx, "jobId", &row)?;
        let others = choose_own(tx, &site, std::slice::from_ref(&row), OTHER_PAGES_MAX)?;
        Ok((row, others.rows))
    })?;
    let of_type = |row: &ResultV4| row.page_type.is_none_or(|page_type| page_type == asked.page_type);
    let others = others.into_iter().filter(of_type).collect();
    let pages = org.service::<BlobStore>().org(org.id().0);
    let page = read_pages(&pages, vec![row]).await?.pop().ok_or_else(gone)?;
    let others = read_pages(&pages, others).await?;
    let work = move || {
        let proposed = look(&asked, &element, page, others);
        drop(turn);
        proposed
    };
    let proposed = tokio::task::spawn_blocking(work).await;
    proposed.map_err(|e| Error::internal("propose XPaths", e))?.map(Body)
}

fn compile_element(asked: &XpathWish) -> Result<XPath> {
    if asked.element.len() > ELEMENT_BYTES_MAX {
        return Err(Error::invalid("element", format!("has more than {ELEMENT_BYTES_MAX} bytes")));
    }
    if asked.text.as_ref().is_some_and(|text| text.len() > TEXT_BYTES_MAX) {
        return Err(Error::invalid("text", format!("has more than {TEXT_BYTES_MAX} bytes")));
    }
    XPath::compile(&asked.element).map_err(|error| Error::invalid("element", error.to_string()))
}

fn look(
    asked: &XpathWish,
    element: &XPath,
    page: StoredPage,
    others: Vec<StoredPage>,
) -> Result<XpathWishView> {
    let page = parse(page)?;
    let others = others.into_iter().map(parse).collect::<Result<Vec<_>>>()?;
    let place = place_of(&page.document, asked, element)?;
    let other_pages: Vec<_> = others.iter().map(ParsedPage::page).collect();
    let mut fuel = Fuel::new(LESSON_FUEL_MAX);
    let found = point_at(page.page(), place, asked.list.unwrap_or(false), &other_pages, &mut fuel);
    let notes = Bound::of_work(&fuel).iter().map(ToString::to_string).collect();
    // A schema has one attribute at least.
    let schema = (!found.paths.is_empty()).then(|| schema_of(&found)).transpose()?;
    let given = |page: &ParsedPage| given(schema.as_ref(), found.paths.len(), page);
    let given: Vec<WishedPage> = std::iter::once(&page).chain(&others).map(given).collect();
    let proposals = found.paths.into_iter().enumerate().map(|(at, path)| {
        let there = given[1..].iter().filter(|page| !page.values[at].is_null()).count();
        let coverage = (!others.is_empty()).then(|| rounded(there as f64 / others.len() as f64));
        ProposedXpath { xpath: path.xpath, nodes: path.nodes, coverage }
    });
    let text = collapse_space(place.string_value(&page.document).trim());
    Ok(XpathWishView {
        text: text.chars().take(SHOWN_CHARS_MAX).collect(),
        kind: found.kind,
        proposals: proposals.collect(),
        pages: given,
        notes,
    })
}

/// The element of the page, or its attribute.
fn place_of(document: &Document, asked: &XpathWish, element: &XPath) -> Result<NodeRef> {
    let value = element.evaluate(document, root_context(document), &mut Fuel::new(FIND_FUEL_MAX));
    let nodes = match value {
        Ok(Found::Nodes(nodes)) => nodes,
        Ok(_) => return Err(Error::invalid("element", "selects no element")),
        Err(error) => return Err(Error::invalid("element", error.to_string())),
    };
    let is_element = |node: &&NodeRef| !node.is_attribute() && document.is_element(node.node());
    let selected = nodes.iter().find(is_element).map(|node| node.node());
    let text = asked.text.as_deref().map(|text| collapse_space(text.trim()).into_owned());
    let shows = |node: NodeId| text.as_ref().is_none_or(|text| has_text(document, node, text));
    let by_text = || text.as_ref().and_then(|text| element_with(document, text));
    let node = selected.filter(|node| shows(*node)).or_else(by_text);
    let node =
        node.ok_or_else(|| Error::invalid("element", "leads to no element of the page with this text"))?;
    let Some(name) = &asked.attribute else { return Ok(NodeRef::of(node)) };
    let mut attributes = document.attributes(node).map(AttrId);
    let attribute = attributes.find(|attribute| document.attr_name(*attribute).eq_ignore_ascii_case(name));
    let attribute = attribute.ok_or_else(|| Error::invalid("attribute", "is none of the element's"))?;
    Ok(NodeRef::of_attribute(node, attribute))
}

fn has_text(document: &Document, node: NodeId, text: &str) -> bool {
    let own = document.string_value(node);
    // White space is at most what a page is indented by; a text that is much longer is another one.
    own.len() >= text.len()
        && own.len() <= 8 * (text.len() + ELEMENT_BYTES_MAX)
        && *collapse_space(own.trim()) == *text
}

/// The innermost of the first elements with this text.
fn element_with(document: &Document, text: &str) -> Option<NodeId> {
    let is_it = |node: &NodeId| document.is_element(*node) && has_text(document, *node, text);
    let end = document.subtree_end(Document::ROOT);
    let first = (1..end.0).map(NodeId).find(|node| !text.is_empty() && is_it(node))?;
    (first.0..document.subtree_end(first).0).map(NodeId).filter(is_it).last()
}

/// A schema with an attribute for each proposal, in their order.
fn schema_of(found: &Pointing) -> Result<Schema> {
    let attribute = |(at, xpath): (usize, &str)| Attribute {
        name: name_of(at),
        xpaths: vec![xpath.to_owned()],
        json_paths: None,
        kind: found.kind,
        description: None,
        anti_patterns: None,
        semantic_type: None,
        validation: None,
    };
    let xpaths = found.paths.iter().map(|path| path.xpath.as_str());
    let attributes: Vec<Attribute> = xpaths.enumerate().map(attribute).collect();
    Schema::compile(&attributes).map_err(|e| Error::internal("compile proposed XPaths", e))
}

fn name_of(at: usize) -> String {
    format!("proposal{at}")
}

fn given(schema: Option<&Schema>, count: usize, page: &ParsedPage) -> WishedPage {
    let extract = |schema: &Schema| schema.extract(&page.document, &page.base, &mut Fuel::for_page()).values;
    let mut values = schema.map(extract).unwrap_or_default();
    let values = (0..count).map(|at| values.remove(&name_of(at)).unwrap_or(Value::Null)).collect();
    WishedPage { job_id: page.row.job, url: page.row.url.clone(), values }
}
