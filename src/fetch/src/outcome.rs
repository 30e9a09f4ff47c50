//! What an answer or a failure means to the dispatcher. Every provider asks here, so that the classes mean one thing.
//!
//! | what came | outcome | why |
//! |---|---|---|
//! | any status, and a detection rule speaks | `blocked` | a challenge page is not the page, whatever its status |
//! | 2xx | `success` | also with an empty body: that is what the target has |
//! | 403, 429 | `blocked` | the target turned this visitor away; another provider may pass |
//! | 407 | `provider_error` | it is the way there that wants credentials, not the target |
//! | 408 | `timeout` | the target says so itself |
//! | 425, 5xx | `target_error` | the target's own answer, passing by its definition (RFC 8470; RFC 9110, 15.6): the next provider, or later |
//! | other 1xx, 3xx, 4xx | `target_error` | the target's own answer, final: the next provider would get it too |
//!
//! Among failures without an answer: a time limit is `timeout`; what another try may mend (DNS, a connection, TLS, a
//! broken body, an unreachable robots.txt) is `network_error`; what will be so again for everybody (a refused address,
//! a forbidden path, a redirect loop) is `target_error`. A body or a head beyond the limits is a `provider_error`: what
//! another provider makes of the page may fit, and no account is at fault.
//!
//! The detection rules are data, `data/detection.toml`, which explains its own format.
//!
//! What comes through a provider is told apart in two steps. The provider's template says what its answer [`AnswerMeaning`]: that
//! the target answered (then the table above holds for the target's status and page), or that something else happened,
//! perhaps by the provider's own [`Fault`]. A provider that cannot be reached at all is at fault itself; one that stays
//! silent is a `timeout`, because nobody knows whose silence it is.

use std::sync::LazyLock;

use http::HeaderMap;
use http::header::HeaderName;
use memchr::memmem::Finder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of a body is searched for marks. Challenge pages are smaller than this, whole.
const SEARCHED_BYTES_MAX: usize = 256 * 1024;

/// What became of an attempt, as far as the dispatcher's next step depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The page arrived.
    Success,
    /// The target's own answer. One such as 404 is final: no other provider is tried. With 425 or 5xx the target says that
    /// it is in trouble for the moment: the next provider is tried.
    TargetError,
    /// The target took the visitor for a robot.
    Blocked,
    /// The time was used up.
    Timeout,
    /// The way to the target did not work: no answer came.
    NetworkError,
    /// The provider itself failed (a bad key, no credits, down), or does not do what is asked for: the next provider is
    /// tried. So is a page of more than 5 MB (5,000,000 bytes), on the wire or once decompressed, which nobody takes here.
    ProviderError,
    /// The page arrived, and an extract node found too little in it.
    LowQuality,
    /// Another provider of the race was quicker, or the job was canceled, so the answer was not waited for.
    Canceled,
}

impl Outcome {
    /// The name in the API and in stored rows' views.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::TargetError => "target_error",
            Self::Blocked => "blocked",
            Self::Timeout => "timeout",
            Self::NetworkError => "network_error",
            Self::ProviderError => "provider_error",
            Self::LowQuality => "low_quality",
            Self::Canceled => "canceled",
        }
    }

    /// Whether no other provider can do better: the job's answer stands. `status`: what the target answered.
    pub fn is_final(self, status: Option<u16>) -> bool {
        match self {
            Self::Success => true,
            Self::TargetError => !self.is_targets_trouble(status),
            _ => false,
        }
    }

    /// Whether the target answered that it is in trouble for the moment. Rows of older releases call that a
    /// `network_error`.
    pub fn is_targets_trouble(self, status: Option<u16>) -> bool {
        self == Self::TargetError && matches!(status, Some(425 | 500..=599))
    }

    /// Whether the same request, by the same provider, may succeed later without anybody changing anything.
    pub fn passes_by(self, status: Option<u16>) -> bool {
        matches!(self, Self::Blocked | Self::Timeout | Self::NetworkError) || self.is_targets_trouble(status)
    }

    /// What a bare status means. The body's marks come first: see [`Detector::classify`].
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            403 | 429 => Self::Blocked,
            407 => Self::ProviderError,
            408 => Self::Timeout,
            _ => Self::TargetError,
        }
    }
}

