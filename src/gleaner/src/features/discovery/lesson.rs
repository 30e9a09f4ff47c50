//! From stored pages to a schema that may be proposed: parsed, classified, learned from, checked, and held against the schema that
//! holds. Work on bytes in memory, for threads that may be busy.

use super::check::{Checked, KnownPage, Proposal, Standing, Truth, check, standing};
use super::sample::StoredPage;
use super::teacher::{PageValues, ValueTexts, outline};
use super::wire::{
    FoundAttribute, LeftOutAttribute, LeftOutPage, LeftOutReason, NotSaved, Outcome, PageUse, SampledPage,
};
use crate::features::extraction::{DiscoveredBy, PlatformSchemaV1, ResultV4, attributes_of};
use base::terms::PageType;
use induce::{
    Answers, Form, Kind, LESSON_FUEL_MAX, Learned, ListShape, annotate, answers, discover, kind_of,
    list_answers, list_kind_of, shows,
};
use page::extract::{Attribute, AttributeType, page_base};
use page::html::Document;
use page::xpath::Fuel;
use std::collections::BTreeMap;
use url::Url;

/// Work of checking what was learned, and of reading the pages by the schema that holds.
const CHECK_FUEL_MAX: u64 = 100_000_000;
/// Pages that must speak for replacing a schema: others read their pages by it.
const REPLACING_PAGES_MIN: usize = 3;
/// Pages that a language model is shown at once.
const SHOWN_MAX: usize = 3;
/// Attributes that a schema has at least: by one alone every page with a heading would be one of the type.
const SCHEMA_ATTRIBUTES_MIN: usize = 2;
/// How many values more must come out right for an attribute to replace the one that holds.
const BETTER_BY: f64 = 0.5;

/// The share of records that is right where a page's structure alone says what it lists (`src/induce/tests/lists`).
const MINED_TRUST: f64 = 0.85;
/// The same where pages say nothing of themselves and only look like something (`src/induce/tests/corpus`, silent pages).
const SEEN_TRUST: f64 = 0.6;

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
    /// What it lists; empty where it is of another kind.
    shape: ListShape,
    /// What a language model has read on it.
    told: Vec<Truth>,
}

/// The pages of one lesson: all of one kind.
pub struct Class {
    /// None where the pages say nothing of themselves that could be learned from, so that only a language model can propose.
    kind: Option<Kind>,
    /// None where nobody says it.
    pub page_type: Option<PageType>,
    /// The first `taught` teach, in the order of their URLs; the others are only checked on.
    pages: Vec<ParsedPage>,
    taught: usize,
    sample: Vec<SampledPage>,
    /// The pages say nothing of themselves: what they look like teaches alone.
    is_silent: bool,
}

/// Why a lesson could not begin, with the pages that were looked at.
pub struct Refusal {
    pub error: String,
    pub page_type: Option<PageType>,
    pub sample: Vec<SampledPage>,
}

