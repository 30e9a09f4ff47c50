//! One pass over the matching documents that gives the page, the total and the facets together.
//!
//! Filters on columns (quality, changed, time) are applied here rather than as range queries: the pass reads
//! those columns anyway, and one pass over one immutable set of segments is what makes total, facets and hits
//! agree with each other. All three are exact. Facets and total speak of everything that matches; only the
//! hits start behind the cursor.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::columnar::{ColumnValues, StrColumn};
use tantivy::query::Weight;
use tantivy::{DocId, Score, SegmentOrdinal, SegmentReader, TERMINATED, TantivyError};

use super::schema::{CHANGED, DOMAIN, ID_HIGH, ID_LOW, PAGE_TYPE, QUALITY, SCRAPED_AT};

/// Values of each facet that are given, the most frequent first.
pub const FACET_VALUES_MAX: usize = 50;
/// Steps of relevance that are told apart, per unit of score. Scores are sums of 32-bit floats whose last
/// bits depend on the order in which a segment adds them; rounding hides that, so that a document keeps its
/// rank when segments are merged. What falls together is ordered by id, that is by age.
const RANK_STEPS_PER_SCORE: f32 = 256.0;

/// The order of the hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// By time of scraping, then id, both descending.
    #[default]
    Newest,
    /// By score, then id, both descending. Without a text to be relevant to, it is `Newest`.
    Relevance,
}

/// A place in the order: rank (milliseconds or rounded score), then id; the larger comes first.
pub(super) type SortPosition = (i64, u128);

/// The conditions on columns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ColumnFilter {
    pub quality_min: Option<f64>,
    pub changed: Option<bool>,
    /// Inclusive.
    pub from_ms: Option<i64>,
    /// Exclusive.
    pub to_ms: Option<i64>,
}

/// What the pass is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageCollector {
    pub filter: ColumnFilter,
    pub sort: Sort,
    /// Only hits strictly behind this place.
    pub after: Option<SortPosition>,
    /// Hits to keep: one more than a page, to know whether there is a next one.
    pub hits_max: usize,
    /// When the pass is given up.
    pub deadline: Instant,
}

/// What a pass that was given up says of itself.
pub(super) const TIME_IS_OVER: &str = "the search took too long";
/// Documents between two looks at the clock.
const DOCS_PER_LOOK: u32 = 1_024;

impl PageCollector {
    fn look_at_the_clock(&self) -> tantivy::Result<()> {
        match Instant::now() < self.deadline {
            true => Ok(()),
            false => Err(TantivyError::InternalError(TIME_IS_OVER.to_owned())),
        }
    }
}

/// What the pass gives.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// First place first.
    pub places: Vec<SortPosition>,
    pub total: u64,
    pub domain: Vec<(String, u64)>,
    pub page_type: Vec<(String, u64)>,
}

/// The part of one segment: counts by value, complete, because the largest fifty of each segment need not
/// hold the largest fifty of all.
pub(super) struct SegmentPart {
    places: Vec<SortPosition>,
    total: u64,
    domain: Vec<(String, u64)>,
    page_type: Vec<(String, u64)>,
}

/// The pass over one segment.
pub(super) struct SegmentPass {
    plan: PageCollector,
    id_high: Arc<dyn ColumnValues<u64>>,
    id_low: Arc<dyn ColumnValues<u64>>,
    scraped_at: Arc<dyn ColumnValues<i64>>,
    quality: Arc<dyn ColumnValues<f64>>,
    changed: Arc<dyn ColumnValues<bool>>,
    domain: Option<FacetCounter>,
    page_type: Option<FacetCounter>,
    /// The best places so far; the worst of them on top.
    best: BinaryHeap<Reverse<SortPosition>>,
    total: u64,
}

impl Collector for PageCollector {
    type Fruit = Collected;
    type Child = SegmentPass;

    fn for_segment(&self, _: SegmentOrdinal, segment: &SegmentReader) -> tantivy::Result<SegmentPass> {
        let columns = segment.fast_fields();
        Ok(SegmentPass {
            plan: *self,
            id_high: columns.column_first_or_default(ID_HIGH)?,
            id_low: columns.column_first_or_default(ID_LOW)?,
            scraped_at: columns.column_first_or_default(SCRAPED_AT)?,
            quality: columns.column_first_or_default(QUALITY)?,
            changed: columns.column_first_or_default(CHANGED)?,
            domain: columns.str(DOMAIN)?.map(FacetCounter::new),
            page_type: columns.str(PAGE_TYPE)?.map(FacetCounter::new),
            best: BinaryHeap::with_capacity(self.hits_max + 1),
            total: 0,
        })
    }

    /// As the library does it, with a look at the clock now and then: a common word, a phrase of common words or many
    /// alternatives can hold a thread for as long as there are documents.
    fn collect_segment(
        &self,
        weight: &dyn Weight,
        ordinal: SegmentOrdinal,
        segment: &SegmentReader,
    ) -> tantivy::Result<tantivy::Result<SegmentPart>> {
        self.look_at_the_clock()?;
        let (mut pass, alive) = (self.for_segment(ordinal, segment)?, segment.alive_bitset());
        let (mut docs, scored) = (weight.scorer(segment, 1.0)?, self.requires_scoring());
        let (mut doc, mut seen) = (docs.doc(), 0u32);
        while doc != TERMINATED {
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(DOCS_PER_LOOK) {
                self.look_at_the_clock()?;
            }
            if alive.is_none_or(|alive| alive.is_alive(doc)) {
                let score = if scored { docs.score() } else { 0.0 };
                pass.collect(doc, score);
            }
            doc = docs.advance();
        }
        Ok(pass.harvest())
    }

