//! `OrgSearch`: the only way to ask the index anything, always within one organization.
//!
//! The organization's term is added here to every query, so no caller can forget it and no user's text can
//! reach past it (the text becomes terms of the text fields only, see `parse.rs`).
//!
//! **Cursors are stable.** A cursor is the place (rank, id) of the last hit, and the next page is what lies
//! strictly behind it. For `newest` the rank is the time, which never changes. For `relevance` the rank is a
//! score that is a function of the query and the document alone: BM25 usually weighs a word by how rare it is
//! in the whole index, which would change with every document written meanwhile, and would tell one
//! organization how often a word occurs at the others. So the statistics are fixed ([`FixedStatistics`]);
//! shorter words, which are the commoner ones in every language (Zipf's law of abbreviation), weigh less
//! instead.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tantivy::query::{
    Bm25StatisticsProvider, BooleanQuery, BoostQuery, ConstScoreQuery, EnableScoring,
    InvertedIndexRangeQuery, Occur, PhraseQuery, Query, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{Searcher, TantivyError, Term};
use uuid::Uuid;

use super::collect::{Collected, ColumnFilter, Matching, PageCollector, Sort, TIME_IS_OVER, score_of};
use super::parse::{Parsed, QueryTerm};
use super::schema::{self, KEYWORD_BYTES_MAX};
use super::{SearchError, SearchIndex};

/// Hits of one page at most; a larger `limit` is this.
pub const PAGE_HITS_MAX: usize = 200;
/// How long one search may look through documents. A choice: the slowest of ordinary ones take some tenths of a second.
pub const SEARCH_TIME_MAX: Duration = Duration::from_secs(5);
/// What a word in the title counts beside the same word in the text.
const TITLE_BOOST: f32 = 2.0;
/// Words of this many characters or more weigh fully.
const FULL_WEIGHT_CHARS: usize = 6;

/// The place of a hit in the order, as plain values: what a cursor carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// The order in which the place was taken.
    pub sort: Sort,
    /// Milliseconds since 1970 (newest) or the rounded score (relevance).
    pub rank: i64,
    pub id: Uuid,
}

/// What is asked. The default asks for nothing at all: set `limit`.
#[derive(Debug, Clone, Default)]
pub struct ResultQuery {
    /// What a person typed; see `parse.rs`. Blank is none.
    pub q: Option<String>,
    pub domain: Option<String>,
    pub page_type: Option<String>,
    pub url_id: Option<Uuid>,
    pub job_id: Option<Uuid>,
    /// All of them must be on the document.
    pub tags: Vec<String>,
    /// Composite quality, inclusive.
    pub min_quality: Option<f64>,
    pub changed: Option<bool>,
    /// Time of scraping, inclusive.
    pub from_ms: Option<i64>,
    /// Time of scraping, exclusive.
    pub to_ms: Option<i64>,
    pub sort: Sort,
    /// Hits wanted, cut at [`PAGE_HITS_MAX`]; 0 gives total and facets only.
    pub limit: usize,
    /// Continue behind this place.
    pub after: Option<SortKey>,
}

/// One document found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    pub id: Uuid,
    /// Zero when the order is `Newest`.
    pub score: f32,
    pub sort_key: SortKey,
}

/// Counts of all that matches, over all pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facets {
    pub domain: Vec<(String, u64)>,
    pub page_type: Vec<(String, u64)>,
}

/// One page of an answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResultPage {
    pub hits: Vec<Hit>,
    /// Where the next page starts; `None` on the last one.
    pub next: Option<SortKey>,
    /// Documents that match, over all pages.
    pub total: u64,
    pub facets: Facets,
}

/// The index as one organization sees it. Cheap to make and to clone.
#[derive(Clone)]
pub struct OrgSearch {
    index: SearchIndex,
    org: Uuid,
}

impl SearchIndex {
    /// The index within one organization.
    pub fn org(&self, org: Uuid) -> OrgSearch {
        OrgSearch { index: self.clone(), org }
    }
}

