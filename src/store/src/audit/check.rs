//! Proving a chain: that no row is missing, changed or moved, at either end or in between.
//!
//! The walk recomputes every link from the row before, and compares the ends with the head row. After a break it goes on
//! from what the next row says of itself, so that one damage is one finding and not one for every row after it.

use super::ScopedChain;
use super::row::{AuditBodyV1, AuditFrame, ChainHeadV1, link};
use crate::key::after_prefix;
use crate::raw::{RawRow, View};
use crate::shared::SealCheck;
use crate::tx::SysRead;
use base::digest::Digest;
use base::ids::OrgId;
use base::{Error, Result};
use std::ops::Bound::{Excluded, Unbounded};

/// Rows of one look into the store.
const CHUNK_ROWS: usize = 1_000;
/// Findings of one chain that are reported; the rest is a number.
const FINDINGS_MAX: usize = 20;

/// What a walk over one chain found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainReport {
    /// None for the box's own chain.
    pub org: Option<OrgId>,
    pub rows: u64,
    /// Whether the head carries a seal that was checked.
    pub sealed: bool,
    /// What is wrong, in words; empty when the chain is whole.
    pub findings: Vec<String>,
}

/// What the second bytes are as a seal of the first.
pub type CheckSeal<'a> = &'a dyn Fn(&[u8], &[u8]) -> SealCheck;

/// Organizations whose heads are looked at before a key file is called a stranger: one head may have been tampered with.
const HEADS_ASKED: usize = 16;

impl SysRead<'_> {
    /// Whether `check` knows any of the seals on the ends of the first chains, or there is none: a key file that knows none is
    /// another box's. One that was changed beside others that fit is the finding of a walk.
    pub fn knows_audit_seals(&self, check: CheckSeal<'_>) -> Result<bool> {
        let (mut org, mut strange) = (None, 0);
        for _ in 0..=HEADS_ASKED {
            let (view, chain) = self.audit_chain(org);
            // One that cannot be read is the finding of a walk, too.
            let head = chain.head(view).ok().flatten();
            if let Some((head, seal)) = head.as_ref().and_then(|head| Some((head, head.seal.as_ref()?))) {
                if check(&head.sealed_bytes(&chain.prefix), seal).fits() {
                    return Ok(true);
                }
                strange += 1;
            }
            org = match self.next_audited_org(org)? {
                Some(next) => Some(next),
                None => break,
            };
        }
        Ok(strange == 0)
    }
}

/// Walks one chain. `org` is none for the box's own.
pub(crate) fn chain(
    view: &dyn View,
    chain: &ScopedChain,
    org: Option<OrgId>,
    check_seal: Option<CheckSeal<'_>>,
) -> Result<ChainReport> {
    let mut walk = ChainWalk::new(chain);
    let head = walk.head(view, check_seal)?;
    walk.rows(view, &head)?;
    walk.index_sizes(view)?;
    if walk.hidden > 0 {
        walk.findings.push(format!("and {} more findings", walk.hidden));
    }
    Ok(ChainReport { org, rows: walk.seen, sealed: walk.sealed, findings: walk.findings })
}

struct ChainWalk<'a> {
    chain: &'a ScopedChain,
    findings: Vec<String>,
    hidden: usize,
    sealed: bool,
    seen: u64,
    actor_entries: u64,
    resource_entries: u64,
}