impl Class {
    /// Parses and classifies pages, those that are to teach first. `left_out` are those that were not even read. Pages that say
    /// nothing of themselves are a class only where a language model can be asked.
    pub fn of(
        pages: Vec<StoredPage>,
        left_out: Vec<SampledPage>,
        asked: Option<PageType>,
        (sample_size, has_model): (usize, bool),
    ) -> Result<Class, Refusal> {
        let mut sample = left_out;
        if pages.is_empty() {
            let error = "None of the stored pages may teach a schema that is everybody's.".to_owned();
            return Err(Refusal { error, page_type: asked, sample });
        }
        let parsed: Vec<ParsedPage> = pages.into_iter().filter_map(parse).collect();
        let (kind, page_type) = match subject(&parsed, asked) {
            Ok((kind, _)) if has_model && speaking(&parsed, kind, asked.is_some()) < 2 => (None, asked),
            Ok((kind, page_type)) => (Some(kind), Some(page_type)),
            Err(_) if has_model => (None, asked),
            Err((error, reason)) => {
                sample.extend(parsed.iter().map(|page| page.left_out(reason)));
                return Err(Refusal { error, page_type: asked, sample });
            }
        };
        // What pages are that say something else, or nothing, their collector may know better: unless some say that they are of it.
        let says_so = |page: &ParsedPage| match kind {
            // What a list is its structure says: beside one thing there is only nothing that pages say they are about.
            Some(kind) if kind.is_list() => page.said.kind.is_none(),
            _ => page.said.kind == kind,
        };
        let is_told = asked.is_some() && !parsed.iter().any(says_so);
        let is_silent = kind.is_some_and(|kind| !kind.is_list() && speaking(&parsed, kind, is_told) == 0);
        let mut own = Vec::new();
        for page in parsed {
            let is_other = |known: PageType| page_type.is_some_and(|page_type| known != page_type);
            let page = match page.row.page_type.is_some_and(is_other) {
                true => Err(Box::new(page.left_out(LeftOutPage::OtherType))),
                false => page.of_kind(kind, is_told, is_silent),
            };
            match page {
                Ok(page) => own.push(page),
                Err(other) => sample.push(*other),
            }
        }
        if kind.is_some_and(Kind::is_list) {
            own = of_one_template(own, &mut sample);
        }
        let taught = own.len().min(sample_size);
        own[..taught].sort_by(|a, b| a.row.url.cmp(&b.row.url));
        for (at, page) in own.iter().enumerate() {
            let used_as = if at < taught { PageUse::Taught } else { PageUse::HeldBack };
            sample.push(SampledPage::new(&page.row, used_as, None));
        }
        sample.sort_by_key(|page| page.used_as as u8);
        if own.len() < 2 {
            let of_type = page_type.map_or(String::new(), |page_type| format!(" of the type {page_type}"));
            let error = format!("It takes at least two pages{of_type} that differ.");
            return Err(Refusal { error, page_type, sample });
        }
        Ok(Class { kind, page_type, pages: own, taught, sample, is_silent })
    }

    /// What the pages teach by themselves; nothing where they say nothing.
    pub fn teach(&self) -> Lesson {
        let (proposals, bounds) = match self.kind {
            Some(kind) => {
                let pages: Vec<_> = self.pages[..self.taught].iter().map(ParsedPage::page).collect();
                let found = discover(&pages, Some(kind), &mut Fuel::new(LESSON_FUEL_MAX));
                (found.attributes.iter().filter_map(proposal).collect(), found.bounds)
            }
            None => Default::default(),
        };
        let mut lesson = self.checked(proposals, self.taught, DiscoveredBy::ReverseEngineered);
        lesson.notes.splice(..0, bounds.iter().map(ToString::to_string));
        lesson
    }

    /// Checks what somebody proposes who has seen the first `seen` pages.
    pub fn checked(&self, proposals: Vec<Proposal>, seen: usize, discovered_by: DiscoveredBy) -> Lesson {
        let known = self.known();
        let mut fuel = Fuel::new(CHECK_FUEL_MAX);
        let checked = check(proposals, &known, seen, &mut fuel);
        let (kept, fallen): (Vec<_>, Vec<_>) = checked.into_iter().partition(Checked::holds);
        let left =
            |name: &str, reason, confidence| LeftOutAttribute { name: name.to_owned(), reason, confidence };
        let fell = |one: &Checked| {
            left(&one.attribute.name, LeftOutReason::NotReproduced, Some(rounded(one.reproduced())))
        };
        let mut left_out: Vec<LeftOutAttribute> = fallen.iter().map(fell).collect();
        for term in self.kind.map_or(&[][..], Kind::terms) {
            let is_tried = kept.iter().chain(&fallen).any(|one| one.attribute.name == term.name);
            let labelled = known.iter().filter(|page| page.truth(term.name).is_some()).count();
            let reason = if labelled < 2 { LeftOutReason::TooFewPages } else { LeftOutReason::NotShown };
            if !is_tried && labelled > 0 {
                left_out.push(left(term.name, reason, None));
            }
        }
        let note = || {
            format!(
                "Checking takes more work than is allowed ({CHECK_FUEL_MAX} units): what was not asked of every page fell."
            )
        };
        let notes = (fuel.left() == 0).then(note).into_iter().collect();
        Lesson { kept, left_out, discovered_by, notes }
    }

