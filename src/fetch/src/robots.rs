//! robots.txt by RFC 9309: what a site asks robots to leave alone.
//!
//! The group that names this box's product token counts, all such groups taken together; where none does, the groups
//! of `*`. Among the rules that match a path the longest wins, and `Allow` wins a tie. `*` stands for any run of
//! bytes, `$` at a pattern's end for the path's end; paths and patterns are compared after bringing percent-encoding
//! into one form (section 2.2.2). `Crawl-delay`, which the RFC leaves out and many sites write, is read as the least
//! pause between two visits.
//!
//! What an answer means (section 2.3.1): 2xx is read, its first 500 KiB; 4xx and too many redirects are "unavailable",
//! and everything is allowed; 5xx, 429 (which asks for patience, so it is not taken for consent) and every failure to
//! get an answer are "unreachable", and everything is forbidden until the next try in five minutes, unless an older
//! copy is at hand. A copy is kept for a day.
//!
//! The cache is bounded by number and by bytes, and one origin is asked once, however many pages wait for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::memmem;
use parking_lot::Mutex;

use super::error::FetchError;
use super::outcome::Outcome;

/// How much of a robots.txt is read (RFC 9309, section 2.5).
pub const ROBOTS_BYTES_MAX: usize = 500 * 1024;
/// How many redirects are followed to one (section 2.3.1.2).
pub const ROBOTS_REDIRECTS_MAX: u32 = 5;
/// How long one may take, within the page's own time.
pub const ROBOTS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a copy is kept (section 2.4).
const FRESH_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an unreachable one closes its site.
const UNREACHABLE_FOR: Duration = Duration::from_secs(5 * 60);
/// The longest pause that is honoured. Some sites write an hour to say "go away"; they mean `Disallow`.
const CRAWL_DELAY_MAX: Duration = Duration::from_secs(120);
/// Origins whose rules are kept, and the bytes of all their rules.
const ORIGINS_MAX: usize = 8192;
const CACHE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The rules of one origin that concern this box.
#[derive(Debug, Default, PartialEq)]
pub struct Robots {
    /// Longest pattern first, and `Allow` before `Disallow` among equals: the first that matches decides.
    rules: Vec<PathRule>,
    crawl_delay: Option<Duration>,
}

#[derive(Debug, PartialEq)]
struct PathRule {
    /// Normalized, without a final `$`.
    pattern: Box<[u8]>,
    anchored: bool,
    allow: bool,
}

impl Robots {
    /// Rules that allow everything.
    pub fn allow_all() -> Self {
        Self::default()
    }

    /// Reads a robots.txt for the product token `agent`. There is no such thing as an invalid one: what is not
    /// understood is skipped, line by line.
    pub fn parse(text: &[u8], agent: &str) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let text = &text[..text.len().min(ROBOTS_BYTES_MAX)];
        let mut own = AgentGroup::default();
        let mut everyone = AgentGroup::default();
        // Which groups the lines at hand belong to, and whether another user-agent line would still join them.
        let (mut in_own, mut in_everyone, mut heading) = (false, false, false);
        for line in text.split(|b| matches!(b, b'\n' | b'\r')) {
            let line = line.split(|b| *b == b'#').next().unwrap_or_default();
            let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
            let key = line[..colon].trim_ascii().to_ascii_lowercase();
            let value = line[colon + 1..].trim_ascii();
            let record = match key.as_slice() {
                b"user-agent" | b"useragent" => {
                    if !heading {
                        (in_own, in_everyone, heading) = (false, false, true);
                    }
                    in_everyone |= value.starts_with(b"*");
                    if product_token(value).eq_ignore_ascii_case(agent.as_bytes()) {
                        (in_own, own.named) = (true, true);
                    }
                    continue;
                }
                b"allow" => RobotsRecord::Rule(true),
                b"disallow" => RobotsRecord::Rule(false),
                b"crawl-delay" => RobotsRecord::Delay,
                // Sitemaps and what others invented belong to no group and end none (section 2.2.4).
                _ => continue,
            };
            heading = false;
            for group in
                [in_own.then_some(&mut own), in_everyone.then_some(&mut everyone)].into_iter().flatten()
            {
                group.add(&record, value);
            }
        }
        if own.named { own.finish() } else { everyone.finish() }
    }

    /// Whether the path (with its query, as in a request line) may be fetched.
    pub fn allows(&self, path_and_query: &str) -> bool {
        let path = normalize(path_and_query.as_bytes());
        // Section 2.2.2: robots.txt itself is implicitly allowed.
        if path == b"/robots.txt" {
            return true;
        }
        self.rules.iter().find(|rule| rule.matches(&path)).is_none_or(|rule| rule.allow)
    }

    /// The least pause between two visits that the site asks for, at most two minutes.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    fn bytes(&self) -> usize {
        self.rules.iter().map(|rule| rule.pattern.len() + size_of::<PathRule>()).sum::<usize>()
            + size_of::<Self>()
    }
}

