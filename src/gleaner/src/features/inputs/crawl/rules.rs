//! What is done with the links of a page.

use super::super::crawl_rows::{CrawlV1, KEPT_BY_NONE, RuleV1};
use super::super::patterns::wants;
use super::super::rows::InputV1;
use base::web::{Domain, WebUrl};
use crawl::links::{Link, Places, Region};
use crawl::shape::{self, Fault};
use crawl::spelling;
use page::html::Document;
use page::xpath::Fuel;
use std::collections::HashSet;

/// The rules of a crawl, compiled.
pub(super) struct Rules {
    rules: Vec<(Option<Region>, RuleV1)>,
    include: Vec<String>,
    exclude: Vec<String>,
    /// None where every domain is meant.
    domains: Option<HashSet<Domain>>,
    depth_max: u16,
    /// The year that it is.
    year: i32,
}

/// What is done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub kept_by: Option<u16>,
    pub follow: bool,
}

/// What becomes of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is walked to, by this address.
    Walk(WebUrl, Role, u16),
    /// No rule means it, or it is of another site.
    Filtered,
    /// It is deeper than the crawl goes.
    TooDeep,
    Fault(Fault),
}

impl Rules {
    pub fn new(input: &InputV1, terms: &CrawlV1, year: i32) -> Rules {
        let region = |rule: &RuleV1| match (&rule.xpath, &rule.css) {
            (Some(xpath), _) => Region::xpath(xpath).ok(),
            (None, Some(selector)) => Region::css(selector).ok(),
            (None, None) => None,
        };
        let starts = terms.start_urls.iter().filter_map(|url| WebUrl::parse(url).ok());
        Rules {
            rules: terms.rules.iter().map(|rule| (region(rule), rule.clone())).collect(),
            include: input.include.clone(),
            exclude: input.exclude.clone(),
            domains: (!input.any_domain).then(|| starts.map(|url| url.domain()).collect()),
            depth_max: terms.depth,
            year,
        }
    }

    /// Whether an address is one of the site's.
    pub fn is_of_site(&self, url: &WebUrl) -> bool {
        self.domains.as_ref().is_none_or(|domains| domains.contains(&url.domain()))
    }

    /// Whether a page of the site may be walked to at all.
    pub fn is_meant(&self, url: &WebUrl) -> bool {
        self.is_of_site(url) && wants(&self.include, &self.exclude, spelling::kept(url).as_str())
    }

    /// Where the regions of the rules are in a page; none of a rule that means the whole page. One that takes more work than
    /// a page may cost is nowhere.
    pub fn places(&self, document: &Document, fuel: &mut Fuel) -> Vec<Option<Places>> {
        let places = self.rules.iter().map(|(region, rule)| match region {
            Some(region) => Some(region.places(document, fuel).unwrap_or_default()),
            // A region that cannot be compiled any more means nothing.
            None if rule.xpath.is_some() || rule.css.is_some() => Some(Places::default()),
            None => None,
        });
        places.collect()
    }

    /// What becomes of a link of a page that is so deep.
    pub fn judge(&self, link: &Link, places: &[Option<Places>], depth: u16) -> Verdict {
        let url = spelling::asked(&link.url);
        if link.is_nofollow || !self.is_meant(&url) {
            return Verdict::Filtered;
        }
        let Some(role) = self.role(link, places, &url) else { return Verdict::Filtered };
        if let Some(fault) = shape::fault(&url, self.year) {
            return Verdict::Fault(fault);
        }
        let depth = if link.is_next { depth } else { depth.saturating_add(1) };
        if depth > self.depth_max {
            return Verdict::TooDeep;
        }
        Verdict::Walk(url, role, depth)
    }

