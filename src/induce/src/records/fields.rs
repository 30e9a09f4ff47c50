//! What the records of a list have in common: titles, links, prices, images and more, each in one slot of the record.
//!
//! A slot is a way to an element that many records have: the tags below the record's root, or a tag with one of its names. The
//! first element of a record that fits is the slot's. Which slot holds what is said by what stands in it over all records, by the
//! names on it, and by where it is: one record may mislead, and forty do not.

use std::collections::{HashMap, HashSet};

use page::extract::{collapse_space, parse_number};
use page::html::{Document, NodeId};

use super::regions::Region;
use super::survey::{AMOUNT_BYTES_MAX, Span, Survey, href, is_amount, mixed, names_of, number_of};
use crate::annotate::says_struck;

/// Elements of one record that are looked at.
const ELEMENTS_MAX: usize = 400;
/// Records of one list that are aligned.
pub const RECORDS_MAX: usize = 400;
/// Slots of one list.
const SLOTS_MAX: usize = 1_500;
/// Records by which slots are compared.
const SAMPLED_MAX: usize = 60;
/// Elements below one that are asked whether a reader sees them.
const INNER_MAX: usize = 200;
/// Bytes of the longest title and of the longest snippet.
const TITLE_BYTES_MAX: usize = 400;
const SNIPPET_BYTES_MAX: usize = 2_000;
/// Lists of one template share one of so many parts of what their records are made of.
const LIKE_PARTS: usize = 3;
/// The share of records that must have a title for the list to be one.
const TITLED_MIN: f64 = 0.6;

/// A record's values as the page writes them; empty where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub title: String,
    pub url: String,
    pub price: String,
    pub image: String,
    pub rating: String,
    pub snippet: String,
    pub rank: String,
}

/// A list with its records' values.
#[derive(Clone, Debug)]
pub struct List {
    pub records: Vec<Record>,
    pub spans: Vec<Span>,
    /// How good the slot is that the titles stand in.
    pub title_score: f64,
    pub score: f64,
    /// What most of its records are made of.
    pub shape: ListShape,
}

/// What the records of a list are made of. Lists of one template have much of it in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListShape(Vec<u64>);

impl ListShape {
    /// Whether another list is likely to be of the same template.
    pub fn is_like(&self, other: &ListShape) -> bool {
        let shared = self.0.iter().filter(|feature| other.0.binary_search(feature).is_ok()).count();
        let all = self.0.len() + other.0.len() - shared;
        shared * LIKE_PARTS >= all
    }
}

/// An element of each record that has the slot.
struct Slot {
    /// By record; none where it has no such element.
    nodes: Vec<Option<NodeId>>,
    count: usize,
    /// Names that speak of what it holds, with its tag, in lower case.
    names: String,
}

/// What stands in a slot, over all records.
struct Held {
    /// The share of records that have it.
    share: f64,
    /// The share of different texts among them.
    different: f64,
    /// Letters of a text on average.
    letters: f64,
}

/// Aligns the records of a region; none where they have no titles.
pub fn aligned(survey: &Survey<'_>, region: &Region) -> Option<List> {
    let document = survey.page.document;
    let spans: Vec<Span> = region.records.iter().take(RECORDS_MAX).copied().collect();
    let slots = slots(survey, &spans);
    let (title, title_score) = best(&slots, |slot| title_score(survey, slot, &spans))?;
    let title = &slots[title];
    let keep: Vec<usize> = (0..spans.len())
        .filter(|at| title.nodes[*at].is_some_and(|node| !text_of(document, node).is_empty()))
        .collect();
    if (keep.len() as f64) < TITLED_MIN * spans.len() as f64 || keep.len() < super::regions::RECORDS_MIN {
        return None;
    }
    let mut records: Vec<Record> = spans.iter().map(|_| Record::default()).collect();
    for at in &keep {
        let node = title.nodes[*at].unwrap_or(Document::ROOT);
        records[*at].title = text_of(document, node);
        records[*at].url = link_of(survey, node, spans[*at]).unwrap_or_default();
    }
    let of = Fields { survey, spans: &spans, slots: &slots, title };
    of.prices(&mut records);
    of.images(&mut records);
    of.ratings(&mut records);
    of.snippets(&mut records);
    of.ranks(&mut records);
    let records: Vec<Record> = keep.iter().map(|at| records[*at].clone()).collect();
    let spans: Vec<Span> = keep.iter().map(|at| spans[*at]).collect();
    let titled = keep.len() as f64 / region.records.len().min(RECORDS_MAX) as f64;
    let score = region.score * title_score.min(1.6) * titled;
    let shape = ListShape(super::regions::shape(survey, &spans));
    Some(List { records, spans, title_score, score, shape })
}

