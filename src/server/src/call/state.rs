//! What every request finds: the box's parts, and what is counted over all requests.

use crate::call::access::{Authenticator, Gatekeeper};
use crate::call::body_budget::BodyBudgets;
use crate::call::description::Description;
use crate::call::inner::InnerApi;
use crate::call::readiness::Readiness;
use crate::call::scheduler::FairScheduler;
use crate::docs;
use crate::metrics::Metrics;
use crate::services::Services;
use crate::settings::ApiSettings;
use crate::slow::SlowLines;
use base::trace::Tracer;
use bytes::Bytes;
use serde_json::json;
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::watch;

/// What requests are answered with, the same for all of them. It knows no route: what asks and what answers hold it both.
pub(crate) struct ApiState {
    pub(crate) services: Arc<Services>,
    pub(crate) authenticator: Box<dyn Authenticator>,
    pub(crate) gatekeeper: Box<dyn Gatekeeper>,
    pub(crate) settings: ApiSettings,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    pub(crate) body_budgets: BodyBudgets,
    pub(crate) scheduler: Arc<FairScheduler>,
    /// What the operations are.
    pub(crate) description: Arc<Description>,
    openapi: OnceLock<Bytes>,
    reference: OnceLock<Bytes>,
    /// Where traces of requests begin.
    pub(crate) tracer: Tracer,
    /// Which requests are told of as slow; none in a box that was not told when one is.
    pub(crate) slow: Option<Arc<SlowLines>>,
    /// Who answers what the box asks itself.
    pub(crate) inner: OnceLock<Weak<dyn InnerApi>>,
    draining: watch::Sender<bool>,
}

/// What [`ApiState`] is made of, and where it begins.
pub(crate) struct Parts {
    pub(crate) services: Arc<Services>,
    pub(crate) authenticator: Box<dyn Authenticator>,
    pub(crate) gatekeeper: Box<dyn Gatekeeper>,
    pub(crate) settings: ApiSettings,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    pub(crate) description: Arc<Description>,
    pub(crate) tracer: Tracer,
    pub(crate) slow: Option<Arc<SlowLines>>,
}

impl ApiState {
    pub(crate) fn new(parts: Parts) -> Arc<ApiState> {
        let Parts {
            services,
            authenticator,
            gatekeeper,
            settings,
            metrics,
            readiness,
            description,
            tracer,
            slow,
        } = parts;
        Arc::new(ApiState {
            services,
            authenticator,
            gatekeeper,
            body_budgets: BodyBudgets::new(settings.bodies_bytes_max, &metrics),
            scheduler: FairScheduler::new(),
            settings,
            metrics,
            readiness,
            description,
            openapi: OnceLock::new(),
            reference: OnceLock::new(),
            tracer,
            slow,
            inner: OnceLock::new(),
            draining: watch::Sender::new(false),
        })
    }

    /// The OpenAPI document, with where this box serves it.
    pub(crate) fn openapi(&self) -> &Bytes {
        self.openapi.get_or_init(|| {
            let document = self.description.document();
            if self.settings.prefix.is_empty() {
                return document.to_string().into();
            }
            let mut document = document.clone();
            document["servers"] = json!([{ "url": self.settings.prefix }]);
            document.to_string().into()
        })
    }

    /// The page that is made from it.
    pub(crate) fn reference(&self) -> &Bytes {
        let page = || docs::reference(&self.settings.prefix, self.description.document()).into();
        self.reference.get_or_init(page)
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// From now on the box calls itself not ready.
    pub(crate) fn start_draining(&self) {
        self.draining.send_replace(true);
    }

    /// Waits until the box drains.
    pub(crate) async fn drained(&self) {
        // The sender is here as long as this is.
        let _ = self.draining.subscribe().wait_for(|draining| *draining).await;
    }
}
