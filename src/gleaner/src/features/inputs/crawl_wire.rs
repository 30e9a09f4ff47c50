//! Crawls on the wire: what a caller asks for, checked, and what is shown.

use super::crawl_rows::{CrawlRunV1, CrawlV1, FrontierV1, KeptAsV1, RuleV1, TrapV1};
use super::patterns::{self, PATTERN_CHARS_MAX, PATTERNS_MAX};
use base::limits::{TAG_CHARS_MAX, TAGS_MAX};
use base::terms::PageType;
use base::{Error, Result, labels};
use crawl::links::{REGION_BYTES_MAX, Region};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const START_URLS_MAX: usize = 100;
pub(super) const RULES_MAX: usize = 50;
/// Patterns of all rules.
const RULE_PATTERNS_MAX: usize = 200;
/// Regular expressions in the regions of all rules: each takes up to half a megabyte while a page is read.
const REGEXES_MAX: usize = 32;
pub(super) const DEPTH_MAX: u16 = 100;
const DEPTH_DEFAULT: u16 = 5;
const PAGES_DEFAULT: u32 = 1_000;
/// A week.
const REVISIT_SECS_DEFAULT: u64 = 604_800;
/// Ten years.
pub(super) const REVISIT_SECS_MAX: u64 = 315_360_000;

/// What a link's page is registered with.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "CrawlKeep")]
pub(super) struct KeptAs {
    /// The input's own unless said otherwise.
    page_type: Option<PageType>,
    /// Beside those of the input.
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    tags: Vec<String>,
}

/// What is done with links. The first rule that means a link decides; a link that none means is passed over.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NewCrawlRule")]
pub(super) struct Rule {
    /// The part of a page whose links are meant, as XPath; or as `css`. The whole page unless said otherwise.
    #[schemars(length(min = 1, max = REGION_BYTES_MAX))]
    #[serde(default)]
    xpath: Option<String>,
    #[schemars(length(min = 1, max = REGION_BYTES_MAX))]
    #[serde(default)]
    css: Option<String>,
    /// Links that are meant: texts in which `*` stands for anything. Empty: all.
    #[schemars(length(max = PATTERNS_MAX), inner(length(min = 1, max = PATTERN_CHARS_MAX)))]
    #[serde(default)]
    include: Option<Vec<String>>,
    /// Links that are not, likewise; it goes before `include`.
    #[schemars(length(max = PATTERNS_MAX), inner(length(min = 1, max = PATTERN_CHARS_MAX)))]
    #[serde(default)]
    exclude: Option<Vec<String>>,
    /// Registers their pages.
    #[serde(default)]
    keep: Option<KeptAs>,
    /// Whether their own links are read; true where they are not kept, unless said otherwise. Neither kept nor followed:
    /// they are not asked for.
    #[serde(default)]
    follow: Option<bool>,
}

/// A rule as it is shown.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CrawlRule")]
pub(super) struct RuleView {
    xpath: Option<String>,
    css: Option<String>,
    include: Vec<String>,
    exclude: Vec<String>,
    keep: Option<KeptAs>,
    follow: bool,
}

impl From<RuleV1> for RuleView {
    fn from(rule: RuleV1) -> RuleView {
        RuleView {
            xpath: rule.xpath,
            css: rule.css,
            include: rule.include,
            exclude: rule.exclude,
            keep: rule.keep.map(|keep| KeptAs { page_type: keep.page_type, tags: keep.tags }),
            follow: rule.follow,
        }
    }
}

/// What can be said of a crawl.
#[derive(Clone, Debug, Default)]
pub(super) struct CrawlTerms {
    pub start_urls: Option<Vec<String>>,
    pub rules: Option<Vec<Rule>>,
    pub depth: Option<u16>,
    pub max_pages: Option<u32>,
    pub revisit_after_secs: Option<u64>,
}