/// What an element says; nothing where a script or style is among it, which a reader would not see.
fn text_of(document: &Document, node: NodeId) -> String {
    let text = document.string_value(node);
    let has_unread =
        || document.descendants(node).take(INNER_MAX).any(|inner| document.is_hidden_element(inner));
    if text.len() > SNIPPET_BYTES_MAX || has_unread() {
        return String::new();
    }
    collapse_space(text).trim().to_owned()
}

/// The best slot by a score; the first of several.
fn best(slots: &[Slot], score: impl Fn(&Slot) -> f64) -> Option<(usize, f64)> {
    let scored = slots.iter().enumerate().map(|(at, slot)| (at, score(slot)));
    scored
        .reduce(|best, one| if one.1 > best.1 + 1e-9 { one } else { best })
        .filter(|(_, score)| *score > 0.0)
}

/// The slots that a third of the records have or more.
fn slots(survey: &Survey<'_>, spans: &[Span]) -> Vec<Slot> {
    let document = survey.page.document;
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut slots: Vec<Slot> = Vec::new();
    for (at, span) in spans.iter().enumerate() {
        let mut ways: HashMap<u32, u64> = HashMap::new();
        for node in survey.elements(*span).take(ELEMENTS_MAX) {
            let (id, tag) = (NodeId(node), document.name(NodeId(node)));
            let parent = document.parent(id).map_or(0, |parent| parent.0);
            let way = mixed(ways.get(&parent).copied().unwrap_or(3), number_of(tag));
            // The cells of a row are told apart by nothing else.
            let way = if tag == "td" { mixed(way, column_of(document, id)) } else { way };
            ways.insert(node, way);
            let names = names_of(document, id);
            let named = names.iter().map(|name| mixed(number_of(tag), number_of(name)));
            let keys = [way].into_iter().chain(named).chain(is_telling(tag).then(|| number_of(tag)));
            for key in keys {
                let next = slots.len();
                let slot = *places.entry(key).or_insert(next);
                if slot == next {
                    if next == SLOTS_MAX {
                        places.remove(&key);
                        continue;
                    }
                    let names = format!("{tag} {}", names.join(" ").to_lowercase());
                    slots.push(Slot { nodes: vec![None; spans.len()], count: 0, names });
                }
                let slot = &mut slots[slot];
                if slot.nodes[at].is_none() {
                    slot.nodes[at] = Some(id);
                    slot.count += 1;
                }
            }
        }
    }
    slots.retain(|slot| 3 * slot.count >= spans.len());
    slots
}

/// Which cell of its row an element is.
fn column_of(document: &Document, cell: NodeId) -> u64 {
    let before = std::iter::successors(document.prev_sibling(cell), |node| document.prev_sibling(*node));
    before.take(ELEMENTS_MAX).filter(|node| document.is_element(*node)).count() as u64
}

/// Tags that are slots wherever in a record they stand.
fn is_telling(tag: &str) -> bool {
    matches!(tag, "a" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "img" | "p" | "cite" | "time" | "dt" | "dd")
}

fn is_heading(tag: &str) -> bool {
    matches!(tag, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

impl Slot {
    /// The slot's elements in some of the records, by record.
    fn sampled(&self) -> impl Iterator<Item = (usize, Option<NodeId>)> + Clone + '_ {
        self.nodes.iter().copied().enumerate().step_by(self.nodes.len().div_ceil(SAMPLED_MAX).max(1))
    }

    /// The same without the records that have none.
    fn sampled_nodes(&self) -> impl Iterator<Item = NodeId> + Clone + '_ {
        self.sampled().filter_map(|(_, node)| node)
    }

    fn held(&self, document: &Document, bytes_max: usize) -> Held {
        let texts: Vec<String> = self
            .sampled_nodes()
            .filter(|node| document.string_value(*node).len() <= 2 * bytes_max)
            .map(|node| text_of(document, node))
            .filter(|text| !text.is_empty() && text.len() <= bytes_max)
            .collect();
        let of = texts.len().max(1) as f64;
        let letters =
            texts.iter().map(|text| text.chars().filter(|c| c.is_alphabetic()).count()).sum::<usize>();
        let different = texts.iter().collect::<HashSet<_>>().len();
        Held {
            share: texts.len() as f64 / self.sampled().count().max(1) as f64,
            different: different as f64 / of,
            letters: letters as f64 / of,
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.names.contains(word))
    }
}