enum RobotsRecord {
    Rule(bool),
    Delay,
}

#[derive(Default)]
struct AgentGroup {
    named: bool,
    rules: Vec<PathRule>,
    crawl_delay: Option<Duration>,
}

impl AgentGroup {
    fn add(&mut self, record: &RobotsRecord, value: &[u8]) {
        match record {
            RobotsRecord::Delay => {
                let seconds = std::str::from_utf8(value).ok().and_then(|v| v.parse::<f64>().ok());
                let seconds = seconds.filter(|s| s.is_finite() && *s > 0.0);
                self.crawl_delay = seconds
                    .map(|s| Duration::from_secs_f64(s.min(CRAWL_DELAY_MAX.as_secs_f64())))
                    .max(self.crawl_delay);
            }
            // An empty pattern matches nothing (section 2.2.2): "Disallow:" is the old way to allow everything.
            RobotsRecord::Rule(allow) if value.starts_with(b"/") || value.starts_with(b"*") => {
                let (value, anchored) = match value.strip_suffix(b"$") {
                    Some(value) => (value, true),
                    None => (value, false),
                };
                self.rules.push(PathRule { pattern: normalize(value).into(), anchored, allow: *allow });
            }
            RobotsRecord::Rule(_) => {}
        }
    }

    fn finish(mut self) -> Robots {
        let length = |rule: &PathRule| rule.pattern.len() + usize::from(rule.anchored);
        self.rules.sort_by_key(|rule| (std::cmp::Reverse(length(rule)), !rule.allow));
        Robots { rules: self.rules, crawl_delay: self.crawl_delay }
    }
}

impl PathRule {
    /// Linear in path and pattern: each literal between stars is searched from where the one before ended, and the
    /// earliest place is always as good as any later one.
    fn matches(&self, path: &[u8]) -> bool {
        let mut literals = self.pattern.split(|b| *b == b'*');
        let first = literals.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else { return false };
        let mut starred = false;
        let mut last: &[u8] = b"";
        for literal in literals {
            if starred {
                match memmem::find(rest, last) {
                    Some(at) => rest = &rest[at + last.len()..],
                    None => return false,
                }
            }
            (starred, last) = (true, literal);
        }
        match (starred, self.anchored) {
            (false, anchored) => !anchored || rest.is_empty(),
            (true, true) => rest.ends_with(last),
            (true, false) => memmem::find(rest, last).is_some(),
        }
    }
}

/// A user-agent line's product token: what stands before a version or a comment.
fn product_token(value: &[u8]) -> &[u8] {
    let end =
        value.iter().position(|b| matches!(b, b'/' | b' ' | b'\t' | b'(' | b';')).unwrap_or(value.len());
    &value[..end]
}

/// The product token of a whole `User-Agent` header.
pub fn agent_token(user_agent: &str) -> &str {
    std::str::from_utf8(product_token(user_agent.trim().as_bytes())).unwrap_or_default()
}

