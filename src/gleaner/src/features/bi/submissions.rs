//! Idempotency-Keys: a run that is sent twice is run once (data/docs/api.md, "Idempotency").
//!
//! A key is a UUID of the caller's choice and belongs to the organization. It is written with the row of the statement
//! it first came with; for [`KEPT`] the same request under it is answered by that statement, and another request is
//! refused. After that, or when the statement's row is gone, the key is as good as new.

use super::rows::{QUERIES, SUBMISSIONS, SubmissionV1};
use base::ids::QueryId;
use base::{Code, Error, Result};
use secrets::{Digest, sha256};
use std::time::Duration;
use store::OrgRead;
use uuid::Uuid;

/// How long a key is remembered.
pub(super) const KEPT: Duration = Duration::from_secs(86_400);

/// A key with the request it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionKey {
    pub key: Uuid,
    /// A digest of everything that makes one request another than the next.
    pub request: Digest,
}

impl SubmissionKey {
    /// The key of a request; `request` tells that from others.
    pub(super) fn of(key: Uuid, request: &[u8]) -> SubmissionKey {
        SubmissionKey { key, request: sha256(request) }
    }
}

/// What a key stands for, unless it is too old or its statement is gone.
pub(super) fn find(tx: &OrgRead<'_>, key: &Uuid) -> Result<Option<SubmissionV1>> {
    match tx.get(&SUBMISSIONS, key)? {
        Some(row) if tx.age(row.created_at) < KEPT => {
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
