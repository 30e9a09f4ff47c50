//! Learning from pages that are broken on purpose, and the main content of such pages.
//!
//! Oracles: the same pages teach the same twice (in two sets of hash tables); what is learned compiles as a schema and confidence is a
//! share; main content is within its limit and the same twice.

use ::induce::{Kind, Page, discover, observe};
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
            _ => mutated(random, SHOP) + &mutated(random, SHOP),
        };
        (random.below(256) as u8, text)
    }

    fn check(&self, how: u8, text: &str) -> Result<(), String> {
        let base = Url::parse("https://shop.example/p/PL-1004").expect("an address");
        let (one, two) = text.split_at(text.floor_char_boundary(text.len() * usize::from(how) / 256));
        let documents = [one, two, SHOP].map(|page| Document::parse(page.to_owned()));
        let pages = documents.each_ref().map(|document| Page { document, base: &base });
        let kinds = [None, Some(Kind::Product), Some(Kind::Article), Some(Kind::JobPosting)];
        self.hold_lesson(&pages, kinds[usize::from(how) % 4])?;
        for page in pages {
            observe(page, Kind::Product);
            let markdown = Content::of(page.document, Some(&base)).markdown(CONTENT_BYTES_MAX);
            let again = Content::of(page.document, Some(&base)).markdown(CONTENT_BYTES_MAX);
            if markdown != again || markdown.text.len() > CONTENT_BYTES_MAX {
                return Err(format!("main content: {markdown:?} and {again:?}"));
            }
        }
        Ok(())
    }

    fn covered(&self) -> String {
        "random pages and a shop's, mutated; lessons, single pages and main content".to_owned()
    }
}
