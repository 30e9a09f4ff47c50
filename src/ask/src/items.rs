//! A question as items: what each of its words, or several together, may be in one table.

use crate::dates::{Reader, Unit, Window};
use crate::lexicon::{Lexicon, Meaning};
use crate::numbers;
use crate::plan::Function::{self, Avg, Max, Median, Min, P90, P95, Sum};
use crate::table::{Kind, Table};
use crate::words::Word;
use Item::{
    And, Between, By, Common, Compare, Contains, Count, Direction, Distinct, Follow, Function as F, Has,
    Most, Newest, Not, Null, Sort, Superlative, Top, Versus, When, Which,
};
use serde_json::Value;

/// One of the closed grammar's words, or something of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Function(Function),
    Count,
    Distinct,
    By,
    Top,
    Most(bool),
    Common,
    /// The columns it may be about, and whether the largest is meant.
    Superlative(&'static [&'static str], bool),
    /// The newest, or the oldest.
    Newest(bool),
    Compare(&'static str),
    Between,
    Not,
    Null,
    Has,
    Contains(&'static str),
    And,
    Versus,
    Sort,
    Direction(bool),
    Which,
    When,
    Follow,
    Noise,
    Number(f64),
    /// Milliseconds of a unit.
    Scale(f64),
    Span(Window, Option<Unit>),
    Unit(Unit),
    Table,
    /// The columns that it may be, the likeliest first; whether it was named exactly.
    Column(Vec<usize>, bool),
    Value(usize, Value),
    Event(usize),
    Site(String),
    Quoted(String),
    Unknown,
}

/// An item with the words that it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) item: Item,
    /// As they were written.
    pub(crate) text: String,
    /// Whether the last of them has the ending of a plural.
    pub(crate) plural: bool,
    /// How many they are.
    pub(crate) words: usize,
}

const DURATIONS: &[&str] = &["duration_ms", "word_count"];

const PRICE: &[&str] = &["price", "credits_charged", "credits"];
const RATING: &[&str] = &["rating"];

