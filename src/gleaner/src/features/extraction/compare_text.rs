//! How the main text of one result's page differs from another's, word by word.
//!
//! Both pages are read apart from the threads that answer, in the organization's turn; what may be done for the difference
//! is counted in steps (`content::diff`), and what is answered is bounded.

use super::main_content::{is_gone, main_text, row_with_page};
use super::rows::ResultV4;
use super::service::read_stored;
use super::turns::ReadingTurns;
use base::{Error, Result};
use blob::BlobStore;
use bytes::Bytes;
use content::diff::{EditKind, difference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::Org;
use server::permit::WorkflowsRead;

/// Bytes of each text that are compared.
const COMPARED_BYTES_MAX: usize = 1 << 20;
/// Words of an equal text that are shown at a change, unless more is asked for.
pub const CONTEXT_WORDS: usize = 20;
/// What may be asked for.
pub const CONTEXT_WORDS_MAX: usize = 100_000;

base::words! {
    /// What became of a piece of text.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum TextOp {
        Equal "equal",
        Insert "insert",
        Delete "delete",
    }
}

/// A piece of text, and what became of it. What is equal or inserted makes up the new text, what is equal or deleted the old.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TextChange {
    pub(super) op: TextOp,
    pub(super) text: String,
    /// Words of an equal text that stand behind this piece and are left out; 0 where nothing is.
    pub(super) words_left_out: usize,
}

/// The changes, and a sentence where they are not all there is to say.
pub(super) type ComparedTexts = (Vec<TextChange>, Option<String>);

/// What makes the text of `other` out of that of `one`.
pub(super) async fn compare_texts(
    org: &Org<WorkflowsRead>,
    one: ResultV4,
    other: ResultV4,
    context: usize,
) -> Result<ComparedTexts> {
    for row in [&one, &other] {
        // Why a text cannot be had is no reason to keep back how the values differ.
        if let Err(error) = org.read(|tx| row_with_page(tx, row.id)) {
            return Ok((Vec::new(), Some(reason(row, &error))));
        }
    }
    let turn = org.service::<ReadingTurns>().next(org.id()).await?;
    let pages = org.service::<BlobStore>().org(org.id().0);
    let first = read_stored(&pages, &one.page).await?;
    let second =
        if one.page == other.page { first.clone() } else { read_stored(&pages, &other.page).await? };
    let work = move || {
        let compared = match (first, second) {
            (Some(first), Some(second)) => compared((&one, first), (&other, second), context),
            (None, _) => Ok((Vec::new(), Some(reason(&one, &is_gone())))),
            (_, None) => Ok((Vec::new(), Some(reason(&other, &is_gone())))),
        };
        drop(turn);
        compared
    };
    tokio::task::spawn_blocking(work).await.map_err(|e| Error::internal("compare two texts", e))?
}

fn reason(row: &ResultV4, error: &Error) -> String {
    format!("The text of result {} cannot be compared. {}", row.id, error.detail().unwrap_or_default())
}

fn compared(one: (&ResultV4, Bytes), other: (&ResultV4, Bytes), context: usize) -> Result<ComparedTexts> {
    let old = main_text(one.0, &one.1, COMPARED_BYTES_MAX)?;
    let new = main_text(other.0, &other.1, COMPARED_BYTES_MAX)?;
    let found = difference(&old.text, &new.text);
    let last = found.edits.len().saturating_sub(1);
    let mut changes = Vec::with_capacity(found.edits.len());
    for (at, edit) in found.edits.iter().enumerate() {
        match edit.kind {
            EditKind::Equal => {
                let (before, behind) =
                    (if at == 0 { 0 } else { context }, if at == last { 0 } else { context });
                push_shortened(&mut changes, edit.text, before, behind);
            }
            EditKind::Insert => changes.push(whole(TextOp::Insert, edit.text)),
            EditKind::Delete => changes.push(whole(TextOp::Delete, edit.text)),
        }
    }
    let mut notes = Vec::new();
    if old.is_truncated || new.is_truncated {
        notes.push("Only the first MiB of a text is compared.");
    }
    if found.is_coarse {
        notes.push("The texts differ in so much that longer pieces are said to be replaced as a whole.");
    }
    Ok((changes, (!notes.is_empty()).then(|| notes.join(" "))))
}

fn whole(op: TextOp, text: &str) -> TextChange {
    TextChange { op, text: text.to_owned(), words_left_out: 0 }
}

/// An equal text: of a long one the words behind the change before it, and those in front of the next.
fn push_shortened(changes: &mut Vec<TextChange>, text: &str, before: usize, behind: usize) {
    let words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
    let is_word = |piece: &&&str| !piece.trim().is_empty();
    let count = words.iter().filter(is_word).count();
    // Leaving out less than is shown saves nobody anything.
    if count <= 2 * (before + behind).max(1) {
        changes.push(whole(TextOp::Equal, text));
        return;
    }
    let head = pieces_of(words.iter(), before);
    let tail = pieces_of(words[head..].iter().rev(), behind);
    let middle = &words[head..words.len() - tail];
    let words_left_out = middle.iter().filter(is_word).count();
    changes.push(TextChange { op: TextOp::Equal, text: words[..head].concat(), words_left_out });
    if tail > 0 {
        changes.push(whole(TextOp::Equal, &words[words.len() - tail..].concat()));
    }
}

/// How many pieces so many words take.
fn pieces_of<'a>(pieces: impl Iterator<Item = &'a &'a str>, words: usize) -> usize {
    let mut left = words;
    let taken = pieces.take_while(|piece| {
        let was = left;
        left = left.saturating_sub(usize::from(!piece.trim().is_empty()));
        was > 0
    });
    taken.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_equal_texts_are_shortened_to_what_stands_at_changes() {
        let shortened = |text: &str, before: usize, behind: usize| {
            let mut changes = Vec::new();
            push_shortened(&mut changes, text, before, behind);
            changes.into_iter().map(|change| (change.text, change.words_left_out)).collect::<Vec<_>>()
        };
        let owned = |list: &[(&str, usize)]| {
            list.iter().map(|(text, left)| ((*text).to_owned(), *left)).collect::<Vec<_>>()
        };
        let text = "one two  three four five six seven eight nine ten";
        assert_eq!(shortened(text, 2, 2), owned(&[("one two ", 6), ("nine ten", 0)]));
        assert_eq!(shortened(text, 0, 2), owned(&[("", 8), ("nine ten", 0)]));
        assert_eq!(shortened(text, 2, 0), owned(&[("one two ", 8)]));
        assert_eq!(shortened(text, 0, 0), owned(&[("", 10)]));
        assert_eq!(shortened(text, 3, 3), owned(&[(text, 0)]));
        assert_eq!(shortened("one", 0, 0), owned(&[("one", 0)]));
    }
}
