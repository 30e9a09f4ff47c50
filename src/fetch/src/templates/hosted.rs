//! A hosted provider: a template, an account, and the box's own connections.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::timeout;

use super::Template;
use super::account::Account;
use super::answer::{self, Answer};
use super::request::{self, Prepared};
use crate::body::{self, BodyError, BodyLimits, Overflow};
use crate::connect::{Connector, Outgoing};
use crate::direct::inflate;
use crate::error::FetchError;
use crate::outcome::{Fault, Outcome};
use crate::provider::{Attempt, Provider};
use crate::{BODY_BYTES_MAX, FetchRequest};
use base::ids::OrgId;

/// A page inside JSON weighs more than the page: Base64 a third, escapes at most as much again.
const ANSWER_BYTES_MAX: usize = 2 * BODY_BYTES_MAX + (64 << 10);
/// An answer beyond this is read on the blocking pool: below it, reading takes a millisecond or two.
const INLINE_BYTES_MAX: usize = 128 * 1024;

/// One account at one hosted provider.
pub struct Hosted {
    template: Arc<Template>,
    account: Arc<Account>,
    connector: Arc<Connector>,
}

impl Template {
    /// What a delivery is charged by the account's matrix.
    pub(super) fn credits_of(&self, account: &Account, request: &FetchRequest) -> u64 {
        let tier = self.tier(&account.settings, request.premium).unwrap_or_default();
        account.credits.price(tier, self.is_rendered(request.render))
    }
}

impl Hosted {
    pub fn new(template: Arc<Template>, account: Account, connector: Arc<Connector>) -> Self {
        Self { template, account: Arc::new(account), connector }
    }

    async fn attempt(&self, request: &FetchRequest) -> Attempt {
        let prepared = match request::prepare(&self.template, &self.account, request) {
            Ok(prepared) => prepared,
            Err(reason) => return Attempt::faulty(Fault::Unsupported, reason),
        };
        let mut bytes_received = 0;
        let exchange = Box::pin(self.exchange(&prepared, request.owner, &mut bytes_received));
        let answered = match timeout(request.timeout, exchange).await {
            Ok(answered) => answered,
            Err(_elapsed) => Err(FetchError::TimedOut { timeout: request.timeout }),
        };
        match answered {
            Ok(answer) => self.read(request, answer).await,
            Err(error) => {
                tracing::debug!(provider = %self.template.id, error = &error as &dyn std::error::Error, "attempt failed");
                let (outcome, fault) = Outcome::of_provider_error(&error);
                let lack = error.lack();
                let error = format!("{}: {error}", self.template.name);
                Attempt { bytes: bytes_received, fault, lack, ..Attempt::failed(outcome, error) }
            }
        }
    }

    /// Sends a request and reads its answer to the end. A redirect is an answer like any other: credentials go to the
    /// provider's own address and nowhere else.
    async fn exchange(
        &self,
        prepared: &Prepared,
        owner: Option<OrgId>,
        bytes_received: &mut u64,
    ) -> Result<Answer, FetchError> {
        let Prepared { place, path, method, headers, body } = prepared;
        let outgoing =
            Outgoing { place, path, method: method.clone(), headers, body: body.clone(), via: None, owner };
        let (response, lease) = self.connector.send(&outgoing).await?;
        let (head, body) = response.into_parts();
        let limits = BodyLimits {
            received_bytes_max: ANSWER_BYTES_MAX,
            inflated_bytes_max: ANSWER_BYTES_MAX,
            overflow: Overflow::Refuse,
        };
        let encodings = body::encodings(&head.headers)?;
        let body = body::receive(body, &head.headers, limits, bytes_received).await?;
        lease.finish();
        let body: Bytes = inflate(body, encodings, limits).await?;
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            bytes_received: *bytes_received,
        })
    }

    async fn read(&self, request: &FetchRequest, answer: Answer) -> Attempt {
        let mut attempt = if answer.body.len() <= INLINE_BYTES_MAX {
            answer::read(&self.template, &self.account, request, &answer)
        } else {
            let (template, account, asked) = (self.template.clone(), self.account.clone(), request.clone());
            let read = move || answer::read(&template, &account, &asked, &answer);
            tokio::task::spawn_blocking(read).await.unwrap_or_else(|_panic| {
                Attempt::faulty(Fault::Down, format!("{} answered unreadably", self.template.name))
            })
        };
        if attempt.page.as_ref().is_some_and(|page| page.body.len() > BODY_BYTES_MAX) {
            let reason = BodyError::TooLarge { max: BODY_BYTES_MAX }.to_string();
            attempt = Attempt {
                http_status: attempt.http_status,
                bytes: attempt.bytes,
                credits: attempt.credits,
                cost_source: attempt.cost_source,
                ..Attempt::faulty(Fault::Unsupported, reason)
            };
        }
        attempt
    }
}

impl Provider for Hosted {
    fn fetch<'a>(&'a self, request: &'a FetchRequest) -> BoxFuture<'a, Attempt> {
        async move {
            let begun = Instant::now();
            let attempt = self.attempt(request).await;
            Attempt { duration: begun.elapsed(), ..attempt }
        }
        .boxed()
    }
}
