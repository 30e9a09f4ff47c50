//! One pass over the matching documents that gives the page, the total and the facets together.
//!
//! Filters on columns (quality, changed, time) are applied here rather than as range queries: the pass reads
//! those columns anyway, and one pass over one immutable set of segments is what makes total, facets and hits
//! agree with each other. All three are exact. Facets and total speak of everything that matches; only the
//! hits start behind the cursor.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tantivy::columnar::{Column, ColumnValues, DynamicColumn, HasAssociatedColumnType, StrColumn};
use tantivy::fastfield::FastFieldReaders;
use tantivy::query::{Scorer, Weight};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, Score, SegmentReader, TERMINATED, TantivyError, Term};

use super::schema::{CHANGED, DOMAIN, ID_HIGH, ID_LOW, ORG, PAGE_TYPE, QUALITY, SCRAPED_AT};

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
/// Blocks between two looks at the clock: a thousand documents.
const BLOCKS_PER_LOOK: u32 = 16;

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
    total: u64,
}

/// What matches, as it is asked of each segment.
pub(super) struct Matching<'q> {
    /// The organization whose documents are meant.
    pub org: &'q Term,
    /// Everything that is asked for, the organization included.
    pub all: &'q dyn Weight,
    /// The same without the organization; none where that alone would match nothing or everything.
    pub rest: Option<&'q dyn Weight>,
}

impl PageCollector {
    /// Passes over these segments, those with the newest documents first: so most of the others' are soon known to be behind.
    pub fn collect(&self, segments: &[SegmentReader], matching: &Matching<'_>) -> tantivy::Result<Collected> {
        let mut in_order = Vec::with_capacity(segments.len());
        for segment in segments {
            let newest = values::<i64>(segment.fast_fields(), SCRAPED_AT)?.max_value();
            in_order.push((Reverse(newest), segment));
        }
        in_order.sort_by_key(|(newest, _)| *newest);
        let mut best = Best::new(self.hits_max, self.after);
        let mut parts = Vec::with_capacity(segments.len());
        for (_, segment) in in_order {
            parts.extend(self.collect_segment(segment, matching, &mut best)?);
        }
        Ok(merge(parts, best.finish()))
    }

    /// With a look at the clock now and then: a common word, a phrase of common words or many alternatives can hold a thread
    /// for as long as there are documents. None where the organization has no document.
    ///
    /// Where most of a segment is the organization's, intersecting with its postings costs more than all else: then what
    /// else is asked for leads, and a column says whose a document is. It is never more than twice what is the organization's own.
    fn collect_segment(
        &self,
        segment: &SegmentReader,
        matching: &Matching<'_>,
        best: &mut Best,
    ) -> tantivy::Result<Option<SegmentPart>> {
        self.look_at_the_clock()?;
        let own = segment.inverted_index(matching.org.field())?.doc_freq(matching.org)?;
        if own == 0 {
            return Ok(None);
        }
        let leads = if own > segment.max_doc() / 2 { matching.rest } else { None };
        let owner = leads.map(|_| Owner::of(segment, matching.org)).transpose()?.flatten();
        let weight = leads.filter(|_| owner.is_some()).unwrap_or(matching.all);
        let (mut pass, alive) = (self.pass(segment)?, segment.alive_bitset());
        let mut docs = weight.scorer(segment, 1.0)?;
        let mut block = Block::default();
        for count in 1u32.. {
            block.fill(&mut *docs, self.sort == Sort::Relevance);
            if block.len == 0 {
                break;
            }
            if let Some(owner) = &owner {
                owner.retain(&mut block);
            }
            if let Some(alive) = alive {
                block.retain(|block, at| alive.is_alive(block.docs[at]));
            }
            pass.collect(&mut block, best);
            if count.is_multiple_of(BLOCKS_PER_LOOK) {
                self.look_at_the_clock()?;
            }
        }
        pass.finish().map(Some)
    }

    fn pass(&self, segment: &SegmentReader) -> tantivy::Result<SegmentPass> {
        let columns = segment.fast_fields();
        Ok(SegmentPass {
            plan: *self,
            id_high: values(columns, ID_HIGH)?,
            id_low: values(columns, ID_LOW)?,
            scraped_at: values(columns, SCRAPED_AT)?,
            quality: values(columns, QUALITY)?,
            changed: values(columns, CHANGED)?,
            domain: columns.str(DOMAIN)?.map(FacetCounter::new),
            page_type: columns.str(PAGE_TYPE)?.map(FacetCounter::new),
            total: 0,
        })
    }
}