/// The same, checked.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckedCrawl {
    start_urls: Option<Vec<String>>,
    rules: Option<Vec<RuleV1>>,
    depth: Option<u16>,
    max_pages: Option<u32>,
    revisit_after_secs: Option<u64>,
    /// Pages that a run may ask for.
    pages_max: u32,
}

impl CrawlTerms {
    /// Judges the numbers, which the reference gives bounds for: before anything else, as their types are.
    pub fn check_numbers(&self, pages_max: u32) -> Result<()> {
        let numbers = [
            ("depth", self.depth.map(u64::from), 0, DEPTH_MAX.into()),
            ("maxPages", self.max_pages.map(u64::from), 1, pages_max.into()),
            ("revisitAfterSeconds", self.revisit_after_secs, 0, REVISIT_SECS_MAX),
        ];
        for (name, value, from, to) in numbers {
            if value.is_some_and(|value| !(from..=to).contains(&value)) {
                return Err(Error::invalid(name, format!("must be {from} to {to}")));
            }
        }
        Ok(())
    }

    /// The rest. `address`: what a URL must be, with the place that an error names.
    pub fn checked(
        self,
        pages_max: u32,
        address: impl Fn(&str, &str) -> Result<String>,
    ) -> Result<CheckedCrawl> {
        let start_urls = self.start_urls.map(|urls| {
            if !(1..=START_URLS_MAX).contains(&urls.len()) {
                let reason = format!("must have 1 to {START_URLS_MAX} entries, not {}", urls.len());
                return Err(Error::invalid("startUrls", reason));
            }
            let each = urls.iter().enumerate();
            each.map(|(at, url)| address(&format!("startUrls[{at}]"), url)).collect::<Result<Vec<_>>>()
        });
        Ok(CheckedCrawl {
            start_urls: start_urls.transpose()?,
            rules: self.rules.map(checked_rules).transpose()?,
            depth: self.depth,
            max_pages: self.max_pages,
            revisit_after_secs: self.revisit_after_secs,
            pages_max,
        })
    }
}

fn checked_rules(rules: Vec<Rule>) -> Result<Vec<RuleV1>> {
    if rules.len() > RULES_MAX {
        return Err(Error::invalid("rules", format!("at most {RULES_MAX} rules are kept")));
    }
    let rules = rules.into_iter().enumerate().map(|(at, rule)| checked_rule(&format!("rules[{at}]"), rule));
    let (rules, regexes): (Vec<_>, Vec<_>) = rules.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let regexes: usize = regexes.into_iter().sum();
    if regexes > REGEXES_MAX {
        let reason = format!("have {regexes} regular expressions together; at most {REGEXES_MAX} are kept");
        return Err(Error::invalid("rules", reason));
    }
    let patterns: usize = rules.iter().map(|rule| rule.include.len() + rule.exclude.len()).sum();
    if patterns > RULE_PATTERNS_MAX {
        let reason = format!("have {patterns} patterns together; at most {RULE_PATTERNS_MAX} are kept");
        return Err(Error::invalid("rules", reason));
    }
    Ok(rules)
}