    fn role(&self, link: &Link, places: &[Option<Places>], url: &WebUrl) -> Option<Role> {
        if self.rules.is_empty() {
            return Some(Role { kept_by: Some(KEPT_BY_NONE), follow: true });
        }
        // However it is spelled: a session in front of a name, or an escape in it, makes no other page of it.
        let plain = spelling::kept(url);
        let means = |(rule, places): (&RuleV1, &Option<Places>)| {
            places.as_ref().is_none_or(|places| places.have(link))
                && wants(&rule.include, &rule.exclude, plain.as_str())
        };
        let at = self.rules.iter().map(|(_, rule)| rule).zip(places).position(means)?;
        let rule = &self.rules[at].1;
        let kept_by = rule.keep.as_ref().and(u16::try_from(at).ok());
        let role = Role { kept_by, follow: rule.follow };
        (role.kept_by.is_some() || role.follow).then_some(role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::inputs::crawl_rows::KeptAsV1;

    fn rule(css: Option<&str>, include: &[&str], keeps: bool, follow: bool) -> RuleV1 {
        RuleV1 {
            xpath: None,
            css: css.map(str::to_owned),
            include: include.iter().map(|pattern| (*pattern).to_owned()).collect(),
            exclude: Vec::new(),
            keep: keeps.then(KeptAsV1::default),
            follow,
        }
    }

    fn rules(rules: Vec<RuleV1>) -> Rules {
        let region = |rule: &RuleV1| rule.css.as_ref().map(|selector| Region::css(selector).unwrap());
        let home = WebUrl::parse("https://www.a.example/").unwrap();
        Rules {
            rules: rules.into_iter().map(|rule| (region(&rule), rule)).collect(),
            include: Vec::new(),
            exclude: vec!["*/private/*".to_owned()],
            domains: Some(HashSet::from([home.domain()])),
            depth_max: 3,
            year: 2026,
        }
    }

    fn verdicts(rules: &Rules, html: &str, depth: u16) -> Vec<String> {
        let document = Document::parse(html.to_owned());
        let page = crawl::links::read(&document, &WebUrl::parse("https://www.a.example/").unwrap());
        let places = rules.places(&document, &mut Fuel::for_page());
        let told = page.links.iter().map(|link| match rules.judge(link, &places, depth) {
            Verdict::Walk(url, role, depth) => {
                format!("{} {:?} {} {depth}", url.path_and_query(), role.kept_by, role.follow)
            }
            other => format!("{other:?}"),
        });
        told.collect()
    }

    #[test]
    fn the_first_rule_that_means_a_link_decides() {
        let rules = rules(vec![
            rule(None, &["*/logout*"], false, false),
            rule(Some("main"), &["*/item/*"], true, false),
            rule(Some("nav, main"), &[], false, true),
        ]);
        let html = "<nav><a href=/list></a><a href=/item/1></a><a href=/logout></a></nav>\
                    <main><a href=/item/2?utm_source=x></a></main><footer><a href=/item/3></a></footer>";
        assert_eq!(
            verdicts(&rules, html, 1),
            ["/list None true 2", "/item/1 None true 2", "Filtered", "/item/2 Some(1) false 2", "Filtered"]
        );
    }

    #[test]
    fn without_rules_every_page_of_the_site_is_kept_and_followed() {
        let html = "<a href=https://shop.a.example/x></a><a href=https://b.example/></a><a href=/private/1></a>\
                    <a href=/y rel=nofollow></a><a href=/a/a/a/a></a><a href=/deep></a><a rel=next href=/p2></a>";
        let all = rules(Vec::new());
        let by_none = format!("Some({KEPT_BY_NONE}) true");
        let known = [
            format!("/x {by_none} 3"),
            "Filtered".into(),
            "Filtered".into(),
            "Filtered".into(),
            "Fault(Repeated)".into(),
            format!("/deep {by_none} 3"),
            format!("/p2 {by_none} 2"),
        ];
        assert_eq!(verdicts(&all, html, 2), known);
        assert_eq!(verdicts(&all, html, 3)[5..], ["TooDeep".to_owned(), format!("/p2 {by_none} 3")]);
    }
}
