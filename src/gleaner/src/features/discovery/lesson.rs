//! From stored pages to a schema that may be proposed: parsed, classified, learned from, checked, and held against the schema that
//! holds. Work on bytes in memory, for threads that may be busy.

use super::check::{Checked, KnownPage, Proposal, Standing, Truth, check, standing};
use super::sample::StoredPage;
use super::wire::{
    FoundAttribute, LeftOutAttribute, LeftOutPage, LeftOutReason, NotSaved, Outcome, PageUse, SampledPage,
};
use crate::features::extraction::{DiscoveredBy, PlatformSchemaV1, ResultV4, attributes_of};
use base::terms::PageType;
use induce::{Answers, Kind, LESSON_FUEL_MAX, Learned, answers, discover};
use page::extract::{Attribute, page_base};
use page::html::Document;
use page::xpath::Fuel;
use std::collections::BTreeMap;
use url::Url;

/// Work of checking what was learned, and of reading the pages by the schema that holds.
const CHECK_FUEL_MAX: u64 = 100_000_000;
/// Pages that must speak for replacing a schema: others read their pages by it.
const REPLACING_PAGES_MIN: usize = 3;
/// Attributes that a schema has at least: by one alone every page with a heading would be one of the type.
const SCHEMA_ATTRIBUTES_MIN: usize = 2;
/// How many values more must come out right for an attribute to replace the one that holds.
const BETTER_BY: f64 = 0.5;

/// The page type of a kind; none for what the interface has no type for.
fn page_type_of(kind: Kind) -> Option<PageType> {
    PageType::named(kind.name())
}

/// A page that was parsed.
struct ParsedPage {
    row: ResultV4,
    document: Document,
    base: Url,
    said: Answers,
}

/// The pages of one lesson: all of one kind.
pub struct Class {
    pub kind: Kind,
    pub page_type: PageType,
    /// The first `taught` teach, in the order of their URLs; the others are only checked on.
    pages: Vec<ParsedPage>,
    taught: usize,
    pub sample: Vec<SampledPage>,
}

/// Why a lesson could not begin, with the pages that were looked at.
pub struct Refusal {
    pub error: String,
    pub page_type: Option<PageType>,
    pub sample: Vec<SampledPage>,
}

impl Class {
    /// Parses and classifies pages, those that are to teach first. `left_out` are those that were not even read.
    pub fn of(
        pages: Vec<StoredPage>,
        left_out: Vec<SampledPage>,
        asked: Option<PageType>,
        sample_size: usize,
    ) -> Result<Class, Refusal> {
        let mut sample = left_out;
        let refuse = |error: &str, page_type, sample| Refusal { error: error.to_owned(), page_type, sample };
        let wanted = asked.map(|page_type| (page_type, Kind::named(page_type.name())));
        if let Some((page_type, None)) = wanted {
            let error = format!(
                "Pages of the type {page_type} say nothing of themselves that could be learned from. Teach own attributes by examples."
            );
            return Err(refuse(&error, asked, sample));
        }
        if pages.is_empty() {
            let error = "None of the stored pages may teach a schema that is everybody's.";
            return Err(refuse(error, asked, sample));
        }
        let parsed: Vec<ParsedPage> = pages.into_iter().filter_map(parse).collect();
        let Some(kind) = wanted.and_then(|(_, kind)| kind).or_else(|| kind_of_most(&parsed)) else {
            sample.extend(parsed.iter().map(|page| page.left_out(LeftOutPage::NoAnswers)));
            let error = "The pages do not say what they are: they have no structured data (JSON-LD, microdata, RDFa, OpenGraph).";
            return Err(refuse(error, None, sample));
        };
        let Some(page_type) = page_type_of(kind) else {
            sample.extend(parsed.iter().map(|page| page.left_out(LeftOutPage::OtherType)));
            let error =
                format!("The pages are of the kind {}, for which there is no page type.", kind.name());
            return Err(refuse(&error, None, sample));
        };
        // What pages are that say something else, or nothing, their collector may know better: unless some say that they are of it.
        let says_so = |page: &ParsedPage| page.said.kind == Some(kind);
        let is_told = asked.is_some() && !parsed.iter().any(says_so);
        let mut own = Vec::new();
        for page in parsed {
            let page = match page.row.page_type.filter(|known| *known != page_type) {
                Some(_) => Err(Box::new(page.left_out(LeftOutPage::OtherType))),
                None => page.of_kind(kind, is_told),
            };
            match page {
                Ok(page) => own.push(page),
                Err(other) => sample.push(*other),
            }
        }
        let taught = own.len().min(sample_size);
        own[..taught].sort_by(|a, b| a.row.url.cmp(&b.row.url));
        for (at, page) in own.iter().enumerate() {
            let used_as = if at < taught { PageUse::Taught } else { PageUse::HeldBack };
            sample.push(SampledPage::new(&page.row, used_as, None));
        }
        sample.sort_by_key(|page| page.used_as as u8);
        if own.len() < 2 {
            let error = format!("It takes at least two pages of the type {page_type} that differ.");
            return Err(refuse(&error, Some(page_type), sample));
        }
        Ok(Class { kind, page_type, pages: own, taught, sample })
    }

