//! `chat`: each event is a message in a channel, in the shape that its product takes (`data/outputs`).

use super::super::attempt::{self, Request, Tried};
use super::super::rows::{ChatProduct, ChatV1, OUTPUTS, TargetV1};
use super::super::service::Deliverer;
use super::{Made, Outgoing, Terms, Within, endpoint};
use base::ids::{OrgId, OutputId};
use base::limits::NAME_CHARS_MAX;
use base::web::WebUrl;
use base::{Error, Result};
use http::HeaderMap;
use outputs::Told;
use outputs::chat::{Product, product};
use outputs::retry::Verdict;
use secrets::keyring::{Keyring, SealContext};
use serde_json::Value;
use std::time::Duration;

fn place((org, id): &(OrgId, OutputId)) -> SealContext<'_> {
    SealContext { org: org.0.as_bytes(), table: OUTPUTS.name(), id: id.0.as_bytes(), field: "url" }
}

fn shape(named: ChatProduct) -> Result<&'static Product> {
    product(named.name()).ok_or_else(|| Error::internal("find a chat product", named.name().to_owned()))
}

pub(super) fn made(id: OutputId, terms: Terms, within: &Within<'_>) -> Result<Made> {
    let missing = |field: &str, what: &str| Error::invalid(field, format!("is missing: {what}"));
    let url = terms.url.as_deref().ok_or_else(|| missing("url", "the address of the channel's webhook"))?;
    let words: Vec<_> = ChatProduct::ALL.iter().map(|product| product.name()).collect();
    let product = terms.product.ok_or_else(|| missing("product", &words.join(", ")))?;
    let url = endpoint("url", url, within.guard)?;
    let name = url.host().chars().take(NAME_CHARS_MAX).collect();
    let target = ChatV1 { product, host: url.host().to_owned(), sealed_url: seal(id, &url, within)? };
    Ok(Made { target: TargetV1::Chat(target), name, secrets: Vec::new() })
}

pub(super) fn changed(
    id: OutputId,
    mut target: ChatV1,
    terms: Terms,
    within: &Within<'_>,
) -> Result<(TargetV1, Option<Vec<String>>)> {
    if let Some(url) = terms.url {
        let url = endpoint("url", &url, within.guard)?;
        (target.host, target.sealed_url) = (url.host().to_owned(), seal(id, &url, within)?);
    }
    target.product = terms.product.unwrap_or(target.product);
    Ok((TargetV1::Chat(target), None))
}

fn seal(id: OutputId, url: &WebUrl, within: &Within<'_>) -> Result<Vec<u8>> {
    let sealed = within.keyring.seal(&place(&(within.org, id)), url.as_str().as_bytes());
    sealed.map_err(|e| Error::internal("seal the address of a chat", e))
}

fn open(keyring: &Keyring, of: (OrgId, OutputId), target: &ChatV1) -> Result<WebUrl> {
    let plain = keyring
        .open(&place(&of), &target.sealed_url)
        .map_err(|e| Error::internal("open the address of a chat", e))?;
    let text = String::from_utf8(plain).map_err(|e| Error::internal("read a chat's address", e))?;
    WebUrl::parse(&text).map_err(|e| Error::internal("read a chat's address", e))
}

pub(super) fn pause(target: &ChatV1) -> Duration {
    Duration::from_millis(product(target.product.name()).map_or(1_000, |product| product.pause_ms))
}

pub(super) async fn send(
    deliverer: &Deliverer,
    (org, id, target): (OrgId, OutputId, &ChatV1),
    outgoing: &[Outgoing<'_>],
) -> Result<Vec<Tried>> {
    let (url, product) = (open(&deliverer.keyring, (org, id), target)?, shape(target.product)?);
    let mut tried = Vec::new();
    // One after the other: products count messages, and refuse all of them when there are too many.
    for one in outgoing {
        let message: Value =
            serde_json::from_str(one.body).map_err(|e| Error::internal("read a message", e))?;
        let body = product.message(&Told::of(&message));
        let request = Request { org, url: &url, headers: HeaderMap::new(), body: &body };
        let mut answered = attempt::send(deliverer.connector(), request).await;
        answered.verdict = verdict(product, &answered);
        tried.push(answered);
    }
    Ok(tried)
}

/// What a product's answer means.
fn verdict(product: &Product, answered: &Tried) -> Verdict {
    match answered.status {
        Some(status) if product.is_gone(status) => Verdict::Gone,
        Some(_) if answered.verdict == Verdict::Delivered && product.is_refused(&answered.told) => {
            Verdict::Failed
        }
        _ => answered.verdict,
    }
}
