//! The adapters: every way to a page that an organization can connect, and what each wants to know.
//!
//! `direct` is built in; every hosted service is a template. An adapter's description serves
//! three ends at once: the catalog shows it, a new provider is checked against it, and its price is read off it.

use crate::base::web::WebUrl;
use crate::engine::fetch::fields::{Field, FieldKind};
use crate::engine::fetch::provider::TIER_STANDARD;
use crate::engine::fetch::{CreditMatrix, FetchRequest, Template, Templates, TierPrice, Values};
use serde_json::Value;
use std::sync::Arc;

/// The built-in provider, with which every new organization starts.
pub const DIRECT: &str = "direct";
/// Whether robots.txt is obeyed, where the box fetches by itself.
pub const OBEY_ROBOTS: &str = "obeyRobots";

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
    pub kind: Kind,
}

/// What an adapter is made of.
#[derive(Debug, Clone)]
pub enum Kind {
    Direct,
    Hosted(Arc<Template>),
}

/// Every adapter of this box.
#[derive(Debug)]
pub struct Adapters(Vec<Arc<Adapter>>);

impl Adapters {
    pub fn new(templates: &Templates) -> Adapters {
        let built_in = [direct()];
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

fn direct() -> Adapter {
    let robots = Field::text(OBEY_ROBOTS, "Whether robots.txt of the target is obeyed.")
        .kind(FieldKind::Boolean, Some(Value::Bool(true)));
    Adapter {
        id: DIRECT.to_owned(),
        name: "Direct".to_owned(),
        about: "The box fetches pages itself: HTTP/1.1 and HTTP/2, redirects, cookies of one chain."
            .to_owned(),
        docs: None,
        base_url: None,
        credentials: Vec::new(),
        settings: vec![robots],
        credits: CreditMatrix::flat(1, 1),
        kind: Kind::Direct,
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
        kind: Kind::Hosted(template.clone()),
    }
}

impl Adapter {
    /// What of a request this adapter cannot do, in words; none when it can do everything.
    pub fn lacks(&self, settings: &Values, request: &FetchRequest) -> Option<String> {
        match &self.kind {
            Kind::Hosted(template) => template.lacks(settings, request),
            Kind::Direct => {
                let what = match request {
                    FetchRequest { render: true, .. } => "render pages",
                    FetchRequest { premium: true, .. } => "have a premium tier",
                    FetchRequest { country: Some(_), .. } => "take a country",
                    _ => return None,
                };
                Some(format!("{} does not {what}", self.name))
            }
        }
    }

    /// What a delivery costs with these settings, `over` replacing prices of the adapter's own.
    pub fn price(&self, settings: &Values, over: &[TierPrice], render: bool, premium: bool) -> u64 {
        let (tier, render) = match &self.kind {
            Kind::Direct => (TIER_STANDARD, render),
            Kind::Hosted(template) => {
                (template.tier(settings, premium).unwrap_or(TIER_STANDARD), template.is_rendered(render))
            }
        };
        self.credits.overlaid(over).price(tier, render)
    }
}