/// The values of a column by document. Every document has one, so they are read as they lie: through the library's view of
/// columns that may lack some, each costs a look whether it is there.
fn values<T>(columns: &FastFieldReaders, name: &str) -> tantivy::Result<Arc<dyn ColumnValues<T>>>
where
    T: HasAssociatedColumnType,
    DynamicColumn: Into<Option<Column<T>>>,
{
    match columns.column_opt::<T>(name)? {
        Some(column) if column.index.get_cardinality().is_full() => Ok(column.values),
        _ => columns.column_first_or_default(name),
    }
}

fn merge(parts: Vec<SegmentPart>, places: Vec<SortPosition>) -> Collected {
    let mut all = Collected { places, ..Collected::default() };
    let (mut domain, mut page_type) = (HashMap::new(), HashMap::new());
    for part in parts {
        all.total += part.total;
        add_counts(&mut domain, part.domain);
        add_counts(&mut page_type, part.page_type);
    }
    all.domain = largest(domain);
    all.page_type = largest(page_type);
    all
}

/// The best places so far.
struct Best {
    hits_max: usize,
    after: Option<SortPosition>,
    /// In no order. It grows to twice what is kept and is cut then, so that a document that replaces another costs little: in
    /// the order of time nearly each does.
    places: Vec<SortPosition>,
    /// What is under this rank is not among them.
    rank_min: i64,
}

impl Best {
    fn new(hits_max: usize, after: Option<SortPosition>) -> Best {
        Best { hits_max, after, places: Vec::with_capacity(2 * hits_max), rank_min: i64::MIN }
    }

    fn add(&mut self, place: SortPosition) {
        if self.after.is_some_and(|after| place >= after) {
            return;
        }
        self.places.push(place);
        if self.places.len() >= 2 * self.hits_max {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.places.len() > self.hits_max {
            let (_, worst, _) = self.places.select_nth_unstable_by(self.hits_max - 1, |a, b| b.cmp(a));
            self.rank_min = worst.0;
            self.places.truncate(self.hits_max);
        }
    }

    /// The best first.
    fn finish(mut self) -> Vec<SortPosition> {
        self.cut();
        self.places.sort_unstable_by(|a, b| b.cmp(a));
        self.places
    }
}

/// Whose documents are, by a column.
struct Owner {
    ordinals: Arc<dyn ColumnValues<u64>>,
    wanted: u64,
}

impl Owner {
    /// None where the segment cannot tell.
    fn of(segment: &SegmentReader, org: &Term) -> tantivy::Result<Option<Owner>> {
        let Some(column) = segment.fast_fields().bytes(ORG)? else { return Ok(None) };
        let Some(wanted) = column.dictionary().term_ord(org.serialized_value_bytes())? else {
            return Ok(None);
        };
        let is_full = column.ords().index.get_cardinality().is_full();
        Ok(is_full.then(|| Owner { ordinals: Arc::clone(&column.ords().values), wanted }))
    }

    fn retain(&self, block: &mut Block) {
        self.ordinals.get_vals(&block.docs[..block.len], &mut block.ordinals[..block.len]);
        block.retain(|block, at| block.ordinals[at] == self.wanted);
    }
}

/// Documents that are looked at together: a column is asked once for all of them, which takes a third of the time that
/// asking for each takes (a virtual call, and nothing the processor could do at once).
struct Block {
    docs: [DocId; COLLECT_BLOCK_BUFFER_LEN],
    scores: [Score; COLLECT_BLOCK_BUFFER_LEN],
    len: usize,
    times: [i64; COLLECT_BLOCK_BUFFER_LEN],
    ordinals: [u64; COLLECT_BLOCK_BUFFER_LEN],
    qualities: [f64; COLLECT_BLOCK_BUFFER_LEN],
    changed: [bool; COLLECT_BLOCK_BUFFER_LEN],
}

impl Default for Block {
    fn default() -> Block {
        Block {
            docs: [0; COLLECT_BLOCK_BUFFER_LEN],
            scores: [0.0; COLLECT_BLOCK_BUFFER_LEN],
            len: 0,
            times: [0; COLLECT_BLOCK_BUFFER_LEN],
            ordinals: [0; COLLECT_BLOCK_BUFFER_LEN],
            qualities: [0.0; COLLECT_BLOCK_BUFFER_LEN],
            changed: [false; COLLECT_BLOCK_BUFFER_LEN],
        }
    }
}

impl Block {
    /// The next documents; none at the end.
    fn fill(&mut self, docs: &mut dyn Scorer, is_scored: bool) {
        if !is_scored {
            self.len = docs.fill_buffer(&mut self.docs);
            return;
        }
        self.len = 0;
        let mut doc = docs.doc();
        while doc != TERMINATED && self.len < COLLECT_BLOCK_BUFFER_LEN {
            (self.docs[self.len], self.scores[self.len]) = (doc, docs.score());
            self.len += 1;
            doc = docs.advance();
        }
    }

