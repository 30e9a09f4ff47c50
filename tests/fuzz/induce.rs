//! Learning from pages that are broken on purpose, and the main content of such pages.
//!
//! Oracles: the same pages teach the same twice (in two sets of hash tables); what is learned compiles as a schema and confidence is a
//! share; main content is within its limit and the same twice.

use ::induce::{Kind, Page, RECORDS_MAX, Wish, discover, lists_of, observe};
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

/// A table whose rows come in pairs, with prices written in several ways.
const TABLE: &str = "<title>Sales</title><body><table><tr><th>No<th>What</tr><tr><td>1.<td><a href=/s/1>Jack plane of iron</a></tr><tr><td colspan=2>\
<span class=price><del>$99.00</del> <ins>$89.50</ins></span> by <a href=/u/1>ann</a></tr><tr><td>2.<td><a href=/s/2>Block plane of brass</a></tr><tr><td colspan=2>\
<span class=price><i>$24.90</i><b>$24<sup>90</sup></b></span> by <a href=/u/2>bo</a></tr><tr><td>3.<td><a href=/s/3>Fore plane of wood</a></tr><tr><td colspan=2>\
<span class=price>61,20 &euro;</span> by <a href=/u/3>cy</a></tr></table><div><a href=/s/4><h3>Card as a whole</h3></a></div><div><a href=/s/5><h3>And another</h3></a></div>\
<div><a href=/s/6><h3>And one more</h3></a></div>";

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
    /// Two lessons and two writings of a page, and its lists.
    const CHECK_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(2);

    fn generate(&self, random: &mut Random) -> (u8, String) {
        let text = match random.below(4) {
            0 => generated(random),
            1 if random.below(2) == 0 => mutated(random, TABLE) + &mutated(random, TABLE),
            1 => mutated(random, LIST) + &mutated(random, LIST),
            _ => mutated(random, SHOP) + &mutated(random, SHOP),
        };
        (random.below(256) as u8, text)
    }

    fn check(&self, how: u8, text: &str) -> Result<(), String> {
        let base = Url::parse("https://shop.example/p/PL-1004").expect("an address");
        let (one, two) = text.split_at(text.floor_char_boundary(text.len() * usize::from(how) / 256));
        let like = [SHOP, LIST, TABLE][usize::from(how) % 3];
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
                let is_apart = list.spans.windows(2).all(|two| two[0].end <= two[1].start);
                let is_counted = (3..=RECORDS_MAX).contains(&list.records.len());
                let is_titled = list.records.iter().all(|record| !record.title.is_empty());
                let digits = |text: &str| text.is_empty() || text.contains(|c: char| c.is_ascii_digit());
                let is_priced = list.records.iter().all(|record| digits(&record.price));
                if !(is_in_order
                    && is_apart
                    && is_counted
                    && is_titled
                    && is_priced
                    && list.score.is_finite())
                {
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
