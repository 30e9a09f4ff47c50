//! Teaching by example: attributes from two or more stored pages whose values somebody tells, and what they give on the other
//! stored pages of the domain. All of it is the organization's own, so pages behind a login teach as well.

use super::sample::{SAMPLE_BYTES_MAX, StoredPage, choose_own, read_pages};
use super::{page_of_job, page_of_url};
use crate::features::extraction::{ReadingTurns, ResultV4, Site, has_page, is_document, save_beside};
use base::ids::JobId;
use base::limits::{HTML_BYTES_MAX, LESSON_ATTRIBUTES_MAX, LESSON_EXAMPLES_MAX, LESSON_TEXTS_MAX};
use base::terms::PageType;
use base::web::WebUrl;
use base::{Code, Error, Result};
use blob::BlobStore;
use induce::{Example, LESSON_FUEL_MAX, Wanted, learn as learn_from, shows};
use page::extract::{Attribute, AttributeType, Schema, collapse_space, page_base};
use page::html::{Document, NodeId};
use page::xpath::Fuel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use server::permit::WorkflowsWrite;
use server::{Body, Org};
use std::collections::{BTreeMap, BTreeSet};
use store::OrgRead;
use url::Url;

/// Examples of one request, at least.
const EXAMPLES_MIN: usize = 2;
/// Bytes of one text.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Other pages of the domain on which is shown what was learned.
const PREVIEW_PAGES_MAX: usize = 10;
/// Texts that are looked for in another form than the one in which they stand on the page: each look is a walk over it.
const FORM_LOOKS_MAX: usize = 50;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lesson {
    /// A registrable domain, or one host of it.
    domain: String,
    /// What saved attributes are for: the first for a type of one's own makes it.
    page_type: PageType,
    /// Two to ten stored pages of the domain.
    examples: Vec<LessonExample>,
    /// Puts what was learned beside the organization's own attributes of the domain. One of a name that is taken takes its place.
    #[serde(default)]
    save: Option<bool>,
}

/// A stored page, by its job or its URL, with what is seen on it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LessonExample {
    /// The job that fetched the page. Either this or `url`.
    #[serde(default)]
    job_id: Option<JobId>,
    /// The newest stored page of this URL.
    #[serde(default)]
    url: Option<String>,
    /// By attribute, the text as it is seen on the page, or all texts of a list; an empty list says that the page has none.
    values: BTreeMap<String, Option<Texts>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text or a list of texts")]
#[schemars(rename = "TextOrTexts")]
enum Texts {
    One(String),
    Many(Vec<String>),
}

/// What was learned, and what it gives.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LessonView {
    attributes: Vec<LearnedAttribute>,
    /// Attributes for which nothing was found that gives the told values and nothing else.
    left_out: Vec<String>,
    /// What the attributes give on other stored pages of the domain, the newest first.
    preview: Vec<PreviewView>,
    /// Limits that were reached, so that there may be more to learn.
    notes: Vec<String>,
    /// Whether they are among the organization's own now.
    is_saved: bool,
}

/// An attribute with what speaks for it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LearnedAttribute {
    #[serde(flatten)]
    attribute: Attribute,
    /// The share of right values to expect: from each example, asked with what the others teach, and the other pages. Few examples
    /// never give full confidence.
    confidence: f64,
    /// The share of the other stored pages on which it gives a value; null where there are none.
    coverage: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LessonPreview")]
struct PreviewView {
    job_id: JobId,
    url: String,
    /// By attribute; attributes without a value are absent.
    values: Map<String, Value>,
}

