//! What a session consists of, sealed by the box's key for its row and no other place.

use super::rows::{SITE_SESSIONS, SiteSessionV1};
use base::clock::Timestamp;
use base::ids::{OrgId, SiteSessionId};
use base::web::Domain;
use base::{Error, Result};
use fetch::{SessionCookie, SessionValues, SiteSession};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrets::keyring::{Keyring, SealContext};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The values of a session; its `Debug` shows none of them.
// Sealed as JSON: members are added with a default, and never renamed.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum KeptValues {
    Cookies(Vec<KeptCookie>),
    Headers(Vec<(String, String)>),
}

/// A cookie of a session.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptCookie {
    pub name: String,
    pub value: String,
    /// Its host, and whether it is for that one alone; none for the whole domain.
    pub host: Option<(String, bool)>,
    pub path: String,
    pub secure: Option<bool>,
    pub http_only: bool,
    pub expires_at: Option<Timestamp>,
}

impl fmt::Debug for KeptValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptValues::Cookies(cookies) => write!(f, "{} cookies", cookies.len()),
            KeptValues::Headers(lines) => write!(f, "{} headers", lines.len()),
        }
    }
}

impl KeptCookie {
    /// Whether a browser would hold one of the two only.
    pub fn is_same(&self, other: &KeptCookie) -> bool {
        (&self.name, &self.host, &self.path) == (&other.name, &other.host, &other.path)
    }

    pub fn bytes(&self) -> usize {
        let host = self.host.as_ref().map_or(0, |(host, _)| host.len());
        self.name.len() + self.value.len() + self.path.len() + host
    }
}

fn place<'a>(org: &'a OrgId, id: &'a SiteSessionId) -> SealContext<'a> {
    SealContext { org: org.0.as_bytes(), table: SITE_SESSIONS.name(), id: id.0.as_bytes(), field: "values" }
}

/// The values, sealed for the row of this id.
pub(super) fn seal(
    keyring: &Keyring,
    (org, id): (OrgId, SiteSessionId),
    values: &KeptValues,
) -> Result<Vec<u8>> {
    let plain = serde_json::to_vec(values).map_err(|e| Error::internal("write a site session", e))?;
    keyring.seal(&place(&org, &id), &plain).map_err(|e| Error::internal("seal a site session", e))
}

/// The session of a row, ready to be sent; cookies that are over are left out.
pub(super) fn open(
    keyring: &Keyring,
    org: OrgId,
    row: &SiteSessionV1,
    now: Timestamp,
) -> Result<Arc<SiteSession>> {
    let plain = keyring
        .open(&place(&org, &row.id), &row.sealed)
        .map_err(|e| Error::internal("open a site session", e))?;
    let values =
        serde_json::from_slice(&plain).map_err(|_| Error::internal("read a site session", "no values"))?;
    let domain = Domain::parse(&row.domain).map_err(|e| Error::internal("read a site session", e))?;
    let values = match values {
        KeptValues::Cookies(cookies) => {
            let alive = |cookie: &KeptCookie| cookie.expires_at.is_none_or(|end| end > now);
            SessionValues::Cookies(cookies.into_iter().filter(alive).map(SessionCookie::from).collect())
        }
        KeptValues::Headers(lines) => {
            let header = |(name, value): &(String, String)| {
                Some((name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
            };
            SessionValues::Headers(lines.iter().filter_map(header).collect::<HeaderMap>())
        }
    };
    Ok(Arc::new(SiteSession::new(domain, values)))
}

impl From<KeptCookie> for SessionCookie {
    fn from(kept: KeptCookie) -> SessionCookie {
        let KeptCookie { name, value, host, path, secure, http_only, .. } = kept;
        SessionCookie { name, value, host, path, secure, http_only }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::site_sessions::rows::{SiteSessionKind, SiteSessionState};
    use base::web::WebUrl;

    #[test]
    fn what_is_sealed_opens_in_its_own_row_and_without_what_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let keyring = Keyring::load_or_create(&dir.path().join("keys.toml")).unwrap();
        let cookie = |name: &str, expires_at| KeptCookie {
            name: name.to_owned(),
            value: "opensesame".to_owned(),
            host: None,
            path: "/".to_owned(),
            secure: None,
            http_only: false,
            expires_at,
        };
        let values = KeptValues::Cookies(vec![cookie("sid", Some(Timestamp(2_000)))]);
        assert!(!format!("{values:?}").contains("opensesame"));
        let (org, id) = (OrgId::new(), SiteSessionId::new());
        let mut row = SiteSessionV1 {
            id,
            domain: "shop.test".to_owned(),
            name: "a".to_owned(),
            kind: SiteSessionKind::Cookies,
            names: vec!["sid".to_owned()],
            sealed: seal(&keyring, (org, id), &values).unwrap(),
            expires_at: None,
            ends_at: None,
            state: SiteSessionState::Unknown,
            last_used_at: None,
            created_at: Timestamp(0),
        };
        assert!(!row.sealed.windows(10).any(|part| part == b"opensesame"));
        let url = WebUrl::parse("https://www.shop.test/").unwrap();
        assert!(open(&keyring, org, &row, Timestamp(1_000)).unwrap().is_sent_to(&url));
        assert!(!open(&keyring, org, &row, Timestamp(2_000)).unwrap().is_sent_to(&url), "it is over");
        assert!(open(&keyring, OrgId::new(), &row, Timestamp(1_000)).is_err(), "another organization's");
        row.id = SiteSessionId::new();
        assert!(open(&keyring, org, &row, Timestamp(1_000)).is_err(), "another row's");
    }
}
