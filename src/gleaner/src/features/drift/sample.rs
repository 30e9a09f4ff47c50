//! Which stored pages say what became of an attribute: the newest ones that lack it, each with the last page of its URL that had it.
//!
//! A platform schema is everybody's, so only pages that came as they would have come to anybody mend it ([`why_private`]).

use crate::features::discovery::why_private;
use crate::features::extraction::{
    JSON_LOOKED_AT_BYTES_MAX, RESULTS, RESULTS_BY_URL, ResultV4, Site, has_page, is_document, is_readable,
    result_place, results_of_site, url_digest,
};
use base::Result;
use base::limits::HTML_BYTES_MAX;
use base::page::PageRequest;
use base::terms::PageType;
use serde_json::Value;
use std::collections::HashSet;
use store::OrgRead;

/// URLs whose values are known, and pages of which nothing is known.
const VISITS_MAX: usize = 8;
const OTHERS_MAX: usize = 6;
/// URLs beyond these that are taken for an answer which a yes or no did not have on any of them.
const TELLERS_MAX: usize = 4;
/// Pages of results that are looked through for these alone: a shop may never have had the other answer.
const TELLER_LOOKS_MAX: usize = 2;
/// Bytes of all pages of one look: a parsed page takes several times its size.
const BYTES_MAX: u64 = 24 << 20;
/// Results of a site that are looked through, in pages of so many, and results of one URL.
const LOOKS_MAX: usize = 8;
const LOOK_ROWS: usize = 50;
const VERSIONS_MAX: usize = 16;

/// Pages of one look.
#[derive(Default)]
pub struct Sample {
    /// The newest result of a URL, and its last one with values that the newest lacks.
    pub visits: Vec<(ResultV4, ResultV4)>,
    pub others: Vec<ResultV4>,
}

/// What is looked for.
pub struct Wanted<'a> {
    pub site: &'a Site,
    pub page_type: PageType,
    /// The attributes that are not found any more.
    pub names: &'a [String],
    /// Which of them are yes or no: what says them shows on pages of both answers only.
    pub booleans: &'a [String],
    /// Whether what is found out is everybody's.
    pub is_shared: bool,
}

/// Whether a visit has an answer to one of these that none of the others has. What the newest page still answers teaches nothing.
fn tells_more(booleans: &[String], visit: (&ResultV4, &ResultV4), others: &[(ResultV4, ResultV4)]) -> bool {
    let answer = |name: &String, (now, earlier): (&ResultV4, &ResultV4)| {
        let told = earlier.values.0.get(name).and_then(Value::as_bool);
        told.filter(|_| now.values.0.get(name).is_none())
    };
    booleans.iter().any(|name| {
        let told = answer(name, visit);
        told.is_some() && others.iter().all(|(now, earlier)| answer(name, (now, earlier)) != told)
    })
}

/// Chooses pages among the newest of a site.
pub fn choose(tx: &OrgRead<'_>, wanted: &Wanted<'_>) -> Result<Sample> {
    let mut sample = Sample::default();
    let (mut urls, mut bytes) = (HashSet::new(), 0);
    let mut page = PageRequest { limit: LOOK_ROWS, cursor: None };
    let mut looks = LOOKS_MAX;
    while looks > 0 {
        looks -= 1;
        // One of no type may be one on which nearly nothing was found.
        let is_of_type = |row: &ResultV4| row.page_type.is_none_or(|own| own == wanted.page_type);
        let found = results_of_site(tx, wanted.site, &page, is_of_type)?;
        for row in found.items {
            let is_full = sample.visits.len() >= VISITS_MAX;
            let all = VISITS_MAX + TELLERS_MAX.min(2 * wanted.booleans.len());
            if sample.visits.len() == all || bytes >= BYTES_MAX {
                return Ok(sample);
            }
            let lacks = wanted.names.iter().any(|name| row.values.0.get(name).is_none());
            if !urls.insert(row.url.clone()) || !lacks || !may_serve(tx, &row, wanted)? {
                continue;
            }
            let earlier = last_with(tx, &row, wanted)?;
            let is_wanted = match &earlier {
                Some(earlier) => !is_full || tells_more(wanted.booleans, (&row, earlier), &sample.visits),
                None => sample.others.len() < OTHERS_MAX,
            };
            if !is_wanted {
                continue;
            }
            bytes += row.page.byte_size + earlier.as_ref().map_or(0, |earlier| earlier.page.byte_size);
            match earlier {
                Some(earlier) => sample.visits.push((row, earlier)),
                None => sample.others.push(row),
            }
        }
        if sample.visits.len() >= VISITS_MAX {
            looks = looks.min(TELLER_LOOKS_MAX);
        }
        match found.next_cursor {
            Some(next) => page.cursor = Some(next),
            None => break,
        }
    }
    Ok(sample)
}

/// The last result of the same URL that has a value which this one lacks.
fn last_with(tx: &OrgRead<'_>, row: &ResultV4, wanted: &Wanted<'_>) -> Result<Option<ResultV4>> {
    let before = PageRequest { limit: VERSIONS_MAX, cursor: Some(result_place(row)) };
    let had = |earlier: &ResultV4| {
        let has = |name: &String| earlier.values.0.get(name).is_some() && row.values.0.get(name).is_none();
        earlier.page_type == Some(wanted.page_type) && wanted.names.iter().any(has)
    };
    let found = tx.page_by(&RESULTS, &RESULTS_BY_URL, url_digest(&row.url), &before, had)?;
    for earlier in found.items {
        if may_serve(tx, &earlier, wanted)? {
            return Ok(Some(earlier));
        }
    }
    Ok(None)
}

/// Whether a result's page is kept and readable, and may be used for what is wanted.
fn may_serve(tx: &OrgRead<'_>, row: &ResultV4, wanted: &Wanted<'_>) -> Result<bool> {
    let is_page = is_readable(row.content_type.as_deref()) && (200..300).contains(&row.http_status);
    let bytes_max = match is_document(row.content_type.as_deref()) {
        true => HTML_BYTES_MAX,
        false => JSON_LOOKED_AT_BYTES_MAX,
    };
    if !is_page || row.is_unreadable() || row.page.byte_size > bytes_max as u64 || !has_page(tx, row)? {
        return Ok(false);
    }
    Ok(!wanted.is_shared || why_private(tx, wanted.site, row)?.is_none())
}
