//! Site sessions as they are stored, and what names them.
//!
//! What a session consists of is sealed: cookies and headers stand in no row in plain. Who names one (a job, a URL, a
//! schedule) says so in a row of its own beside the thing, because few do.

use base::clock::Timestamp;
use base::codec::Record;
use base::ids::{JobId, ScheduleId, SiteSessionId, UrlId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// What a session consists of.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum SiteSessionKind {
        Cookies "cookies",
        Headers "headers",
    }
}

base::words! {
    /// What the site's last answer to it says.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum SiteSessionState {
        /// It was not sent yet, or no answer said anything of it.
        #[default]
        Unknown "unknown",
        /// A page came, and no login was asked for.
        Ok "ok",
        /// The site asked for a login (401, 403, its login page), or the last cookie is over.
        Expired "expired",
    }
}

/// Cookies or headers with which a site knows the organization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteSessionV1 {
    pub id: SiteSessionId,
    /// The registrable domain.
    pub domain: String,
    pub name: String,
    pub kind: SiteSessionKind,
    /// Of its cookies, or of its headers.
    pub names: Vec<String>,
    pub sealed: Vec<u8>,
    /// When the first of its cookies is over.
    pub expires_at: Option<Timestamp>,
    /// When the last one is; none where one has no end.
    pub ends_at: Option<Timestamp>,
    pub state: SiteSessionState,
    pub last_used_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

impl Record for SiteSessionV1 {}

pub static BY_DOMAIN: Index<String, SiteSessionV1> =
    Index::new("site_sessions.by_domain", |row, keys| keys.add(&row.domain));

pub static SITE_SESSIONS: OrgTable<SiteSessionId, SiteSessionV1> =
    OrgTable::new("site_sessions", "Site session").indexed(&[&BY_DOMAIN]);

/// That something names a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSessionV1 {
    pub session: SiteSessionId,
}

impl Record for NamedSessionV1 {}

/// The session that a job is sent with.
pub static JOB_SESSIONS: OrgTable<JobId, NamedSessionV1> = OrgTable::new("site_sessions.of_jobs", "Job");

/// The session for the jobs of a URL that name none themselves.
pub static URL_SESSIONS: OrgTable<UrlId, NamedSessionV1> = OrgTable::new("site_sessions.of_urls", "URL");

/// The session for the jobs of a schedule.
pub static SCHEDULE_SESSIONS: OrgTable<ScheduleId, NamedSessionV1> =
    OrgTable::new("site_sessions.of_schedules", "Schedule");