/// The words of the grammar.
static GRAMMAR: &[(&[&str], Item)] = &[
    (&["broken", "down", "by"], By),
    (&["highest", "first"], Direction(true)),
    (&["largest", "first"], Direction(true)),
    (&["biggest", "first"], Direction(true)),
    (&["most", "first"], Direction(true)),
    (&["descending", "order"], Direction(true)),
    (&["lowest", "first"], Direction(false)),
    (&["smallest", "first"], Direction(false)),
    (&["fewest", "first"], Direction(false)),
    (&["least", "first"], Direction(false)),
    (&["ascending", "order"], Direction(false)),
    (&["cheapest", "first"], Superlative(PRICE, false)),
    (&["expensive", "first"], Superlative(PRICE, true)),
    (&["newest", "first"], Newest(true)),
    (&["latest", "first"], Newest(true)),
    (&["oldest", "first"], Newest(false)),
    (&["on", "average"], F(Avg)),
    (&["in", "total"], F(Sum)),
    (&["how", "many"], Count),
    (&["how", "often"], Count),
    (&["number", "of"], Count),
    (&["count", "of"], Count),
    (&["sum", "of"], F(Sum)),
    (&["95th", "percentile"], F(P95)),
    (&["90th", "percentile"], F(P90)),
    (&["for", "each"], By),
    (&["for", "every"], By),
    (&["grouped", "by"], By),
    (&["group", "by"], By),
    (&["split", "by"], By),
    (&["what", "about"], Follow),
    (&["how", "about"], Follow),
    (&["best", "rated"], Superlative(RATING, true)),
    (&["top", "rated"], Superlative(RATING, true)),
    (&["highest", "rated"], Superlative(RATING, true)),
    (&["worst", "rated"], Superlative(RATING, false)),
    (&["lowest", "rated"], Superlative(RATING, false)),
    (&["most", "recent"], Newest(true)),
    (&["more", "than"], Compare("gt")),
    (&["greater", "than"], Compare("gt")),
    (&["higher", "than"], Compare("gt")),
    (&["larger", "than"], Compare("gt")),
    (&["longer", "than"], Compare("gt")),
    (&["less", "than"], Compare("lt")),
    (&["fewer", "than"], Compare("lt")),
    (&["lower", "than"], Compare("lt")),
    (&["cheaper", "than"], Compare("lt")),
    (&["shorter", "than"], Compare("lt")),
    (&["at", "least"], Compare("gte")),
    (&["at", "most"], Compare("lte")),
    (&["up", "to"], Compare("lte")),
    (&["other", "than"], Not),
    (&["starts", "with"], Contains("starts_with")),
    (&["starting", "with"], Contains("starts_with")),
    (&["begins", "with"], Contains("starts_with")),
    (&["beginning", "with"], Contains("starts_with")),
    (&["compared", "to"], Versus),
    (&["compared", "with"], Versus),
    (&["sorted", "by"], Sort),
    (&["sort", "by"], Sort),
    (&["ordered", "by"], Sort),
    (&["order", "by"], Sort),
    (&["count"], Count),
    (&["average"], F(Avg)),
    (&["avg"], F(Avg)),
    (&["mean"], F(Avg)),
    (&["total"], F(Sum)),
    (&["sum"], F(Sum)),
    (&["minimum"], F(Min)),
    (&["min"], F(Min)),
    (&["lowest"], F(Min)),
    (&["smallest"], F(Min)),
    (&["maximum"], F(Max)),
    (&["max"], F(Max)),
    (&["highest"], F(Max)),
    (&["largest"], F(Max)),
    (&["biggest"], F(Max)),
    (&["greatest"], F(Max)),
    (&["median"], F(Median)),
    (&["p90"], F(P90)),
    (&["p95"], F(P95)),
    (&["distinct"], Distinct),
    (&["different"], Distinct),
    (&["unique"], Distinct),
    (&["by"], By),
    (&["per"], By),
    (&["top"], Top),
    (&["most"], Most(true)),
    (&["fewest"], Most(false)),
    (&["least"], Most(false)),
    (&["common"], Common),
    (&["frequent"], Common),
    (&["popular"], Common),
    (&["cheapest"], Superlative(PRICE, false)),
    (&["expensive"], Superlative(PRICE, true)),
    (&["costliest"], Superlative(PRICE, true)),
    (&["dearest"], Superlative(PRICE, true)),
    (&["longest"], Superlative(DURATIONS, true)),
    (&["slowest"], Superlative(DURATIONS, true)),
    (&["shortest"], Superlative(DURATIONS, false)),
    (&["fastest"], Superlative(DURATIONS, false)),
    (&["newest"], Newest(true)),
    (&["latest"], Newest(true)),
    (&["last"], Newest(true)),
    (&["oldest"], Newest(false)),
    (&["earliest"], Newest(false)),
    (&["first"], Newest(false)),
    (&["above"], Compare("gt")),
    (&["over"], Compare("gt")),
    (&["exceeding"], Compare("gt")),
    (&[">"], Compare("gt")),
    (&["below"], Compare("lt")),
    (&["under"], Compare("lt")),
    (&["<"], Compare("lt")),
    (&[">="], Compare("gte")),
    (&["≥"], Compare("gte")),
    (&["<="], Compare("lte")),
    (&["≤"], Compare("lte")),
    (&["="], Compare("eq")),
    (&["equals"], Compare("eq")),
    (&["exactly"], Compare("eq")),
    (&["between"], Between),
    (&["not"], Not),
    (&["isn"], Not),
    (&["aren"], Not),
    (&["except"], Not),
    (&["excluding"], Not),
    (&["without"], Null),
    (&["no"], Null),
    (&["never"], Null),
    (&["missing"], Null),
    (&["with"], Has),
    (&["have"], Has),
    (&["has"], Has),
    (&["having"], Has),
    (&["contains"], Contains("contains")),
    (&["containing"], Contains("contains")),
    (&["contain"], Contains("contains")),
    (&["including"], Contains("contains")),
    (&["mentioning"], Contains("contains")),
    (&["and"], And),
    (&["or"], And),
    (&["versus"], Versus),
    (&["vs"], Versus),
    (&["against"], Versus),
    (&["ascending"], Direction(false)),
    (&["asc"], Direction(false)),
    (&["descending"], Direction(true)),
    (&["desc"], Direction(true)),
    (&["which"], Which),
    (&["what"], Which),
    (&["when"], When),
    (&["only"], Follow),
    (&["just"], Follow),
    (&["instead"], Follow),
    (&["same"], Follow),
    (&["also"], Follow),
    (&["now"], Follow),
    (&["but"], Follow),
    (&["again"], Follow),
];

