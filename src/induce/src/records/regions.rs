//! Where a page repeats itself: sets of records, each a run of sibling nodes.
//!
//! Two ways lead to one. Elements with the same tags above them and a name in common are alike wherever their parents are, so
//! rows of a grid do not part its cells. And children of one parent may belong together in runs, as `dt` with `dd` or a row with
//! the row behind it: a run begins with each child of one kind. How even, how alike and how rich the records are, and how much
//! of the page they are, says which sets are lists.

use std::collections::HashMap;

use page::html::{Document, NodeId};

use super::survey::{Span, Survey, grouped, mixed, names_of, number_of};
use crate::anchors::is_passing;

/// Records of a list: with fewer nothing is repeated.
pub const RECORDS_MIN: usize = 3;
/// Sets that are weighed by what is in them, and those that are looked at closely.
const SETS_MAX: usize = 4_000;
const CLOSE_MAX: usize = 48;
/// Elements of one set that are weighed.
const MEMBERS_MAX: usize = 2_000;
/// Names of all elements that sets are made by.
const NAMES_MAX: usize = 400_000;
/// Nodes of one record that are compared.
const COMPARED_MAX: usize = 160;
/// Records of one set that are compared.
const ALIKE_RECORDS_MAX: usize = 120;
/// Letters that one record counts at most.
const CHARS_MAX: u32 = 400;
/// Letters that an image or an amount is worth.
const RICH_CHARS: u32 = 30;
/// Kinds of children of one parent that runs may begin with.
const LEADS_MAX: usize = 5;
/// Children of one run.
const RUN_MAX: usize = 14;
/// Cells of a row that are counted.
const CELLS_MAX: usize = 20;
/// Runs of which the first two parts are compared, and how much less alike these are than the same parts of two runs where a run is
/// one record.
const PARTED_RUNS: usize = 12;
const PARTED_LIKENESS: f64 = 0.6;
/// What runs are worth beside elements, and what they lose by each kind that comes before theirs.
const RUN_SHARE: f64 = 0.97;
const LATER_LEAD_LOSS: f64 = 0.08;
/// What a set in the page's surroundings is worth beside one in its middle.
const BESIDE_SHARE: f64 = 0.25;

/// A set of records, with what speaks for it.
#[derive(Clone, Debug)]
pub struct Region {
    /// In the order of the page.
    pub records: Vec<Span>,
    pub score: f64,
    /// What its records are worth together, in letters.
    weight: f64,
    /// The share of records with a link.
    linked: f64,
}

/// The page's lists, the best first.
pub fn regions(survey: &Survey<'_>) -> Vec<Region> {
    let page_weight = f64::from(weight(survey, Span { start: 0, end: survey.end }, u32::MAX)).max(1.0);
    let mut sets = Vec::new();
    for nodes in alike_elements(survey) {
        let records: Vec<Span> = nodes.iter().map(|node| survey.span(*node)).collect();
        sets.extend(weighed(survey, records, page_weight, 1.0));
    }
    for (records, share) in runs(survey) {
        sets.extend(weighed(survey, records, page_weight, share));
    }
    best_first(&mut sets);
    sets.truncate(CLOSE_MAX);
    for region in &mut sets {
        region.score *= likeness(survey, &region.records).powf(1.5);
    }
    best_first(&mut sets);
    let parts: Vec<bool> =
        sets.iter().map(|outer| sets.iter().any(|inner| is_row_of(survey, outer, inner))).collect();
    for (region, is_rows) in sets.iter_mut().zip(parts) {
        region.score *= if is_rows { 0.3 } else { 1.0 };
    }
    best_first(&mut sets);
    sets
}

pub fn best_first(sets: &mut [Region]) {
    // Of sets that are worth the same the one whose records begin first, then the larger.
    sets.sort_by(|a, b| {
        let first = |region: &Region| region.records.first().map(|span| (span.start, u32::MAX - span.end));
        b.score.total_cmp(&a.score).then_with(|| first(a).cmp(&first(b)))
    });
}

