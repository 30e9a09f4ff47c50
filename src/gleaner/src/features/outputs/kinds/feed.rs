//! `feed`: a private address at which the newest events are read, as RSS 2.0 or Atom.
//!
//! The address has a token in it, which is shown once and kept as its SHA-256. Whoever has it reads the feed, and nothing else.

use super::super::rows::{
    BY_FEED_TOKEN, FEED_ITEMS, FEED_ITEMS_MAX, FeedItemV1, FeedV1, OUTPUTS, OutputV2, STATES, TargetV1,
};
use super::super::service::Deliverer;
use super::{Made, Terms, Within};
use base::clock::Timestamp;
use base::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use outputs::Told;
use outputs::feed::{ATOM, Feed, Item, RSS, Time, atom, rss};
use schemars::JsonSchema;
use secrets::{Digest, random_bytes, sha256};
use serde::Deserialize;
use serde_json::{Value, json};
use server::{Anonymous, Document, Path, PathParam, Query};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{OrgRead, readable};

const PREFIX: &str = "glf_";
const RANDOM_BYTES: usize = 32;
/// Characters of the random part.
const RANDOM_CHARS: usize = 43;
const SHOWN_CHARS: usize = 8;

pub(super) fn made(within: &Within<'_>) -> Result<Made> {
    let (target, address) = token(within)?;
    Ok(Made { target: TargetV1::Feed(target), name: "Feed".to_owned(), secrets: vec![address] })
}

pub(super) fn changed(
    target: FeedV1,
    terms: Terms,
    within: &Within<'_>,
) -> Result<(TargetV1, Option<Vec<String>>)> {
    if !terms.rotate_secret {
        return Ok((TargetV1::Feed(target), None));
    }
    let (target, address) = token(within)?;
    Ok((TargetV1::Feed(target), Some(vec![address])))
}

/// A new token, and the address with it.
fn token(within: &Within<'_>) -> Result<(FeedV1, String)> {
    let bytes: [u8; RANDOM_BYTES] = random_bytes().map_err(|e| Error::internal("make a feed's token", e))?;
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let target = FeedV1 { token: sha256(token.as_bytes()), shown: token[..SHOWN_CHARS].to_owned() };
    Ok((target, format!("{}/api/v1/feeds/{token}", within.base)))
}

/// What stands in a path in the place of a token: the digest of a text that may be one.
pub(in super::super) struct FeedToken(Digest);

fn unknown() -> Error {
    Error::not_found("Feed")
}

impl PathParam for FeedToken {
    fn parse(text: &str) -> Result<FeedToken> {
        let is_one = text.len() == PREFIX.len() + RANDOM_CHARS && text.starts_with(PREFIX);
        if is_one { Ok(FeedToken(sha256(text.as_bytes()))) } else { Err(unknown()) }
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

base::words! {
    /// How a feed is written.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
    pub(in super::super) enum FeedFormat {
        /// RSS 2.0.
        #[default]
        Rss "rss",
        /// Atom (RFC 4287).
        Atom "atom",
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(in super::super) struct FeedQuery {
    format: FeedFormat,
}

pub(in super::super) async fn read(
    caller: Anonymous,
    Path(FeedToken(digest)): Path<FeedToken>,
    Query(query): Query<FeedQuery>,
) -> Result<Document> {
    let (org, row) = caller.system().read(|tx| {
        let (org, row) = tx.lookup_global(&OUTPUTS, &BY_FEED_TOKEN, digest)?.ok_or_else(unknown)?;
        if tx.is_fenced(org) { Err(unknown()) } else { Ok((org, row)) }
    })?;
    let (kept, updated) = caller.system().org(org).read(|tx| {
        let kept = items(tx, &row)?;
        let updated = kept.first().map_or(row.created_at, |item| item.at).max(row.updated_at);
        Ok((kept, updated))
    })?;
    let base = caller.service::<Deliverer>().url.clone();
    let id = format!("urn:uuid:{}", row.id);
    // Its own address has the token in it: a copy of the feed is to lead nobody there.
    let own = format!("{base}/api/v1/outputs/{}", row.id);
    let feed = Feed { title: &row.name, id: &id, link: &base, own: &own, updated: time(updated) };
    let items: Vec<_> = kept.into_iter().filter_map(item).collect();
    let (media, text) = match query.format {
        FeedFormat::Rss => (RSS, rss(&feed, &items)),
        FeedFormat::Atom => (ATOM, atom(&feed, &items)),
    };
    Ok(Document::new(media, text, Some(system_time(updated))))
}

/// The newest items, newest first.
fn items(tx: &OrgRead<'_>, row: &OutputV2) -> Result<Vec<FeedItemV1>> {
    let last = tx.get(&STATES, &row.id)?.unwrap_or_default().sequence;
    let mut items = Vec::new();
    for sequence in (last.saturating_sub(FEED_ITEMS_MAX - 1).max(1)..=last).rev() {
        let item = tx.get(&FEED_ITEMS, &(row.id, sequence % FEED_ITEMS_MAX));
        let item = readable("an item of a feed", sequence, item)?.flatten();
        items.extend(item.filter(|item| item.sequence == sequence));
    }
    Ok(items)
}

fn item(row: FeedItemV1) -> Option<Item> {
    let told = Told::of(&serde_json::from_str(&row.body).ok()?);
    Some(Item { told, id: format!("urn:uuid:{}", row.event), at: time(row.at) })
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.millis()).unwrap_or(0))
}

fn time(at: Timestamp) -> Time {
    Time { rfc822: httpdate::fmt_http_date(system_time(at)), rfc3339: at.to_string() }
}
