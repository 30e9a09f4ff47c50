//! Expressions for what somebody points at on one page: made as for a value that is told, but of this one place, so nothing is
//! guessed about where it stands.

use std::collections::{HashMap, HashSet};

use page::extract::AttributeType;
use page::xpath::{Fuel, NodeRef, Value, XPath};

use super::rank::choose;
use super::{COMPARED_MAX, COST_AMBIGUOUS, Class, Example, TRIED_MAX, Tried};
use crate::candidates::{Candidate, candidates};
use crate::forms::Form;
use crate::lesson::{Outcome, Wanted, evaluate};
use crate::places::{Page, Places};

/// Nodes that an expression for a list selects at most.
const LIST_NODES_MAX: usize = 400;

/// Cost of an expression that selects others as well, behind what was pointed at: "the first of all paragraphs" is no reason.
const AMBIGUOUS_COST_MAX: u32 = 25;

/// An expression that is proposed.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointed {
    pub xpath: String,
    /// How many nodes it selects on the page. Of a single value the first is what was pointed at.
    pub nodes: usize,
}

/// What leads to what was pointed at.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointing {
    pub kind: AttributeType,
    /// The most robust first; those behind it hang on something else. None for a list where nothing is like it.
    pub paths: Vec<Pointed>,
}

/// Expressions that select a node of a page as their first, or for a list among others like it, as what is like it on the `others`
/// speaks for them.
pub fn point(
    page: Page<'_>,
    place: NodeRef,
    is_list: bool,
    others: &[Page<'_>],
    fuel: &mut Fuel,
) -> Pointing {
    let wanted = wanted(page, place, is_list);
    let class = Class::new(vec![Places::new(page, &[], 0)], others, 0);
    let mut counts = HashMap::new();
    let mut tried = Vec::new();
    for candidate in class.made_at(place) {
        let Ok(xpath) = XPath::compile(&candidate.xpath) else { continue };
        let Some(Value::Nodes(nodes)) = evaluate(&xpath, &class.examples[0], fuel) else { continue };
        let is_it = match is_list {
            true => (2..=LIST_NODES_MAX).contains(&nodes.len()) && nodes.contains(&place),
            false => nodes.first() == Some(&place),
        };
        if !is_it {
            continue;
        }
        let is_ambiguous = !is_list && nodes.len() > 1;
        if is_ambiguous && candidate.cost > AMBIGUOUS_COST_MAX {
            continue;
        }
        counts.insert(candidate.xpath.clone(), nodes.len());
        let outcome = Outcome { score: 1.0, is_ambiguous, ..Outcome::default() };
        let rank = candidate.cost + if is_ambiguous { COST_AMBIGUOUS } else { 0 };
        tried.push(Tried {
            candidate,
            xpath,
            origins: 1,
            outcomes: vec![outcome],
            answers: Vec::new(),
            rank,
        });
    }
    sort(&mut tried);
    // Equal expressions but for their costs come in crowds, and the first of each anchor speaks for it.
    let mut seen: HashSet<Vec<String>> = HashSet::new();
    tried.retain(|one| seen.insert(one.candidate.anchors.clone()));
    tried.truncate(COMPARED_MAX);
    class.compare(&wanted, &[], &mut tried, fuel);
    sort(&mut tried);
    let pointed = |one: &Tried| Pointed {
        nodes: counts.get(&one.candidate.xpath).copied().unwrap_or_default(),
        xpath: one.candidate.xpath.clone(),
    };
    Pointing { kind: wanted.kind, paths: choose(&tried).into_iter().map(pointed).collect() }
}

fn sort(tried: &mut [Tried]) {
    let key = |one: &Tried| (one.rank, one.candidate.xpath.len());
    tried.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.candidate.xpath.cmp(&b.candidate.xpath)));
}