/// Sets of elements with the same tags above them: those that share a name, those of one parent, and all.
fn alike_elements(survey: &Survey<'_>) -> Vec<Vec<u32>> {
    let document = survey.page.document;
    let whole = Span { start: 0, end: survey.end };
    let mut keys: Vec<(u64, u32)> = Vec::new();
    let mut names_left = NAMES_MAX;
    for node in survey.elements(whole) {
        let Some(path) = survey.path(node).filter(|_| can_be_record(document, NodeId(node))) else {
            continue;
        };
        let parent = document.parent(NodeId(node)).map_or(0, |parent| parent.0);
        keys.push((path, node));
        keys.push((mixed(path, u64::from(parent) + 1), node));
        let names = names_of(document, NodeId(node));
        names_left = names_left.saturating_sub(names.len());
        if names_left > 0 {
            keys.extend(names.iter().map(|name| (mixed(path, number_of(name)), node)));
        }
    }
    let mut found = grouped(keys.into_iter());
    found.retain(|nodes| nodes.len() >= RECORDS_MIN);
    found.iter_mut().for_each(|nodes| nodes.truncate(MEMBERS_MAX));
    found.sort();
    found.dedup();
    found.sort_by_key(|nodes| {
        let of_all = nodes.iter().map(|node| u64::from(survey.counts(survey.span(*node)).chars)).sum::<u64>();
        (u64::MAX - of_all, nodes[0])
    });
    found.truncate(SETS_MAX);
    found
}

/// Whether an element can hold a record.
fn can_be_record(document: &Document, node: NodeId) -> bool {
    let name = document.name(node);
    let is_inline = matches!(
        name,
        "b" | "i"
            | "em"
            | "strong"
            | "small"
            | "sup"
            | "sub"
            | "br"
            | "hr"
            | "img"
            | "input"
            | "button"
            | "label"
            | "font"
    );
    let is_frame =
        matches!(name, "html" | "body" | "option" | "form" | "thead" | "tbody" | "col" | "colgroup");
    !is_inline && !is_frame && !is_header_row(document, node)
}

/// Whether an element is a row of a table that only names the columns.
fn is_header_row(document: &Document, node: NodeId) -> bool {
    let mut cells = document.children(node).filter(|child| document.is_element(*child)).peekable();
    document.name(node) == "tr" && cells.peek().is_some() && cells.all(|cell| document.name(cell) == "th")
}

/// A child as runs see it, by its tag and first lasting name; of a row of a table also by what its cells hold, for rows that belong
/// together are often told apart by nothing else.
fn kind_of_child(survey: &Survey<'_>, child: NodeId) -> Option<u64> {
    let document = survey.page.document;
    if document.is_text(child) {
        return (!document.text(child).trim().is_empty()).then_some(1);
    }
    let is_shown = document.is_element(child) && !document.is_hidden_element(child);
    let name = names_of(document, child).into_iter().find(|name| !is_passing(name)).map_or(0, number_of);
    let kind = mixed(number_of(document.name(child)), name);
    let kind = if document.name(child) == "tr" { mixed(kind, kind_of_row(survey, child)) } else { kind };
    (is_shown && !matches!(document.name(child), "hr" | "input")).then_some(kind)
}

/// How many cells a row has and what is in it: links, images, amounts.
fn kind_of_row(survey: &Survey<'_>, row: NodeId) -> u64 {
    let document = survey.page.document;
    let cells = document.children(row).filter(|cell| document.is_element(*cell)).take(CELLS_MAX).count();
    let counts = survey.counts(survey.span(row.0));
    let flags =
        u64::from(counts.links > 0) | u64::from(counts.images > 0) << 1 | u64::from(counts.amounts > 0) << 2;
    mixed(cells as u64, flags + u64::from(counts.chars > 0) * 8)
}