/// What is wrong with an account or its provider; always beside the outcome `provider_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The credentials are not accepted.
    BadKey,
    /// The plan is used up, or not paid.
    NoCredits,
    /// More requests at once, or in a while, than the plan allows.
    Throttled,
    /// The provider cannot be reached, or fails by itself.
    Down,
    /// The provider does not do what this request asks for; others it does.
    Unsupported,
}

impl Fault {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadKey => "bad_key",
            Self::NoCredits => "no_credits",
            Self::Throttled => "throttled",
            Self::Down => "down",
            Self::Unsupported => "unsupported",
        }
    }

    /// Whether somebody has to do something before it works again.
    pub fn needs_somebody(self) -> bool {
        matches!(self, Self::BadKey | Self::NoCredits)
    }
}

/// What a hosted provider's answer means, as the rules of its template read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerMeaning {
    /// The target answered; its status and its page say the rest.
    Target,
    /// The provider says that the target blocked it.
    Blocked,
    /// The provider says that the time was used up.
    Timeout,
    /// The provider says that the target cannot be reached.
    Unreachable,
    /// The target's answer is final, and no page comes of it.
    TargetError,
    Fault(Fault),
}

impl AnswerMeaning {
    /// The word of a template.
    pub fn named(word: &str) -> Option<Self> {
        Some(match word {
            "target" => Self::Target,
            "blocked" => Self::Blocked,
            "timeout" => Self::Timeout,
            "unreachable" => Self::Unreachable,
            "target_error" => Self::TargetError,
            "bad_key" => Self::Fault(Fault::BadKey),
            "no_credits" => Self::Fault(Fault::NoCredits),
            "throttled" => Self::Fault(Fault::Throttled),
            "down" => Self::Fault(Fault::Down),
            "unsupported" => Self::Fault(Fault::Unsupported),
            _ => return None,
        })
    }

    /// Every word of a template, for its errors.
    pub const WORDS: &'static str = "target, blocked, timeout, unreachable, target_error, bad_key, no_credits, throttled, down, unsupported";

    /// The outcome, unless it is the target's to decide.
    pub fn outcome(self) -> Option<Outcome> {
        Some(match self {
            Self::Target => return None,
            Self::Blocked => Outcome::Blocked,
            Self::Timeout => Outcome::Timeout,
            Self::Unreachable => Outcome::NetworkError,
            Self::TargetError => Outcome::TargetError,
            Self::Fault(_) => Outcome::ProviderError,
        })
    }