impl OrgSearch {
    /// Answers a query from the last commit. Reads mapped files: milliseconds, but call it off the async
    /// threads. Errors: [`SearchError::CursorOfOtherSort`] when `after` was taken in another order; otherwise
    /// the index is unreadable.
    pub fn search(&self, query: &ResultQuery) -> Result<ResultPage, SearchError> {
        // Files that are altered while they are mapped send readers astray, which they notice by their checks or not at all.
        let found = catch_unwind(AssertUnwindSafe(|| self.search_within(query, SEARCH_TIME_MAX)));
        found.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(SearchError::Failed(format!("a reader panicked: {}", text.unwrap_or_default()).into()))
        })
    }

    /// The same with another limit of time than [`SEARCH_TIME_MAX`].
    pub(super) fn search_within(
        &self,
        query: &ResultQuery,
        time_max: Duration,
    ) -> Result<ResultPage, SearchError> {
        let parsed = Parsed::read(query.q.as_deref().unwrap_or(""));
        if parsed.matches_nothing() {
            return Ok(ResultPage::default());
        }
        let sort = if parsed.groups.is_empty() { Sort::Newest } else { query.sort };
        if query.after.is_some_and(|after| after.sort != sort) {
            return Err(SearchError::CursorOfOtherSort);
        }
        let limit = query.limit.min(PAGE_HITS_MAX);
        let collector = PageCollector {
            filter: ColumnFilter {
                quality_min: query.min_quality,
                changed: query.changed,
                from_ms: query.from_ms,
                to_ms: query.to_ms,
            },
            sort,
            after: query.after.map(|after| (after.rank, after.id.as_u128())),
            hits_max: limit + 1,
            deadline: Instant::now() + time_max,
        };
        let searcher = self.index.searcher();
        let scoring = match sort {
            Sort::Newest => EnableScoring::disabled_from_searcher(&searcher),
            Sort::Relevance => EnableScoring::enabled_from_statistics_provider(&FixedStatistics, &searcher),
        };
        let org = self.index.fields().org_term(self.org);
        let clauses = self.clauses(query, &parsed, sort);
        let collected =
            collect(&searcher, &collector, &org, clauses, scoring).map_err(|error| match error {
                TantivyError::InternalError(reason) if reason == TIME_IS_OVER => SearchError::TooSlow,
                error => SearchError::from_tantivy(error),
            })?;
        Ok(page(collected, sort, limit))
    }

    /// What is asked of the organization's documents: the exact filters, then the text.
    fn clauses(&self, query: &ResultQuery, parsed: &Parsed, sort: Sort) -> Vec<(Occur, Box<dyn Query>)> {
        let fields = self.index.fields();
        let filter = |term: Term| filter(term, sort);
        let mut clauses = Vec::new();
        let mut must = |term: Term| clauses.push((Occur::Must, filter(term)));
        if let Some(domain) = &query.domain {
            must(Term::from_field_text(fields.domain, &schema::domain_keyword(domain)));
        }
        if let Some(page_type) = &query.page_type {
            must(Term::from_field_text(fields.page_type, schema::cut(page_type, KEYWORD_BYTES_MAX)));
        }
        if let Some(url_id) = query.url_id {
            must(Term::from_field_bytes(fields.url_id, url_id.as_bytes()));
        }
        if let Some(job_id) = query.job_id {
            must(Term::from_field_bytes(fields.job_id, job_id.as_bytes()));
        }
        for tag in &query.tags {
            must(Term::from_field_text(fields.tag, schema::cut(tag, KEYWORD_BYTES_MAX)));
        }
        for group in &parsed.groups {
            let mut any: Vec<Box<dyn Query>> =
                group.iter().map(|item| item_query(item, fields.body, sort)).collect();
            let clause = if any.len() == 1 { any.remove(0) } else { Box::new(BooleanQuery::union(any)) };
            clauses.push((Occur::Must, clause));
        }
        for item in &parsed.excluded {
            clauses.push((Occur::MustNot, item_query(item, fields.body, Sort::Newest)));
        }
        if sort == Sort::Relevance {
            let in_title = parsed.groups.iter().flatten().filter_map(|item| title_query(item, fields.title));
            clauses.extend(in_title.map(|query| (Occur::Should, query)));
        }
        clauses
    }
}

/// Asks for what meets the clauses, among the organization's documents.
fn collect(
    searcher: &Searcher,
    collector: &PageCollector,
    org: &Term,
    clauses: Vec<(Occur, Box<dyn Query>)>,
    scoring: EnableScoring<'_>,
) -> tantivy::Result<Collected> {
    // Clauses that only exclude match nothing by themselves.
    let is_something = clauses.iter().any(|(occur, _)| *occur == Occur::Must);
    let of_org = (Occur::Must, filter(org.clone(), collector.sort));
    let all = clauses.iter().map(|(occur, query)| (*occur, query.box_clone()));
    let all = BooleanQuery::new(std::iter::once(of_org).chain(all).collect()).weight(scoring)?;
    let rest = is_something.then(|| BooleanQuery::new(clauses).weight(scoring)).transpose()?;
    let matching = Matching { org, all: &*all, rest: rest.as_deref() };
    collector.collect(searcher.segment_readers(), &matching)
}