/// The link that an element is, stands in or holds; within its record.
fn link_around(survey: &Survey<'_>, node: NodeId, span: Span) -> Option<NodeId> {
    let document = survey.page.document;
    let is_link = |node: &NodeId| document.name(*node) == "a" && href(document, *node).is_some();
    let above = std::iter::successors(Some(node), |node| document.parent(*node));
    let above = above.take_while(|node| node.0 >= span.start).find(is_link);
    above.or_else(|| survey.elements(survey.span(node.0)).take(40).map(NodeId).find(is_link))
}

/// Where a record leads: its title's link, or else its first.
fn link_of(survey: &Survey<'_>, title: NodeId, span: Span) -> Option<String> {
    let document = survey.page.document;
    let first = || {
        let is_link = |node: &NodeId| document.name(*node) == "a" && href(document, *node).is_some();
        survey.elements(span).take(ELEMENTS_MAX).map(NodeId).find(is_link)
    };
    let link = link_around(survey, title, span).or_else(first)?;
    href(document, link).map(str::to_owned)
}

const TITLE_WORDS: &[&str] = &["title", "name", "heading", "headline"];
const NO_TITLE_WORDS: &[&str] = &[
    "price", "preis", "snippet", "desc", "cite", "date", "author", "rating", "star", "review", "brand",
    "button", "btn", "badge", "label", "meta", "subtitle", "byline", "location", "seller", "tag", "comment",
    "image", "thumb",
];

/// How well a slot holds the titles of its records.
fn title_score(survey: &Survey<'_>, slot: &Slot, spans: &[Span]) -> f64 {
    let document = survey.page.document;
    let held = slot.held(document, TITLE_BYTES_MAX);
    if held.share < TITLED_MIN || held.letters < 2.0 || held.different < 0.5 {
        return 0.0;
    }
    let (mut linked, mut headed, mut tight, mut count, mut place) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (node, span) in slot.sampled().filter_map(|(at, node)| Some((node?, &spans[at]))) {
        count += 1.0;
        let own = document.string_value(node).trim().len();
        if let Some(link) = link_around(survey, node, *span) {
            linked += 1.0;
            let of_link = document.string_value(link).trim().len();
            // A box around a title and more is not the title; nor is a word within a link's text.
            tight += own.min(of_link) as f64 / own.max(of_link).max(1) as f64;
        } else {
            tight += 0.5;
        }
        let around = std::iter::successors(Some(node), |node| document.parent(*node))
            .take_while(|node| node.0 >= span.start);
        let within = survey.elements(survey.span(node.0)).take(12).map(NodeId);
        let is_headed = around.take(3).chain(within).any(|node| is_heading(document.name(node)));
        headed += if is_headed { 1.0 } else { 0.0 };
        let chars = survey.counts(Span { start: span.start, end: node.0 }).chars;
        let all = survey.counts(*span).chars.max(1);
        place += f64::from(chars) / f64::from(all);
    }
    let of = |sum: f64| sum / f64::max(count, 1.0);
    let letters = match held.letters {
        few if few < 12.0 => 0.5 + 0.5 * few / 12.0,
        some if some <= 120.0 => 1.0,
        many => (120.0 / many).max(0.3),
    };
    let words = f64::from(slot.says(TITLE_WORDS)) * 0.35 - f64::from(slot.says(NO_TITLE_WORDS)) * 0.4;
    let merit = 0.35 + 0.5 * of(linked) + 0.5 * of(headed) + words;
    held.share
        * held.different.powf(1.5)
        * of(tight).powf(1.5)
        * letters
        * merit.max(0.05)
        * (1.0 - 0.45 * of(place))
}

/// The fields beside the title, of one list.
struct Fields<'s, 'a> {
    survey: &'s Survey<'a>,
    spans: &'s [Span],
    slots: &'s [Slot],
    title: &'s Slot,
}

impl Fields<'_, '_> {
    fn document(&self) -> &Document {
        self.survey.page.document
    }

    /// Fills a field from the best slot.
    fn fill(
        &self,
        records: &mut [Record],
        score: impl Fn(&Slot) -> f64,
        value: impl Fn(NodeId) -> Option<String>,
        field: fn(&mut Record) -> &mut String,
    ) {
        let Some((slot, _)) = best(self.slots, score) else { return };
        for (record, node) in records.iter_mut().zip(&self.slots[slot].nodes) {
            if let Some(value) = node.and_then(&value) {
                *field(record) = value;
            }
        }
    }