pub(super) async fn learn(org: Org<WorkflowsWrite>, Body(asked): Body<Lesson>) -> Result<Body<LessonView>> {
    let site = Site::parse("domain", &asked.domain)?;
    let told = told(asked.examples)?;
    let turn = org.service::<ReadingTurns>().next(org.id()).await?;
    let (rows, others) = org.read(|tx| {
        let rows = rows_of(tx, &site, &told)?;
        let others = choose_own(tx, &site, &rows, PREVIEW_PAGES_MAX)?;
        Ok((rows, others.rows))
    })?;
    // What is known to be of another type would be no preview.
    let of_type = |row: &ResultV4| row.page_type.is_none_or(|page_type| page_type == asked.page_type);
    let others = others.into_iter().filter(of_type).collect();
    let pages = org.service::<BlobStore>().org(org.id().0);
    let expected = rows.len();
    let examples = read_pages(&pages, rows).await?;
    if examples.len() < expected {
        return Err(gone());
    }
    let others = read_pages(&pages, others).await?;
    let work = move || {
        let learned = teach(&told, examples, others);
        drop(turn);
        learned
    };
    let learned = tokio::task::spawn_blocking(work).await;
    let mut view = learned.map_err(|e| Error::internal("learn attributes", e))??;
    if asked.save == Some(true) && !view.attributes.is_empty() {
        let new = view.attributes.iter().map(|learned| learned.attribute.clone()).collect();
        save_beside(&org, site, asked.page_type, new).await?;
        view.is_saved = true;
    }
    Ok(Body(view))
}

pub(super) fn gone() -> Error {
    Error::not_found("Page").message("The page of an example is not kept any more.")
}

/// An example within the limits.
struct ToldExample {
    page: ToldPage,
    values: Vec<(String, Vec<String>)>,
    /// Attributes that were told as lists.
    lists: BTreeSet<String>,
}

enum ToldPage {
    Job(JobId),
    Url(WebUrl),
}

fn told(examples: Vec<LessonExample>) -> Result<Vec<ToldExample>> {
    if !(EXAMPLES_MIN..=LESSON_EXAMPLES_MAX).contains(&examples.len()) {
        return Err(Error::invalid("examples", format!("must be {EXAMPLES_MIN} to {LESSON_EXAMPLES_MAX}")));
    }
    let told =
        examples.into_iter().enumerate().map(|(at, example)| told_one(&format!("examples[{at}]"), example));
    let told = told.collect::<Result<Vec<_>>>()?;
    let names: BTreeSet<&String> =
        told.iter().flat_map(|example| example.values.iter().map(|(name, _)| name)).collect();
    if names.is_empty() || names.len() > LESSON_ATTRIBUTES_MAX {
        let reason = format!("must tell the values of 1 to {LESSON_ATTRIBUTES_MAX} attributes");
        return Err(Error::invalid("examples", reason));
    }
    Ok(told)
}

fn told_one(path: &str, example: LessonExample) -> Result<ToldExample> {
    let page = match (example.job_id, example.url) {
        (Some(job), None) => ToldPage::Job(job),
        (None, Some(url)) => {
            let url = WebUrl::parse(&url);
            ToldPage::Url(url.map_err(|e| Error::invalid(&format!("{path}.url"), e))?)
        }
        _ => return Err(Error::invalid(path, "must name its page by either jobId or url")),
    };
    let (mut values, mut lists) = (Vec::new(), BTreeSet::new());
    for (name, texts) in example.values {
        let Some(texts) = texts else { continue };
        let field = field_of(path, &name);
        check_name(&field, &name)?;
        let texts = match texts {
            Texts::One(text) => vec![text],
            Texts::Many(texts) => {
                // None at all says of a single value, too, that it is not there.
                if !texts.is_empty() {
                    lists.insert(name.clone());
                }
                texts
            }
        };
        if texts.len() > LESSON_TEXTS_MAX {
            return Err(Error::invalid(&field, format!("has more than {LESSON_TEXTS_MAX} texts")));
        }
        for text in &texts {
            if text.trim().is_empty() || text.len() > TEXT_BYTES_MAX {
                let reason = format!("must be a text of 1 to {TEXT_BYTES_MAX} bytes");
                return Err(Error::invalid(&field, reason));
            }
        }
        if values.len() == LESSON_ATTRIBUTES_MAX {
            return Err(Error::invalid(
                path,
                format!("has values of more than {LESSON_ATTRIBUTES_MAX} attributes"),
            ));
        }
        values.push((name, texts));
    }
    Ok(ToldExample { page, values, lists })
}