/// One form for what is written in several: bytes beyond ASCII are encoded, encoded unreserved characters are decoded,
/// and hexadecimal digits are upper case (RFC 9309, section 2.2.2; RFC 3986, section 6.2.2).
fn normalize(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let hex = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let push_encoded = |out: &mut Vec<u8>, byte: u8| {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    };
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let digits = (text.get(at + 1).copied().and_then(hex), text.get(at + 2).copied().and_then(hex));
        match (byte, digits) {
            (b'%', (Some(high), Some(low))) => {
                let decoded = high << 4 | low;
                if decoded.is_ascii_alphanumeric() || b"-._~".contains(&decoded) {
                    out.push(decoded);
                } else {
                    push_encoded(&mut out, decoded);
                }
                at += 3;
            }
            (byte, _) => {
                if byte.is_ascii() {
                    out.push(byte)
                } else {
                    push_encoded(&mut out, byte)
                }
                at += 1;
            }
        }
    }
    out
}

/// What is known about an origin's robots.txt.
#[derive(Debug, Clone)]
pub enum RobotsAnswer {
    Rules(Arc<Robots>),
    /// Nobody knows, so nothing may be fetched for now. The reason is fit for a customer.
    Unreachable {
        reason: String,
        outcome: Outcome,
    },
}

/// The rules of recently visited origins.
#[derive(Default)]
pub struct RobotsCache {
    inner: Mutex<CacheInner>,
}

#[derive(Default)]
struct CacheInner {
    origins: HashMap<Box<str>, CacheSlot>,
    bytes: usize,
    clock: u64,
}

struct CacheSlot {
    /// Held while the origin is asked, so that everybody else waits for the one answer.
    entry: Arc<tokio::sync::Mutex<Option<CachedAnswer>>>,
    last_used: u64,
    bytes: usize,
}

struct CachedAnswer {
    answer: RobotsAnswer,
    until: Instant,
}

impl RobotsCache {
    /// The answer for `origin`, from the cache or by `ask`. An error of `ask` is handed on and not kept.
    pub async fn get<F>(&self, origin: &str, ask: F) -> Result<RobotsAnswer, FetchError>
    where
        F: Future<Output = Result<RobotsAnswer, FetchError>>,
    {
        let entry = self.entry(origin);
        let mut known = entry.lock().await;
        if let Some(known) = known.as_ref().filter(|known| Instant::now() < known.until) {
            return Ok(known.answer.clone());
        }
        let answer = ask.await?;
        let (answer, keep_for) = match (answer, known.take().map(|known| known.answer)) {
            (RobotsAnswer::Unreachable { .. }, Some(RobotsAnswer::Rules(old))) => {
                (RobotsAnswer::Rules(old), UNREACHABLE_FOR)
            }
            (answer @ RobotsAnswer::Unreachable { .. }, _) => (answer, UNREACHABLE_FOR),
            (answer, _) => (answer, FRESH_FOR),
        };
        *known = Some(CachedAnswer { answer: answer.clone(), until: Instant::now() + keep_for });
        self.weigh(origin, &answer);
        Ok(answer)
    }

    fn entry(&self, origin: &str) -> Arc<tokio::sync::Mutex<Option<CachedAnswer>>> {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let clock = inner.clock;
        if let Some(slot) = inner.origins.get_mut(origin) {
            slot.last_used = clock;
            return Arc::clone(&slot.entry);
        }
        inner.shrink();
        let slot = CacheSlot { entry: Arc::default(), last_used: clock, bytes: 0 };
        let entry = Arc::clone(&slot.entry);
        inner.origins.insert(origin.into(), slot);
        entry
    }

    /// Notes how much an origin's rules take, and makes room when that is too much.
    fn weigh(&self, origin: &str, answer: &RobotsAnswer) {
        let bytes = match answer {
            RobotsAnswer::Rules(rules) => rules.bytes(),
            RobotsAnswer::Unreachable { reason, .. } => reason.len(),
        };
        let mut inner = self.inner.lock();
        if let Some(slot) = inner.origins.get_mut(origin) {
            let before = std::mem::replace(&mut slot.bytes, bytes);
            inner.bytes = inner.bytes - before + bytes;
        }
        inner.shrink();
    }

