//! URLs as they are stored.

use base::clock::Timestamp;
use base::codec::{Json, Record};
use base::ids::{JobId, UrlId, WorkflowId};
use base::terms::{JobStatus, PageType};
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

/// A registered URL. One row per organization and normalized URL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UrlV1 {
    pub id: UrlId,
    pub url: String,
    pub domain: String,
    pub tags: Vec<String>,
    pub metadata: Json,
    pub page_type: Option<PageType>,
    pub workflow_id: Option<WorkflowId>,
    pub last_job_id: Option<JobId>,
    pub last_scraped_at: Option<Timestamp>,
    pub last_status: Option<JobStatus>,
    pub created_at: Timestamp,
}

impl Record for UrlV1 {}

pub static BY_URL: Index<String, UrlV1> = Index::unique("urls.by_url", |row, keys| keys.add(&row.url));

pub static BY_DOMAIN: Index<String, UrlV1> = Index::new("urls.by_domain", |row, keys| keys.add(&row.domain));

pub static BY_TAG: Index<String, UrlV1> = Index::new("urls.by_tag", |row, keys| {
    for tag in &row.tags {
        keys.add(tag);
    }
});

pub static URLS: OrgTable<UrlId, UrlV1> =
    OrgTable::new("urls", "URL").indexed(&[&BY_URL, &BY_DOMAIN, &BY_TAG]).fed();