/// The place of a value, of whose name a part will do.
fn field_of(path: &str, name: &str) -> String {
    let name: String = name.chars().take(128).collect();
    format!("{path}.values.{name}")
}

/// A name must be one that a schema takes.
fn check_name(field: &str, name: &str) -> Result<()> {
    let any = Attribute {
        name: name.to_owned(),
        xpaths: vec!["/*".to_owned()],
        json_paths: None,
        kind: AttributeType::Text,
        description: None,
        anti_patterns: None,
        semantic_type: None,
        validation: None,
    };
    Schema::compile(&[any]).map(drop).map_err(|error| Error::invalid(field, error.message))
}

/// The results of the examples' pages: all of the site, each page once, and not too large together.
fn rows_of(tx: &OrgRead<'_>, site: &Site, told: &[ToldExample]) -> Result<Vec<ResultV4>> {
    let mut rows: Vec<ResultV4> = Vec::with_capacity(told.len());
    for (at, example) in told.iter().enumerate() {
        let (field, row) = match &example.page {
            ToldPage::Job(job) => {
                let field = format!("examples[{at}].jobId");
                let row = page_of_job(tx, site, &field, *job)?;
                (field, row)
            }
            ToldPage::Url(url) => {
                let field = format!("examples[{at}].url");
                let row = page_of_url(tx, site, &field, url)?;
                (field, row)
            }
        };
        check_stored(tx, &field, &row)?;
        if rows.iter().any(|known| known.job == row.job) {
            return Err(Error::invalid(&field, "is the page of an earlier example"));
        }
        rows.push(row);
    }
    if rows.iter().map(|row| row.page.byte_size).sum::<u64>() > SAMPLE_BYTES_MAX {
        let message = format!("The pages of the examples have more than {SAMPLE_BYTES_MAX} bytes together.");
        return Err(Error::new(Code::PayloadTooLarge).message(message));
    }
    Ok(rows)
}

/// Refuses what is no page, is not kept any more, or is too large.
pub(super) fn check_stored(tx: &OrgRead<'_>, field: &str, row: &ResultV4) -> Result<()> {
    if !is_document(row.content_type.as_deref()) {
        return Err(Error::invalid(field, "what was fetched is no page"));
    }
    if !has_page(tx, row)? {
        return Err(gone());
    }
    if row.page.byte_size > HTML_BYTES_MAX as u64 {
        let message = format!("{field}: the page has {} bytes, more than 5 MB.", row.page.byte_size);
        return Err(Error::new(Code::PayloadTooLarge).message(message));
    }
    Ok(())
}

pub(super) struct ParsedPage {
    pub row: ResultV4,
    pub document: Document,
    pub base: Url,
}

pub(super) fn parse(stored: StoredPage) -> Result<ParsedPage> {
    let url =
        Url::parse(&stored.row.final_url).map_err(|e| Error::internal("read the URL of a result", e))?;
    let document = Document::parse_bytes(&stored.bytes, stored.row.content_type.as_deref());
    let base = page_base(&document, &url);
    Ok(ParsedPage { row: stored.row, document, base })
}

impl ParsedPage {
    pub fn page(&self) -> induce::Page<'_> {
        induce::Page { document: &self.document, base: &self.base }
    }
}