    /// What the pages teach by themselves.
    pub fn teach(&self) -> Lesson {
        let pages: Vec<_> = self.pages[..self.taught].iter().map(ParsedPage::page).collect();
        let found = discover(&pages, Some(self.kind), &mut Fuel::new(LESSON_FUEL_MAX));
        let proposals = found.attributes.iter().filter_map(proposal).collect();
        self.checked(proposals, self.taught, DiscoveredBy::ReverseEngineered)
    }

    /// Checks what somebody proposes who has seen the first `seen` pages.
    pub fn checked(&self, proposals: Vec<Proposal>, seen: usize, discovered_by: DiscoveredBy) -> Lesson {
        let known = self.known();
        let checked = check(proposals, &known, seen, &mut Fuel::new(CHECK_FUEL_MAX));
        let (kept, fallen): (Vec<_>, Vec<_>) = checked.into_iter().partition(Checked::holds);
        let mut left_out = Vec::new();
        for term in self.kind.terms() {
            if kept.iter().any(|kept| kept.attribute.name == term.name) {
                continue;
            }
            let labelled = known.iter().filter(|page| page.truth(term.name).is_some()).count();
            let fallen = fallen.iter().find(|fallen| fallen.attribute.name == term.name);
            let reason = match fallen {
                Some(_) => LeftOutReason::NotReproduced,
                None if labelled < 2 => LeftOutReason::TooFewPages,
                None => LeftOutReason::NotShown,
            };
            let confidence = fallen.map(Checked::reproduced);
            if labelled > 0 || fallen.is_some() {
                left_out.push(LeftOutAttribute { name: term.name.to_owned(), reason, confidence });
            }
        }
        Lesson { kept, left_out, discovered_by }
    }

    /// What comes of a lesson beside the schema that holds.
    pub fn decide(&self, lesson: &Lesson, holds: Option<&PlatformSchemaV1>) -> Decision {
        let Some(holds) = holds else {
            let is_little = lesson.kept.len() < SCHEMA_ATTRIBUTES_MIN;
            let attributes = lesson.kept.iter().map(|kept| kept.attribute.clone()).collect();
            let proposed = || Decision::Propose { attributes, confidence: confidence(&lesson.kept) };
            return if is_little { Decision::Keep(NotSaved::TooLittle) } else { proposed() };
        };
        if holds.discovered_by == DiscoveredBy::Manual {
            return Decision::Keep(NotSaved::Manual);
        }
        let before = attributes_of(holds).unwrap_or_default();
        let stand = standing(&before, &self.known(), &mut Fuel::new(CHECK_FUEL_MAX));
        let merged = merge(&lesson.kept, &before, &stand, self.pages.len());
        if !merged.is_better {
            return Decision::Keep(NotSaved::NotBetter);
        }
        let is_little =
            self.pages.len() < REPLACING_PAGES_MIN || merged.attributes.len() < SCHEMA_ATTRIBUTES_MIN;
        if is_little {
            return Decision::Keep(NotSaved::TooLittle);
        }
        Decision::Propose { attributes: merged.attributes, confidence: merged.confidence }
    }

    /// What is told of a lesson.
    pub fn outcome(&self, lesson: &Lesson) -> Outcome {
        let found = |kept: &Checked| FoundAttribute {
            attribute: kept.attribute.clone(),
            confidence: rounded(kept.reproduced()),
            coverage: rounded(kept.coverage),
            is_firm: kept.is_firm,
        };
        let error = "Nothing was found on the pages that shows what they say of themselves, and holds on all of them.";
        Outcome {
            error: lesson.kept.is_empty().then(|| error.to_owned()),
            discovered_by: (!lesson.kept.is_empty()).then_some(lesson.discovered_by),
            page_type: Some(self.page_type),
            sample: self.sample.clone(),
            attributes: lesson.kept.iter().map(found).collect(),
            left_out: lesson.left_out.clone(),
            confidence: (!lesson.kept.is_empty()).then(|| confidence(&lesson.kept)),
            ..Outcome::default()
        }
    }

    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    fn known(&self) -> Vec<KnownPage<'_>> {
        self.pages.iter().map(ParsedPage::known).collect()
    }
}

