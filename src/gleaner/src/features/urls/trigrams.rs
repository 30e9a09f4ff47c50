//! Which URLs have a text in them, without looking at each: an index of trigrams over blocks of URLs.
//!
//! The URLs of an organization stand in blocks of [`BLOCK_URLS`], in the order of their ids. For each trigram (three bytes of
//! the URL in lower case, its end counted as a byte 0) there is a set of the blocks that have it, [`CHUNK_BLOCKS`] of them in
//! a row. A search takes the sets of the needle's trigrams, newest chunk first, looks through the blocks that are in all of
//! them, and compares: what the index says may be too much, and is never too little. A posting of each URL under each of
//! its trigrams would take a hundred times the entries.
//!
//! A URL's text never changes. One that goes is taken out of its block; the sets keep the block until the whole chunk is
//! empty ([`drop_chunk`]), and what is too much in them costs a look.

use super::rows::{URLS, UrlV1};
use base::Result;
use base::codec::Record;
use base::ids::UrlId;
use base::limits::{LIST_BYTES_MAX, LIST_SCAN_BYTES_MAX, PAGE_SCAN_ROWS_MAX};
use base::page::{Page, PageRequest, encode_cursor};
use base::web::URL_BYTES_MAX;
use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::{Index, Key, Order, OrgRead, OrgTable, OrgWrite, readable};
use uuid::Uuid;

/// URLs of a block.
const BLOCK_URLS: usize = 16;
/// Blocks of a chunk: a set of them is a kilobit at most.
const CHUNK_BLOCKS: u32 = 1_024;
/// A set of more blocks than these is kept as bits.
const LISTED_MAX: usize = 48;
/// Sets that one step of a sweep removes.
const SWEPT_ROWS: usize = 1_000;
/// Keys that one look for trigrams of a beginning reads.
const KEYS_PER_LOOK: usize = 64;
/// Trigrams of a needle that are looked up: so many rule out what they can, and each costs a look in every chunk.
const NEEDLE_TRIGRAMS_MAX: usize = 64;
/// What the cursors of a search belong to.
pub(super) const LIST: &str = "urls.trigrams";

/// Three bytes of a URL in lower case.
pub(super) type Trigram = [u8; 3];

/// URLs that stand together; the key is the first one that ever stood here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockV1 {
    chunk: u32,
    /// Its place in the chunk.
    at: u32,
    /// Oldest first.
    ids: Vec<UrlId>,
}

impl Record for BlockV1 {}

/// A set of blocks of one chunk: as a sorted list, or as bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSetV1 {
    listed: Vec<u16>,
    bits: Vec<u8>,
}

impl Record for BlockSetV1 {}

/// Blocks by their place.
pub(super) static BY_PLACE: Index<(u32, u32), BlockV1> =
    Index::unique("url_blocks.by_place", |block, keys| keys.add((block.chunk, block.at)));

pub static BLOCKS: OrgTable<UrlId, BlockV1> =
    OrgTable::new("url_blocks", "Block of URLs").indexed(&[&BY_PLACE]).uncounted();

/// By chunk and trigram.
pub static TRIGRAMS: OrgTable<(u32, Trigram), BlockSetV1> =
    OrgTable::new("url_trigrams", "Trigram of URLs").uncounted();

impl BlockSetV1 {
    /// Adds a block; whether it was not there.
    fn add(&mut self, at: u16) -> bool {
        if !self.bits.is_empty() {
            self.bits.resize(CHUNK_BLOCKS as usize / 8, 0);
            let (byte, bit) = (usize::from(at / 8), 1 << (at % 8));
            let is_new = self.bits[byte] & bit == 0;
            self.bits[byte] |= bit;
            return is_new;
        }
        let Err(place) = self.listed.binary_search(&at) else { return false };
        self.listed.insert(place, at);
        if self.listed.len() > LISTED_MAX {
            self.bits = vec![0; CHUNK_BLOCKS as usize / 8];
            for at in std::mem::take(&mut self.listed) {
                self.bits[usize::from(at / 8)] |= 1 << (at % 8);
            }
        }
        true
    }

    /// Every block, for what a disk has altered: too much is looked at, and nothing missed.
    fn all() -> BlockSetV1 {
        BlockSetV1 { listed: Vec::new(), bits: vec![0xFF; CHUNK_BLOCKS as usize / 8] }
    }

    fn to_bits(&self) -> Bits {
        let mut bits = Bits::NONE;
        for at in &self.listed {
            bits.0[usize::from(at / 8) % bits.0.len()] |= 1 << (at % 8);
        }
        for (byte, own) in bits.0.iter_mut().zip(&self.bits) {
            *byte |= own;
        }
        bits
    }
}

