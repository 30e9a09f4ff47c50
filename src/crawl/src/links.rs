//! The links of a page, where they stand in it, and what the page says of itself.
//!
//! A link is what a visitor can follow: `a` and `area` with `href`, frames, a `<link rel="next">`, and a refresh. They are
//! resolved against `<base href>`. `rel="nofollow"` at a link and `<meta name="robots" content="nofollow">` are told, so that
//! they can be obeyed.

use crate::css;
use base::web::{UrlError, WebUrl};
use page::extract::{page_base, root_context};
use page::html::{Document, NodeId};
use page::xpath::{EXPRESSION_BYTES_MAX, EvalError, Fuel, Value, XPath};
use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a region.
pub const REGION_BYTES_MAX: usize = css::SELECTOR_BYTES_MAX;
/// Links of one page that are read.
pub const LINKS_MAX: usize = 5_000;

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub url: WebUrl,
    /// Whether the page does not vouch for it.
    pub is_nofollow: bool,
    /// Whether it leads to the next page of a list.
    pub is_next: bool,
    /// The elements that have it, in document order.
    places: Vec<NodeId>,
}

/// What a page says.
#[derive(Debug, Default)]
pub struct PageLinks {
    /// In document order, each address once.
    pub links: Vec<Link>,
    /// What the page says its own address is.
    pub canonical: Option<WebUrl>,
    /// Whether none of its links is to be followed.
    pub is_nofollow: bool,
    /// Whether it asks for a password.
    pub asks_password: bool,
    /// Links that lead to no address of the web; mail, scripts and their like are none of them.
    pub refused: u64,
    /// Links beyond the bound.
    pub truncated: u64,
}

/// Reads a page that was delivered by `address`.
pub fn read(document: &Document, address: &WebUrl) -> PageLinks {
    let base =
        WebUrl::parse(page_base(document, address.as_url()).as_str()).unwrap_or_else(|_| address.clone());
    let mut reading = Reading { document, base, page: PageLinks::default(), known: HashMap::new() };
    for node in document.descendants(Document::ROOT).filter(|node| document.is_element(*node)) {
        reading.element(node);
    }
    reading.page
}

struct Reading<'d> {
    document: &'d Document,
    base: WebUrl,
    page: PageLinks,
    known: HashMap<WebUrl, usize>,
}

impl Reading<'_> {
    fn element(&mut self, node: NodeId) {
        let document = self.document;
        let attribute = |name: &str| document.attribute_named(node, name);
        let rel = |word: &str| {
            let words = attribute("rel").unwrap_or_default();
            words.split_ascii_whitespace().any(|own| own.eq_ignore_ascii_case(word))
        };
        let is = |name: &str, wanted: &str| {
            attribute(name).is_some_and(|own| own.trim().eq_ignore_ascii_case(wanted))
        };
        match document.name(node) {
            "a" | "area" => {
                if let Some(href) = attribute("href") {
                    self.link(node, href, rel("nofollow"), rel("next"));
                }
            }
            "iframe" | "frame" => {
                if let Some(src) = attribute("src") {
                    self.link(node, src, false, false);
                }
            }
            "link" if rel("next") => {
                if let Some(href) = attribute("href") {
                    self.link(node, href, false, true);
                }
            }
            "link" if rel("canonical") && self.page.canonical.is_none() => {
                self.page.canonical = attribute("href").and_then(|href| self.base.join(href).ok());
            }
            "meta" if is("name", "robots") => {
                let content = attribute("content").unwrap_or_default().to_ascii_lowercase();
                let mut words = content.split(|c: char| c == ',' || c.is_ascii_whitespace());
                self.page.is_nofollow |= words.any(|word| matches!(word, "nofollow" | "none"));
            }
            "meta" if is("http-equiv", "refresh") => {
                if let Some(target) = attribute("content").and_then(refresh_target) {
                    self.link(node, target, false, false);
                }
            }
            "input" => self.page.asks_password |= is("type", "password"),
            _ => {}
        }
    }

    fn link(&mut self, node: NodeId, href: &str, is_nofollow: bool, is_next: bool) {
        let href = href.trim();
        // A place in this page.
        if href.is_empty() || href.starts_with('#') {
            return;
        }
        let url = match self.base.join(href) {
            Ok(url) => url,
            Err(UrlError::Scheme) => return,
            Err(_) => {
                self.page.refused += 1;
                return;
            }
        };
        match self.known.get(&url) {
            Some(at) => {
                let link = &mut self.page.links[*at];
                link.places.push(node);
                // One place that vouches for it is enough.
                link.is_nofollow &= is_nofollow;
                link.is_next |= is_next;
            }
            None if self.page.links.len() >= LINKS_MAX => self.page.truncated += 1,
            None => {
                self.known.insert(url.clone(), self.page.links.len());
                self.page.links.push(Link { url, is_nofollow, is_next, places: vec![node] });
            }
        }
    }
}

/// Where `5; url=/next` leads.
fn refresh_target(content: &str) -> Option<&str> {
    let (_, rest) = content.split_once([';', ','])?;
    let (name, target) = rest.split_once('=')?;
    let target = target.trim().trim_matches(['"', '\'']);
    name.trim().eq_ignore_ascii_case("url").then_some(target).filter(|target| !target.is_empty())
}

/// The part of a page whose links are meant.
#[derive(Debug)]
pub struct Region(XPath);

