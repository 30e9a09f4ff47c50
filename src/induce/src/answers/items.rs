//! Structured data of a page, whatever its syntax, as items with properties.

/// Items that are read of one page.
pub const ITEMS_MAX: usize = 4_000;
/// Properties that are read of one page.
pub const PROPERTIES_MAX: usize = 40_000;
/// Members of a chain of properties that are followed.
const CHAIN_MAX: usize = 400;

/// What a property says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Text(String),
    /// The item with this number.
    Item(usize),
}

/// A thing with types and properties, in the order of the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    /// Without what stands before the last `/`, `#` or `:`.
    pub types: Vec<String>,
    pub id: Option<String>,
    pub properties: Vec<(String, Said)>,
    /// Whether it is what a property of another item says.
    pub is_inner: bool,
}

/// All items of a page.
#[derive(Debug, Default)]
pub struct Items {
    pub items: Vec<Item>,
    properties: usize,
}

/// The last part of a name: `Product` of `https://schema.org/Product`, `name` of `schema:name`.
pub fn local_name(name: &str) -> &str {
    name.rsplit(['/', '#', ':']).next().unwrap_or(name)
}

impl Items {
    /// A new item's number; none when there are too many.
    pub fn add(&mut self, types: &str) -> Option<usize> {
        if self.items.len() == ITEMS_MAX {
            return None;
        }
        let types = types.split_whitespace().take(8).map(|kind| local_name(kind).to_owned()).collect();
        self.items.push(Item { types, ..Item::default() });
        Some(self.items.len() - 1)
    }

    /// Adds a property to an item, unless the page has said too much.
    pub fn say(&mut self, item: usize, name: &str, said: Said) {
        if self.properties == PROPERTIES_MAX || name.is_empty() {
            return;
        }
        self.properties += 1;
        if let Said::Item(inner) = said
            && let Some(inner) = self.items.get_mut(inner)
        {
            inner.is_inner = true;
        }
        if let Some(item) = self.items.get_mut(item) {
            item.properties.push((local_name(name).to_owned(), said));
        }
    }

    /// The texts at the end of a chain of properties (`offers.price`), in order. Of an item that stands at the end its name
    /// counts, or its text or address.
    pub fn texts(&self, item: usize, chain: &str) -> Vec<&str> {
        let mut at = vec![item];
        let mut names = chain.split('.').peekable();
        while let Some(name) = names.next() {
            let said = at.iter().flat_map(|item| &self.items[self.meant(*item)].properties);
            let said: Vec<&Said> =
                said.filter(|(known, _)| known == name).map(|(_, said)| said).take(CHAIN_MAX).collect();
            if names.peek().is_none() {
                return said.into_iter().filter_map(|said| self.text(said)).collect();
            }
            at = said
                .into_iter()
                .filter_map(|said| match said {
                    Said::Item(item) => Some(*item),
                    Said::Text(_) => None,
                })
                .collect();
        }
        Vec::new()
    }

    fn text<'a>(&'a self, said: &'a Said) -> Option<&'a str> {
        let item = match said {
            Said::Text(text) => return Some(text.trim()).filter(|text| !text.is_empty()),
            Said::Item(item) => &self.items[self.meant(*item)],
        };
        ["name", "text", "url", "contentUrl", "value"].iter().find_map(|wanted| {
            item.properties.iter().find_map(|(name, said)| match said {
                Said::Text(text) if name == wanted && !text.trim().is_empty() => Some(text.trim()),
                _ => None,
            })
        })
    }

    /// An item that has an id and nothing else stands for the one of that id.
    fn meant(&self, item: usize) -> usize {
        let here = &self.items[item];
        let Some(id) = here.id.as_ref().filter(|_| here.properties.is_empty()) else { return item };
        let is_it = |other: &Item| other.id.as_ref() == Some(id) && !other.properties.is_empty();
        self.items.iter().position(is_it).unwrap_or(item)
    }
}