/// A set of blocks while it is searched.
struct Bits([u8; CHUNK_BLOCKS as usize / 8]);

impl Bits {
    const NONE: Bits = Bits([0; CHUNK_BLOCKS as usize / 8]);

    fn or(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    fn and(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// The blocks from `below` down.
    fn down_from(&self, below: u32) -> impl Iterator<Item = u32> {
        (0..below.min(CHUNK_BLOCKS)).rev().filter(|at| self.0[(at / 8) as usize] & (1 << (at % 8)) != 0)
    }
}

/// The text that is indexed of a URL.
fn indexed(url: &str) -> Vec<u8> {
    let mut text = url.to_ascii_lowercase().into_bytes();
    text.push(0);
    text
}

fn trigrams(text: &[u8]) -> BTreeSet<Trigram> {
    text.windows(3).map(|three| [three[0], three[1], three[2]]).collect()
}

/// Adds URLs that are newer than all before, oldest first.
pub(super) fn add(tx: &OrgWrite<'_>, urls: &[(UrlId, String)]) -> Result<()> {
    let newest = readable("a block of URLs", tx.org_id(), tx.scan(&BLOCKS, None, Order::Descending, 1))?;
    // Behind one that cannot be read it goes on in a chunk of its own.
    let begin = if newest.is_some() { 0 } else { chunks(tx)?.last().map_or(0, |chunk| chunk + 1) };
    let mut last = newest.and_then(|mut newest| newest.pop());
    let mut found: BTreeMap<(u32, Trigram), BTreeSet<u16>> = BTreeMap::new();
    for (id, url) in urls {
        if last.as_ref().is_none_or(|(_, block)| block.ids.len() >= BLOCK_URLS) {
            if let Some((key, block)) = &last {
                tx.put(&BLOCKS, key, block)?;
            }
            let (chunk, at) = match &last {
                None => (begin, 0),
                Some((_, block)) if block.at + 1 == CHUNK_BLOCKS => (block.chunk + 1, 0),
                Some((_, block)) => (block.chunk, block.at + 1),
            };
            last = Some((*id, BlockV1 { chunk, at, ids: Vec::with_capacity(BLOCK_URLS) }));
        }
        let Some((_, block)) = &mut last else { continue };
        block.ids.push(*id);
        for trigram in trigrams(&indexed(url)) {
            found.entry((block.chunk, trigram)).or_default().insert(block.at as u16);
        }
    }
    if let Some((key, block)) = &last {
        tx.put(&BLOCKS, key, block)?;
    }
    for (key, blocks) in found {
        let mut set = set_of(tx, key)?.unwrap_or_default();
        let mut has_grown = false;
        for at in blocks {
            has_grown |= set.add(at);
        }
        if has_grown {
            tx.put_over(&TRIGRAMS, &key, &set)?;
        }
    }
    Ok(())
}

/// The blocks of a chunk that have a trigram; none where none has.
fn set_of(tx: &OrgRead<'_>, key: (u32, Trigram)) -> Result<Option<BlockSetV1>> {
    let read = readable("a trigram of URLs", key.0, tx.get(&TRIGRAMS, &key))?;
    Ok(read.unwrap_or_else(|| Some(BlockSetV1::all())))
}

/// Takes a URL out of its block.
pub(super) fn remove(tx: &OrgWrite<'_>, id: UrlId) -> Result<()> {
    let found = readable("a block of URLs", id, block_of(tx, id))?.flatten();
    let Some((key, mut block)) = found else { return Ok(()) };
    block.ids.retain(|own| *own != id);
    if block.ids.is_empty() { tx.delete(&BLOCKS, &key).map(|_| ()) } else { tx.put(&BLOCKS, &key, &block) }
}

/// The block in which a URL stands or would stand: the last one that begins with it or before it.
fn block_of(tx: &OrgRead<'_>, id: UrlId) -> Result<Option<(UrlId, BlockV1)>> {
    let behind = id.0.as_u128().checked_add(1).map(|next| UrlId(Uuid::from_u128(next)));
    Ok(tx.scan(&BLOCKS, behind.as_ref(), Order::Descending, 1)?.pop())
}

/// The chunks of which there are sets, oldest first.
fn chunks(tx: &OrgRead<'_>) -> Result<Vec<u32>> {
    let (mut all, mut place) = (Vec::new(), None::<Vec<u8>>);
    while let Some(key) = tx.keys(TRIGRAMS.name(), place.as_deref(), 1)?.pop() {
        let Some((chunk, _)) = <(u32, Trigram)>::decode(&key) else { break };
        all.push(chunk);
        // No URL has such a trigram.
        place = Some([chunk.to_be_bytes().as_slice(), &[0xFF; 3]].concat());
    }
    Ok(all)
}

/// What is searched for, as the index and the URLs have it.
#[derive(Clone, Debug)]
pub(super) struct Needle {
    text: String,
    /// Finds it in time that grows with the URL's length alone.
    finder: Finder<'static>,
    /// What a block must have.
    trigrams: BTreeSet<Trigram>,
}

impl Needle {
    /// From what somebody typed: in lower case, and with what cannot stand in a URL as it stands there, so `café` finds
    /// `caf%C3%A9`.
    pub(super) fn new(typed: &str) -> Needle {
        let mut text = String::with_capacity(typed.len());
        for byte in typed.trim().bytes() {
            match byte {
                0x21..=0x7E => text.push(char::from(byte.to_ascii_lowercase())),
                _ => text.push_str(&format!("%{byte:02x}")),
            }
        }
        // What is longer than any URL is in none.
        let own = if text.len() > URL_BYTES_MAX { BTreeSet::new() } else { trigrams(text.as_bytes()) };
        let every = own.len().div_ceil(NEEDLE_TRIGRAMS_MAX).max(1);
        let trigrams = own.into_iter().step_by(every).collect();
        Needle { trigrams, finder: Finder::new(text.as_bytes()).into_owned(), text }
    }

    /// The same, in URLs that also have another text: a domain.
    pub(super) fn beside(mut self, other: &str) -> Needle {
        let others = trigrams(other.to_ascii_lowercase().as_bytes());
        self.trigrams.extend(others.into_iter().take(NEEDLE_TRIGRAMS_MAX));
        self
    }

    pub(super) fn is_in(&self, url: &str) -> bool {
        self.text.is_empty() || self.finder.find(url.to_ascii_lowercase().as_bytes()).is_some()
    }

    /// Whether it is long enough for the index to help.
    pub(super) fn is_indexed(&self) -> bool {
        self.text.len() >= 2
    }

    /// The blocks of a chunk that may have it; none where no block has.
    fn blocks(&self, tx: &OrgRead<'_>, chunk: u32) -> Result<Option<Bits>> {
        let mut all = match <[u8; 2]>::try_from(self.text.as_bytes()) {
            Ok(two) => Some(begun_by(tx, chunk, two)?),
            Err(_) => None,
        };
        for trigram in &self.trigrams {
            let Some(set) = set_of(tx, (chunk, *trigram))? else { return Ok(None) };
            let set = set.to_bits();
            match &mut all {
                None => all = Some(set),
                Some(all) => all.and(&set),
            }
            if all.as_ref().is_some_and(Bits::is_empty) {
                return Ok(None);
            }
        }
        Ok(all)
    }
}

/// The blocks of a chunk with a trigram that begins with these two bytes.
fn begun_by(tx: &OrgRead<'_>, chunk: u32, two: [u8; 2]) -> Result<Bits> {
    let mut bits = Bits::NONE;
    let mut after = (chunk, [two[0], two[1], 0]);
    if let Some(set) = set_of(tx, after)? {
        bits.or(&set.to_bits());
    }
    loop {
        let place = [chunk.to_be_bytes().as_slice(), &after.1].concat();
        let keys = tx.keys(TRIGRAMS.name(), Some(&place), KEYS_PER_LOOK)?;
        let is_full = keys.len() == KEYS_PER_LOOK;
        for key in keys {
            match <(u32, Trigram)>::decode(&key) {
                Some(key) if key.0 == chunk && key.1[..2] == two => after = key,
                _ => return Ok(bits),
            }
            if let Some(set) = set_of(tx, after)? {
                bits.or(&set.to_bits());
            }
        }
        if !is_full {
            return Ok(bits);
        }
    }
}

/// How far a search has come: up to a URL, and in which block that stood.
#[derive(Clone, Copy, Debug)]
struct SearchPlace {
    id: UrlId,
    place: (u32, u32),
}

impl SearchPlace {
    fn of(position: &[u8]) -> Option<SearchPlace> {
        let (id, place) = position.split_at_checked(16)?;
        Some(SearchPlace { id: UrlId::decode(id)?, place: <(u32, u32)>::decode(place)? })
    }

    fn cursor(self) -> String {
        let (chunk, at) = self.place;
        let place = [self.id.0.as_bytes().as_slice(), &chunk.to_be_bytes(), &at.to_be_bytes()].concat();
        encode_cursor(LIST, &place)
    }
}

/// A page that is being filled.
struct PageFill<'p, K> {
    request: &'p PageRequest,
    keep: K,
    items: Vec<UrlV1>,
    bytes: usize,
    seen: usize,
    seen_bytes: usize,
    /// The block that is looked at.
    place: (u32, u32),
    /// The last URL that this page looked at.
    last: Option<SearchPlace>,
    is_over: bool,
}

impl<K: FnMut(&UrlV1) -> bool> PageFill<'_, K> {
    /// Looks at the URLs of a block, newest first, those before `before`.
    fn take(&mut self, tx: &OrgRead<'_>, block: BlockV1, before: Option<UrlId>) -> Result<()> {
        self.seen += 1;
        for id in block.ids.into_iter().rev().filter(|id| before.is_none_or(|before| *id < before)) {
            let is_bound = self.seen >= PAGE_SCAN_ROWS_MAX || self.seen_bytes >= LIST_SCAN_BYTES_MAX;
            if self.last.is_some() && (is_bound || self.bytes >= LIST_BYTES_MAX) {
                self.is_over = true;
                return Ok(());
            }
            self.seen += 1;
            if let Some((row, size)) = tx.get_sized(&URLS, &id)? {
                self.seen_bytes += size;
                if (self.keep)(&row) {
                    // There is one more: the page ends behind what was looked at before.
                    if self.items.len() == self.request.limit {
                        self.is_over = true;
                        return Ok(());
                    }
                    self.bytes += size;
                    self.items.push(row);
                }
            }
            self.last = Some(SearchPlace { id, place: self.place });
        }
        Ok(())
    }
}