/// A rule as it is kept, and how many regular expressions its region has.
fn checked_rule(place: &str, rule: Rule) -> Result<(RuleV1, usize)> {
    let name = |part: &str| format!("{place}.{part}");
    if rule.xpath.is_some() && rule.css.is_some() {
        return Err(Error::invalid(&name("css"), "give either xpath or css, not both"));
    }
    let region = |part: &str, source: &str, compiled: fn(&str) -> Result<Region, String>| {
        if !(1..=REGION_BYTES_MAX).contains(&source.len()) {
            return Err(Error::invalid(&name(part), format!("must be 1 to {REGION_BYTES_MAX} bytes")));
        }
        compiled(source).map_err(|reason| Error::invalid(&name(part), reason))
    };
    let region = match (&rule.xpath, &rule.css) {
        (Some(xpath), _) => Some(region("xpath", xpath, Region::xpath)?),
        (None, Some(selector)) => Some(region("css", selector, Region::css)?),
        (None, None) => None,
    };
    let list =
        |part: &str, given: Option<Vec<String>>| patterns::checked(&name(part), given.unwrap_or_default());
    let keep = rule.keep.map(|keep| {
        let tags = labels::tags(&name("keep.tags"), keep.tags)?;
        Ok::<_, Error>(KeptAsV1 { page_type: keep.page_type, tags })
    });
    let keep = keep.transpose()?;
    let rule = RuleV1 {
        include: list("include", rule.include)?,
        exclude: list("exclude", rule.exclude)?,
        follow: rule.follow.unwrap_or(keep.is_none()),
        keep,
        xpath: rule.xpath,
        css: rule.css,
    };
    Ok((rule, region.map_or(0, |region| region.pattern_count())))
}

impl CheckedCrawl {
    /// The first member that is given.
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("startUrls", self.start_urls.is_some()),
            ("rules", self.rules.is_some()),
            ("depth", self.depth.is_some()),
            ("maxPages", self.max_pages.is_some()),
            ("revisitAfterSeconds", self.revisit_after_secs.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The crawl with these terms; `tags` are those of the input, which are registered beside a rule's own.
    pub fn applied(self, row: Option<CrawlV1>, tags: &[String]) -> Result<CrawlV1> {
        let row = row.unwrap_or(CrawlV1 {
            start_urls: Vec::new(),
            rules: Vec::new(),
            depth: DEPTH_DEFAULT,
            max_pages: PAGES_DEFAULT.min(self.pages_max),
            revisit_after_secs: REVISIT_SECS_DEFAULT,
        });
        let row = CrawlV1 {
            start_urls: self.start_urls.unwrap_or(row.start_urls),
            rules: self.rules.unwrap_or(row.rules),
            depth: self.depth.unwrap_or(row.depth),
            max_pages: self.max_pages.unwrap_or(row.max_pages),
            revisit_after_secs: self.revisit_after_secs.unwrap_or(row.revisit_after_secs),
        };
        if row.start_urls.is_empty() {
            return Err(Error::invalid("startUrls", "is missing; a crawl begins somewhere"));
        }
        for (at, rule) in row.rules.iter().enumerate() {
            let own = rule.keep.as_ref().map(|keep| keep.tags.as_slice()).unwrap_or_default();
            let all = tags.len() + own.iter().filter(|tag| !tags.contains(tag)).count();
            if all > TAGS_MAX {
                let reason = format!("are {all} with those of the input; a URL has at most {TAGS_MAX}");
                return Err(Error::invalid(&format!("rules[{at}].keep.tags"), reason));
            }
        }
        Ok(row)
    }
}

/// What an input of the kind crawl has beside those of all kinds.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CrawlView {
    start_urls: Option<Vec<String>>,
    rules: Option<Vec<RuleView>>,
    /// How many links a page may be away from the start; the next page of a list (`rel="next"`) is as deep as the list.
    depth: Option<u16>,
    /// Pages that a run asks for at most; the next run goes on with those that are left.
    max_pages: Option<u32>,
    /// For how long a page that is kept is not asked for again.
    revisit_after_seconds: Option<u64>,
}

impl From<Option<CrawlV1>> for CrawlView {
    fn from(row: Option<CrawlV1>) -> CrawlView {
        let (row, rules) = match row {
            None => (None, None),
            Some(row) => {
                let rules = row.rules.iter().cloned().map(RuleView::from).collect();
                (Some(row), Some(rules))
            }
        };
        CrawlView {
            rules,
            depth: row.as_ref().map(|row| row.depth),
            max_pages: row.as_ref().map(|row| row.max_pages),
            revisit_after_seconds: row.as_ref().map(|row| row.revisit_after_secs),
            start_urls: row.map(|row| row.start_urls),
        }
    }
}

