//! Files as objects of a bucket in S3-compatible storage.

use super::super::super::places::S3PlaceV1;
use super::super::{Within, endpoint};
use super::{open, seal, wrong};
use base::ids::{OrgId, OutputId};
use base::web::{URL_BYTES_MAX, WebUrl};
use base::{Error, Result};
use s3::{
    ACCESS_KEY_BYTES_MAX, PREFIX_BYTES_MAX, REGION_BYTES_MAX, S3Settings, SECRET_BYTES_MAX, SettingError,
};
use schemars::JsonSchema;
use secrets::keyring::Keyring;
use serde::{Deserialize, Serialize};

const SECRET: &str = "s3_secret";
/// What Amazon's first region is called; servers without regions take it.
const REGION: &str = "us-east-1";

/// A bucket. It has no `Debug`: its secret is for nobody's eyes.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "S3OfFiles")]
pub(in super::super::super) struct S3Terms {
    /// It must exist.
    #[schemars(length(min = 3, max = 63))]
    bucket: Option<String>,
    /// Where the server is, as `https://host:port`; Amazon's own of the region when left out. Private addresses are refused unless
    /// `network.allow` opens them.
    #[schemars(length(max = URL_BYTES_MAX))]
    endpoint: Option<String>,
    /// `us-east-1` unless said otherwise, which servers without regions take.
    #[schemars(length(min = 1, max = REGION_BYTES_MAX))]
    region: Option<String>,
    /// What keys begin with, before `path`; without `/` at its ends.
    #[schemars(length(max = PREFIX_BYTES_MAX))]
    prefix: Option<String>,
    #[schemars(length(min = 1, max = ACCESS_KEY_BYTES_MAX))]
    access_key_id: Option<String>,
    /// It is sealed, and not shown again. Given again where `endpoint`, `region`, `bucket` or `accessKeyId` change.
    #[schemars(length(min = 1, max = SECRET_BYTES_MAX))]
    secret_access_key: Option<String>,
    /// Whether the bucket is named in the path and not in the host; true where an endpoint is given and nothing is said.
    path_style: Option<bool>,
    /// Whether the storage keeps `If-None-Match: *`, which a Delta log needs to be written by several at once; true unless said
    /// otherwise. The box tries it before it believes it.
    conditional_puts: Option<bool>,
}

/// A bucket as it is shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "S3OfFilesView")]
pub(in super::super::super) struct S3View {
    bucket: String,
    /// Null for Amazon's own.
    endpoint: Option<String>,
    region: String,
    prefix: String,
    access_key_id: String,
    path_style: bool,
    conditional_puts: bool,
}

impl From<S3PlaceV1> for S3View {
    fn from(row: S3PlaceV1) -> S3View {
        S3View {
            bucket: row.bucket,
            endpoint: row.endpoint,
            region: row.region,
            prefix: row.prefix,
            access_key_id: row.access_key_id,
            path_style: row.path_style,
            conditional_puts: row.conditional_puts,
        }
    }
}

fn named(field: &str) -> String {
    format!("s3.{field}")
}

pub(super) fn made(id: OutputId, terms: S3Terms, path: &str, within: &Within<'_>) -> Result<S3PlaceV1> {
    let missing = |field: &str| wrong(&named(field), "is missing");
    let blank = S3PlaceV1 {
        endpoint: None,
        region: REGION.to_owned(),
        bucket: terms.bucket.clone().ok_or_else(|| missing("bucket"))?,
        prefix: String::new(),
        access_key_id: terms.access_key_id.clone().ok_or_else(|| missing("accessKeyId"))?,
        sealed_secret: Vec::new(),
        path_style: terms.path_style.unwrap_or(terms.endpoint.is_some()),
        conditional_puts: true,
    };
    if terms.secret_access_key.is_none() {
        return Err(missing("secretAccessKey"));
    }
    with(id, blank, terms, path, within)
}

pub(super) fn changed(
    id: OutputId,
    before: S3PlaceV1,
    terms: S3Terms,
    path: &str,
    within: &Within<'_>,
) -> Result<S3PlaceV1> {
    let is_given = terms.secret_access_key.is_some();
    let after = with(id, before.clone(), terms, path, within)?;
    let place = |row: &S3PlaceV1| {
        (row.endpoint.clone(), row.region.clone(), row.bucket.clone(), row.access_key_id.clone())
    };
    // Who may change an output need not know its secret, and must not have it used at a place of their own.
    if place(&before) != place(&after) && !is_given {
        let told = "is to be given again when endpoint, region, bucket or accessKeyId change";
        return Err(wrong(&named("secretAccessKey"), told));
    }
    Ok(after)
}

/// A place with these terms in the place of its own.
fn with(
    id: OutputId,
    mut row: S3PlaceV1,
    terms: S3Terms,
    path: &str,
    within: &Within<'_>,
) -> Result<S3PlaceV1> {
    if let Some(given) = terms.endpoint {
        row.endpoint = Some(endpoint("files.s3.endpoint", &given, within.guard)?.origin().to_owned());
        // What more it says is a fault of theirs, and no part of an endpoint.
        if WebUrl::parse(&given).is_ok_and(|url| url.path_and_query() != "/") {
            return Err(wrong(&named("endpoint"), "must have no path and no query"));
        }
    }
    row.region = terms.region.unwrap_or(row.region);
    row.bucket = terms.bucket.unwrap_or(row.bucket);
    row.prefix = terms.prefix.unwrap_or(row.prefix);
    row.access_key_id = terms.access_key_id.unwrap_or(row.access_key_id);
    row.path_style = terms.path_style.unwrap_or(row.path_style);
    row.conditional_puts = terms.conditional_puts.unwrap_or(row.conditional_puts);
    // One that is kept was judged when it came.
    let secret = terms.secret_access_key.clone().unwrap_or_else(|| "-".to_owned());
    let settings = settings_of(&row, secret, path)?;
    settings.check().map_err(|SettingError { field, reason }| wrong(&named(field), reason))?;
    if let Some(secret) = terms.secret_access_key {
        row.sealed_secret = seal(id, SECRET, &secret, within)?;
    }
    Ok(row)
}

fn settings_of(row: &S3PlaceV1, secret: String, path: &str) -> Result<S3Settings> {
    let endpoint = row.endpoint.as_deref().map(WebUrl::parse).transpose();
    let endpoint = endpoint.map_err(|e| Error::internal("read the endpoint of an output", e))?;
    let prefix = if row.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", row.prefix) };
    Ok(S3Settings {
        endpoint,
        region: row.region.clone(),
        bucket: row.bucket.clone(),
        prefix,
        access_key_id: row.access_key_id.clone(),
        secret_access_key: secret,
        path_style: row.path_style,
        conditional_puts: row.conditional_puts,
        checksum: None,
    })
}

pub(super) fn settings(
    keyring: &Keyring,
    of: (OrgId, OutputId),
    row: &S3PlaceV1,
    path: &str,
) -> Result<S3Settings> {
    settings_of(row, open(keyring, of, SECRET, &row.sealed_secret)?, path)
}
