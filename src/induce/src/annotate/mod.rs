//! Typed annotators: what a page shows where it says nothing about itself.
//!
//! Each knows one kind of value (a price, a day, a code, a name, an image) by its form and by what stands around it, in the manner of
//! a reader who does not know the site. Alone each is often wrong. Over the pages of a site they supervise each other: what is
//! learned from them must be right on most pages, and its values differ from page to page (`Class::learn_said`).
//!
//! What others found: type annotators as noisy labels for the induction of wrappers (Dalvi, Kumar and Soliman, VLDB 2011); values near
//! the record's own heading (Furche et al., "DIADEM", VLDB 2014).

mod media;
mod money;
mod named;
mod sheet;

use page::extract::{AttributeType, parse_number};
use page::xpath::number_to_text;

use crate::answers::{Kind, Label, answers};
use crate::forms::{Form, Reading, fold};
use crate::places::Page;
pub use money::has_sign;
use sheet::Sheet;
pub use sheet::{says_beside, says_struck};

/// What a page shows of an attribute, as its kind's terms would have it.
pub fn annotate(page: Page<'_>, kind: Kind) -> Vec<Label> {
    on_sheet(&Sheet::new(page), kind)
}

fn on_sheet(sheet: &Sheet<'_>, kind: Kind) -> Vec<Label> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    let mut take = |name: &'static str, value: Option<String>| found.extend(value.map(|value| (name, value)));
    match kind {
        Kind::Product => {
            let price = money::price(sheet);
            take("name", sheet.title());
            take("availability", named::availability(sheet, price.is_some()).map(str::to_owned));
            take("currency", price.as_ref().and_then(|price| price.currency).map(str::to_owned));
            take("price", price.map(|price| number_to_text(price.amount)));
            take("sku", named::code(sheet));
            let (rating, count) = named::rating(sheet);
            take("rating", rating);
            take("review_count", count);
        }
        Kind::Article | Kind::Recipe => {
            take(if kind == Kind::Article { "headline" } else { "name" }, sheet.title());
            take("author", named::author(sheet));
            take("published", named::day(sheet));
            take("section", named::crumb(sheet));
        }
        Kind::JobPosting => {
            take("title", sheet.title());
            named::of_job(sheet).into_iter().for_each(|(name, value)| take(name, Some(value)));
        }
        // What lists show is seen by their structure (`records`).
        Kind::ProductList | Kind::Serp | Kind::Bestseller => return Vec::new(),
    }
    take("image_url", media::image(sheet).filter(|_| kind != Kind::JobPosting));
    let labels = kind.terms().iter().filter_map(|term| {
        let (_, value) = found.iter().find(|(name, _)| *name == term.name)?;
        Some(Label { name: term.name, kind: term.kind, form: term.form, values: vec![value.clone()] })
    });
    labels.collect()
}

/// What a page that says nothing of itself looks like: something for sale, an offer of work, or an article. None where it could be
/// anything.
pub fn kind_of(page: Page<'_>) -> Option<Kind> {
    let sheet = Sheet::new(page);
    sheet.heading?;
    let price = money::price(&sheet);
    if price.as_ref().is_some_and(|price| price.score >= 5) && named::availability(&sheet, false).is_some() {
        return Some(Kind::Product);
    }
    if named::of_job(&sheet).len() >= 3 {
        return Some(Kind::JobPosting);
    }
    let is_article = named::is_prose(&sheet) && price.is_none();
    (is_article && named::day(&sheet).is_some() && named::author(&sheet).is_some()).then_some(Kind::Article)
}

/// A value of one page and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub label: Label,
    /// Whether the page's structured data says it; otherwise an annotator found it among what the page shows.
    pub is_said: bool,
}

/// All that can be told of one page alone: what its structured data says, and behind it what annotators see.
pub fn observe(page: Page<'_>, kind: Kind) -> Vec<Observation> {
    let said = answers(page.document, Some(kind)).labels;
    let sheet = Sheet::new(page);
    let seen = on_sheet(&sheet, kind);
    let of = |labels: &[Label], name: &str| labels.iter().find(|label| label.name == name).cloned();
    let one = kind.terms().iter().filter_map(|term| {
        let seen = of(&seen, term.name);
        let said = of(&said, term.name).filter(|label| is_readable(label, page));
        match said.map(|label| normal(label, page)).and_then(|said| believed(said, seen.as_ref(), &sheet)) {
            Some(label) => Some(Observation { label, is_said: true }),
            None => Some(Observation { label: seen?, is_said: false }),
        }
    });
    one.collect()
}

/// What a page says of itself, as far as what it shows does not speak against it; none where that is to be taken instead.
fn believed(mut said: Label, seen: Option<&Label>, sheet: &Sheet<'_>) -> Option<Label> {
    match said.name {
        "price" => {
            let amount = |text: &String| text.parse::<f64>().ok();
            let seen = seen.and_then(|label| amount(label.values.first()?));
            said.values.retain(|text| amount(text).is_some_and(|amount| amount > 0.0));
            // Of several offers the one that a visitor sees; a price that is shown crossed out is the old one.
            said.values.sort_by_key(|text| amount(text) != seen);
            let own = amount(said.values.first()?)?;
            let is_old = seen.is_some_and(|seen| seen < own) && money::is_struck(sheet, own);
            (!is_old).then_some(said)
        }
        "sku" => {
            // The name behind it is no part of a code, and a name alone is none.
            said.values = said.values.iter().filter_map(|text| code_of(text)).collect();
            let own = fold(said.values.first()?)?;
            let is_shown =
                || sheet.texts.iter().any(|shown| fold(&shown.text).is_some_and(|text| text.contains(&own)));
            (is_shown() || named::labelled_code(sheet).is_none()).then_some(said)
        }
        _ => Some(said),
    }
}

/// The code that a text is, or that it begins with.
fn code_of(text: &str) -> Option<String> {
    let first = named::first_word(text);
    match text.split_whitespace().count() {
        0..=2 if !text.contains(' ') || named::is_code(text) => Some(text.to_owned()),
        _ => named::is_code(first).then(|| first.to_owned()),
    }
}

/// A label in one spelling: numbers with a point, and of several offers the one that can be had.
fn normal(mut label: Label, page: Page<'_>) -> Label {
    match label.form {
        Form::Number if label.kind == AttributeType::Number => {
            let number = |text: &String| match text.trim().parse::<f64>() {
                Ok(number) => Some(number),
                Err(_) => parse_number(text, page.mark()),
            };
            let numbers: Vec<f64> = label.values.iter().filter_map(number).collect();
            label.values = numbers.into_iter().map(number_to_text).collect();
        }
        Form::Availability => {
            let reading = Reading { base: page.base, mark: None };
            let is_in = |text: &String| label.form.label_keys(text, reading).iter().any(|key| key == "a:in");
            let said = if label.values.iter().any(is_in) { "InStock" } else { "OutOfStock" };
            label.values = vec![said.to_owned()];
        }
        _ => {}
    }
    label
}

/// Whether a label has a value of its form: a price that is a number.
fn is_readable(label: &Label, page: Page<'_>) -> bool {
    let reading = Reading { base: page.base, mark: page.mark() };
    let needs_form = label.kind == AttributeType::Number || label.form == Form::Availability;
    !needs_form || label.values.iter().any(|value| !label.form.label_keys(value, reading).is_empty())
}