/// How far a run of a crawl is.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CrawlRunView {
    /// Pages that came and were read.
    pages_walked: u64,
    /// Pages that did not come; their jobs say why.
    pages_failed: u64,
    /// Pages whose jobs go on.
    pages_under_way: u64,
    /// Pages that are known and were not asked for: the next run goes on with them.
    pages_left: u64,
    /// Pages that robots.txt forbids.
    robots_refused: u64,
    /// Pages that led to a login or off the site; they are not kept.
    led_away: u64,
    depth_reached: u16,
    traps: Vec<TrapV1>,
}

impl CrawlRunView {
    /// `frontier`: the one that stands now, if it is still the run's. Of an ended run, what it left.
    pub fn new(row: &CrawlRunV1, frontier: Option<&FrontierV1>) -> CrawlRunView {
        CrawlRunView {
            pages_walked: row.found.documents,
            pages_failed: row.failed,
            pages_under_way: frontier.map_or(0, |frontier| frontier.under_way),
            pages_left: frontier.map_or(row.left, |frontier| frontier.waiting),
            robots_refused: row.robots_refused,
            led_away: row.led_away,
            depth_reached: row.depth_reached,
            traps: row.traps.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules(value: serde_json::Value) -> Result<Vec<RuleV1>> {
        checked_rules(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_wrong_rule_is_named_with_its_place() {
        for (wrong, part) in [
            (json!([{}, { "css": "a:hover" }]), "rules[1].css: has :hover"),
            (json!([{ "xpath": "//a[" }]), "rules[0].xpath: "),
            (json!([{ "xpath": "count(//a)" }]), "rules[0].xpath: gives no elements"),
            (json!([{ "xpath": "//a", "css": "a" }]), "rules[0].css: give either"),
            (json!([{ "include": [" "] }]), "rules[0].include[0]: "),
            (json!([{ "keep": { "tags": [""] } }]), "rules[0].keep.tags"),
        ] {
            let said = rules(wrong.clone()).unwrap_err();
            assert!(said.detail().unwrap().starts_with(part), "{wrong}: {said}");
        }
        assert!(rules(json!(vec![json!({}); RULES_MAX + 1])).is_err());
        let regex = json!({ "xpath": "//a[re:test(@href, 'a')][re:test(@href, 'b')]" });
        assert!(rules(json!(vec![regex.clone(); 16])).is_ok());
        assert!(
            rules(json!(vec![regex; 17])).unwrap_err().detail().unwrap().contains("34 regular expressions")
        );
        let many = json!({ "include": vec!["*"; 50] });
        assert!(rules(json!(vec![many; 5])).unwrap_err().detail().unwrap().contains("250 patterns"));
    }

    #[test]
    fn what_is_kept_is_not_followed_unless_said_so() {
        let rules =
            rules(json!([{}, { "keep": {} }, { "keep": {}, "follow": true }, { "follow": false }])).unwrap();
        let follows: Vec<_> = rules.iter().map(|rule| rule.follow).collect();
        assert_eq!(follows, [true, false, true, false]);
    }

    #[test]
    fn the_tags_of_input_and_rule_have_room_together() {
        let tags = |from: usize, to: usize| (from..to).map(|n| format!("t{n}")).collect::<Vec<_>>();
        let terms = CheckedCrawl {
            start_urls: Some(vec!["https://a.example/".into()]),
            rules: Some(rules(json!([{ "keep": { "tags": tags(0, TAGS_MAX) } }])).unwrap()),
            ..CheckedCrawl::default()
        };
        assert!(terms.clone().applied(None, &tags(0, 5)).is_ok());
        let said = terms.applied(None, &tags(TAGS_MAX, TAGS_MAX + 1)).unwrap_err();
        assert!(said.detail().unwrap().starts_with("rules[0].keep.tags"), "{said}");
    }
}