    fn prices(&self, records: &mut [Record]) {
        let document = self.document();
        let names_price = |slot: &Slot| {
            slot.says(&["price", "preis", "prix", "precio", "prezzo", "amount", "preco", "cena"])
        };
        let value = |node: NodeId, is_named: bool| {
            let text = self.amount_within(node).unwrap_or_else(|| document.string_value(node)).trim();
            if text.is_empty() || text.len() > 2 * AMOUNT_BYTES_MAX {
                return None;
            }
            let text = collapse_space(text);
            let words = text.chars().filter(|c| c.is_alphabetic()).count();
            let fits = is_amount(&text) || is_named && text.len() <= AMOUNT_BYTES_MAX && words <= 8;
            let amount = parse_number(&text, None).filter(|amount| *amount > 0.0 && *amount < 1e10);
            (fits && words <= 18).then_some(amount).flatten().map(|_| text.trim().to_owned())
        };
        let score = |slot: &Slot| {
            let is_named = names_price(slot);
            let nodes: Vec<NodeId> = slot.sampled_nodes().collect();
            let texts: Vec<String> = nodes.iter().filter_map(|node| value(*node, is_named)).collect();
            let share = texts.len() as f64 / slot.sampled().count() as f64;
            // What is called a price often says that there is none, or that it must be asked for.
            let filled_min = if is_named { 5 } else { 7 };
            if share < 0.34 || texts.len() * 10 < nodes.len() * filled_min {
                return 0.0;
            }
            let struck = |node: &&NodeId| {
                std::iter::successors(Some(**node), |node| document.parent(*node))
                    .take(3)
                    .any(|node| says_struck(document, node))
            };
            let struck = nodes.iter().filter(struck).count() as f64 / nodes.len() as f64;
            let length = texts.iter().map(String::len).sum::<usize>() as f64 / texts.len() as f64;
            share
                * (1.0 + 0.5 * f64::from(is_named))
                * (1.0 - 0.8 * struck)
                * (1.0 - (length / 120.0).min(0.5))
        };
        let Some((slot, _)) = best(self.slots, score) else { return };
        let is_named = names_price(&self.slots[slot]);
        for (record, node) in records.iter_mut().zip(&self.slots[slot].nodes) {
            record.price = node.and_then(|node| value(node, is_named)).unwrap_or_default();
        }
    }

    /// Of an element with several texts that are amounts, or with one beside other digits, the first that is not struck out: the price
    /// before a discount stands in one box with the other, and some sites write a price twice, once for those who hear it.
    fn amount_within(&self, node: NodeId) -> Option<&str> {
        let document = self.document();
        let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
        let all = digits(document.string_value(node));
        let is_struck = |text: NodeId| {
            let above = std::iter::successors(document.parent(text), |above| document.parent(*above));
            above.take_while(|above| *above > node).take(4).any(|above| says_struck(document, above))
        };
        let texts = document.descendants(node).take(INNER_MAX).filter(|inner| document.is_text(*inner));
        let amounts: Vec<NodeId> = texts.filter(|text| is_amount(document.text(*text))).collect();
        let first = amounts.iter().find(|text| !is_struck(**text)).or(amounts.first())?;
        let own = document.text(*first);
        // "12" before a raised "90" is no price by itself.
        (amounts.len() > 1 || all > digits(own) + 2).then_some(own)
    }

    fn images(&self, records: &mut [Record]) {
        let document = self.document();
        let value = |node: NodeId| {
            if document.name(node) != "img" {
                return None;
            }
            let said = ["data-src", "data-original", "data-lazy-src", "data-image", "src"];
            let mut said = said.iter().filter_map(|name| document.attribute_named(node, name)).map(str::trim);
            said.find(|value| !value.is_empty() && !value.starts_with("data:") && value.len() < 2_000)
                .map(str::to_owned)
        };
        let score = |slot: &Slot| {
            let values: Vec<String> = slot.sampled_nodes().filter_map(value).collect();
            let different = values.iter().collect::<HashSet<_>>().len() as f64 / values.len().max(1) as f64;
            let share = values.len() as f64 / slot.sampled().count() as f64;
            let is_small = slot.says(&["icon", "star", "logo", "badge", "flag", "avatar", "rating"]);
            if share < 0.34 || different < 0.5 {
                0.0
            } else {
                share * different * if is_small { 0.3 } else { 1.0 }
            }
        };
        self.fill(records, score, value, |record| &mut record.image);
    }

