//! What a page's structured data lists: the members of an `ItemList`, or several items of one type.

use std::collections::{BTreeMap, HashSet};

use super::fields::List;
use super::regions::RECORDS_MIN;
use crate::answers::{Item, Items, Kind, Said, items_of};
use crate::forms::{Form, Reading, fold, plain};
use crate::places::Page;

/// Members of one list that are read.
const MEMBERS_MAX: usize = 1_000;
/// Types of which a page has several without being a list of them.
const NO_MEMBERS: [&str; 16] = [
    "ListItem",
    "BreadcrumbList",
    "Breadcrumb",
    "Offer",
    "AggregateOffer",
    "Review",
    "Rating",
    "AggregateRating",
    "Person",
    "Organization",
    "Brand",
    "ImageObject",
    "PostalAddress",
    "SiteNavigationElement",
    "WPHeader",
    "Comment",
];

/// One list that a page names.
#[derive(Debug, Default)]
struct Group {
    names: HashSet<String>,
    links: HashSet<String>,
    count: usize,
    is_goods: bool,
}

/// The lists that a page names.
#[derive(Debug, Default)]
pub struct ListKey {
    groups: Vec<Group>,
}

impl ListKey {
    pub fn of(page: Page<'_>) -> ListKey {
        let items = items_of(page.document);
        let mut groups = Vec::new();
        for (at, item) in items.items.iter().enumerate() {
            if item.types.iter().any(|name| matches!(name.as_str(), "ItemList" | "OfferCatalog")) {
                groups.push(members(&items, at, page));
            }
        }
        let mut by_type: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, item) in items.items.iter().enumerate() {
            let kind = item.types.first().map_or("", String::as_str);
            if !kind.is_empty() && !NO_MEMBERS.contains(&kind) && !item.properties.is_empty() {
                by_type.entry(kind).or_default().push(at);
            }
        }
        for all in by_type.into_values().filter(|all| all.len() >= RECORDS_MIN) {
            let mut group = Group::default();
            for at in all.into_iter().take(MEMBERS_MAX) {
                group.take(&items, at, page);
            }
            groups.push(group);
        }
        groups.retain(|group| group.names.len().max(group.links.len()) >= RECORDS_MIN);
        ListKey { groups }
    }

    /// How well a list agrees with one that the page names, from 0 to 1.
    pub fn overlap(&self, list: &List, page: Page<'_>) -> f64 {
        self.groups.iter().map(|group| group.overlap(list, page)).fold(0.0, f64::max)
    }

    /// The same with lists of things for sale.
    pub fn overlap_of_goods(&self, list: &List, page: Page<'_>) -> f64 {
        let goods = self.groups.iter().filter(|group| group.is_goods);
        goods.map(|group| group.overlap(list, page)).fold(0.0, f64::max)
    }
}

fn members(items: &Items, list: usize, page: Page<'_>) -> Group {
    let mut group = Group::default();
    let said = items.items[list].properties.iter().filter(|(name, _)| name == "itemListElement");
    for (_, said) in said.take(MEMBERS_MAX) {
        match said {
            Said::Text(text) => group.note(None, Some(text), page),
            Said::Item(at) => group.take(items, *at, page),
        }
    }
    group
}

impl Group {
    fn take(&mut self, items: &Items, at: usize, page: Page<'_>) {
        let first = |chains: [&str; 4]| {
            chains.into_iter().find_map(|chain| items.texts(at, chain).first().map(|text| (*text).to_owned()))
        };
        let name = first(["item.name", "name", "item.headline", "headline"]);
        let link = first(["item.url", "url", "item.mainEntityOfPage", "item"]);
        let inner = items.items[at].properties.iter().find_map(|(name, said)| match said {
            Said::Item(inner) if name == "item" => items.items.get(*inner),
            _ => None,
        });
        let is_product = |item: &Item| item.types.iter().any(|name| Kind::Product.has_type(name));
        self.is_goods |= is_product(&items.items[at]) || inner.is_some_and(is_product);
        self.note(name.as_deref(), link.as_deref(), page);
    }

    fn note(&mut self, name: Option<&str>, link: Option<&str>, page: Page<'_>) {
        self.count += 1;
        self.names.extend(name.and_then(|name| fold(&plain(name))));
        self.links.extend(link.and_then(|link| link_key(link, page)));
    }

    fn overlap(&self, list: &List, page: Page<'_>) -> f64 {
        let is_named = |record: &&super::Record| {
            fold(&record.title).is_some_and(|title| self.names.contains(&title))
                || link_key(&record.url, page).is_some_and(|link| self.links.contains(&link))
        };
        let right = list.records.iter().filter(is_named).count() as f64;
        2.0 * right / (list.records.len() + self.count).max(1) as f64
    }
}

fn link_key(text: &str, page: Page<'_>) -> Option<String> {
    Form::Link.keys(text, Reading { base: page.base, mark: None }).into_iter().next()
}
