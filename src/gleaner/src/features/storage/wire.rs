//! Storages on the wire: what a caller asks for, checked, and what is shown.

use super::places;
use super::rows::{ChecksumKind, OBJECTS_TO_GO, STORAGE_SUMS, StorageV1};
use super::service::Storages;
use crate::features::extraction::PAGES;
use base::clock::Timestamp;
use base::web::{URL_BYTES_MAX, WebUrl};
use base::{Code, Error, Result};
use fetch::AddressGuard;
use s3::{
    ACCESS_KEY_BYTES_MAX, PREFIX_BYTES_MAX, REGION_BYTES_MAX, S3Settings, SECRET_BYTES_MAX, SettingError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::OrgRead;

/// Where storages are that say nothing of a region, and what Amazon's own first one is called.
const REGION: &str = "us-east-1";
/// Objects that are to go are counted up to here.
const TO_GO_MAX: usize = 100_000;

base::words! {
    /// Where pages lie.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum StorageKind {
        /// In the box's own folder.
        Local "local",
        /// In S3-compatible storage of the organization's own.
        S3 "s3",
    }
}

base::words! {
    /// How pages get to where they are to lie.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum MoveState {
        /// All of them lie there, but for those that have just come.
        Done "done",
        /// Some are on their way.
        Moving "moving",
        /// A storage does not work; it is asked again and again.
        Failing "failing",
        /// The box's disk has no room for pages that are to come back.
        NoRoom "no_room",
    }
}

/// A storage as a caller asks for it. It has no `Debug`: its secret is for nobody's eyes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewStorage {
    pub kind: StorageKind,
    /// The name of the bucket, which must exist.
    #[schemars(length(min = 3, max = 63))]
    #[serde(default)]
    bucket: Option<String>,
    /// Where the server is, as `https://host:port`; Amazon's own of the region when left out. Private addresses are refused
    /// unless `network.allow` opens them.
    #[schemars(length(max = URL_BYTES_MAX))]
    #[serde(default)]
    endpoint: Option<String>,
    /// The bucket's region; `us-east-1` when left out, which servers without regions take.
    #[schemars(length(min = 1, max = REGION_BYTES_MAX))]
    #[serde(default)]
    region: Option<String>,
    /// What keys begin with, without `/` at its ends.
    #[schemars(length(max = PREFIX_BYTES_MAX))]
    #[serde(default)]
    prefix: Option<String>,
    #[schemars(length(min = 1, max = ACCESS_KEY_BYTES_MAX))]
    #[serde(default)]
    access_key_id: Option<String>,
    /// Kept sealed, and never shown. May be left out where the same bucket goes on with the same access key.
    #[schemars(length(min = 1, max = SECRET_BYTES_MAX))]
    #[serde(default)]
    secret_access_key: Option<String>,
    /// Whether the bucket is named in the path and not in the host: as MinIO and Ceph mostly want it. True when an endpoint is
    /// given and nothing is said.
    #[serde(default)]
    path_style: Option<bool>,
    /// Whether the server knows `If-None-Match` when it takes an object; true when left out.
    #[serde(default)]
    conditional_puts: Option<bool>,
    /// A checksum beside the signature; none when left out, as not every server knows them.
    #[serde(default)]
    checksum: Option<ChecksumKind>,
}

/// What a caller asks for, checked as far as that goes without asking anybody.
pub(super) struct Checked {
    pub settings: S3Settings,
    pub checksum: ChecksumKind,
    /// Whether no secret came with it.
    pub lacks_secret: bool,
}

/// Stands for a secret that is to be the one there is.
const AS_BEFORE: &str = "-";

impl NewStorage {
    /// The settings of a storage of S3; none where pages are to lie in the box.
    pub fn checked(self, guard: &AddressGuard) -> Result<Option<Checked>> {
        if self.kind == StorageKind::Local {
            return Ok(None);
        }
        let missing = |field: &str| Error::invalid(field, "is missing");
        let endpoint = self.endpoint.as_deref().map(|text| endpoint(text, guard)).transpose()?;
        let checksum = self.checksum.unwrap_or(ChecksumKind::None);
        let lacks_secret = self.secret_access_key.is_none();
        let settings = S3Settings {
            path_style: self.path_style.unwrap_or(endpoint.is_some()),
            endpoint,
            region: self.region.unwrap_or_else(|| REGION.to_owned()),
            bucket: self.bucket.ok_or_else(|| missing("bucket"))?,
            prefix: self.prefix.unwrap_or_default(),
            access_key_id: self.access_key_id.ok_or_else(|| missing("accessKeyId"))?,
            secret_access_key: self.secret_access_key.unwrap_or_else(|| AS_BEFORE.to_owned()),
            conditional_puts: self.conditional_puts.unwrap_or(true),
            checksum: checksum.of_s3(),
        };
        settings.check().map_err(|SettingError { field, reason }| Error::invalid(field, reason))?;
        Ok(Some(Checked { settings, checksum, lacks_secret }))
    }
}