const NOISE: &[&str] = &[
    "a",
    "an",
    "the",
    "of",
    "in",
    "for",
    "from",
    "is",
    "are",
    "was",
    "were",
    "there",
    "do",
    "does",
    "did",
    "be",
    "been",
    "that",
    "who",
    "whose",
    "show",
    "me",
    "list",
    "give",
    "all",
    "please",
    "to",
    "on",
    "at",
    "it",
    "its",
    "our",
    "my",
    "we",
    "i",
    "us",
    "you",
    "can",
    "could",
    "tell",
    "get",
    "find",
    "see",
    "s",
    "t",
    "came",
    "come",
    "any",
    "one",
    "ones",
    "them",
    "these",
    "those",
    "rows",
    "entries",
    "records",
    "table",
    "as",
    "had",
    "so",
    "far",
    "currently",
    "want",
    "like",
    "would",
    "know",
    "made",
    "write",
    "wrote",
    "written",
    "ever",
    "each",
    "every",
    "through",
    "via",
    "went",
    "they",
    "their",
    "this",
    "time",
    "hey",
    "hi",
    "hello",
    "thanks",
    "display",
    "some",
    "about",
    "then",
    "into",
    "display",
    "look",
    "up",
    "need",
    "got",
    "than",
    "costing",
    "priced",
    "worth",
    "took",
    "take",
    "takes",
    "taking",
    "display",
    "and",
    "many",
    "much",
    "how",
];

/// Every word of the grammar, for typos.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    GRAMMAR.iter().flat_map(|(words, _)| words.iter().copied()).chain(NOISE.iter().copied())
}

/// Reads items out of words.
pub(crate) struct Scanner<'a> {
    pub(crate) table: &'a Table,
    pub(crate) lexicon: &'a Lexicon,
    pub(crate) dates: &'a Reader,
}