    pub fn fault(self) -> Option<Fault> {
        match self {
            Self::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}

/// An answer's class, and the rule that decided it when it is a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub outcome: Outcome,
    pub rule: Option<String>,
}

impl Verdict {
    /// The failure in words, or none for a success.
    pub fn message(&self, status: u16) -> Option<String> {
        match (self.outcome, self.rule.as_deref()) {
            (Outcome::Success, _) => None,
            (Outcome::Blocked, Some("http_403" | "http_429")) | (_, None) => {
                Some(format!("answered {status}"))
            }
            (_, Some(rule)) => Some(format!("answered {status} with a page that blocks robots ({rule})")),
        }
    }
}

/// Compiled detection rules.
#[derive(Debug)]
pub struct Detector {
    rules: Vec<DetectionRule>,
}

#[derive(Debug)]
struct DetectionRule {
    id: String,
    statuses: Vec<u16>,
    headers: Vec<(HeaderName, String)>,
    body_all: Vec<Finder<'static>>,
    body_any: Vec<Finder<'static>>,
    bytes_max: usize,
}

/// The file's shape.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    rule: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    id: String,
    /// For the reader of the file.
    #[serde(rename = "about")]
    _about: String,
    #[serde(default)]
    statuses: Vec<u16>,
    #[serde(default)]
    headers: Vec<HeaderEntry>,
    #[serde(default)]
    body_all: Vec<String>,
    #[serde(default)]
    body_any: Vec<String>,
    bytes_max: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderEntry {
    name: String,
    contains: String,
}

impl Detector {
    /// The rules that the binary ships with.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Detector> = LazyLock::new(|| {
            Detector::parse(include_str!("../../../data/detection.toml"))
                .expect("a test parses the shipped rules")
        });
        &BUILTIN
    }

    /// Compiles rules from the text of a file; the error names the rule and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: RuleFile = toml::from_str(text).map_err(|e| e.to_string())?;
        let mut rules: Vec<DetectionRule> = Vec::with_capacity(file.rule.len());
        for entry in file.rule {
            let id = entry.id;
            if rules.iter().any(|rule| rule.id == id) {
                return Err(format!("the rule {id} is given twice"));
            }
            let bodyless = entry.body_all.is_empty() && entry.body_any.is_empty();
            if bodyless && entry.headers.is_empty() && entry.statuses.is_empty() {
                return Err(format!("the rule {id} has no condition and would call every page a block"));
            }
            if entry.body_all.iter().chain(&entry.body_any).any(String::is_empty) {
                return Err(format!("the rule {id} looks for an empty text"));
            }
            let header = |h: HeaderEntry| match HeaderName::from_bytes(h.name.as_bytes()) {
                Ok(name) => Ok((name, h.contains.to_ascii_lowercase())),
                Err(_) => Err(format!("the rule {id} names a header {:?} that cannot be", h.name)),
            };
            let headers = entry.headers.into_iter().map(header).collect::<Result<_, _>>()?;
            let finders =
                |needles: Vec<String>| needles.iter().map(|n| Finder::new(n).into_owned()).collect();
            rules.push(DetectionRule {
                headers,
                statuses: entry.statuses,
                body_all: finders(entry.body_all),
                body_any: finders(entry.body_any),
                bytes_max: entry.bytes_max.unwrap_or(usize::MAX),
                id,
            });
        }
        Ok(Self { rules })
    }

    /// Classifies an answer of the target: its status, headers and inflated body.
    pub fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Verdict {
        if let Some(rule) = self.rules.iter().find(|rule| rule.speaks(status, headers, body)) {
            return Verdict { outcome: Outcome::Blocked, rule: Some(rule.id.clone()) };
        }
        let outcome = Outcome::of_status(status);
        let rule = (outcome == Outcome::Blocked).then(|| format!("http_{status}"));
        Verdict { outcome, rule }
    }
}

