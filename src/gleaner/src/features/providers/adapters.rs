//! The adapters: every way to a page that an organization can connect, and what each wants to know.
//!
//! `direct`, `proxy` and `browser` are built in; every hosted service is a template. An adapter's description serves
//! three ends at once: the catalog shows it, a new provider is checked against it, and its price is read off it.

use base::web::WebUrl;
use fetch::fields::{Field, FieldKind};
use fetch::provider::TIER_STANDARD;
use fetch::{CreditMatrix, FetchRequest, Template, Templates, TierPrice, Values};
use serde_json::Value;
use std::sync::Arc;

/// The built-in provider, with which every new organization starts.
pub const DIRECT: &str = "direct";
/// Pages through proxies of the organization's own.
pub const PROXY: &str = "proxy";
/// Pages as a browser on the box shows them.
pub const BROWSER: &str = "browser";
/// When a page has settled, how long that may take, and whether its pictures are loaded.
pub const WAIT_UNTIL: &str = "waitUntil";
pub const WAIT_UNTIL_PARSED: &str = "parsed";
pub const WAIT_UNTIL_LOADED: &str = "loaded";
pub const WAIT_UNTIL_IDLE: &str = "idle";
pub const WAIT_MS: &str = "waitMs";
pub const LOAD_MEDIA: &str = "loadMedia";
const WAIT_MS_DEFAULT: i64 = 5_000;
const WAIT_MS_MAX: i64 = 60_000;
/// The credential that is the list.
pub const PROXIES: &str = "proxies";
/// The login of those entries that have none of their own.
pub const USERNAME: &str = "username";
pub const PASSWORD: &str = "password";
/// Which proxy a page takes.
pub const ROTATION: &str = "rotation";
pub const ROTATION_EACH_PAGE: &str = "each_page";
pub const ROTATION_PER_DOMAIN: &str = "per_domain";
/// Where the proxies of a list stand.
pub const COUNTRY: &str = "country";
/// Whether robots.txt is obeyed, where the box fetches by itself.
pub const OBEY_ROBOTS: &str = "obeyRobots";

/// Whether the box's own address is what the target sees, so that what the target says of the pace is said to the box.
pub fn visits_itself(adapter: &str) -> bool {
    matches!(adapter, DIRECT | BROWSER)
}

/// One way to a page.
#[derive(Debug)]
pub struct Adapter {
    pub id: String,
    pub name: String,
    pub about: String,
    pub docs: Option<String>,
    /// The vendor's address; only a hosted adapter has one, and only there `baseUrl` can replace it.
    pub base_url: Option<WebUrl>,
    pub credentials: Vec<Field>,
    pub settings: Vec<Field>,
    pub credits: CreditMatrix,
    pub kind: AdapterKind,
}

/// What an adapter is made of.
#[derive(Debug, Clone)]
pub enum AdapterKind {
    Direct,
    Proxy,
    Browser,
    Hosted(Arc<Template>),
}

/// Every adapter of this box.
#[derive(Debug)]
pub struct Adapters(Vec<Arc<Adapter>>);