    /// What comes of a lesson beside the schema that holds.
    pub fn decide(&self, lesson: &Lesson, holds: Option<&PlatformSchemaV1>) -> Decision {
        let Some(holds) = holds else {
            let is_little = lesson.kept.len() < SCHEMA_ATTRIBUTES_MIN;
            let attributes = lesson.kept.iter().map(|kept| kept.attribute.clone()).collect();
            let proposed = || Decision::Propose {
                attributes,
                confidence: rounded(self.trust() * confidence(&lesson.kept)),
            };
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
        Decision::Propose {
            attributes: merged.attributes,
            confidence: rounded(self.trust() * merged.confidence),
        }
    }

    /// What is told of a lesson.
    pub fn outcome(&self, lesson: &Lesson) -> Outcome {
        let found = |kept: &Checked| FoundAttribute {
            attribute: kept.attribute.clone(),
            confidence: rounded(self.trust() * kept.reproduced()),
            coverage: rounded(kept.coverage),
            is_firm: kept.is_firm,
        };
        let error = "Nothing was found that gives what the pages say of themselves, or show, on all of them.";
        Outcome {
            error: lesson.kept.is_empty().then(|| error.to_owned()),
            discovered_by: (!lesson.kept.is_empty()).then_some(lesson.discovered_by),
            page_type: self.page_type,
            sample: self.sample.clone(),
            attributes: lesson.kept.iter().map(found).collect(),
            left_out: lesson.left_out.clone(),
            confidence: (!lesson.kept.is_empty()).then(|| rounded(self.trust() * confidence(&lesson.kept))),
            notes: lesson.notes.clone(),
            ..Outcome::default()
        }
    }

    /// How far what is known of the pages is to be trusted.
    fn trust(&self) -> f64 {
        match self.kind {
            Some(kind) if kind.is_list() => MINED_TRUST,
            _ if self.is_silent => SEEN_TRUST,
            _ => 1.0,
        }
    }

    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// The names that attributes of such pages have.
    pub fn names(&self) -> Vec<&'static str> {
        self.kind.map_or(&[][..], Kind::terms).iter().map(|term| term.name).collect()
    }

    /// How many pages a language model is shown: at least one is kept back.
    pub fn shown(&self) -> usize {
        self.taught.min(SHOWN_MAX).min(self.pages.len() - 1)
    }

    /// Outlines of some pages.
    pub fn outlines(&self, from: usize, count: usize) -> Vec<String> {
        self.pages.iter().skip(from).take(count).map(|page| outline(&page.document)).collect()
    }

    /// Attributes of which nothing is known on the pages from `from` on.
    pub fn unknown(&self, attributes: &[Attribute], from: usize) -> Vec<Attribute> {
        let is_known = |attribute: &&Attribute| {
            self.pages[from..].iter().any(|page| page.truths().any(|truth| truth.name == attribute.name))
        };
        attributes.iter().filter(|attribute| !is_known(attribute)).cloned().collect()
    }

    /// Takes down what a language model has read on the pages from `from` on, as far as they show it.
    pub fn tell(&mut self, from: usize, read: Vec<PageValues>, attributes: &[Attribute]) {
        for PageValues { page, values } in read.into_iter().take(SHOWN_MAX) {
            let at = page.checked_sub(1).filter(|at| *at < SHOWN_MAX).map(|at| from + at);
            let Some(page) = at.and_then(|at| self.pages.get_mut(at)) else { continue };
            for ValueTexts { name, texts } in values {
                let Some(attribute) = attributes.iter().find(|attribute| attribute.name == name) else {
                    continue;
                };
                let Some(form) = form_of(attribute.kind).filter(|_| !texts.is_empty()) else { continue };
                if shows(page.page(), attribute.kind, form, &texts)
                    && page.truths().all(|truth| truth.name != name)
                {
                    page.told.push(Truth { name, form, values: texts });
                }
            }
        }
    }