/// Runs of siblings that begin alike, of every parent that has several kinds of children.
fn runs(survey: &Survey<'_>) -> Vec<(Vec<Span>, f64)> {
    let document = survey.page.document;
    let mut found = Vec::new();
    for parent in survey.elements(Span { start: 0, end: survey.end }) {
        let children: Vec<(NodeId, u64)> = document
            .children(NodeId(parent))
            .filter(|child| child.0 < survey.end)
            .filter_map(|child| Some((child, kind_of_child(survey, child)?)))
            .collect();
        if children.len() < 2 * RECORDS_MIN || found.len() > SETS_MAX {
            continue;
        }
        let mut counts: HashMap<u64, (usize, usize)> = HashMap::new();
        for (at, (_, kind)) in children.iter().enumerate() {
            counts.entry(*kind).or_insert((0, at)).0 += 1;
        }
        let mut leads: Vec<(usize, usize, u64)> = counts
            .into_iter()
            .filter(|(_, (count, _))| *count >= RECORDS_MIN && 2 * count <= children.len() + 2)
            .map(|(kind, (count, first))| (first, count, kind))
            .collect();
        leads.sort_unstable();
        // Of kinds that follow each other the first begins the record.
        let made = leads.iter().take(LEADS_MAX).enumerate().filter(|(_, (_, _, lead))| *lead != 1);
        found.extend(made.filter_map(|(at, (_, _, lead))| {
            Some((run(survey, &children, *lead)?, RUN_SHARE - LATER_LEAD_LOSS * at as f64))
        }));
    }
    found
}

/// The runs that begin with children of one kind; none where they are of very different lengths.
fn run(survey: &Survey<'_>, children: &[(NodeId, u64)], lead: u64) -> Option<Vec<Span>> {
    let starts = (0..children.len()).filter(|at| children[*at].1 == lead);
    let starts: Vec<usize> = starts.take(MEMBERS_MAX).collect();
    let mut lengths: Vec<usize> = starts.windows(2).map(|two| two[1] - two[0]).collect();
    lengths.sort_unstable();
    let usual = *lengths.get(lengths.len() / 2)?;
    if !(2..=RUN_MAX).contains(&usual) || *lengths.first()? > usual {
        return None;
    }
    let document = survey.page.document;
    let span = |(at, start): (usize, &usize)| {
        let next = starts.get(at + 1).copied().unwrap_or(children.len());
        let last = children[(start + usual.max(next.min(start + RUN_MAX) - start)).min(next) - 1].0;
        let last = if at + 1 == starts.len() { children[(start + usual).min(next) - 1].0 } else { last };
        Span { start: children[*start].0.0, end: document.subtree_end(last).0.min(survey.end) }
    };
    Some(starts.iter().enumerate().map(span).collect())
}

/// What a span is worth, in letters.
fn weight(survey: &Survey<'_>, span: Span, chars_max: u32) -> u32 {
    let counts = survey.counts(span);
    let rich = |count: u32| if chars_max == u32::MAX { count } else { count.min(1) };
    counts.chars.min(chars_max) + RICH_CHARS * (rich(counts.images) + rich(counts.amounts))
}

/// A set with what its size, evenness, links and place say. None where it is no list.
fn weighed(survey: &Survey<'_>, mut records: Vec<Span>, page_weight: f64, share: f64) -> Option<Region> {
    records.retain(|record| survey.counts(*record).chars > 1);
    if records.len() < RECORDS_MIN {
        return None;
    }
    let of = records.len() as f64;
    let weights: Vec<f64> =
        records.iter().map(|record| f64::from(weight(survey, *record, CHARS_MAX))).collect();
    let sum: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    let evenness = sum * sum / squares.max(1.0) / of;
    let has = |test: fn(super::survey::Counts) -> bool| {
        records.iter().filter(|record| test(survey.counts(**record))).count() as f64 / of
    };
    let linked = has(|counts| counts.links > 0);
    let rich = 0.5 * has(|counts| counts.images > 0)
        + 0.7 * has(|counts| counts.amounts > 0)
        + 0.6 * has(|counts| counts.chars >= counts.link_chars + 15);
    let beside = records.iter().filter(|record| survey.is_beside(record.start)).count() as f64 / of;
    let place = 1.0 - (1.0 - BESIDE_SHARE) * beside;
    let many = (of / 6.0).min(1.0).sqrt();
    let score = (sum / page_weight).min(1.0).sqrt()
        * evenness
        * (0.15 + 0.85 * linked)
        * (0.3 + rich)
        * place
        * many
        * share;
    Some(Region { records, score, weight: sum, linked })
}