impl Scanner<'_> {
    pub(crate) fn items(&self, words: &[Word]) -> Vec<Placed> {
        let stems: Vec<&str> =
            words.iter().map(|word| if word.quoted { "" } else { word.stem.as_str() }).collect();
        let (mut items, mut at) = (Vec::<Placed>::new(), 0);
        while at < words.len() {
            let (item, used) = self.next(&items, &words[at..], &stems[at..]);
            let used = used.max(1);
            let part = &words[at..at + used];
            let text = part.iter().map(|word| word.given.as_str()).collect::<Vec<_>>().join(" ");
            let plural = part.last().is_some_and(|word| word.stem != word.lower);
            items.push(Placed { item, text, plural, words: used });
            at += used;
        }
        items
    }

    fn next(&self, before: &[Placed], words: &[Word], stems: &[&str]) -> (Item, usize) {
        let word = &words[0];
        if word.quoted {
            return (Item::Quoted(word.given.clone()), 1);
        }
        let last = before.iter().rev().map(|placed| &placed.item).find(|item| **item != Item::Noise);
        let (own_used, meanings) = self.lexicon.look(stems);
        // Behind an amount a number is one of those, and no year.
        let is_amount = self.is_number(last)
            && (word.is_in(&["between", "from", "above", "over"])
                || word.lower.starts_with(|c: char| c.is_ascii_digit()));
        if own_used < 2
            && !is_amount
            && let Some(span) = self.dates.read(words)
        {
            return (Item::Span(span.window, span.unit), span.used);
        }
        let is_plural = words.get(own_used.max(1) - 1).is_some_and(|word| word.stem != word.lower);
        let own = self.own(&meanings, last, is_plural);
        let (said, said_used) = self.said(words);
        match (own, said) {
            (Some(own), Some(said)) => {
                let is_part = matches!(&own, Item::Column(_, false));
                if said_used > own_used || (said_used == own_used && is_part) {
                    (said, said_used)
                } else {
                    (own, own_used)
                }
            }
            (Some(own), None) => (own, own_used),
            (None, Some(said)) => (said, said_used),
            (None, None) => other(words),
        }
    }

    fn is_number(&self, last: Option<&Item>) -> bool {
        let is_numeric = |at: &usize| matches!(self.table.columns[*at].kind, Kind::Integer | Kind::Float);
        match last {
            Some(Item::Column(columns, _)) => columns.first().is_some_and(is_numeric),
            Some(Item::Compare(_)) => true,
            _ => false,
        }
    }

    fn said(&self, words: &[Word]) -> (Option<Item>, usize) {
        let fits = |phrase: &[&str]| {
            phrase.len() <= words.len() && phrase.iter().zip(words).all(|(own, word)| word.is(own))
        };
        // "over 5" compares, "over there" does not.
        let found = GRAMMAR.iter().filter(|(phrase, _)| fits(phrase)).max_by_key(|(phrase, _)| phrase.len());
        found.map_or((None, 0), |(phrase, item)| (Some(item.clone()), phrase.len()))
    }

    /// The likeliest of what a phrase of the table's own means here.
    fn own(&self, meanings: &[&Meaning], last: Option<&Item>, is_plural: bool) -> Option<Item> {
        let wants_column =
            matches!(last, Some(Item::Function(_) | Item::By | Item::Sort | Item::Null | Item::Top));
        let columns = |exact: bool| -> Vec<usize> {
            let of = |meaning: &&Meaning| match meaning {
                Meaning::Column { at, exact: own } if *own == exact => Some(*at),
                _ => None,
            };
            meanings.iter().filter_map(of).collect()
        };
        let (exact, parts) = (columns(true), columns(false));
        // "In stock" is rather the column that says whether, than one of the texts that shops write.
        let says_whether = |meaning: &&&Meaning| match meaning {
            Meaning::Value { at, .. } => self.table.columns[*at].kind == Kind::Bool,
            _ => false,
        };
        let first = meanings.iter().find(says_whether).into_iter().chain(meanings);
        let value = first.filter_map(|meaning| match meaning {
            Meaning::Value { at, value } => Some(Item::Value(*at, value.clone())),
            _ => None,
        });
        let value = value.take(1).next();
        let event = meanings.iter().find_map(|meaning| match meaning {
            Meaning::Event { at } => Some(Item::Event(*at)),
            _ => None,
        });
        let exact = exact.first().map(|first| Item::Column(vec![*first], true));
        let parts = (!parts.is_empty()).then_some(Item::Column(parts, false));
        if wants_column && (exact.is_some() || parts.is_some()) && !meanings.contains(&&Meaning::Table) {
            return exact.or(parts);
        }
        // The table's own name means the table, but for "the most common tags" and "by tag"; "by urls" counts those.
        if meanings.contains(&&Meaning::Table) {
            let is_column = last == Some(&Item::Common) || (last == Some(&Item::By) && !is_plural);
            return exact.filter(|_| is_column).or(Some(Item::Table));
        }
        value.or(event).or(exact).or(parts)
    }
}

/// What is neither the table's nor the grammar's.
fn other(words: &[Word]) -> (Item, usize) {
    let word = &words[0];
    let scale = match word.lower.as_str() {
        "ms" | "millisecond" | "milliseconds" => Some(1.0),
        "second" | "seconds" | "sec" | "secs" => Some(1_000.0),
        "minute" | "minutes" | "min" | "mins" => Some(60_000.0),
        _ => None,
    };
    if let Some(scale) = scale {
        return (Item::Scale(scale), 1);
    }
    if let Some((number, used)) = numbers::read(words).filter(|_| !word.is("one")) {
        return (Item::Number(number), used);
    }
    if let Some(unit) = Unit::of(word) {
        return (Item::Unit(unit), 1);
    }
    if word.is_site() {
        return (Item::Site(word.lower.clone()), 1);
    }
    if word.is_in(NOISE) { (Item::Noise, 1) } else { (Item::Unknown, 1) }
}