/// Checks that what is told stands there, learns it, and reads the other pages by it.
fn teach(told: &[ToldExample], examples: Vec<StoredPage>, others: Vec<StoredPage>) -> Result<LessonView> {
    let pages = examples.into_iter().map(parse).collect::<Result<Vec<_>>>()?;
    let others = others.into_iter().map(parse).collect::<Result<Vec<_>>>()?;
    let examples: Vec<Example<'_>> = pages
        .iter()
        .zip(told)
        .map(|(page, told)| Example { page: page.page(), values: told.values.clone() })
        .collect();
    let names: BTreeSet<&String> =
        examples.iter().flat_map(|example| example.values.iter().map(|(name, _)| name)).collect();
    let guess = |name: &String| {
        let guessed = Wanted::guess(name, &examples);
        if told.iter().any(|example| example.lists.contains(name)) { guessed.listed() } else { guessed }
    };
    let wanted: Vec<Wanted> = names.into_iter().map(guess).collect();
    check_told(&wanted, &examples)?;
    let other_pages: Vec<_> = others.iter().map(ParsedPage::page).collect();
    let mut fuel = Fuel::new(LESSON_FUEL_MAX);
    let learned = learn_from(&wanted, &examples, &other_pages, &mut fuel);
    let notes = learned.bounds.iter().map(ToString::to_string).collect();
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for one in learned.attributes {
        match one.attribute() {
            Some(attribute) => found.push((attribute, one.confidence)),
            None => left_out.push(one.name),
        }
    }
    let attributes: Vec<Attribute> = found.iter().map(|(attribute, _)| attribute.clone()).collect();
    let preview = preview(&attributes, &others)?;
    let view = |(attribute, confidence): (Attribute, f64)| {
        let given = preview.iter().filter(|page| page.values.contains_key(&attribute.name)).count();
        let coverage = (!preview.is_empty()).then(|| rounded(given as f64 / preview.len() as f64));
        LearnedAttribute { attribute, confidence: rounded(confidence), coverage }
    };
    let attributes = found.into_iter().map(view).collect();
    Ok(LessonView { attributes, left_out, preview, notes, is_saved: false })
}

pub(super) fn rounded(share: f64) -> f64 {
    (share * 1_000.0).round() / 1_000.0
}

fn preview(attributes: &[Attribute], others: &[ParsedPage]) -> Result<Vec<PreviewView>> {
    if attributes.is_empty() {
        return Ok(Vec::new());
    }
    let schema = Schema::compile(attributes).map_err(|e| Error::internal("compile learned attributes", e))?;
    let read = |page: &ParsedPage| PreviewView {
        job_id: page.row.job,
        url: page.row.url.clone(),
        values: schema.extract(&page.document, &page.base, &mut Fuel::for_page()).values,
    };
    Ok(others.iter().map(read).collect())
}

/// Refuses a text that does not stand on its page.
fn check_told(wanted: &[Wanted], examples: &[Example<'_>]) -> Result<()> {
    let mut looks = FORM_LOOKS_MAX;
    for (at, example) in examples.iter().enumerate() {
        let visible = visible_text(example.page.document);
        for (name, texts) in &example.values {
            let Some(wanted) = wanted.iter().find(|wanted| wanted.name == *name) else { continue };
            for text in texts {
                if visible.contains(&*collapse_space(text.trim())) {
                    continue;
                }
                let Some(left) = looks.checked_sub(1) else { return Ok(()) };
                looks = left;
                if !shows(example.page, AttributeType::Text, wanted.form, std::slice::from_ref(text)) {
                    let shown: String = text.chars().take(100).collect();
                    let field = field_of(&format!("examples[{at}]"), name);
                    return Err(Error::invalid(&field, format!("\"{shown}\" does not stand on the page")));
                }
            }
        }
    }
    Ok(())
}

/// What a reader sees of a page, without surplus white space.
fn visible_text(document: &Document) -> String {
    let mut text = String::new();
    let (mut at, end) = (NodeId(1), document.subtree_end(Document::ROOT));
    while at < end {
        if document.is_hidden_element(at) {
            at = document.subtree_end(at);
            continue;
        }
        if document.is_text(at) {
            text.push_str(document.text(at));
        }
        at = NodeId(at.0 + 1);
    }
    collapse_space(&text).into_owned()
}
