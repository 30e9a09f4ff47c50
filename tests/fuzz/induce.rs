//! Learning from pages that are broken on purpose, and the main content of such pages.
//!
//! Oracles: the same pages teach the same twice (in two sets of hash tables); what is learned compiles as a schema and confidence is a
//! share; main content is within its limit and the same twice.

use ::induce::{Kind, Page, Wish, discover, lists_of, observe};
use content::Content;
use page::extract::Schema;
use page::html::Document;
use page::xpath::Fuel;
use url::Url;

use crate::Target;
use page_oracle::soup::{Random, generated, mutated};

/// Work of one lesson in a fuzzer, a small part of what a real one has.
const FUEL: u64 = 20_000_000;
/// Bytes of main content that are asked for.
const CONTENT_BYTES_MAX: usize = 2_000;

/// A page of a shop: what is mutated must be near to what is learned from.
const SHOP: &str = "<title>Plane No. 4 | Shop</title><script type='application/ld+json'>{\"@type\":\"Product\",\"name\":\"Plane No. 4\",\
\"image\":\"/i/plane-300x200.jpg\",\"offers\":{\"price\":\"189.50\",\"availability\":\"InStock\"}}</script><body><nav><a href=/>Home</a></nav>\
<div class=product itemscope itemtype='http://schema.org/Product'><h1 itemprop=name>Plane No. 4</h1><img srcset='/i/plane-600x400.jpg 2x'>\
<dl><dt>Our price</dt><dd class=price>189,50 &euro;</dd><dt>Item no:</dt><dd>PL-1004</dd></dl><p>4.5 out of 5</p><p>3 reviews</p>\
<time datetime=2021-03-04>4 March 2021</time><p>By Ann Lee</p></div><ul class=related><li>5,00 &euro;<li>6,00 &euro;<li>7,00 &euro;</ul>";

/// A page of results: rows, a run of siblings and a list that the page names.
const LIST: &str = "<title>Planes</title><script type='application/ld+json'>{\"@type\":\"ItemList\",\"itemListElement\":[{\"@type\":\"ListItem\",\"name\":\"Jack plane\"},\
{\"name\":\"Block plane\"},{\"name\":\"Fore plane\"}]}</script><body><nav><li><a href=/>Home</a><li><a href=/a>All</a><li><a href=/b>New</a></nav><div class=row>\
<div class='card odd'><img src=/i/1a.jpg><h3><a href=/p/1>Jack plane</a></h3><b class=price>&euro; 189.50</b></div><div class='card even'><img src=/i/2b.jpg>\
<h3><a href=/p/2>Block plane</a></h3><b class=price>&euro; 24.90</b></div></div><div class=row><div class=card><img src=/i/3c.jpg><h3><a href=/p/3>Fore plane</a></h3>\
<b class=price>&euro; 61.20</b></div></div><dl><dt><a href=https://a.example/>One</a><dd>Words about one thing.<dt><a href=https://b.example/>Two</a><dd>Words about two.\
<dt><a href=https://c.example/>Three</a><dd>Words about three.</dl>";

pub struct InduceTarget;

impl InduceTarget {
    fn hold_lesson(&self, pages: &[Page<'_>], kind: Option<Kind>) -> Result<(), String> {
        let found = discover(pages, kind, &mut Fuel::new(FUEL));
        let again = discover(pages, kind, &mut Fuel::new(FUEL));
        if found != again {
            return Err(format!("not the same twice: {found:?} and {again:?}"));
        }
        if let Some(odd) = found.attributes.iter().find(|learned| !(0.0..=1.0).contains(&learned.confidence))
        {
            return Err(format!("a confidence that is no share: {odd:?}"));
        }
        let attributes: Vec<_> = found.attributes.iter().filter_map(|learned| learned.attribute()).collect();
        // No schema is without attributes.
        if attributes.is_empty() {
            return Ok(());
        }
        match Schema::compile(&attributes) {
            Ok(_) => Ok(()),
            Err(errors) => Err(format!("what was learned is no schema: {errors:?} of {attributes:?}")),
        }
    }
}

impl Target for InduceTarget {
    /// Where the text is cut into two pages, in parts of 256.
    type How = u8;
    /// Two lessons and two writings of a page.
    const CHECK_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(2);

    fn generate(&self, random: &mut Random) -> (u8, String) {
        let text = match random.below(4) {
            0 => generated(random),
            1 => mutated(random, LIST) + &mutated(random, LIST),
            _ => mutated(random, SHOP) + &mutated(random, SHOP),
        };
        (random.below(256) as u8, text)
    }

    fn check(&self, how: u8, text: &str) -> Result<(), String> {
        let base = Url::parse("https://shop.example/p/PL-1004").expect("an address");
        let (one, two) = text.split_at(text.floor_char_boundary(text.len() * usize::from(how) / 256));
        let like = if how.is_multiple_of(2) { SHOP } else { LIST };
        let documents = [one, two, like].map(|page| Document::parse(page.to_owned()));
        let pages = documents.each_ref().map(|document| Page { document, base: &base });
        let kinds = [
            None,
            Some(Kind::Product),
            Some(Kind::Article),
            Some(Kind::ProductList),
            Some(Kind::JobPosting),
            Some(Kind::Serp),
        ];
        self.hold_lesson(&pages, kinds[usize::from(how) % kinds.len()])?;
        for page in pages {
            observe(page, Kind::Product);
            for list in lists_of(page, Wish::Any) {
                let is_in_order = list.spans.is_sorted() && list.spans.len() == list.records.len();
                if !is_in_order || !list.score.is_finite() || list.records.len() < 3 {
                    return Err(format!("an odd list: {list:?}"));
                }
            }
            let markdown = Content::of(page.document, Some(&base)).markdown(CONTENT_BYTES_MAX);
            let again = Content::of(page.document, Some(&base)).markdown(CONTENT_BYTES_MAX);
            if markdown != again || markdown.text.len() > CONTENT_BYTES_MAX {
                return Err(format!("main content: {markdown:?} and {again:?}"));
            }
        }
        Ok(())
    }

    fn covered(&self) -> String {
        "random pages, a shop's and a list, mutated; lessons, single pages, lists and main content".to_owned()
    }
}
