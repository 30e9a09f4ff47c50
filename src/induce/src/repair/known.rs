//! An attribute and its past: what it last said on each URL, by what it was read, and what such values are like.

use std::collections::BTreeSet;

use page::extract::{Attribute, AttributeType, Schema};
use page::xpath::{Fuel, XPath};

use super::Visit;
use super::context::{Context, words_of_others};
use super::profile::Profile;
use crate::forms::{Form, texts_of};
use crate::lesson::Wanted;
use crate::places::Page;

/// Work of reading a page by one attribute.
const PAGE_UNITS_MAX: u64 = 4_000_000;

/// An attribute and its past.
pub struct Known {
    attribute: Attribute,
    pub wanted: Wanted,
    pub xpaths: Vec<XPath>,
    /// The texts by which it says what it says, read as the attribute is.
    texts: Option<Schema>,
    /// The attribute itself, where that is no text: what is true may be said in several ways.
    boolean: Option<Schema>,
    /// The last known values of each visit. Of a boolean the texts that said them, where the page is kept.
    pub values: Vec<Vec<String>>,
    /// What a boolean said on each visit.
    said: Vec<Option<bool>>,
    pub profile: Profile,
    /// What others of its form are called.
    pub others: BTreeSet<String>,
}

impl Known {
    pub fn new(attribute: &Attribute, visits: &[Visit<'_>], fuel: &mut Fuel) -> Known {
        let is_boolean = attribute.kind == AttributeType::Boolean;
        let compile = |attribute: &Attribute| Schema::compile(std::slice::from_ref(attribute)).ok();
        let kind = if is_boolean { AttributeType::Text } else { attribute.kind };
        let plain = Attribute { kind, semantic_type: None, validation: None, ..attribute.clone() };
        let mut known = Known {
            attribute: attribute.clone(),
            wanted: Wanted { name: attribute.name.clone(), kind, form: Form::Text, is_told_list: false },
            xpaths: attribute.xpaths.iter().filter_map(|xpath| XPath::compile(xpath).ok()).collect(),
            texts: compile(&plain),
            boolean: is_boolean.then(|| compile(attribute)).flatten(),
            values: Vec::new(),
            said: Vec::new(),
            profile: Profile::of(kind, Form::Text, &[]),
            others: BTreeSet::new(),
        };
        for visit in visits {
            let told = visit.values.iter().find(|(name, _)| *name == attribute.name);
            let told = told.map(|(_, texts)| texts.clone()).unwrap_or_default();
            let said = told.first().filter(|_| is_boolean).and_then(|text| text.parse().ok());
            known.said.push(said);
            known.values.push(if is_boolean { known.texts_before(said, visit, fuel) } else { told });
        }
        known.wanted.form = if is_boolean { Form::Text } else { form_of(kind, &known.values) };
        known.profile = Profile::of(attribute.kind, known.wanted.form, &known.values);
        known
    }

    /// The text that said what a boolean was, where the page from before is kept and that can be read there still.
    fn texts_before(&self, said: Option<bool>, visit: &Visit<'_>, fuel: &mut Fuel) -> Vec<String> {
        match (said, visit.before) {
            (Some(said), Some(before)) if self.says(before, fuel) == Some(said) => self.read(before, fuel),
            _ => Vec::new(),
        }
    }

    /// The texts that the old expressions read on a page.
    pub fn read(&self, page: Page<'_>, fuel: &mut Fuel) -> Vec<String> {
        self.texts.as_ref().and_then(|schema| self.value(schema, page, fuel)).unwrap_or_default()
    }

    /// What a boolean says on a page.
    fn says(&self, page: Page<'_>, fuel: &mut Fuel) -> Option<bool> {
        let said = self.value(self.boolean.as_ref()?, page, fuel)?;
        said.first()?.parse().ok()
    }

    fn value(&self, schema: &Schema, page: Page<'_>, fuel: &mut Fuel) -> Option<Vec<String>> {
        let lent = fuel.left().min(PAGE_UNITS_MAX);
        let mut own = Fuel::new(lent);
        let found = schema.extract(page.document, page.base, &mut own);
        let _ = fuel.spend(lent - own.left());
        found.values.get(&self.wanted.name).map(texts_of)
    }

    /// What a boolean says on the page of a visit of which it is known what it said: that, the other, or nothing. None of what is no
    /// boolean or not known.
    pub fn still_says(&self, visit: &Visit<'_>, at: usize, fuel: &mut Fuel) -> Option<Option<bool>> {
        let said = self.said[at]?;
        Some(self.says(visit.page, fuel).map(|now| now == said))
    }

    pub fn is_boolean(&self) -> bool {
        self.attribute.kind == AttributeType::Boolean
    }

    pub fn json_paths(&self) -> &[String] {
        self.attribute.json_paths.as_deref().unwrap_or_default()
    }

    pub fn is_supported(&self) -> bool {
        !self.xpaths.is_empty() || !self.json_paths().is_empty()
    }

    /// Whether these visits tell what both answers of a boolean look like. One alone may be anything that pages have.
    pub fn tells_both(&self, mut visits: impl Iterator<Item = usize>) -> bool {
        let (mut yes, mut no) = (false, false);
        visits.any(|at| {
            yes |= self.said[at] == Some(true) && !self.values[at].is_empty();
            no |= self.said[at] == Some(false) && !self.values[at].is_empty();
            yes && no
        })
    }

    /// Whether new paths give both answers of a boolean, and none that is wrong. True of what is no boolean.
    pub fn gives_both(
        &self,
        (xpaths, json_paths): (Vec<String>, Vec<String>),
        pages: &[(usize, Page<'_>)],
        fuel: &mut Fuel,
    ) -> bool {
        if !self.is_boolean() {
            return true;
        }
        let own = Attribute { xpaths, json_paths: Some(json_paths), ..self.attribute.clone() };
        let Ok(schema) = Schema::compile(&[own]) else { return false };
        let mut given = Vec::new();
        for (at, page) in pages {
            let now = self.value(&schema, *page, fuel).and_then(|texts| texts.first()?.parse::<bool>().ok());
            match now {
                Some(now) if self.said[*at] != Some(now) => return false,
                now => given.extend(now),
            }
        }
        given.contains(&true) && given.contains(&false)
    }

    /// How much what stands around a place speaks for this attribute: its name, and that it stood in the like before.
    pub fn likeness(&self, context: &Context, old: &[Context]) -> f64 {
        use super::context::CALLED_ANOTHER;
        let before = old.iter().map(|old| context.likeness(old)).fold(0.0, f64::max);
        let alike = context.names(&self.wanted.name) + before;
        match context.calls_another(&self.wanted.name, &self.others, old) {
            true => (alike - CALLED_ANOTHER).max(0.0),
            false => alike,
        }
    }
}

/// Notes of each length of time, number or day what the others of its form are called: they are taken for one another most easily.
pub fn tell_apart(known: &mut [Known]) {
    for at in 0..known.len() {
        let form = known[at].wanted.form;
        if matches!(form, Form::Duration | Form::Number | Form::Date) {
            let others = known.iter().filter(|other| other.wanted.form == form);
            let names = others.map(|other| other.wanted.name.as_str());
            known[at].others = words_of_others(&known[at].wanted.name, names);
        }
    }
}

/// By which form values of an attribute are the same: by its type, and of texts by what all of them can be read as.
fn form_of(kind: AttributeType, values: &[Vec<String>]) -> Form {
    let base = url::Url::parse("http://localhost/");
    let all = |form: Form, bytes_max: usize| {
        let texts: Vec<&String> = values.iter().flatten().collect();
        let Ok(base) = &base else { return false };
        let reading = crate::forms::Reading { base, mark: None };
        !texts.is_empty()
            && texts.iter().all(|text| text.len() <= bytes_max && !form.keys(text, reading).is_empty())
    };
    let is_image = |text: &String| {
        let path = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        [".jpg", ".jpeg", ".png", ".webp", ".gif", ".avif"].iter().any(|end| path.ends_with(end))
    };
    match kind {
        AttributeType::Number => Form::Number,
        AttributeType::Url | AttributeType::UrlList => {
            let mut texts = values.iter().flatten().peekable();
            match texts.peek().is_some() && texts.all(is_image) {
                true => Form::Image,
                false => Form::Link,
            }
        }
        AttributeType::Text if all(Form::Duration, 40) => Form::Duration,
        AttributeType::Text if all(Form::Date, 48) => Form::Date,
        _ => Form::Text,
    }
}
