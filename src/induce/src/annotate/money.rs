//! Prices: amounts beside a sign of currency, weighed by what stands around them.

use std::collections::HashMap;

use page::extract::parse_number;
use page::html::NodeId;

use super::sheet::{Sheet, names, says_one_of};

/// Bytes of the longest text that is an amount.
const AMOUNT_BYTES_MAX: usize = 40;
/// Amounts of one page that are weighed.
const AMOUNTS_MAX: usize = 600;
/// Elements of one kind with different amounts make a list.
const LIST_MIN: usize = 4;

/// Signs and codes of currencies as pages write them, with what they mean.
const SIGNS: &[(&str, &str)] = &[
    ("€", "EUR"),
    ("£", "GBP"),
    ("us$", "USD"),
    ("r$", "BRL"),
    ("nt$", "TWD"),
    ("hk$", "HKD"),
    ("$", "USD"),
    ("¥", "JPY"),
    ("円", "JPY"),
    ("元", "CNY"),
    ("₹", "INR"),
    ("₽", "RUB"),
    ("₩", "KRW"),
    ("원", "KRW"),
    ("₪", "ILS"),
    ("₺", "TRY"),
    ("₸", "KZT"),
    ("zł", "PLN"),
    ("kč", "CZK"),
    ("руб", "RUB"),
    ("грн", "UAH"),
    ("лв", "BGN"),
    ("ден", "MKD"),
    ("chf", "CHF"),
    ("eur", "EUR"),
    ("usd", "USD"),
    ("gbp", "GBP"),
    ("sek", "SEK"),
    ("nok", "NOK"),
    ("dkk", "DKK"),
    ("pln", "PLN"),
    ("czk", "CZK"),
    ("huf", "HUF"),
    ("ron", "RON"),
    ("inr", "INR"),
    ("aud", "AUD"),
    ("cad", "CAD"),
    ("sar", "SAR"),
    ("aed", "AED"),
    ("kn", "HRK"),
    ("kr", "SEK"),
    ("lei", "RON"),
    ("ft", "HUF"),
    ("rs", "INR"),
    ("р.", "RUB"),
    ("tl", "TRY"),
    ("﷼", "SAR"),
    ("ر.س", "SAR"),
];
const PRICE_WORDS: &[&str] =
    &["price", "preis", "prix", "precio", "prezzo", "preco", "preço", "cena", "hinta", "amount"];
const CURRENT_WORDS: &[&str] = &[
    "sale", "current", "final", "now", "actual", "offer", "special", "main", "primary", "selling", "buybox",
    "ourprice",
];
const NO_PRICE_WORDS: &[&str] = &[
    "shipping",
    "delivery",
    "versand",
    "livraison",
    "spediz",
    "save ",
    "off",
    "rrp",
    "was ",
    "from ",
    "/",
    "per ",
    "month",
    "over ",
    "statt",
    "uvp",
    "uvp:",
    "orders",
    "free",
    "%",
];

/// Parts of names of prices that lack the tax that a buyer pays.
const UNTAXED_WORDS: &[&str] = &[
    "price-tax",
    "pricetax",
    "ex-tax",
    "extax",
    "excl-tax",
    "excl-vat",
    "exvat",
    "ex-vat",
    "excluding-tax",
    "netto",
];

/// An amount of money on a page.
#[derive(Debug)]
pub struct Price {
    pub amount: f64,
    pub currency: Option<&'static str>,
    pub score: i32,
}

/// The sign in a text, not within a longer word.
fn sign(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let is_whole = |at: usize, sign: &str| {
        let is_letters = sign.starts_with(char::is_alphabetic);
        let before = text[..at].chars().next_back().is_some_and(char::is_alphabetic);
        let after = text[at + sign.len()..].chars().next().is_some_and(char::is_alphabetic);
        !is_letters || !(before || after)
    };
    let found = SIGNS.iter().find(|(sign, _)| text.find(sign).is_some_and(|at| is_whole(at, sign)));
    found.map(|(_, currency)| *currency)
}

/// Whether a text has a sign or code of a currency.
pub fn has_sign(text: &str) -> bool {
    sign(text).is_some()
}

/// The best price of a page.
pub fn price(sheet: &Sheet<'_>) -> Option<Price> {
    best(sheet, &amounts(sheet))
}

