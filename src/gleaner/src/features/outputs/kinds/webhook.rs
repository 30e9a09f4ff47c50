//! `webhook`: each event is a signed request (Standard Webhooks).

use super::super::attempt::{self, Request, Tried};
use super::super::keys;
use super::super::rows::{SignatureScheme, TargetV1, WebhookV1};
use super::super::service::Deliverer;
use super::{Made, Outgoing, Terms, Within, endpoint};
use base::clock::Now;
use base::ids::{OrgId, OutputId};
use base::limits::NAME_CHARS_MAX;
use base::web::WebUrl;
use base::{Error, Result};
use futures::future::join_all;
use http::{HeaderMap, HeaderValue};
use outputs::webhook::{self, ID_HEADER, Key, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use std::time::Duration;

/// How long a key that was replaced signs beside the new one.
const OLD_KEYS_SIGN: Duration = Duration::from_secs(24 * 3_600);

pub(super) fn made(id: OutputId, terms: Terms, within: &Within<'_>) -> Result<Made> {
    let url =
        terms.url.as_deref().ok_or_else(|| Error::invalid("url", "is missing: the endpoint of a webhook"))?;
    let url = endpoint("url", url, within.guard)?;
    let schemes = terms.signatures.unwrap_or_else(|| vec![SignatureScheme::V1]);
    if schemes.is_empty() || schemes.len() > 2 || schemes.first() == schemes.get(1) {
        return Err(Error::invalid("signatures", "names v1, v1a, or both"));
    }
    let given = terms.secret.map(|secret| {
        let key = Key::parse_secret(&secret).map_err(|e| Error::invalid("secret", e.to_string()))?;
        match schemes.contains(&SignatureScheme::V1) {
            true => Ok(key),
            false => Err(Error::invalid("secret", "is the key of v1, which is not among signatures")),
        }
    });
    let given = given.transpose()?;
    let of_scheme = |scheme: &SignatureScheme| match (&given, scheme) {
        (Some(given), SignatureScheme::V1) => Ok(given.clone()),
        _ => keys::make(*scheme),
    };
    let made = schemes.iter().map(of_scheme).collect::<Result<Vec<_>>>()?;
    let name = url.host().chars().take(NAME_CHARS_MAX).collect();
    let mut target = WebhookV1 { url: url.into_string(), keys: Vec::new(), sealed_keys: Vec::new() };
    let secrets = give_keys(id, &mut target, made, within)?;
    Ok(Made { target: TargetV1::Webhook(target), name, secrets })
}

pub(super) fn changed(
    id: OutputId,
    mut target: WebhookV1,
    terms: Terms,
    within: &Within<'_>,
) -> Result<(TargetV1, Option<Vec<String>>)> {
    if let Some(url) = terms.url {
        target.url = endpoint("url", &url, within.guard)?.into_string();
    }
    let secrets = match terms.rotate_secret {
        true => {
            let schemes = target.keys.iter().filter(|info| info.until.is_none()).map(|info| info.scheme);
            let made = schemes.map(keys::make).collect::<Result<Vec<_>>>()?;
            Some(give_keys(id, &mut target, made, within)?)
        }
        false => None,
    };
    Ok((TargetV1::Webhook(target), secrets))
}

/// Gives a webhook these keys in front of those that it has, which sign for a while beside them. What verifies them.
fn give_keys(
    id: OutputId,
    target: &mut WebhookV1,
    made: Vec<Key>,
    within: &Within<'_>,
) -> Result<Vec<String>> {
    let end = within.now.moment.after(OLD_KEYS_SIGN);
    let old = match target.keys.is_empty() {
        true => Vec::new(),
        false => keys::open(within.keyring, (within.org, id), target)?,
    };
    // Of each scheme the newest alone goes on: who rotates twice in a day wants the oldest gone.
    let going_on = old.into_iter().zip(target.keys.drain(..)).filter(|(_, info)| info.until.is_none());
    let (mut all, mut infos): (Vec<_>, Vec<_>) =
        made.iter().map(|key| (key.clone(), keys::info(key))).unzip();
    for (key, mut info) in going_on {
        info.until = Some(end);
        all.push(key);
        infos.push(info);
    }
    target.sealed_keys = keys::seal(within.keyring, (within.org, id), &all)?;
    target.keys = infos;
    Ok(made.iter().filter_map(Key::verifying).collect())
}

pub(super) async fn send(
    deliverer: &Deliverer,
    (org, id, target): (OrgId, OutputId, &WebhookV1),
    outgoing: &[Outgoing<'_>],
    now: Now,
) -> Result<Vec<Tried>> {
    let keys = keys::signing(&deliverer.keyring, (org, id), target, now.moment)?;
    let url = WebUrl::parse(&target.url).map_err(|e| Error::internal("read an output's URL", e))?;
    let seconds = now.date.millis().div_euclid(1_000);
    let sent = outgoing.iter().map(|one| {
        let headers = headers(&one.id, seconds, one.body, &keys).unwrap_or_default();
        attempt::send(deliverer.connector(), Request { org, url: &url, headers, body: one.body })
    });
    Ok(join_all(sent).await)
}

fn headers(id: &str, seconds: i64, body: &str, keys: &[Key]) -> Option<HeaderMap> {
    let signature = webhook::signature(id, seconds, body.as_bytes(), keys);
    let mut headers = HeaderMap::new();
    headers.insert(ID_HEADER, HeaderValue::from_str(id).ok()?);
    headers.insert(TIMESTAMP_HEADER, HeaderValue::from(seconds));
    headers.insert(SIGNATURE_HEADER, HeaderValue::from_str(&signature).ok()?);
    Some(headers)
}