    #[cfg(test)]
    fn size(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.origins.len(), inner.bytes)
    }
}

impl CacheInner {
    /// Drops the half that was used longest ago when a bound is reached: rare, so it may take a sort.
    fn shrink(&mut self) {
        while self.origins.len() >= ORIGINS_MAX || (self.bytes > CACHE_BYTES_MAX && self.origins.len() > 1) {
            let mut ages: Vec<u64> = self.origins.values().map(|slot| slot.last_used).collect();
            ages.sort_unstable();
            let median = ages[(ages.len() - 1) / 2];
            self.origins.retain(|_, slot| slot.last_used > median);
            self.bytes = self.origins.values().map(|slot| slot.bytes).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(text: &str, path: &str) -> bool {
        Robots::parse(text.as_bytes(), "Gleaner").allows(path)
    }

    #[test]
    fn picks_the_group_that_names_the_box() {
        let text = "User-agent: *\nDisallow: /\n\nUser-agent: GLEANER/1.0\nUser-agent: other\nDisallow: /private\n\
                    Sitemap: http://a/s.xml\nUser-agent: gleaner\nDisallow: /more # a second group of ours\n";
        for (path, allowed) in [("/", true), ("/private/x", false), ("/more", false), ("/p", true)] {
            assert_eq!(allows(text, path), allowed, "{path}");
        }
        assert!(!Robots::parse(text.as_bytes(), "somebody").allows("/p"));
        assert!(Robots::parse(text.as_bytes(), "somebody").allows("/robots.txt"));
        // A group that names the box and says nothing allows everything.
        assert!(allows("User-agent: *\nDisallow: /\nUser-agent: gleaner\nCrawl-delay: 2", "/a"));
        // A longer name is another robot.
        assert!(allows("User-agent: gleanerbot\nDisallow: /", "/a"));
        assert!(allows("", "/a") && allows("<html>not found</html>", "/a"));
        assert!(allows("Disallow: /", "/a"), "a rule outside any group");
    }

    #[test]
    fn matches_patterns() {
        for (rule, path, matched) in [
            ("/", "/anything", true),
            ("/fish", "/fish.html", true),
            ("/fish", "/catfish", false),
            ("/fish/", "/fish", false),
            ("/*.php", "/folder/any.php?x=1", true),
            ("/*.php$", "/filename.php", true),
            ("/*.php$", "/filename.php?x", false),
            ("/*.php$", "/a.php.php", true),
            ("/fish*.php", "/fishheads/catfish.php", true),
            ("/fish*.php", "/Fish.php", false),
            ("*/search", "/en/search?q=1", true),
            ("/*?sort=", "/list?page=2", false),
            ("/*?sort=", "/list?sort=price", true),
            ("/a*b*c$", "/a-b-c-b-c", true),
            ("/a*b*c$", "/a-c-b", false),
            ("/a$", "/a", true),
            ("/a$", "/ab", false),
            ("/a*$", "/ab", true),
            ("/*a*a", "/a", false),
            ("/caf%c3%a9", "/caf%C3%A9/menu", true),
            ("/café", "/caf%C3%A9/menu", true),
            ("/%7Euser", "/~user/", true),
            ("/a%2Fb", "/a/b", false),
            ("/50%", "/50%", true),
        ] {
            assert_eq!(!allows(&format!("User-agent: *\nDisallow: {rule}"), path), matched, "{rule} {path}");
        }
    }

    #[test]
    fn the_longest_rule_wins_and_allow_wins_a_tie() {
        for (rules, path, allowed) in [
            ("Disallow: /\nAllow: /p", "/page", true),
            ("Allow: /p\nDisallow: /page", "/page", false),
            ("Allow: /folder\nDisallow: /folder", "/folder/page", true),
            ("Allow: /page\nDisallow: /*.htm", "/page.htm", false),
            ("Allow: /$\nDisallow: /", "/", true),
            ("Allow: /$\nDisallow: /", "/page.htm", false),
            ("Disallow:", "/x", true),
            ("Disallow: relative", "/relative", true),
        ] {
            assert_eq!(allows(&format!("User-agent: *\n{rules}"), path), allowed, "{rules} {path}");
        }
    }

    #[test]
    fn reads_line_ends_marks_and_delays() {
        assert!(!allows("\u{feff}User-Agent : *\r\nDISALLOW : /x\r", "/x"));
        assert!(!allows("user-agent: *\rdisallow: /x", "/x"));
        let delay = |text: &str| {
            Robots::parse(format!("User-agent: *\nCrawl-delay: {text}").as_bytes(), "Gleaner").crawl_delay()
        };
        assert_eq!(delay("1.5"), Some(Duration::from_millis(1500)));
        assert_eq!(delay("86400"), Some(CRAWL_DELAY_MAX));
        for text in ["", "soon", "-1", "0", "NaN", "inf"] {
            assert_eq!(delay(text), None, "{text}");
        }
    }

    #[test]
    fn reads_only_the_first_part_of_a_long_file() {
        let text = format!("User-agent: *\nDisallow: /x\n{}\nDisallow: /y\n", "#".repeat(ROBOTS_BYTES_MAX));
        assert!(!allows(&text, "/x") && allows(&text, "/y"));
    }

    #[test]
    fn a_hostile_pattern_costs_little() {
        let path = format!("/{}", "a".repeat(2000));
        let text = format!("User-agent: *\nDisallow: /{}b", "*a".repeat(100_000));
        let started = Instant::now();
        assert!(allows(&text, &path));
        assert!(started.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn asks_an_origin_once_and_keeps_bounds() {
        let cache = RobotsCache::default();
        let rules =
            || RobotsAnswer::Rules(Arc::new(Robots::parse(b"User-agent: *\nDisallow: /x", "Gleaner")));
        let asked = std::sync::atomic::AtomicU32::new(0);
        let ask = || async {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(rules())
        };
        let (a, b) = tokio::join!(cache.get("http://a", ask()), cache.get("http://a", ask()));
        assert!(matches!((a, b), (Ok(RobotsAnswer::Rules(_)), Ok(RobotsAnswer::Rules(_)))));
        assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1);

        for n in 0..ORIGINS_MAX * 2 {
            cache.get(&format!("http://{n}"), async { Ok(rules()) }).await.unwrap();
        }
        let (origins, bytes) = cache.size();
        assert!((ORIGINS_MAX / 4..ORIGINS_MAX).contains(&origins), "{origins}");
        assert!(bytes <= CACHE_BYTES_MAX && bytes >= origins * 10, "{bytes}");
        cache
            .get(&format!("http://{}", ORIGINS_MAX * 2 - 1), async { panic!("the newest is still known") })
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn keeps_old_rules_when_the_origin_is_unreachable() {
        let cache = RobotsCache::default();
        let unreachable =
            || RobotsAnswer::Unreachable { reason: "down".into(), outcome: Outcome::NetworkError };
        let forget = |origin: &str| {
            cache.entry(origin).try_lock().unwrap().as_mut().unwrap().until = Instant::now();
        };
        let first = cache.get("http://a", async { Ok(unreachable()) }).await.unwrap();
        assert!(matches!(first, RobotsAnswer::Unreachable { .. }));
        forget("http://a");
        cache
            .get("http://a", async { Ok(RobotsAnswer::Rules(Arc::new(Robots::allow_all()))) })
            .await
            .unwrap();
        forget("http://a");
        let third = cache.get("http://a", async { Ok(unreachable()) }).await.unwrap();
        assert!(matches!(third, RobotsAnswer::Rules(_)));
        // A refusal by the guard is nobody's robots.txt, and is not remembered.
        let error = cache.get("http://b", async { Err(FetchError::TooManyRedirects { max: 5 }) }).await;
        assert!(error.is_err());
        assert!(cache.get("http://b", async { Ok(unreachable()) }).await.is_ok());
    }
}