    fn known(&self) -> Vec<KnownPage<'_>> {
        self.pages.iter().map(ParsedPage::known).collect()
    }
}

/// The pages whose lists are of the template that most are of. A site lists many things, and goods are shown otherwise than news.
fn of_one_template(pages: Vec<ParsedPage>, sample: &mut Vec<SampledPage>) -> Vec<ParsedPage> {
    let alike = |page: &ParsedPage| pages.iter().filter(|other| page.shape.is_like(&other.shape)).count();
    // Of several as common the one of the first page.
    let Some(model) = pages.iter().rev().max_by_key(|page| alike(page)).map(|page| page.shape.clone()) else {
        return pages;
    };
    let (own, other): (Vec<_>, Vec<_>) = pages.into_iter().partition(|page| model.is_like(&page.shape));
    sample.extend(other.iter().map(|page| page.left_out(LeftOutPage::OtherType)));
    own
}

/// What an attribute of this type is compared as; none where nothing could be compared.
fn form_of(kind: AttributeType) -> Option<Form> {
    match kind {
        AttributeType::Text | AttributeType::TextList => Some(Form::Text),
        AttributeType::Number => Some(Form::Number),
        AttributeType::Url | AttributeType::UrlList => Some(Form::Link),
        AttributeType::Boolean => None,
    }
}

/// How many pages say anything of themselves as one of a kind, or could if they are told to be one.
fn speaking(pages: &[ParsedPage], kind: Kind, is_told: bool) -> usize {
    let says = |page: &&ParsedPage| match page.said.kind {
        _ if kind.is_list() => !list_answers(page.page(), kind).0.labels.is_empty(),
        Some(said) if said == kind => !page.said.labels.is_empty(),
        _ => is_told && !answers(&page.document, Some(kind)).labels.is_empty(),
    };
    pages.iter().filter(says).count()
}

/// What the pages are: what they are asked for as, else what most of them say.
fn subject(pages: &[ParsedPage], asked: Option<PageType>) -> Result<(Kind, PageType), (String, LeftOutPage)> {
    if let Some(page_type) = asked {
        let kind = Kind::named(page_type.name()).map(|kind| (kind, page_type));
        return kind.ok_or_else(|| {
            let error = format!(
                "Pages of the type {page_type} say nothing of themselves that could be learned from. Teach own attributes by \
                 examples."
            );
            (error, LeftOutPage::NoAnswers)
        });
    }
    let Some(kind) = kind_of_most(pages).or_else(|| look_of_most(pages)) else {
        let error = "The pages do not say what they are: they have no structured data (JSON-LD, microdata, RDFa, OpenGraph), list \
                     neither products nor results, and do not look like products, articles or jobs.";
        return Err((error.to_owned(), LeftOutPage::NoAnswers));
    };
    page_type_of(kind).map(|page_type| (kind, page_type)).ok_or_else(|| {
        let error = format!("The pages are of the kind {}, for which there is no page type.", kind.name());
        (error, LeftOutPage::OtherType)
    })
}

impl Lesson {
    /// With what another one has, of each attribute that which reproduces more; what is alike stays.
    pub fn with(mut self, other: Lesson) -> Lesson {
        for one in other.kept {
            let known = self.kept.iter().position(|known| known.attribute.name == one.attribute.name);
            match known {
                Some(at) if self.kept[at].reproduced() >= one.reproduced() => continue,
                // What is surely the attribute does not give way to what may have come about by chance.
                Some(at) if self.kept[at].is_firm && !one.is_firm => continue,
                Some(at) => self.kept[at] = one,
                None => self.kept.push(one),
            }
            self.discovered_by = other.discovered_by;
        }
        let fallen =
            other.left_out.into_iter().filter(|fallen| fallen.reason == LeftOutReason::NotReproduced);
        for fallen in fallen {
            if self.left_out.iter().all(|known| known.name != fallen.name) {
                self.left_out.push(fallen);
            }
        }
        let new = other.notes.into_iter().filter(|note| !self.notes.contains(note)).collect::<Vec<_>>();
        self.notes.extend(new);
        self.left_out.retain(|left| self.kept.iter().all(|kept| kept.attribute.name != left.name));
        self
    }
}

