//! A page's own answer key: what its structured data says that it is, and which values it has.
//!
//! JSON-LD, microdata and RDFa become items ([`items`]); the item that a page is about gives its [`Kind`] and, by the tables of
//! [`terms`], labels. OpenGraph and other `<meta>` elements say what the items leave out.

mod items;
mod linked;
mod marked;
mod terms;

use std::collections::HashMap;

use page::extract::AttributeType;
use page::html::Document;

use crate::forms::{Form, fold, plain};
use items::local_name;
pub use items::{Item, Items, Said};
pub use linked::{is_linked_data, parse as parse_linked_data};
pub use terms::{Kind, Term};

/// `<meta>` elements that are read of one page.
const METAS_MAX: usize = 1_000;
/// Values of one list.
const VALUES_MAX: usize = 200;

/// A value that a page says it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    pub name: &'static str,
    pub kind: AttributeType,
    pub form: Form,
    /// As they are written there. Of a list all its members; otherwise each of them is right.
    pub values: Vec<String>,
}

/// What a page says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// What kind of page it is, where it says so.
    pub kind: Option<Kind>,
    /// In the order of the kind's attributes; those without a value are left out.
    pub labels: Vec<Label>,
}

/// Reads a page's structured data. `wanted` is the kind that its caller knows it to be; otherwise the page says it.
pub fn answers(document: &Document, wanted: Option<Kind>) -> Answers {
    let items = items_of(document);
    let metas = metas(document);
    let title = metas.get("og:title").and_then(|titles| titles.first().copied());
    let title = title.map(str::to_owned).or_else(|| document.title()).unwrap_or_default();
    let kinds: &[Kind] = wanted.as_ref().map_or(&Kind::ALL, std::slice::from_ref);
    let found = kinds.iter().find_map(|kind| Some((*kind, main_item(&items, *kind, &title)?)));
    let graph_type = metas.get("og:type").and_then(|kinds| kinds.first().copied()).unwrap_or_default();
    let by_graph = || kinds.iter().copied().find(|kind| kind.has_graph_type(graph_type));
    let Some(kind) = found.map(|(kind, _)| kind).or_else(by_graph).or(wanted) else {
        return Answers::default();
    };
    let item = found.map(|(_, item)| item);
    let labels = kind.terms().iter().filter_map(|term| label(term, &items, item, &metas)).collect();
    Answers { kind: Some(kind), labels }
}

/// The items of a page's structured data, whatever its syntax.
pub fn items_of(document: &Document) -> Items {
    let mut items = Items::default();
    linked::read(document, &mut items);
    for syntax in [marked::MICRODATA, marked::RDFA] {
        marked::read(document, &syntax, &mut items);
    }
    items
}

/// The item that the page is about. Where several are of the kind it is the one whose name the title has; a page that only
/// lists some is about none of them.
fn main_item(items: &Items, kind: Kind, title: &str) -> Option<usize> {
    let is_one = |item: &Item| item.types.iter().any(|name| kind.has_type(name)) && item.properties.len() > 1;
    let all: Vec<usize> = (0..items.items.len()).filter(|at| is_one(&items.items[*at])).collect();
    let outer: Vec<usize> = all.iter().copied().filter(|at| !items.items[*at].is_inner).collect();
    let names = |at: usize| [items.texts(at, "name"), items.texts(at, "headline")].concat();
    let title = fold(&plain(title)).unwrap_or_default();
    let is_named = |at: &usize| {
        names(*at)
            .iter()
            .filter_map(|name| fold(&plain(name)))
            .any(|name| name.len() > 2 && title.contains(&name))
    };
    let among = if outer.is_empty() { &all } else { &outer };
    if let Some(named) =
        among.iter().copied().filter(is_named).max_by_key(|at| items.items[*at].properties.len())
    {
        return Some(named);
    }
    let fullest =
        among.iter().copied().max_by_key(|at| (items.items[*at].properties.len(), usize::MAX - at))?;
    let same_name = among.iter().all(|at| names(*at) == names(fullest));
    same_name.then_some(fullest)
}

/// What `<meta>` elements say, by their property or name.
fn metas(document: &Document) -> HashMap<String, Vec<&str>> {
    let mut found: HashMap<String, Vec<&str>> = HashMap::new();
    let Some(name) = document.lookup_name("meta") else { return found };
    for meta in document.elements_named(name).take(METAS_MAX) {
        let key = ["property", "name"].iter().find_map(|name| document.attribute_named(meta, name));
        let content = document.attribute_named(meta, "content").unwrap_or_default().trim();
        if let Some(key) = key.filter(|key| key.len() < 64 && !content.is_empty()) {
            found.entry(key.to_ascii_lowercase()).or_default().push(content);
        }
    }
    found
}

fn label(
    term: &Term,
    items: &Items,
    item: Option<usize>,
    metas: &HashMap<String, Vec<&str>>,
) -> Option<Label> {
    let of_item = item.and_then(|item| {
        let said = term.chains.iter().map(|chain| items.texts(item, chain));
        said.into_iter().find(|said| !said.is_empty())
    });
    let of_metas = || term.metas.iter().find_map(|name| metas.get(*name)).cloned();
    let said = of_item.or_else(of_metas)?;
    let mut values: Vec<String> = Vec::new();
    let is_list = term.kind.is_list();
    // Tags and keywords are one text with commas between.
    let commas = is_list && said.len() == 1 && term.name == "tags";
    let parts = said.iter().flat_map(|text| match commas {
        true => text.split(',').collect::<Vec<_>>(),
        false => vec![*text],
    });
    for part in parts {
        let part = match term.form {
            Form::Availability => local_name(part.trim()),
            _ => part.trim(),
        };
        if !part.is_empty() && !values.iter().any(|known| known == part) {
            values.push(part.to_owned());
        }
        if values.len() == VALUES_MAX {
            break;
        }
    }
    (!values.is_empty()).then_some(Label { name: term.name, kind: term.kind, form: term.form, values })
}

#[cfg(test)]
mod tests;
