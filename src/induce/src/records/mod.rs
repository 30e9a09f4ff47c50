//! Lists: the records that a page repeats, and what each of them has.
//!
//! A page is surveyed once ([`survey`]), sets of elements that may be records are weighed ([`mod@regions`]), the records of the best
//! are aligned ([`fields`]), and what stands in their slots becomes the labels of a list page ([`lists`]), from which the crate
//! learns as from any others. Lists that the page itself names (`ItemList`, several products) say which set is meant.
//!
//! What others found: records as runs of siblings that look alike (Liu, Grossman and Zhai, "Mining data records in Web pages",
//! KDD 2003; Zhai and Liu, DEPTA, WWW 2005); typed annotations that supervise the segmentation (Furche et al., AMBER, 2012). The
//! weights and the ways to the sets are our own.
//!
//! Work is linear in the page but for the sets that are looked at closely, whose number and size are bounded.

mod fields;
mod key;
mod lists;
mod regions;
mod survey;

pub use fields::{List, ListShape, RECORDS_MAX, Record};
pub use lists::{list_answers, list_kind_of};

use crate::places::Page;
use key::ListKey;
use regions::regions;
use survey::Survey;

/// Lists that are aligned of one page.
const ALIGNED_MAX: usize = 14;
/// What a list gains that the page names as its own.
const KEY_GAIN: f64 = 9.0;

/// What is looked for in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Whatever is the page's main list.
    Any,
    /// Things with prices and images.
    Goods,
    /// Pages of other sites, with words from them.
    Results,
}

/// The lists of a page, the best first.
pub fn lists_of(page: Page<'_>, wish: Wish) -> Vec<List> {
    let survey = Survey::new(page);
    let key = ListKey::of(page);
    let mut found: Vec<List> = regions(&survey)
        .iter()
        .take(ALIGNED_MAX)
        .filter_map(|region| fields::aligned(&survey, region))
        .collect();
    for list in &mut found {
        list.score *= wish.gain(list, page) * (1.0 + KEY_GAIN * key.overlap(list, page).powi(3));
    }
    found.sort_by(|a, b| {
        let first = |list: &List| list.spans.first().map(|span| (span.start, u32::MAX - span.end));
        b.score.total_cmp(&a.score).then_with(|| first(a).cmp(&first(b)))
    });
    found
}

impl Wish {
    fn gain(self, list: &List, page: Page<'_>) -> f64 {
        let share = |test: &dyn Fn(&Record) -> bool| {
            list.records.iter().filter(|record| test(record)).count() as f64
                / list.records.len().max(1) as f64
        };
        match self {
            Wish::Any => 1.0,
            Wish::Goods => {
                1.0 + share(&|record| !record.price.is_empty())
                    + 0.4 * share(&|record| !record.image.is_empty())
            }
            Wish::Results => {
                1.0 + 0.8 * share(&|record| is_elsewhere(page, &record.url))
                    + 0.5 * share(&|record| !record.snippet.is_empty())
            }
        }
    }
}

/// Whether an address is of another host.
fn is_elsewhere(page: Page<'_>, url: &str) -> bool {
    let own = page.base.host_str().unwrap_or_default();
    page.base.join(url).ok().and_then(|url| url.host_str().map(|host| host != own)).unwrap_or(false)
}

#[cfg(test)]
mod tests;