impl Adapters {
    pub fn new(templates: &Templates) -> Adapters {
        let built_in = [direct(), proxy(), browser()];
        let hosted = templates.iter().map(hosted);
        Adapters(built_in.into_iter().chain(hosted).map(Arc::new).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Adapter>> {
        self.0.iter()
    }

    pub fn get(&self, id: &str) -> Option<&Arc<Adapter>> {
        self.0.iter().find(|adapter| adapter.id == id)
    }
}

fn obey_robots() -> Field {
    Field::text(OBEY_ROBOTS, "Whether robots.txt of the target is obeyed.")
        .kind(FieldKind::Boolean, Some(Value::Bool(true)))
}

fn direct() -> Adapter {
    Adapter {
        id: DIRECT.to_owned(),
        name: "Direct".to_owned(),
        about: "The box fetches pages itself: HTTP/1.1 and HTTP/2, redirects, cookies of one chain."
            .to_owned(),
        docs: None,
        base_url: None,
        credentials: Vec::new(),
        settings: vec![obey_robots()],
        credits: CreditMatrix::flat(1, 1),
        kind: AdapterKind::Direct,
    }
}

fn proxy() -> Adapter {
    let proxies = "The list: http://, https://, socks5:// or socks5h://, each with user:password@ if need be, host and \
                   port; or host:port:user:password.";
    let rotation = "each_page: every page takes the next proxy. per_domain: all pages of a domain take the same one, \
                    as long as it works.";
    let choices = vec![ROTATION_EACH_PAGE.to_owned(), ROTATION_PER_DOMAIN.to_owned()];
    let country = "The country that all proxies of the list stand in (ISO 3166-1 alpha-2): jobs that ask for it go out \
                   through them. Without it the list takes no job that asks for a country. Connect a list for each.";
    Adapter {
        id: PROXY.to_owned(),
        name: "Proxy list".to_owned(),
        about: "The box fetches pages through your own HTTP, HTTPS and SOCKS5 proxies, in turn; one that fails is left \
                alone for a while."
            .to_owned(),
        docs: None,
        base_url: None,
        credentials: vec![
            Field::text(PROXIES, proxies).kind(FieldKind::TextList, None),
            Field::text(USERNAME, "User name at proxies whose entry has none.").optional(),
            Field::text(PASSWORD, "Its password.").optional(),
        ],
        settings: vec![
            obey_robots(),
            Field::text(ROTATION, rotation).kind(FieldKind::Choice(choices), Some(ROTATION_EACH_PAGE.into())),
            Field::text(COUNTRY, country).kind(FieldKind::Country, None).optional(),
        ],
        credits: CreditMatrix::flat(1, 1),
        kind: AdapterKind::Proxy,
    }
}

fn browser() -> Adapter {
    let until = "When a page is taken: parsed (its HTML has been read), loaded (what it names too), idle (and nothing \
                 has been under way for half a second).";
    let choices = [WAIT_UNTIL_PARSED, WAIT_UNTIL_LOADED, WAIT_UNTIL_IDLE].map(str::to_owned).to_vec();
    let wait =
        "Milliseconds that a page has for that once its HTML has been read; then it is taken as it is.";
    let bounds = FieldKind::Integer { min: 0, max: WAIT_MS_MAX };
    let media = "Whether pictures, films and fonts are loaded; texts are the same without, and sooner there.";
    Adapter {
        id: BROWSER.to_owned(),
        name: "Browser".to_owned(),
        about: "A Chromium on the box runs each page's scripts, in a fresh context, and hands over what stands there in \
                the end."
            .to_owned(),
        docs: None,
        base_url: None,
        credentials: Vec::new(),
        settings: vec![
            obey_robots(),
            Field::text(WAIT_UNTIL, until).kind(FieldKind::Choice(choices), Some(WAIT_UNTIL_IDLE.into())),
            Field::text(WAIT_MS, wait).kind(bounds, Some(WAIT_MS_DEFAULT.into())),
            Field::text(LOAD_MEDIA, media).kind(FieldKind::Boolean, Some(Value::Bool(false))),
        ],
        credits: CreditMatrix::flat(5, 5),
        kind: AdapterKind::Browser,
    }
}

fn hosted(template: &Arc<Template>) -> Adapter {
    Adapter {
        id: template.id.clone(),
        name: template.name.clone(),
        about: template.about.clone(),
        docs: Some(template.docs.clone()),
        base_url: Some(template.base_url.clone()),
        credentials: template.credentials.clone(),
        settings: template.settings.clone(),
        credits: template.credits.clone(),
        kind: AdapterKind::Hosted(template.clone()),
    }
}

impl Adapter {
    /// What of a request this adapter cannot do, in words; none when it can do everything.
    pub fn lacks(&self, settings: &Values, request: &FetchRequest) -> Option<String> {
        match &self.kind {
            AdapterKind::Hosted(_) if request.session.is_some() => Some(format!(
                "{} is not sent site sessions: direct, proxy and browser are, which fetch from the box",
                self.name
            )),
            AdapterKind::Hosted(template) => template.lacks(settings, request),
            AdapterKind::Direct | AdapterKind::Proxy | AdapterKind::Browser => {
                let renders = matches!(self.kind, AdapterKind::Browser);
                let stands_in = settings.get(COUNTRY).and_then(Value::as_str);
                let what = match request {
                    FetchRequest { render: true, .. } if !renders => "render pages",
                    FetchRequest { premium: true, .. } => "have a premium tier",
                    FetchRequest { country: None, .. } => return None,
                    FetchRequest { country: Some(asked), .. } => match (&self.kind, stands_in) {
                        (AdapterKind::Proxy, Some(country)) if country == asked => return None,
                        (AdapterKind::Proxy, Some(country)) => {
                            return Some(format!("{} stands in {country}, not in {asked}", self.name));
                        }
                        _ => "take a country",
                    },
                };
                Some(format!("{} does not {what}", self.name))
            }
        }
    }

    /// Whether it may be sent site sessions: a hosted service would learn them.
    pub fn sends_sessions(&self) -> bool {
        !matches!(self.kind, AdapterKind::Hosted(_))
    }

    /// What a delivery costs with these settings, `over` replacing prices of the adapter's own.
    pub fn price(&self, settings: &Values, over: &[TierPrice], render: bool, premium: bool) -> u64 {
        let (tier, render) = match &self.kind {
            AdapterKind::Direct | AdapterKind::Proxy => (TIER_STANDARD, render),
            // It renders whether it is asked to or not.
            AdapterKind::Browser => (TIER_STANDARD, true),
            AdapterKind::Hosted(template) => {
                (template.tier(settings, premium).unwrap_or(TIER_STANDARD), template.is_rendered(render))
            }
        };
        self.credits.overlaid(over).price(tier, render)
    }
}
