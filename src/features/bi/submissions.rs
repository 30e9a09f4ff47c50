//! Idempotency-Keys: a run that is sent twice is run once (interface spec, "Limits"; API page, section 7).
//!
//! A key is a UUID of the caller's choice and belongs to the organization. It is written with the row of the statement
//! it first came with; for [`KEPT`] the same request under it is answered by that statement, and another request is
//! refused. After that, or when the statement's row is gone, the key is as good as new.

use super::rows::{QUERIES, SUBMISSIONS, SubmissionV1};
use crate::base::ids::QueryId;
use crate::base::{Code, Error, Result};
use crate::engine::secret::{Digest, sha256};
use crate::store::OrgRead;
use http::HeaderMap;
use std::time::Duration;
use uuid::Uuid;

/// How long a key is remembered.
pub(super) const KEPT: Duration = Duration::from_secs(86_400);
const HEADER: &str = "idempotency-key";

/// A key with the request it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionKey {
    pub key: Uuid,
    /// A digest of everything that makes one request another than the next.
    pub request: Digest,
}

impl SubmissionKey {
    /// The key in the headers, if there is one; `request` tells this request from others.
    pub(super) fn parse(headers: &HeaderMap, request: &[u8]) -> Result<Option<SubmissionKey>> {
        let mut given = headers.get_all(HEADER).iter();
        let Some(value) = given.next() else { return Ok(None) };
        let refused = |message: &str| Error::new(Code::InvalidIdempotencyKey).message(message);
        if given.next().is_some() {
            return Err(refused("Idempotency-Key is given more than once."));
        }
        let text = value.to_str().unwrap_or_default().trim();
        let hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
        let key = Uuid::parse_str(text).ok().filter(|_| hyphenated).ok_or_else(|| {
            refused("Idempotency-Key must be a UUID such as 4f9d6a2e-1f57-4c0b-9a55-0d0f6c1f7c21.")
        })?;
        Ok(Some(SubmissionKey { key, request: sha256(request) }))
    }
}

/// What a key stands for, unless it is too old or its statement is gone.
pub(super) fn find(tx: &OrgRead<'_>, key: &Uuid) -> Result<Option<SubmissionV1>> {
    match tx.get(&SUBMISSIONS, key)? {
        Some(row) if tx.now().since(row.created_at) < KEPT => {
            Ok(tx.get(&QUERIES, &row.query)?.is_some().then_some(row))
        }
        _ => Ok(None),
    }
}

/// The statement that the same request made earlier; `idempotency_conflict` when the key came with another request.
pub(super) fn earlier(tx: &OrgRead<'_>, key: &SubmissionKey) -> Result<Option<QueryId>> {
    match find(tx, &key.key)? {
        Some(row) if row.request != key.request => Err(Error::new(Code::IdempotencyConflict)
            .message("This Idempotency-Key came with another request before; send a new one.")),
        row => Ok(row.map(|row| row.query)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn parse(values: &[&'static str]) -> Result<Option<SubmissionKey>> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, HeaderValue::from_static(value));
        }
        SubmissionKey::parse(&headers, b"request")
    }

    #[test]
    fn a_key_is_one_hyphenated_uuid() {
        const KEY: &str = "4F9D6A2E-1f57-4c0b-9a55-0d0f6c1f7c21";
        assert_eq!(parse(&[]).unwrap(), None);
        assert_eq!(parse(&[KEY]).unwrap().unwrap().key, KEY.parse::<Uuid>().unwrap());
        for bad in [
            &[""][..],
            &["x"],
            &["4f9d6a2e1f574c0b9a550d0f6c1f7c21"],
            &["{4f9d6a2e-1f57-4c0b-9a55-0d0f6c1f7c21}"],
            &["urn:uuid:4f9d6a2e-1f57-4c0b-9a55-0d0f6c1f7c21"],
            &[KEY, KEY],
        ] {
            assert_eq!(parse(bad).unwrap_err().code(), Code::InvalidIdempotencyKey, "{bad:?}");
        }
    }
}