impl DetectionRule {
    /// Cheap conditions first: most pages meet none of them.
    fn speaks(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> bool {
        if !self.statuses.is_empty() && !self.statuses.contains(&status) || body.len() > self.bytes_max {
            return false;
        }
        let has_header = |(name, needle): &(HeaderName, String)| {
            headers.get_all(name).iter().any(|value| {
                let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
                value.contains(needle.as_str())
            })
        };
        let searched = &body[..body.len().min(SEARCHED_BYTES_MAX)];
        let occurs = |finder: &Finder<'_>| finder.find(searched).is_some();
        self.headers.iter().all(has_header)
            && self.body_all.iter().all(occurs)
            && (self.body_any.is_empty() || self.body_any.iter().any(occurs))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn classify(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Verdict {
        let headers =
            headers.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        Detector::builtin().classify(status, &headers, body.as_bytes())
    }

    #[test]
    fn classifies_bare_statuses() {
        use Outcome::*;
        for (status, outcome, rule) in [
            (200, Success, None),
            (204, Success, None),
            (206, Success, None),
            (304, TargetError, None),
            (400, TargetError, None),
            (401, TargetError, None),
            (403, Blocked, Some("http_403")),
            (404, TargetError, None),
            (407, ProviderError, None),
            (408, Timeout, None),
            (410, TargetError, None),
            (425, TargetError, None),
            (429, Blocked, Some("http_429")),
            (451, TargetError, None),
            (500, TargetError, None),
            (503, TargetError, None),
            (521, TargetError, None),
            (999, Blocked, Some("status_999")),
        ] {
            let verdict = classify(status, &[], "");
            assert_eq!((verdict.outcome, verdict.rule.as_deref()), (outcome, rule), "{status}");
            assert_eq!(verdict.message(status).is_none(), outcome == Success);
        }
    }

    #[test]
    fn recognizes_challenges() {
        for (rule, status, headers, body) in [
            ("cloudflare_challenge", 403, &[("cf-mitigated", "challenge")] as &[_], ""),
            (
                "cloudflare_interstitial",
                200,
                &[],
                "<title>Just a moment...</title><script>window._cf_chl_opt={}",
            ),
            ("cloudflare_blocked", 403, &[], "<title>Attention Required! | Cloudflare</title>"),
            ("datadome", 200, &[], "<script src=\"https://geo.captcha-delivery.com/captcha\">"),
            (
                "human_security",
                403,
                &[],
                "<div id=\"px-captcha\"></div><script>window._pxAppId='PX1'</script>",
            ),
            ("akamai_denied", 403, &[], "<H1>Access Denied</H1> Reference #18.2d351ab8"),
            ("imperva", 200, &[], "<script src=\"/_Incapsula_Resource?SWUDNSAI=31\">"),
            ("aws_waf", 202, &[("x-amzn-waf-action", "challenge")], ""),
            ("aws_waf", 405, &[("x-amzn-waf-action", "captcha")], ""),
            ("kasada", 429, &[("x-kpsdk-ct", "02a8")], ""),
            ("ddos_guard", 403, &[("server", "DDoS-Guard")], ""),
            ("amazon_captcha", 200, &[], "<form action=\"/errors/validateCaptcha\">"),
            ("captcha_page", 200, &[], "<html><title>Robot Check</title>"),
        ] {
            let verdict = classify(status, headers, body);
            assert_eq!((verdict.outcome, verdict.rule.as_deref()), (Outcome::Blocked, Some(rule)));
            assert!(verdict.message(status).unwrap().contains(rule));
        }
    }

    #[test]
    fn leaves_ordinary_pages_alone() {
        let shop = format!(
            "<title>Shop</title><script src=\"/_Incapsula_Resource?SWUDNSAI=1\"></script>{}",
            "<p>goods</p>".repeat(4_000)
        );
        for (status, headers, body) in [
            (200, &[] as &[_], shop.as_str()),
            (200, &[("server", "ddos-guard")], "<p>page</p>"),
            (200, &[("x-kpsdk-ct", "02a8")], "<p>page</p>"),
            (200, &[], "<p>How we beat the captcha: Access Denied, Cloudflare Error 1020, px-captcha</p>"),
            (200, &[], "<form><div class=\"g-recaptcha\"></div></form><title>Log in</title>"),
            (200, &[], ""),
        ] {
            assert_eq!(classify(status, headers, body).outcome, Outcome::Success, "{body:.60}");
        }
    }

    #[test]
    fn refuses_rules_that_cannot_be_meant() {
        for (text, error) in [
            ("[[rule]]\nid='a'\nabout=''", "no condition"),
            ("[[rule]]\nid='a'\nabout=''\nbody_any=['']", "empty text"),
            ("[[rule]]\nid='a'\nabout=''\nheaders=[{name='a b',contains=''}]", "cannot be"),
            (
                "[[rule]]\nid='a'\nabout=''\nstatuses=[1]\n[[rule]]\nid='a'\nabout=''\nstatuses=[1]",
                "given twice",
            ),
            ("[[rule]]\nid='a'\nabout=''\nbody=['x']", "unknown field"),
        ] {
            let found = Detector::parse(text).unwrap_err();
            assert!(found.contains(error), "{found}");
        }
        assert!(Detector::builtin().rules.len() >= 12);
    }

    #[test]
    fn a_targets_trouble_is_its_own_answer_and_not_final() {
        for (status, is_final) in [(404, true), (425, false), (500, false), (503, false), (599, false)] {
            let outcome = Outcome::of_status(status);
            assert_eq!(outcome, Outcome::TargetError, "{status}");
            assert_eq!(outcome.is_final(Some(status)), is_final, "{status}");
            assert_eq!(outcome.passes_by(Some(status)), !is_final, "{status}");
        }
        assert!(Outcome::TargetError.is_final(None), "a refusal of the box's own");
        assert!(!Outcome::NetworkError.is_final(Some(500)), "as older releases wrote it");
    }

    #[test]
    fn names_agree_with_the_wire() {
        for outcome in
            [Outcome::Success, Outcome::TargetError, Outcome::Blocked, Outcome::Timeout, Outcome::LowQuality]
        {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
        for word in AnswerMeaning::WORDS.split(", ") {
            let means = AnswerMeaning::named(word).unwrap();
            assert_eq!(means.outcome().is_none(), means == AnswerMeaning::Target);
            if let Some(fault) = means.fault() {
                assert_eq!((fault.as_str(), means.outcome()), (word, Some(Outcome::ProviderError)));
                assert_eq!(serde_json::to_value(fault).unwrap(), word);
            }
        }
        assert_eq!(AnswerMeaning::named("perhaps"), None);
    }
}