    fn ratings(&self, records: &mut [Record]) {
        let document = self.document();
        let value = |node: NodeId| {
            let said = ["aria-label", "title", "alt", "content"]
                .iter()
                .filter_map(|name| document.attribute_named(node, name));
            let texts = said.chain([document.string_value(node)]).map(str::trim);
            texts.filter(|text| text.len() <= 60).find_map(rating)
        };
        let score = |slot: &Slot| {
            let count = slot.sampled_nodes().filter(|node| value(*node).is_some()).count();
            let share = count as f64 / slot.sampled().count() as f64;
            let is_whole = count * 10 >= slot.sampled_nodes().count() * 7;
            if share < 0.34 || !is_whole { 0.0 } else { share }
        };
        self.fill(records, score, value, |record| &mut record.rating);
    }

    fn snippets(&self, records: &mut [Record]) {
        let document = self.document();
        let titles = &self.title.nodes;
        let is_apart = |node: NodeId, title: Option<NodeId>| {
            title.is_none_or(|title| {
                let holds =
                    |outer: NodeId, inner: NodeId| outer <= inner && inner < document.subtree_end(outer);
                !holds(node, title) && !holds(title, node)
            })
        };
        let value = |node: NodeId| Some(text_of(document, node)).filter(|text| !text.is_empty());
        let score = |slot: &Slot| {
            let pairs = slot.sampled().filter_map(|(at, node)| Some((node?, titles[at])));
            if !pairs.clone().all(|(node, title)| is_apart(node, title)) {
                return 0.0;
            }
            let held = slot.held(document, SNIPPET_BYTES_MAX);
            let links: u32 =
                pairs.map(|(node, _)| self.survey.counts(self.survey.span(node.0)).link_chars).sum();
            let chars = held.letters * slot.sampled_nodes().count() as f64;
            let unlinked = 1.0 - (f64::from(links) / chars.max(1.0)).min(1.0);
            let hint = if slot.says(&["snippet", "desc", "abstract", "summary", "teaser", "excerpt"]) {
                1.3
            } else {
                1.0
            };
            if held.letters < 40.0 || held.different < 0.6 || held.share < 0.4 {
                return 0.0;
            }
            held.share.powi(2) * held.letters.min(180.0) * unlinked * hint
        };
        self.fill(records, score, value, |record| &mut record.snippet);
    }

    /// Numbers that go on from record to record.
    fn ranks(&self, records: &mut [Record]) {
        let document = self.document();
        let value = |node: NodeId| {
            let text = document.string_value(node).trim();
            rank(text).map(|_| text.to_owned())
        };
        let score = |slot: &Slot| {
            let said: Vec<u32> = slot
                .nodes
                .iter()
                .flatten()
                .filter_map(|node| rank(document.string_value(*node).trim()))
                .collect();
            let steps = said.windows(2).filter(|two| two[1] == two[0] + 1).count();
            let is_going_on = said.len() * 10 >= self.spans.len() * 8 && steps * 10 >= said.len() * 8;
            f64::from(is_going_on)
        };
        self.fill(records, score, value, |record| &mut record.rank);
    }
}

/// The place in a list that a text says: "3", "#3", "3.".
fn rank(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    let digits = digits.strip_suffix(['.', ')', ':']).unwrap_or(digits);
    let is_short = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_short.then(|| digits.parse().ok()).flatten()
}

/// A rating that a text says ("4.5 out of 5", "4,5/5", "4.5 stars").
fn rating(text: &str) -> Option<String> {
    let folded = text.to_lowercase();
    let says =
        ["out of 5", "von 5", "sur 5", "de 5", "su 5", "van 5", "av 5", "/5", "/ 5", "stars", "sterne", "★"];
    let number = parse_number(&folded, None)?;
    let is_one = (0.0..=5.0).contains(&number) && says.iter().any(|word| folded.contains(word));
    is_one.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_ratings_are_read() {
        for (text, place) in
            [("3", Some(3)), ("#12", Some(12)), ("4.", Some(4)), ("a", None), ("12345", None)]
        {
            assert_eq!(rank(text), place, "{text}");
        }
        for (text, is_rating) in
            [("4.5 out of 5 stars", true), ("4,5/5", true), ("45 stars", false), ("4.5", false)]
        {
            assert_eq!(rating(text).is_some(), is_rating, "{text}");
        }
    }
}