/// How alike records are: of what each has, the share of records that have it as well.
fn likeness(survey: &Survey<'_>, records: &[Span]) -> f64 {
    let step = records.len().div_ceil(ALIKE_RECORDS_MAX).max(1);
    let all: Vec<Vec<u64>> = records.iter().step_by(step).map(|record| features(survey, *record)).collect();
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for feature in all.iter().flatten() {
        *counts.entry(*feature).or_default() += 1;
    }
    let of = all.len() as f64;
    let of_record = |features: &Vec<u64>| {
        let shared: f64 = features.iter().map(|feature| f64::from(counts[feature]) / of).sum();
        shared / features.len().max(1) as f64
    };
    all.iter().map(of_record).sum::<f64>() / of.max(1.0)
}

/// What most records of a list are made of, in order.
pub fn shape(survey: &Survey<'_>, records: &[Span]) -> Vec<u64> {
    let step = records.len().div_ceil(ALIKE_RECORDS_MAX).max(1);
    let all: Vec<Vec<u64>> = records.iter().step_by(step).map(|record| features(survey, *record)).collect();
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for feature in all.iter().flatten() {
        *counts.entry(*feature).or_default() += 1;
    }
    let mut of_most: Vec<u64> =
        counts.into_iter().filter(|(_, count)| 2 * count >= all.len()).map(|(feature, _)| feature).collect();
    of_most.sort_unstable();
    of_most
}

/// What a record is made of: the tags on the way to each of its elements, each once.
fn features(survey: &Survey<'_>, record: Span) -> Vec<u64> {
    let document = survey.page.document;
    let mut ways: HashMap<u32, u64> = HashMap::new();
    let mut found = Vec::new();
    for node in survey.elements(record).take(COMPARED_MAX) {
        let parent = document.parent(NodeId(node)).map_or(0, |parent| parent.0);
        let way = mixed(ways.get(&parent).copied().unwrap_or(7), number_of(document.name(NodeId(node))));
        ways.insert(node, way);
        found.push(way);
        let lasting = names_of(document, NodeId(node)).into_iter().find(|name| !is_passing(name));
        found.extend(lasting.map(|name| mixed(way, number_of(name))));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether the records of one set are rows of which each holds several records of another, which is as rich and as linked.
fn is_row_of(survey: &Survey<'_>, outer: &Region, inner: &Region) -> bool {
    if inner.records.len() * 10 < outer.records.len() * 16 || inner.score < 0.3 * outer.score {
        return false;
    }
    let mut at = 0;
    let mut within = 0;
    for record in &inner.records {
        while at < outer.records.len() && outer.records[at].end <= record.start {
            at += 1;
        }
        let holds = |span: &Span| span.start <= record.start && record.end <= span.end && span != record;
        within += usize::from(outer.records.get(at).is_some_and(holds));
    }
    within * 10 >= inner.records.len() * 9
        && inner.weight >= 0.7 * outer.weight
        && inner.linked >= 0.9 * outer.linked
        && !is_of_parts(survey, outer, inner)
}

/// Whether what the records of one set hold of another are parts of one thing: the first parts are alike and the second ones, and both
/// are not like each other, as a row with a title before a row with what else is to be said.
fn is_of_parts(survey: &Survey<'_>, outer: &Region, inner: &Region) -> bool {
    let mut parts: Vec<[Vec<u64>; 2]> = Vec::new();
    for record in outer.records.iter().take(PARTED_RUNS) {
        let from = inner.records.partition_point(|part| part.start < record.start);
        let held = inner.records[from..].iter().take_while(|part| part.end <= record.end);
        let first: Vec<Vec<u64>> = held.take(2).map(|part| features(survey, *part)).collect();
        if let Ok(two) = <[Vec<u64>; 2]>::try_from(first) {
            parts.push(two);
        }
    }
    if parts.len() < RECORDS_MIN {
        return false;
    }
    let mean = |pairs: Vec<f64>| pairs.iter().sum::<f64>() / pairs.len().max(1) as f64;
    let within = mean(parts.iter().map(|[one, two]| shared_part(one, two)).collect());
    let across = mean(
        parts.windows(2).flat_map(|two| [0, 1].map(|at| shared_part(&two[0][at], &two[1][at]))).collect(),
    );
    within < PARTED_LIKENESS * across
}

/// Of all that two records are made of, the share that both have. Both are sorted and have nothing twice.
fn shared_part(one: &[u64], two: &[u64]) -> f64 {
    let shared = one.iter().filter(|feature| two.binary_search(feature).is_ok()).count();
    shared as f64 / (one.len() + two.len() - shared).max(1) as f64
}
