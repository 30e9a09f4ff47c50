//! One row of the audit log as bytes, and the link from row to row.
//!
//! A row has two parts. The body says who did what to which thing, in ids; it is chained. The personal part (address,
//! request id, an invited address) is covered by the body through a salted digest only, so that it can be erased and
//! the chain still proves that nothing else was touched. The digest says nothing without the salt, which goes with it.

use crate::event::{Detail, ResourceV1};
use crate::origin::Actor;
use base::clock::Timestamp;
use base::codec::{self, Record};
use base::digest::{Digest, sha256, sha256_of};
use base::ids::{ApiKeyId, UserId};
use base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use uuid::Uuid;

/// What stands in front of a stored row: the layout of the frame, not of the body.
const FRAME: u8 = 1;
const HEAD_BYTES: usize = 1 + 32 + 4;

/// Who acted, stored by position: add at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ActorV1 {
    System,
    Operator,
    Anonymous,
    User(UserId),
    ApiKey(ApiKeyId, UserId),
}

impl From<Actor> for ActorV1 {
    fn from(actor: Actor) -> ActorV1 {
        match actor {
            Actor::System => ActorV1::System,
            Actor::Operator => ActorV1::Operator,
            Actor::Anonymous => ActorV1::Anonymous,
            Actor::User(user) => ActorV1::User(user),
            Actor::ApiKey { key, maker } => ActorV1::ApiKey(key, maker),
        }
    }
}

impl From<ActorV1> for Actor {
    fn from(actor: ActorV1) -> Actor {
        match actor {
            ActorV1::System => Actor::System,
            ActorV1::Operator => Actor::Operator,
            ActorV1::Anonymous => Actor::Anonymous,
            ActorV1::User(user) => Actor::User(user),
            ActorV1::ApiKey(key, maker) => Actor::ApiKey { key, maker },
        }
    }
}

/// The chained part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AuditBodyV1 {
    pub at: Timestamp,
    pub actor: ActorV1,
    pub action: String,
    pub resource_type: String,
    pub resource: ResourceV1,
    /// Whom the personal part may tell of.
    pub person: Option<UserId>,
    pub details: Vec<(String, Detail)>,
    /// Of the personal part.
    pub personal: Option<Digest>,
}

impl Record for AuditBodyV1 {}

/// The part that can be erased.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AuditPersonalV1 {
    /// Random, so that the digest of a short address cannot be guessed back.
    pub salt: Uuid,
    pub ip: Option<IpAddr>,
    pub request_id: Option<String>,
    pub details: Vec<(String, String)>,
}

impl Record for AuditPersonalV1 {}

/// Where a chain begins and ends: how a cut at either side is noticed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChainHeadV1 {
    /// Number of the oldest row that is kept.
    pub first: u64,
    /// Hash of the row before it; zeros when there never was one.
    pub before: Digest,
    /// Number that the next row gets.
    pub next: u64,
    /// Hash of the newest row.
    pub hash: Digest,
    /// Time of the newest row; times never fall within a chain.
    pub last_at: Timestamp,
    /// The rest of this row under a key that is not in the data folder.
    pub seal: Option<Vec<u8>>,
}

impl Record for ChainHeadV1 {}

impl ChainHeadV1 {
    pub fn new() -> ChainHeadV1 {
        ChainHeadV1 {
            first: 1,
            before: [0; 32],
            next: 1,
            hash: [0; 32],
            last_at: Timestamp(i64::MIN),
            seal: None,
        }
    }

    /// What a seal is made over: everything but the seal, and whose chain it is.
    pub fn sealed_bytes(&self, chain: &[u8]) -> Vec<u8> {
        let numbers =
            [self.first.to_be_bytes(), self.next.to_be_bytes(), self.last_at.0.to_be_bytes()].concat();
        [b"gleaner audit head 1".as_slice(), &numbers, &self.before, &self.hash, chain].concat()
    }
}

/// The link: a row's hash covers whose chain it is in, its number, the hash before it and its body.
pub(super) fn link(chain: &[u8], number: u64, before: &Digest, body: &[u8]) -> Digest {
    sha256_of(&[b"gleaner audit 1", &[chain.len() as u8], chain, &number.to_be_bytes(), before, body])
}

/// frame (1) | hash (32) | length of the body (4) | body | personal part, which may be empty
pub(super) fn frame(hash: &Digest, body: &[u8], personal: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len() + personal.len());
    bytes.push(FRAME);
    bytes.extend_from_slice(hash);
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(personal);
    bytes
}

/// A stored row taken apart, its parts still bytes.
pub(super) struct AuditFrame<'a> {
    pub hash: Digest,
    pub body: &'a [u8],
    /// Empty when there is none, or none any more.
    pub personal: &'a [u8],
}

impl<'a> AuditFrame<'a> {
    pub fn read(bytes: &'a [u8]) -> Option<AuditFrame<'a>> {
        let (&[FRAME], rest) = bytes.split_first_chunk::<1>()? else { return None };
        let (hash, rest) = rest.split_first_chunk::<32>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (body, personal) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        Some(AuditFrame { hash: *hash, body, personal })
    }

    pub fn open(bytes: &'a [u8]) -> Result<(AuditFrame<'a>, AuditBodyV1)> {
        let framed = AuditFrame::read(bytes).ok_or_else(|| damaged("its frame is damaged"))?;
        let body = framed.opened()?;
        Ok((framed, body))
    }

    pub fn opened(&self) -> Result<AuditBodyV1> {
        codec::decode(self.body).map_err(|e| damaged(&e.to_string()))
    }

    pub fn personal(&self) -> Result<Option<AuditPersonalV1>> {
        if self.personal.is_empty() {
            return Ok(None);
        }
        codec::decode(self.personal).map(Some).map_err(|e| damaged(&e.to_string()))
    }

    /// Whether the personal part is the one that was chained, or none.
    pub fn personal_is_whole(&self, body: &AuditBodyV1) -> bool {
        self.personal.is_empty() || body.personal == Some(sha256(self.personal))
    }
}

fn damaged(reason: &str) -> Error {
    Error::internal("read an audit row", reason.to_owned())
}

pub(super) fn encode<R: Record>(part: &R) -> Result<Vec<u8>> {
    codec::encode(part).map_err(|e| Error::internal("write an audit row", e))
}