/// Whether a page shows an amount and crosses it out, or names it an older one, wherever it does beside other things.
pub fn is_struck(sheet: &Sheet<'_>, amount: f64) -> bool {
    let amounts = amounts(sheet);
    let own = amounts.iter().filter(|(node, own, _)| cents(*own) == cents(amount) && !sheet.is_beside(*node));
    let (struck, others): (Vec<NodeId>, Vec<NodeId>) =
        own.map(|(node, ..)| *node).partition(|node| sheet.is_struck(*node));
    // What only surrounds it ("219.99 -50%") shows it once more.
    let surrounds = |outer: &NodeId| {
        struck.iter().any(|inner| outer < inner && *inner < sheet.page.document.subtree_end(*outer))
    };
    !struck.is_empty() && others.iter().all(surrounds)
}

fn cents(amount: f64) -> i64 {
    (amount * 100.0).round() as i64
}

/// The amounts of money that a page shows, with the elements that hold them.
fn amounts(sheet: &Sheet<'_>) -> Vec<(NodeId, f64, Option<&'static str>)> {
    let document = sheet.page.document;
    let mark = sheet.page.mark();
    let mut found: Vec<(NodeId, f64, Option<&'static str>)> = Vec::new();
    let mut last = None;
    for shown in &sheet.texts {
        if found.len() == AMOUNTS_MAX {
            break;
        }
        if !shown.text.bytes().any(|byte| byte.is_ascii_digit()) || shown.text.len() > AMOUNT_BYTES_MAX {
            continue;
        }
        // "£" and "450" stand in elements of their own as often as not.
        let around = std::iter::successors(Some(shown.holder), |node| document.parent(*node)).take(3);
        let small = around.take_while(|node| document.string_value(*node).trim().len() <= AMOUNT_BYTES_MAX);
        let small: Vec<NodeId> = small.collect();
        let signed = small.iter().find(|node| sign(document.string_value(**node)).is_some());
        let named = || small.iter().find(|node| is_bare(sheet, **node));
        let Some(element) = signed.or_else(named).copied().filter(|node| last != Some(*node)) else {
            continue;
        };
        last = Some(element);
        let text = document.string_value(element).trim();
        let Some(amount) = parse_number(text, mark).filter(|amount| *amount > 0.0 && *amount < 1e9) else {
            continue;
        };
        found.push((element, amount, sign(text)));
    }
    found
}

/// Whether an element is named a price and has a number and hardly anything else.
fn is_bare(sheet: &Sheet<'_>, element: NodeId) -> bool {
    let text = sheet.page.document.string_value(element);
    text.chars().filter(|c| c.is_alphabetic()).count() <= 3
        && says_one_of(&names(sheet.page.document, element), PRICE_WORDS)
}

fn best(sheet: &Sheet<'_>, found: &[(NodeId, f64, Option<&'static str>)]) -> Option<Price> {
    let document = sheet.page.document;
    let kind = |node: NodeId| {
        let above = document.parent(node).map(|parent| names(document, parent)).unwrap_or_default();
        format!("{} {} {above}", document.name(node), names(document, node))
    };
    let mut kinds: HashMap<String, Vec<i64>> = HashMap::new();
    let mut counts: HashMap<i64, i32> = HashMap::new();
    for (node, amount, _) in found {
        let amounts = kinds.entry(kind(*node)).or_default();
        if !amounts.contains(&cents(*amount)) {
            amounts.push(cents(*amount));
        }
        *counts.entry(cents(*amount)).or_default() += 1;
    }
    let scored = found.iter().map(|(node, amount, currency)| {
        let around = sheet.names_around(*node);
        let text = document.string_value(*node).to_lowercase();
        let (distance, is_behind) = sheet.distance(*node);
        let mut score = if currency.is_some() { 2 } else { 0 };
        score += if says_one_of(&around, PRICE_WORDS) { 3 } else { 0 };
        score += if says_one_of(&around, CURRENT_WORDS) { 1 } else { 0 };
        score -= if sheet.is_struck(*node) || says_one_of(&around, UNTAXED_WORDS) { 5 } else { 0 };
        score -= if sheet.is_beside(*node) { 5 } else { 0 };
        score -= if says_one_of(&text, NO_PRICE_WORDS) { 3 } else { 0 };
        score -= if kinds[&kind(*node)].len() >= LIST_MIN { 3 } else { 0 };
        score += match (is_behind, distance) {
            (true, 0..=40) => 3,
            (true, 41..=150) => 1,
            (false, 0..=25) => 1,
            _ => -1,
        };
        score += (counts[&cents(*amount)] - 1).min(2);
        Price { amount: *amount, currency: *currency, score }
    });
    scored.reduce(|best, one| if one.score > best.score { one } else { best }).filter(|best| best.score >= 3)
}