/// What pages have taught.
pub struct Lesson {
    pub kept: Vec<Checked>,
    pub left_out: Vec<LeftOutAttribute>,
    pub discovered_by: DiscoveredBy,
    /// Limits that were reached.
    pub notes: Vec<String>,
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
    Some(ParsedPage { row: stored.row, document, base, said, shape: ListShape::default(), told: Vec::new() })
}

/// The kind that most pages say they are of; of several, the one that is asked for first. Where none says anything, the kind of
/// list that half of them are.
fn kind_of_most(pages: &[ParsedPage]) -> Option<Kind> {
    let count = |kind: Kind| pages.iter().filter(|page| page.said.kind == Some(kind)).count();
    let most = Kind::ALL.into_iter().filter(|kind| count(*kind) > 0).rev().max_by_key(|kind| count(*kind));
    most.or_else(|| {
        let listed: Vec<Kind> = pages.iter().filter_map(|page| list_kind_of(page.page())).collect();
        let is_of_most =
            |kind: &Kind| 2 * listed.iter().filter(|own| *own == kind).count() >= pages.len().max(3);
        Kind::LISTS.into_iter().find(is_of_most)
    })
}

/// What most pages look like that say nothing of themselves: something for sale, an article, a job.
fn look_of_most(pages: &[ParsedPage]) -> Option<Kind> {
    let looks: Vec<Kind> = pages.iter().filter_map(|page| kind_of(page.page())).collect();
    let is_of_most = |kind: &Kind| 2 * looks.iter().filter(|own| *own == kind).count() > pages.len();
    Kind::ALL.into_iter().find(is_of_most)
}

impl ParsedPage {
    /// The page with what it says as one of a kind; else why it is left out. Where nobody but the caller says what pages are
    /// (`is_told`), whatever they say counts as said of that. Where none says anything (`is_silent`) it must look like one.
    /// Without a kind nothing does.
    fn of_kind(
        mut self,
        kind: Option<Kind>,
        is_told: bool,
        is_silent: bool,
    ) -> Result<ParsedPage, Box<SampledPage>> {
        if kind.is_none() {
            self.said = Answers::default();
            return Ok(self);
        }
        if let Some(kind) = kind.filter(|kind| kind.is_list()) {
            if self.said.kind.is_some() && !is_told {
                return Err(Box::new(self.left_out(LeftOutPage::OtherType)));
            }
            (self.said, self.shape) = list_answers(self.page(), kind);
        } else if is_told {
            self.said = answers(&self.document, kind);
        }
        match self.said.kind {
            said if said.is_some() && said != kind => Err(Box::new(self.left_out(LeftOutPage::OtherType))),
            _ if !self.said.labels.is_empty() => Ok(self),
            _ if is_silent && kind.is_some_and(|kind| self.looks_like(kind, is_told)) => Ok(self),
            _ => Err(Box::new(self.left_out(LeftOutPage::NoAnswers))),
        }
    }

    /// Whether enough of a kind is seen on it; who is told that it is of the kind need not see as much.
    fn looks_like(&self, kind: Kind, is_told: bool) -> bool {
        let is_seen = || kind_of(self.page()) == Some(kind);
        (is_told || is_seen()) && annotate(self.page(), kind).len() >= SCHEMA_ATTRIBUTES_MIN
    }

    /// What is known of it.
    fn truths(&self) -> impl Iterator<Item = Truth> + '_ {
        self.said.labels.iter().map(Truth::from).chain(self.told.iter().cloned())
    }

    fn left_out(&self, reason: LeftOutPage) -> SampledPage {
        SampledPage::new(&self.row, PageUse::LeftOut, Some(reason))
    }

    fn page(&self) -> induce::Page<'_> {
        induce::Page { document: &self.document, base: &self.base }
    }

    fn known(&self) -> KnownPage<'_> {
        let truths = self.truths().collect();
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
