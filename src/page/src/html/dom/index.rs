//! Side indexes of a document, each built when it is first asked for.
//!
//! A postings list holds node (or attribute) numbers in document order, so that an XPath step can start from the few nodes
//! that carry a name, a class token or an id instead of from all of them.

use super::names::hash;
use super::{NameId, NodeId};

/// Numbers grouped by a dense key: the members of key `k` are `items[starts[k]..starts[k + 1]]`.
#[derive(Debug)]
pub(super) struct Postings {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Postings {
    /// Groups `keys` (position = number, `None` = in no group) by counting; the order within a group stays.
    pub(super) fn new(key_count: usize, keys: impl Iterator<Item = (usize, u32)> + Clone) -> Postings {
        let mut starts = vec![0_u32; key_count + 1];
        for (key, _) in keys.clone() {
            starts[key + 1] += 1;
        }
        for key in 0..key_count {
            starts[key + 1] += starts[key];
        }
        let mut items = vec![0; starts[key_count] as usize];
        let mut fill = starts.clone();
        for (key, item) in keys {
            items[fill[key] as usize] = item;
            fill[key] += 1;
        }
        Postings { starts, items }
    }

    pub(super) fn range(&self, name: NameId) -> std::ops::Range<usize> {
        match self.starts.get(name.0 as usize + 1) {
            Some(end) if name != NameId::NONE => self.starts[name.0 as usize] as usize..*end as usize,
            _ => 0..0,
        }
    }

    pub(super) fn get(&self, name: NameId) -> &[u32] {
        &self.items[self.range(name)]
    }
}

/// Nodes by a piece of text (an id, a class token): a hash table of spans over the document's text, then postings.
#[derive(Debug)]
pub(super) struct TokenIndex {
    slots: Vec<u32>,
    tokens: Vec<Token>,
    nodes: Vec<NodeId>,
}

#[derive(Debug, Clone, Copy)]
struct Token {
    hash: u64,
    start: u32,
    end: u32,
    nodes_start: u32,
    nodes_end: u32,
    last: NodeId,
}

impl TokenIndex {
    /// `occurrences` are (start, end, node) in document order; `text` resolves a span. A node counts once per token.
    pub(super) fn new<'a>(
        occurrences: &[(u32, u32, NodeId)],
        text: impl Fn(u32, u32) -> &'a str,
    ) -> TokenIndex {
        let slot_count = (occurrences.len() * 2).next_power_of_two().max(16);
        let mut index = TokenIndex { slots: vec![0; slot_count], tokens: Vec::new(), nodes: Vec::new() };
        let mut numbers = Vec::with_capacity(occurrences.len());
        for (start, end, node) in occurrences {
            let token = text(*start, *end);
            let hash = hash(token.as_bytes());
            let (slot, number) = index.probe(hash, token, &text);
            let number = number.unwrap_or_else(|| {
                let last = NodeId(u32::MAX);
                let (start, end) = (*start, *end);
                index.tokens.push(Token { hash, start, end, nodes_start: 0, nodes_end: 0, last });
                index.slots[slot] = index.tokens.len() as u32;
                index.tokens.len() - 1
            });
            let token = &mut index.tokens[number];
            if token.last == *node {
                numbers.push(u32::MAX);
                continue;
            }
            token.last = *node;
            token.nodes_end += 1;
            numbers.push(number as u32);
        }
        let mut total = 0;
        for token in &mut index.tokens {
            let count = token.nodes_end;
            (token.nodes_start, token.nodes_end) = (total, total);
            total += count;
        }
        index.nodes = vec![NodeId(0); total as usize];
        for ((_, _, node), number) in occurrences.iter().zip(numbers) {
            if let Some(token) = index.tokens.get_mut(number as usize) {
                index.nodes[token.nodes_end as usize] = *node;
                token.nodes_end += 1;
            }
        }
        index
    }

    pub(super) fn get<'a>(&self, token: &str, text: impl Fn(u32, u32) -> &'a str) -> &[NodeId] {
        match self.probe(hash(token.as_bytes()), token, &text) {
            (_, Some(number)) => {
                let token = self.tokens[number];
                &self.nodes[token.nodes_start as usize..token.nodes_end as usize]
            }
            _ => &[],
        }
    }

    fn probe<'a>(
        &self,
        hash: u64,
        wanted: &str,
        text: &impl Fn(u32, u32) -> &'a str,
    ) -> (usize, Option<usize>) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.slots[at] {
                0 => return (at, None),
                slot => {
                    let token = &self.tokens[slot as usize - 1];
                    if token.hash == hash && text(token.start, token.end) == wanted {
                        return (at, Some(slot as usize - 1));
                    }
                }
            }
            at = (at + 1) & mask;
        }
    }
}