fn endpoint(text: &str, guard: &AddressGuard) -> Result<WebUrl> {
    let refuse = |reason: String| Error::new(Code::InvalidUrl).message(format!("endpoint: {reason}"));
    let url = WebUrl::parse(text).map_err(|e| refuse(e.to_string()))?;
    guard.check_literal(&url).map_err(|refused| refuse(refused.to_string()))?;
    Ok(url)
}

impl Checked {
    /// The row of it, its secret still to be sealed.
    pub fn row(&self) -> StorageV1 {
        let settings = &self.settings;
        StorageV1 {
            number: 0,
            bucket: settings.bucket.clone(),
            endpoint: settings.endpoint.as_ref().map(|url| url.origin().to_owned()),
            region: settings.region.clone(),
            prefix: settings.prefix.clone(),
            access_key_id: settings.access_key_id.clone(),
            sealed_secret: Vec::new(),
            path_style: settings.path_style,
            conditional_puts: settings.conditional_puts,
            checksum: self.checksum,
            is_target: true,
            revision: 0,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        }
    }
}

/// Pages, and what they take, compressed.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PagesView {
    pages: u64,
    bytes: u64,
}

/// What is wrong with a storage.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StorageErrorView {
    bucket: String,
    /// In a word: `no_such_bucket`, `bad_secret`, `slow_down` …
    fault: String,
    message: String,
    since: Timestamp,
}

/// How pages get there.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MoveView {
    state: MoveState,
    /// Pages that are not yet where they are to lie.
    left: PagesView,
    /// Objects in storages that are still to be removed; 100,000 stands for that many or more.
    objects_to_remove: usize,
    error: Option<StorageErrorView>,
}

/// Where the organization's pages lie.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StorageView {
    kind: StorageKind,
    bucket: Option<String>,
    /// Null for Amazon's own.
    endpoint: Option<String>,
    region: Option<String>,
    prefix: Option<String>,
    access_key_id: Option<String>,
    path_style: Option<bool>,
    conditional_puts: Option<bool>,
    checksum: Option<ChecksumKind>,
    updated_at: Option<Timestamp>,
    /// What lies in the box's own folder. New pages always come there first.
    local: PagesView,
    /// What lies in storages of the organization's own.
    remote: PagesView,
    #[serde(rename = "move")]
    moving: MoveView,
}

impl StorageView {
    pub fn of(tx: &OrgRead<'_>, storages: &Storages) -> Result<StorageView> {
        let rows = places::storages(tx)?;
        let target = rows.iter().find(|row| row.is_target);
        let (mut remote, mut elsewhere) = (PagesView::default(), PagesView::default());
        for row in &rows {
            let sum = tx.get(&STORAGE_SUMS, &row.number)?.unwrap_or_default();
            for view in [&mut remote].into_iter().chain((!row.is_target).then_some(&mut elsewhere)) {
                (view.pages, view.bytes) = (view.pages + sum.pages, view.bytes + sum.bytes);
            }
        }
        let all = tx.used(PAGES.name())?;
        let pages = all.rows.saturating_sub(remote.pages);
        let bytes = if pages == 0 { 0 } else { all.bytes.saturating_sub(remote.bytes) };
        let local = PagesView { pages, bytes };
        let waits = if target.is_some() { (local.pages, local.bytes) } else { (0, 0) };
        let left = PagesView { pages: elsewhere.pages + waits.0, bytes: elsewhere.bytes + waits.1 };
        let objects_to_remove = tx.count(&OBJECTS_TO_GO, TO_GO_MAX)?;
        let (failing, lacks_room) =
            storages.with_known(tx.org_id(), |state| (state.failing.clone(), state.lacks_room));
        let error = rows.iter().find_map(|row| {
            failing.get(&row.number).map(|failing| StorageErrorView {
                bucket: row.bucket.clone(),
                fault: failing.error.fault.name().to_owned(),
                message: failing.error.to_string(),
                since: failing.since,
            })
        });
        let state = match () {
            () if error.is_some() => MoveState::Failing,
            () if left.pages > 0 && lacks_room => MoveState::NoRoom,
            () if left.pages > 0 || objects_to_remove > 0 || rows.iter().any(|row| !row.is_target) => {
                MoveState::Moving
            }
            () => MoveState::Done,
        };
        let moving = MoveView { state, left, objects_to_remove, error };
        let of = |get: fn(&StorageV1) -> &str| target.map(|row| get(row).to_owned());
        Ok(StorageView {
            kind: if target.is_some() { StorageKind::S3 } else { StorageKind::Local },
            bucket: of(|row| &row.bucket),
            endpoint: target.and_then(|row| row.endpoint.clone()),
            region: of(|row| &row.region),
            prefix: of(|row| &row.prefix),
            access_key_id: of(|row| &row.access_key_id),
            path_style: target.map(|row| row.path_style),
            conditional_puts: target.map(|row| row.conditional_puts),
            checksum: target.map(|row| row.checksum),
            updated_at: target.map(|row| row.updated_at),
            local,
            remote,
            moving,
        })
    }
}