impl Region {
    /// A region as XPath; or what is wrong with it.
    pub fn xpath(source: &str) -> Result<Region, String> {
        if source.len() > EXPRESSION_BYTES_MAX {
            return Err(format!("takes more than {EXPRESSION_BYTES_MAX} bytes as XPath"));
        }
        let compiled = XPath::compile(source).map_err(|error| error.to_string())?;
        // What gives no nodes gives none of any page.
        let empty = Document::parse(String::new());
        let value = compiled.evaluate(&empty, root_context(&empty), &mut Fuel::for_page());
        match value {
            Ok(Value::Nodes(_)) | Err(_) => Ok(Region(compiled)),
            Ok(_) => Err("gives no elements: a region is the part of a page in which links stand".to_owned()),
        }
    }

    /// A region as a CSS selector.
    pub fn css(selector: &str) -> Result<Region, String> {
        Region::xpath(&css::to_xpath(selector)?)
    }

    /// How many compiled regular expressions it holds.
    pub fn pattern_count(&self) -> usize {
        self.0.pattern_count()
    }

    /// Where it is in a page.
    pub fn places(&self, document: &Document, fuel: &mut Fuel) -> Result<Places, EvalError> {
        let nodes = match self.0.evaluate(document, root_context(document), fuel)? {
            Value::Nodes(nodes) => nodes,
            _ => Vec::new(),
        };
        let mut ranges: Vec<Range<NodeId>> = Vec::new();
        for node in nodes {
            // Of an attribute the element that has it.
            let (from, is_attribute) = (node.node(), node.is_attribute());
            let to = if is_attribute { NodeId(from.0 + 1) } else { document.subtree_end(from) };
            match ranges.last_mut() {
                Some(last) if from < last.end => last.end = last.end.max(to),
                _ => ranges.push(from..to),
            }
        }
        Ok(Places(ranges))
    }
}

/// Parts of a page, one behind the other.
#[derive(Debug, Default)]
pub struct Places(Vec<Range<NodeId>>);

impl Places {
    /// Whether a link stands in one of them.
    pub fn have(&self, link: &Link) -> bool {
        link.places.iter().any(|place| {
            let behind = self.0.partition_point(|range| range.start <= *place);
            behind > 0 && *place < self.0[behind - 1].end
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &str) -> (Document, PageLinks) {
        let document = Document::parse(html.to_owned());
        let links = read(&document, &WebUrl::parse("https://a.example/dir/page").unwrap());
        (document, links)
    }

    fn paths(links: &[Link]) -> String {
        links.iter().map(|link| link.url.path_and_query()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn links_are_what_a_visitor_can_follow() {
        let (_, page) = page(
            "<head><base href=/b/><link rel=canonical href=/c><link rel='prefetch next' href=n><link rel=stylesheet href=s>\
             <meta http-equiv=Refresh content='3; URL=r'></head><a href=x>1</a><a href=' /y#z '>2</a><a name=q></a>\
             <a href='#top'></a><a href=''></a><a href=mailto:a@b.example></a><a href='javascript:void(0)'></a>\
             <a href='https://u:p@a.example/'></a><a href='http://'></a><map><area href=m></map><iframe src=f></iframe>\
             <a href=x rel=nofollow>1</a><a rel='NoFollow ugc' href=w></a><a rel=next href=p2></a><form action=no></form>",
        );
        assert_eq!(paths(&page.links), "/b/n /b/r /b/x /y /b/m /b/f /b/w /b/p2");
        let flagged = |flag: fn(&Link) -> bool| {
            paths(&page.links.iter().filter(|link| flag(link)).cloned().collect::<Vec<_>>())
        };
        assert_eq!(flagged(|link| link.is_nofollow), "/b/w", "one place vouches for x");
        assert_eq!(flagged(|link| link.is_next), "/b/n /b/p2");
        assert_eq!(page.canonical.unwrap().as_str(), "https://a.example/c");
        assert_eq!((page.refused, page.is_nofollow, page.asks_password), (2, false, false));
    }

    #[test]
    fn a_page_speaks_of_itself() {
        let (_, links) = page("<meta name=ROBOTS content='noindex, NOFOLLOW'><input type=Password>");
        assert!(links.is_nofollow && links.asks_password && links.canonical.is_none());
        let (_, none) = page("<meta name=robots content=index>");
        assert!(!none.is_nofollow && !none.asks_password);
    }

    #[test]
    fn a_region_is_part_of_a_page() {
        let html = "<nav><a href=/n></a></nav><main><div class=list><a href=/1></a><a href=/2></a></div><a href=/3></a></main>\
                    <footer><a href=/1></a><a href=/f></a></footer>";
        let (document, links) = page(html);
        for (region, found) in [
            (Region::css("main"), "/1 /2 /3"),
            (Region::css(".list, footer"), "/1 /2 /f"),
            (Region::xpath("//main//a[last()]"), "/2 /3"),
            (Region::xpath("//footer//@href"), "/1 /f"),
            (Region::xpath("//main | //main/div"), "/1 /2 /3"),
            (Region::css("aside"), ""),
        ] {
            let places = region.unwrap().places(&document, &mut Fuel::for_page()).unwrap();
            let inside: Vec<_> = links.links.iter().filter(|link| places.have(link)).cloned().collect();
            assert_eq!(paths(&inside), found);
        }
        assert!(Region::xpath("count(//a)").unwrap_err().contains("no elements"));
        assert!(Region::xpath("//a[").is_err() && Region::css("a:hover").is_err());
    }

    #[test]
    fn a_page_of_nothing_but_links_ends() {
        let html: String = (0..LINKS_MAX + 7).map(|n| format!("<a href=/{n}>")).collect();
        let (_, links) = page(&html);
        assert_eq!((links.links.len(), links.truncated), (LINKS_MAX, 7));
    }
}