/// What it is that stands there.
fn wanted(page: Page<'_>, place: NodeRef, is_list: bool) -> Wanted {
    let name = "pointed".to_owned();
    let text = place.string_value(page.document).trim().to_owned();
    let owner = place.attribute().map(|attribute| page.document.attr_name(attribute));
    let is_address = matches!(owner, Some("href" | "src"));
    let example = Example { page, values: vec![(name.clone(), vec![text])] };
    let guessed = Wanted::guess(&name, &[example]);
    let is_link = is_address || guessed.kind == AttributeType::Url;
    let (kind, form) = match (is_list, is_link) {
        (true, true) => (AttributeType::UrlList, Form::Link),
        (true, false) => (AttributeType::TextList, Form::Text),
        (false, true) => (AttributeType::Url, Form::Link),
        (false, false) => (guessed.kind, guessed.form),
    };
    Wanted { name, kind, form, is_told_list: false }
}

impl Class<'_> {
    /// The cheapest expressions for a place of the first page, each once.
    fn made_at(&self, place: NodeRef) -> Vec<Candidate> {
        let pages = self.examples.len() + self.others.len();
        let is_label = |text: &str| pages < 2 || self.labels.get(text).is_some_and(|count| *count > 1);
        let mut made = candidates(&self.examples[0], place, &is_label);
        let key = |one: &Candidate| (one.cost, one.xpath.len());
        made.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.xpath.cmp(&b.xpath)));
        let mut seen = HashSet::new();
        made.retain(|one| seen.insert(one.xpath.clone()));
        made.truncate(TRIED_MAX);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LESSON_FUEL_MAX;
    use page::extract::root_context;
    use page::html::Document;
    use url::Url;

    /// What is proposed for the first node that an expression selects on the first page.
    fn pointed(pages: &[&str], at: &str, is_list: bool) -> Pointing {
        let documents: Vec<Document> = pages.iter().map(|page| Document::parse((*page).to_owned())).collect();
        let base = Url::parse("https://shop.example/p/1").unwrap();
        let page = |document| Page { document, base: &base };
        let mut fuel = Fuel::new(LESSON_FUEL_MAX);
        let found = XPath::compile(at).unwrap();
        let found = found.evaluate(&documents[0], root_context(&documents[0]), &mut fuel).unwrap();
        let Value::Nodes(nodes) = found else { panic!("{at} is no place") };
        let others: Vec<Page<'_>> = documents[1..].iter().map(page).collect();
        point(page(&documents[0]), nodes[0], is_list, &others, &mut fuel)
    }

    const BY_CLASS: &str = "//p[contains(concat(' ', normalize-space(@class), ' '), ' price ')]";

    fn page(title: &str, price: &str) -> String {
        format!(
            "<body><h1>{title}</h1><p class=price>{price}</p><dl><dt>Weight</dt><dd>3 kg</dd></dl><ul id=tags><li>a<li>b</ul>\
             <a class=more href='/more'>More</a><div class=related><p class=price>1.00</p></div></body>"
        )
    }

    #[test]
    fn an_element_is_told_by_several_things_that_break_apart() {
        let pages = [page("Plane", "48.50"), page("Saw", "61.20"), page("Vice", "189.90")];
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        let price = pointed(&pages, "//p", false);
        assert_eq!(price.kind, AttributeType::Number);
        assert_eq!(price.paths[0], Pointed { xpath: BY_CLASS.to_owned(), nodes: 2 }, "{price:?}");
        assert!(price.paths.len() > 1, "{price:?}");
        let weight = pointed(&pages, "//dd", false);
        assert!(weight.paths.iter().any(|path| path.xpath.contains("'Weight'")), "{weight:?}");
        // The second of two is not told by what finds the first.
        let other = pointed(&pages, "//div/p", false);
        assert!(other.paths.iter().all(|path| path.xpath != BY_CLASS), "{other:?}");
        assert!(!other.paths.is_empty(), "{other:?}");
    }

    #[test]
    fn a_list_is_all_that_is_like_it_and_an_attribute_is_read() {
        let pages = [page("Plane", "48.50"), page("Saw", "61.20")];
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        let tags = pointed(&pages, "//li[2]", true);
        assert_eq!((tags.kind, tags.paths[0].nodes), (AttributeType::TextList, 2), "{tags:?}");
        let link = pointed(&pages, "//a/@href", false);
        assert_eq!(link.kind, AttributeType::Url);
        assert!(link.paths[0].xpath.ends_with("/@href"), "{link:?}");
        assert_eq!(pointed(&pages, "//h1", true).paths, []);
    }
}