/// A page of the URLs that have the needle and that `keep` accepts, newest first.
pub(super) fn page(
    tx: &OrgRead<'_>,
    needle: &Needle,
    request: &PageRequest,
    mut keep: impl FnMut(&UrlV1) -> bool,
) -> Result<Page<UrlV1>> {
    let from = request.position(LIST)?.as_deref().and_then(SearchPlace::of);
    let before = from.map(|from| from.id);
    let (newest_chunk, newest_block) = from.map_or((u32::MAX, CHUNK_BLOCKS), |from| from.place);
    let keep = |row: &UrlV1| needle.is_in(&row.url) && keep(row);
    let (items, place) = (Vec::new(), (0, 0));
    let mut fill = PageFill {
        request,
        keep,
        items,
        bytes: 0,
        seen: 0,
        seen_bytes: 0,
        place,
        last: None,
        is_over: false,
    };
    for chunk in chunks(tx)?.into_iter().rev().filter(|chunk| *chunk <= newest_chunk) {
        let below = if chunk == newest_chunk { newest_block.saturating_add(1) } else { CHUNK_BLOCKS };
        let blocks = needle.blocks(tx, chunk)?;
        for at in blocks.iter().flat_map(|blocks| blocks.down_from(below)) {
            fill.place = (chunk, at);
            let block = tx.lookup(&BLOCKS, &BY_PLACE, (chunk, at));
            match readable("a block of URLs", format_args!("{chunk}/{at}"), block)?.flatten() {
                Some(block) => fill.take(tx, block, before)?,
                // All that stood there is gone, and the sets say so only when the whole chunk is.
                None => fill.seen += 1,
            }
            if fill.is_over {
                return Ok(Page { items: fill.items, next_cursor: fill.last.map(SearchPlace::cursor) });
            }
        }
    }
    Ok(Page { items: fill.items, next_cursor: None })
}

/// The first chunk behind `after` of which no block is left.
pub(super) fn dead_chunk(tx: &OrgRead<'_>, after: Option<u32>) -> Result<Option<u32>> {
    for chunk in chunks(tx)?.into_iter().filter(|chunk| after.is_none_or(|after| *chunk > after)) {
        if !tx.exists(&BY_PLACE, chunk)? {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

/// Removes some of the sets of such a chunk; whether that was the end.
pub(super) fn drop_chunk(tx: &OrgWrite<'_>, chunk: u32) -> Result<bool> {
    if tx.exists(&BY_PLACE, chunk)? {
        return Ok(true);
    }
    let first = chunk.to_be_bytes();
    for key in tx.keys(TRIGRAMS.name(), Some(&first), SWEPT_ROWS)? {
        match <(u32, Trigram)>::decode(&key) {
            Some(own) if own.0 == chunk => tx.delete(&TRIGRAMS, &own)?,
            _ => return Ok(true),
        };
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