/// What pages have taught.
pub struct Lesson {
    pub kept: Vec<Checked>,
    pub left_out: Vec<LeftOutAttribute>,
    pub discovered_by: DiscoveredBy,
}

/// Whether a schema is to be proposed.
pub enum Decision {
    Propose { attributes: Vec<Attribute>, confidence: f64 },
    Keep(NotSaved),
}

fn parse(stored: StoredPage) -> Option<ParsedPage> {
    let url = Url::parse(&stored.row.final_url).ok()?;
    let document = Document::parse_bytes(&stored.bytes, stored.row.content_type.as_deref());
    let base = page_base(&document, &url);
    let said = answers(&document, None);
    Some(ParsedPage { row: stored.row, document, base, said })
}

/// The kind that most pages say they are of; of several, the one that is asked for first.
fn kind_of_most(pages: &[ParsedPage]) -> Option<Kind> {
    let count = |kind: Kind| pages.iter().filter(|page| page.said.kind == Some(kind)).count();
    Kind::ALL.into_iter().filter(|kind| count(*kind) > 0).rev().max_by_key(|kind| count(*kind))
}

impl ParsedPage {
    /// The page with what it says as one of a kind; else why it is left out. Where nobody but the caller says what pages are
    /// (`is_told`), whatever they say counts as said of that.
    fn of_kind(mut self, kind: Kind, is_told: bool) -> Result<ParsedPage, Box<SampledPage>> {
        if is_told {
            self.said = answers(&self.document, Some(kind));
        }
        match self.said.kind {
            Some(said) if said != kind => Err(Box::new(self.left_out(LeftOutPage::OtherType))),
            _ if self.said.labels.is_empty() => Err(Box::new(self.left_out(LeftOutPage::NoAnswers))),
            _ => Ok(self),
        }
    }

    fn left_out(&self, reason: LeftOutPage) -> SampledPage {
        SampledPage::new(&self.row, PageUse::LeftOut, Some(reason))
    }

    fn page(&self) -> induce::Page<'_> {
        induce::Page { document: &self.document, base: &self.base }
    }

    fn known(&self) -> KnownPage<'_> {
        let truths = self.said.labels.iter().map(Truth::from).collect();
        KnownPage { document: &self.document, base: &self.base, mark: self.page().mark(), truths }
    }
}

/// What was learned, as a proposal: how it did on each page while that was held back is known already.
fn proposal(learned: &Learned) -> Option<Proposal> {
    let (right, of) = (learned.held_out_right, learned.example_count);
    Some(Proposal { attribute: learned.attribute()?, right, of, is_firm: learned.is_firm })
}

/// The share of all values on held-back pages that these reproduce.
fn confidence(kept: &[Checked]) -> f64 {
    let right: f64 = kept.iter().map(|one| one.right).sum();
    let of: usize = kept.iter().map(|one| one.of).sum();
    rounded(right / of.max(1) as f64)
}

/// To three places: more would say more than a few pages can.
fn rounded(share: f64) -> f64 {
    (share * 1_000.0).round() / 1_000.0
}

struct Merged {
    attributes: Vec<Attribute>,
    confidence: f64,
    is_better: bool,
}

/// Of each attribute the one that gets more values right. What the schema that holds has beyond that stays, where it gives
/// values on half of the pages or is right on half of those on which that is known.
fn merge(kept: &[Checked], before: &[Attribute], stand: &BTreeMap<String, Standing>, pages: usize) -> Merged {
    let (mut right, mut of, mut is_better) = (0.0, 0, false);
    let mut attributes = Vec::new();
    for one in kept {
        let own = stand.get(&one.attribute.name).copied().unwrap_or_default();
        let known = before.iter().find(|known| known.name == one.attribute.name);
        let of_before = own.right / own.of.max(1) as f64 * one.of as f64;
        match known.filter(|_| one.right < of_before + BETTER_BY) {
            Some(known) => {
                attributes.push(known.clone());
                (right, of) = (right + own.right, of + own.of);
            }
            None => {
                is_better = true;
                attributes.push(one.attribute.clone());
                (right, of) = (right + one.right, of + one.of);
            }
        }
    }
    for known in before.iter().filter(|known| kept.iter().all(|one| one.attribute.name != known.name)) {
        let own = stand.get(&known.name).copied().unwrap_or_default();
        let is_alive = match own.of {
            0 => 2 * own.given >= pages,
            of => 2.0 * own.right >= of as f64,
        };
        if is_alive {
            attributes.push(known.clone());
            (right, of) = (right + own.right, of + own.of);
        }
    }
    Merged { attributes, confidence: rounded(right / of.max(1) as f64), is_better }
}