    fn requires_scoring(&self) -> bool {
        self.sort == Sort::Relevance
    }

    fn merge_fruits(&self, parts: Vec<tantivy::Result<SegmentPart>>) -> tantivy::Result<Collected> {
        let mut all = Collected::default();
        let (mut domain, mut page_type) = (HashMap::new(), HashMap::new());
        for part in parts {
            let part = part?;
            all.total += part.total;
            all.places.extend(part.places);
            add_counts(&mut domain, part.domain);
            add_counts(&mut page_type, part.page_type);
        }
        all.places.sort_unstable_by(|a, b| b.cmp(a));
        all.places.truncate(self.hits_max);
        all.domain = largest(domain);
        all.page_type = largest(page_type);
        Ok(all)
    }
}

impl SegmentPass {
    fn passes(&self, doc: DocId, scraped_at_ms: i64) -> bool {
        let filter = &self.plan.filter;
        filter.from_ms.is_none_or(|from| scraped_at_ms >= from)
            && filter.to_ms.is_none_or(|to| scraped_at_ms < to)
            && filter.changed.is_none_or(|changed| self.changed.get_val(doc) == changed)
            && filter.quality_min.is_none_or(|least| self.quality.get_val(doc) >= least)
    }
}

impl SegmentCollector for SegmentPass {
    type Fruit = tantivy::Result<SegmentPart>;

    fn collect(&mut self, doc: DocId, score: Score) {
        let scraped_at_ms = self.scraped_at.get_val(doc);
        if !self.passes(doc, scraped_at_ms) {
            return;
        }
        self.total += 1;
        self.domain.iter_mut().for_each(|facet| facet.count(doc));
        self.page_type.iter_mut().for_each(|facet| facet.count(doc));
        let rank = match self.plan.sort {
            Sort::Newest => scraped_at_ms,
            Sort::Relevance => rank_of(score),
        };
        // Most documents are behind a full page: compare ranks before fetching the id.
        let full = self.best.len() >= self.plan.hits_max;
        if full && self.best.peek().is_some_and(|Reverse(worst)| rank < worst.0) {
            return;
        }
        let id = u128::from(self.id_high.get_val(doc)) << 64 | u128::from(self.id_low.get_val(doc));
        let place = (rank, id);
        if self.plan.after.is_some_and(|after| place >= after) {
            return;
        }
        self.best.push(Reverse(place));
        if self.best.len() > self.plan.hits_max {
            self.best.pop();
        }
    }

    fn harvest(self) -> tantivy::Result<SegmentPart> {
        Ok(SegmentPart {
            places: self.best.into_iter().map(|Reverse(place)| place).collect(),
            total: self.total,
            domain: self.domain.map_or(Ok(Vec::new()), FacetCounter::finish)?,
            page_type: self.page_type.map_or(Ok(Vec::new()), FacetCounter::finish)?,
        })
    }
}

/// The rounded score as a rank.
fn rank_of(score: Score) -> i64 {
    (score * RANK_STEPS_PER_SCORE).round() as i64
}

/// The score that a rank of relevance stands for.
pub(super) fn score_of(rank: i64) -> f32 {
    rank as f32 / RANK_STEPS_PER_SCORE
}

/// Counts the values of one text column by their ordinal in the segment's dictionary.
struct FacetCounter {
    column: StrColumn,
    /// By ordinal. The dictionary holds the values of all organizations, so most stay zero.
    counts: Vec<u32>,
    /// The ordinals that are not zero, so that finishing costs what was found and not what exists.
    seen: Vec<u64>,
}

impl FacetCounter {
    fn new(column: StrColumn) -> FacetCounter {
        FacetCounter { counts: vec![0; column.num_terms()], seen: Vec::new(), column }
    }

    fn count(&mut self, doc: DocId) {
        let Some(ordinal) = self.column.ords().first(doc) else { return };
        if let Some(count) = self.counts.get_mut(ordinal as usize) {
            if *count == 0 {
                self.seen.push(ordinal);
            }
            *count += 1;
        }
    }

    fn finish(mut self) -> tantivy::Result<Vec<(String, u64)>> {
        self.seen.sort_unstable();
        let mut values = Vec::with_capacity(self.seen.len());
        let mut ordinals = self.seen.iter();
        self.column.dictionary().sorted_ords_to_term_cb(&self.seen, |bytes| {
            if let Some(ordinal) = ordinals.next() {
                let count = u64::from(self.counts[*ordinal as usize]);
                values.push((String::from_utf8_lossy(bytes).into_owned(), count));
            }
        })?;
        Ok(values)
    }
}

fn add_counts(all: &mut HashMap<String, u64>, part: Vec<(String, u64)>) {
    for (value, count) in part {
        *all.entry(value).or_default() += count;
    }
}

/// The largest counts first, equal ones by value.
fn largest(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.truncate(FACET_VALUES_MAX);
    counts
}