impl ChainWalk<'_> {
    fn new(chain: &ScopedChain) -> ChainWalk<'_> {
        ChainWalk {
            chain,
            findings: Vec::new(),
            hidden: 0,
            sealed: false,
            seen: 0,
            actor_entries: 0,
            resource_entries: 0,
        }
    }

    fn add(&mut self, finding: impl Into<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding.into());
        } else {
            self.hidden += 1;
        }
    }

    fn head(&mut self, view: &dyn View, check_seal: Option<CheckSeal<'_>>) -> Result<ChainHeadV1> {
        let Ok(head) = self.chain.head(view) else {
            self.add("the head row cannot be read");
            return Ok(ChainHeadV1::new());
        };
        let Some(head) = head else {
            if !rows_after(view, self.chain.tables.rows, &self.chain.prefix, None, 1)?.is_empty() {
                self.add("the head row is missing");
            }
            return Ok(ChainHeadV1::new());
        };
        if let Some(check) = check_seal {
            let seal = head.seal.as_ref();
            match seal.map(|seal| check(&head.sealed_bytes(&self.chain.prefix), seal)) {
                Some(SealCheck::Current | SealCheck::Older) => self.sealed = true,
                Some(SealCheck::UnknownKey(key)) => self.add(format!(
                    "its end is sealed with the key {key}, which the key file does not have: put that key back behind the \
                     newest and start the box once. Otherwise the next row says that it could not be proven"
                )),
                Some(SealCheck::Wrong) => self.add("the head row was changed: its seal does not fit"),
                None => self.add("the head row was changed: it has no seal"),
            }
        }
        Ok(head)
    }

    fn rows(&mut self, view: &dyn View, head: &ChainHeadV1) -> Result<()> {
        let (mut due, mut before) = (head.first, Some(head.before));
        let mut after = None::<Vec<u8>>;
        loop {
            let rows =
                rows_after(view, self.chain.tables.rows, &self.chain.prefix, after.as_deref(), CHUNK_ROWS)?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(last.clone());
            for (key, bytes) in rows {
                let Some(number) = number_of(&key, &self.chain.prefix) else {
                    self.add("a row has a key that is no number");
                    continue;
                };
                before = self.row(view, number, &bytes, due, before)?;
                due = number + 1;
            }
        }
        if due < head.next {
            self.add(missing(due, head.next - 1, "at the end"));
        } else if due > head.next {
            self.add(format!(
                "rows {} to {} stand after the end that the head row knows",
                head.next,
                due - 1
            ));
        } else if before.is_some_and(|hash| hash != head.hash) {
            self.add(format!("the end does not fit the head row: row {} or the head was changed", due - 1));
        }
        Ok(())
    }

    /// Looks at one row, `due` being the number that should come and `before` the hash of the row before it, if known.
    /// Gives the hash that the row says it has.
    fn row(
        &mut self,
        view: &dyn View,
        number: u64,
        bytes: &[u8],
        due: u64,
        mut before: Option<Digest>,
    ) -> Result<Option<Digest>> {
        self.seen += 1;
        if number > due {
            self.add(missing(due, number - 1, "in between"));
            before = None;
        } else if number < due {
            self.add(format!("row {number} stands before the beginning that the head row knows"));
            before = None;
        }
        let Some(framed) = AuditFrame::read(bytes) else {
            self.add(format!("row {number} was changed: it cannot be read"));
            return Ok(None);
        };
        // Without the row before, the row itself cannot be proved; the next one proves that its hash was not touched.
        if before.is_some_and(|before| link(&self.chain.prefix, number, &before, framed.body) != framed.hash)
        {
            self.add(format!("row {number} was changed or moved: its hash does not fit"));
        }
        match AuditFrame::open(bytes) {
            Ok((framed, body)) => self.parts(view, number, &framed, &body)?,
            Err(_) => self.add(format!("row {number} cannot be read")),
        }
        Ok(Some(framed.hash))
    }

    fn parts(
        &mut self,
        view: &dyn View,
        number: u64,
        framed: &AuditFrame<'_>,
        body: &AuditBodyV1,
    ) -> Result<()> {
        if !framed.personal_is_whole(body) {
            self.add(format!("row {number} was changed: its personal part does not fit"));
        }
        for (table, key) in self.chain.entries(number, body) {
            if table == self.chain.tables.by_actor {
                self.actor_entries += 1;
            } else {
                self.resource_entries += 1;
            }
            if view.get(table, &key)?.is_none() {
                self.add(format!("row {number} is not in the index {table}"));
            }
        }
        Ok(())
    }

    /// Whether an index has entries beyond those of the rows.
    fn index_sizes(&mut self, view: &dyn View) -> Result<()> {
        for (table, due) in [
            (self.chain.tables.by_actor, self.actor_entries),
            (self.chain.tables.by_resource, self.resource_entries),
        ] {
            let (mut entries, mut after) = (0, None::<Vec<u8>>);
            loop {
                let rows = rows_after(view, table, &self.chain.prefix, after.as_deref(), CHUNK_ROWS)?;
                let Some((last, _)) = rows.last() else { break };
                entries += rows.len() as u64;
                after = Some(last.clone());
            }
            if entries > due {
                self.add(format!("the index {table} has {} entries without a row", entries - due));
            }
        }
        Ok(())
    }
}

fn missing(first: u64, last: u64, place: &str) -> String {
    if first == last {
        format!("row {first} is missing, {place}")
    } else {
        format!("rows {first} to {last} are missing, {place}")
    }
}

fn number_of(key: &[u8], prefix: &[u8]) -> Option<u64> {
    key.strip_prefix(prefix)?.try_into().ok().map(u64::from_be_bytes)
}

/// Up to `limit` rows under `prefix` after the key `after`.
fn rows_after(
    view: &dyn View,
    table: &'static str,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<RawRow>> {
    let end = after_prefix(prefix);
    let high = end.as_deref().map_or(Unbounded, Excluded);
    let low = match after {
        Some(key) => Excluded(key),
        None => std::ops::Bound::Included(prefix),
    };
    view.scan(table, low, high, false, limit).map_err(|e| Error::internal("walk an audit chain", e))
}