    /// Leaves out what is not to be kept, by its place in the block.
    fn retain(&mut self, mut keep: impl FnMut(&Block, usize) -> bool) {
        let mut kept = 0;
        for at in 0..self.len {
            if keep(self, at) {
                self.docs[kept] = self.docs[at];
                self.scores[kept] = self.scores[at];
                self.times[kept] = self.times[at];
                kept += 1;
            }
        }
        self.len = kept;
    }
}

impl SegmentPass {
    /// Counts the documents of a block that pass the filters, and keeps the best of them.
    fn collect(&mut self, block: &mut Block, best: &mut Best) {
        self.scraped_at.get_vals(&block.docs[..block.len], &mut block.times[..block.len]);
        self.filter(block);
        self.total += block.len as u64;
        for facet in [&mut self.domain, &mut self.page_type].into_iter().flatten() {
            facet.count(block);
        }
        for at in 0..block.len {
            let rank = match self.plan.sort {
                Sort::Newest => block.times[at],
                Sort::Relevance => rank_of(block.scores[at]),
            };
            // Most documents are behind a full page: compare ranks before fetching the id.
            if rank >= best.rank_min {
                let doc = block.docs[at];
                let id = u128::from(self.id_high.get_val(doc)) << 64 | u128::from(self.id_low.get_val(doc));
                best.add((rank, id));
            }
        }
    }

    fn filter(&self, block: &mut Block) {
        let filter = &self.plan.filter;
        if filter.from_ms.is_some() || filter.to_ms.is_some() {
            let (from, to) = (filter.from_ms.unwrap_or(i64::MIN), filter.to_ms);
            block.retain(|block, at| block.times[at] >= from && to.is_none_or(|to| block.times[at] < to));
        }
        if let Some(changed) = filter.changed {
            self.changed.get_vals(&block.docs[..block.len], &mut block.changed[..block.len]);
            block.retain(|block, at| block.changed[at] == changed);
        }
        if let Some(least) = filter.quality_min {
            self.quality.get_vals(&block.docs[..block.len], &mut block.qualities[..block.len]);
            block.retain(|block, at| block.qualities[at] >= least);
        }
    }

    fn finish(self) -> tantivy::Result<SegmentPart> {
        Ok(SegmentPart {
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

    fn count(&mut self, block: &mut Block) {
        let FacetCounter { column, counts, seen } = self;
        let mut add = |ordinal: u64| {
            let Some(count) = counts.get_mut(ordinal as usize) else { return };
            if *count == 0 {
                seen.push(ordinal);
            }
            *count += 1;
        };
        let (docs, ordinals) = (&block.docs[..block.len], &mut block.ordinals[..block.len]);
        if column.ords().index.get_cardinality().is_full() {
            column.ords().values.get_vals(docs, ordinals);
            ordinals.iter().for_each(|ordinal| add(*ordinal));
        } else {
            docs.iter().filter_map(|doc| column.ords().first(*doc)).for_each(add);
        }
    }

    fn finish(mut self) -> tantivy::Result<Vec<(String, u64)>> {
        self.seen.sort_unstable();
        let mut values = Vec::with_capacity(self.seen.len());
        let mut ordinals = self.seen.iter();
        self.column.dictionary().sorted_ords_to_term_cb(&self.seen, |bytes| {
            // Documents without a value have an empty one.
            if let Some(ordinal) = ordinals.next()
                && !bytes.is_empty()
            {
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