/// A term that decides but does not score. Where nothing is scored it stands bare: tantivy intersects two bare terms by code
/// of their own, with calls that are not virtual.
fn filter(term: Term, sort: Sort) -> Box<dyn Query> {
    let query = Box::new(TermQuery::new(term, IndexRecordOption::Basic));
    match sort {
        Sort::Newest => query,
        Sort::Relevance => Box::new(ConstScoreQuery::new(query, 0.0)),
    }
}

fn item_query(item: &QueryTerm, body: Field, sort: Sort) -> Box<dyn Query> {
    match item {
        QueryTerm::Term(text) if sort == Sort::Newest => filter(Term::from_field_text(body, text), sort),
        QueryTerm::Term(text) => {
            let query = TermQuery::new(Term::from_field_text(body, text), IndexRecordOption::WithFreqs);
            Box::new(BoostQuery::new(Box::new(query), weight(text)))
        }
        QueryTerm::Prefix(text) => {
            let from = Bound::Included(Term::from_field_text(body, text));
            let to = successor(text)
                .map_or(Bound::Unbounded, |end| Bound::Excluded(Term::from_field_text(body, &end)));
            Box::new(InvertedIndexRangeQuery::new(from, to))
        }
        QueryTerm::Phrase(terms) => {
            let terms = terms.iter().map(|(at, text)| (*at, Term::from_field_text(body, text))).collect();
            Box::new(PhraseQuery::new_with_offset(terms))
        }
    }
}

/// What a word adds when it stands in the title too.
fn title_query(item: &QueryTerm, title: Field) -> Option<Box<dyn Query>> {
    let QueryTerm::Term(text) = item else { return None };
    let query = TermQuery::new(Term::from_field_text(title, text), IndexRecordOption::WithFreqs);
    Some(Box::new(BoostQuery::new(Box::new(query), TITLE_BOOST * weight(text))))
}

/// How much a word says, by its length: see the module's documentation. Pairs of unspaced scripts are words
/// already.
fn weight(term: &str) -> f32 {
    if !term.is_ascii() {
        return 1.0;
    }
    term.len().min(FULL_WEIGHT_CHARS) as f32 / FULL_WEIGHT_CHARS as f32
}

/// The least text that is larger than every text beginning with `prefix`; `None` when there is none. UTF-8
/// sorts as its characters do, so it is the prefix with its last character raised by one.
fn successor(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

fn page(collected: Collected, sort: Sort, limit: usize) -> ResultPage {
    let key = |(rank, id): (i64, u128)| SortKey { sort, rank, id: Uuid::from_u128(id) };
    let hit = |place: (i64, u128)| Hit {
        id: Uuid::from_u128(place.1),
        score: if sort == Sort::Relevance { score_of(place.0) } else { 0.0 },
        sort_key: key(place),
    };
    let more = collected.places.len() > limit;
    let hits: Vec<Hit> = collected.places.into_iter().take(limit).map(hit).collect();
    ResultPage {
        next: hits.last().filter(|_| more).map(|hit| hit.sort_key),
        hits,
        total: collected.total,
        facets: Facets { domain: collected.domain, page_type: collected.page_type },
    }
}

/// Statistics that never change, in place of the index's own: see the module's documentation.
struct FixedStatistics;

impl FixedStatistics {
    const DOCUMENTS: u64 = 1_000_000;
    /// Terms of a typical page's values; a shorter document with the same words scores higher.
    const TERMS_PER_DOCUMENT: u64 = 200;
    /// Makes a word's rarity weigh about 3 in BM25.
    const DOCUMENTS_WITH_TERM: u64 = 50_000;
}

impl Bm25StatisticsProvider for FixedStatistics {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(Self::DOCUMENTS * Self::TERMS_PER_DOCUMENT)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(Self::DOCUMENTS)
    }

    fn doc_freq(&self, _: &Term) -> tantivy::Result<u64> {
        Ok(Self::DOCUMENTS_WITH_TERM)
    }
}

#[cfg(test)]
mod tests {
    use super::successor;

    #[test]
    fn the_successor_bounds_every_continuation() {
        assert_eq!(successor("ab").as_deref(), Some("ac"));
        assert_eq!(successor("\u{d7ff}").as_deref(), Some("\u{e000}"), "surrogates are no characters");
        assert_eq!(successor("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(successor("\u{10ffff}"), None);
    }
}
