//! Plain questions about tables, read by a closed grammar: no model, no network, and nothing guessed in silence.
//!
//! [`read`] tries a question on every table: [`words`] splits it and forgives typos, [`lexicon`] says what words mean in one
//! table (its name, its columns, values that are known), [`items`] and [`interpreter`] put that together, and [`mod@finish`] makes a
//! [`Plan`] of it. The table that explains every word best answers; where two do, it is asked back; where a word stays
//! unexplained, nothing is answered. What comes out is a structured query of the console and a sentence that says how the
//! question was understood. [`dates`] and [`numbers`] read those in words.

mod dates;
mod examples;
mod finish;
mod fragment;
mod interpreter;
mod items;
mod lexicon;
mod numbers;
mod plan;
mod table;
mod words;

#[cfg(test)]
mod tests;

pub use dates::{Unit, Window};
pub use examples::examples;
pub use plan::{Condition, Function, Group, Measure, Plan};
pub use table::{Column, Kind, Table};

use dates::Reader;
use finish::{finish, follow};
use fragment::Fragment;
use interpreter::Interpreter;
use items::Scanner;
use lexicon::Lexicon;
use std::collections::HashSet;
use words::{WORDS_MAX, Word, mend, split, stem};

/// Readings between which it is asked back.
const CHOICES_MAX: usize = 3;
/// Unknown words that are told.
const TOLD_MAX: usize = 5;

/// Bytes of an unknown word that are told.
const WORD_BYTES_MAX: usize = 60;

/// What a question comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Understood(Box<Plan>),
    /// Two or three readings that are as near.
    Unsure(Vec<Plan>),
    /// Why it was not understood, in a sentence.
    Unread(String),
}

/// A word that was taken for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// As it was written.
    pub given: String,
    pub taken: String,
}

/// Reads a question about `tables` at the time `now_ms`; `last` is the question before, which a short one may change. With the
/// words that were taken for others.
pub fn read(question: &str, tables: &[Table], now_ms: i64, last: Option<&Plan>) -> (Reading, Vec<Mended>) {
    let mut words = split(question);
    if words.is_empty() {
        return (Reading::Unread("There is no question in it.".to_owned()), Vec::new());
    }
    if words.len() > WORDS_MAX {
        return (Reading::Unread(format!("It has more than {WORDS_MAX} words.")), Vec::new());
    }
    // The newest rows of a table are a matter of how it is read.
    let asked: Vec<&Table> = tables.iter().filter(|table| !table.name.starts_with("latest_")).collect();
    let lexicons: Vec<Lexicon> = asked.iter().map(|table| Lexicon::of(table)).collect();
    let mut known: HashSet<String> = lexicons.iter().flat_map(Lexicon::words).map(str::to_owned).collect();
    known.extend(items::words().chain(dates::all()).chain(numbers::all()).map(str::to_owned));
    let mended = mend(&mut words, &known).into_iter();
    let mended = mended.map(|(given, taken)| Mended { given: cut(&given).to_owned(), taken }).collect();
    let dates = Reader::new(now_ms);
    let readers: Vec<TableReader<'_>> = asked
        .iter()
        .zip(&lexicons)
        .map(|(table, lexicon)| TableReader {
            table,
            has_newest: has_newest(tables, &table.name),
            scanner: Scanner { table, lexicon, dates: &dates },
        })
        .collect();
    let own = last.and_then(|last| readers.iter().find(|reader| reader.table.name == last.table));
    let changed = last.zip(own).and_then(|(last, reader)| reader.changed(&words, last));
    let reading = match changed {
        Some((plan, true)) => Reading::Understood(Box::new(plan)),
        changed => match best(&readers, &words) {
            Reading::Unread(why) => match changed {
                Some((plan, _)) => Reading::Understood(Box::new(plan)),
                None => Reading::Unread(why),
            },
            read => read,
        },
    };
    (reading, mended)
}

fn has_newest(tables: &[Table], name: &str) -> bool {
    // A reading is a visit, and its newest are not what "the results" are.
    name != "readings" && tables.iter().any(|table| table.name.strip_prefix("latest_") == Some(name))
}

struct TableReader<'a> {
    table: &'a Table,
    has_newest: bool,
    scanner: Scanner<'a>,
}

/// A reading of one table.
struct Found {
    score: i32,
    plans: Vec<Plan>,
}

impl TableReader<'_> {
    fn fragment(&self, words: &[Word], pick: usize) -> Fragment {
        let items = self.scanner.items(words);
        let mut fragment = Interpreter::new(self.table, &items, pick).read();
        fragment.unknown = std::mem::take(&mut fragment.unknown)
            .into_iter()
            .filter(|word| !self.is_described(word, &fragment))
            .collect();
        fragment
    }

    /// Whether a word only says again what one of the columns is: "the URLs added".
    fn is_described(&self, word: &str, fragment: &Fragment) -> bool {
        let measured = fragment.measures.iter().filter_map(|measure| measure.column.as_deref());
        let mentioned = fragment.mentioned.iter().map(|at| self.table.columns[*at].name.as_str());
        let mut spoken = measured.chain(mentioned).filter_map(|name| self.table.position(name));
        let word = stem(&word.to_lowercase());
        spoken.any(|at| split(&self.table.columns[at].description).iter().any(|own| own.stem == word))
    }

    fn plan(&self, fragment: Fragment) -> Result<Plan, String> {
        finish(fragment, self.table, self.has_newest)
    }

    /// The question before with what these words change, and whether they say that it is one.
    fn changed(&self, words: &[Word], last: &Plan) -> Option<(Plan, bool)> {
        let fragment = self.fragment(words, 0);
        let leads = words
            .first()
            .is_some_and(|word| word.is_in(&["and", "or", "without", "not", "except", "by", "per"]));
        let is_told = (fragment.follows || leads || fragment.only_narrows()) && !fragment.has_table;
        if !fragment.unknown.is_empty() || !fragment.unsure.is_empty() {
            return None;
        }
        follow(fragment, last, self.table).map(|plan| (plan, is_told))
    }

    fn found(&self, words: &[Word]) -> Result<Found, (i32, Vec<String>, Option<String>)> {
        let fragment = self.fragment(words, 0);
        if !fragment.unknown.is_empty() || fragment.score < 2 {
            let score = fragment.score - 5 * fragment.unknown.len() as i32;
            return Err((score, fragment.unknown, None));
        }
        let (score, unsure) = (fragment.score, fragment.unsure.len());
        let first = self.plan(fragment).map_err(|why| (score, Vec::new(), Some(why)))?;
        let others =
            (1..unsure.min(CHOICES_MAX)).filter_map(|pick| self.plan(self.fragment(words, pick)).ok());
        let mut plans = vec![first];
        for other in others {
            if !plans.contains(&other) {
                plans.push(other);
            }
        }
        Ok(Found { score, plans })
    }
}

fn best(readers: &[TableReader<'_>], words: &[Word]) -> Reading {
    let (mut found, mut missed) = (Vec::<Found>::new(), Vec::new());
    for reader in readers {
        match reader.found(words) {
            Ok(one) => found.push(one),
            Err(miss) => missed.push(miss),
        }
    }
    let Some(most) = found.iter().map(|one| one.score).max() else { return unread(missed) };
    found.retain(|one| one.score == most);
    let mut plans: Vec<Plan> = found.into_iter().flat_map(|one| one.plans).collect();
    plans.truncate(CHOICES_MAX);
    match plans.len() {
        1 => Reading::Understood(Box::new(plans.remove(0))),
        _ => Reading::Unsure(plans),
    }
}

/// A word as it is told.
fn cut(word: &str) -> &str {
    &word[..word.floor_char_boundary(WORD_BYTES_MAX)]
}

/// Why no table answers: what the nearest one did not know.
fn unread(missed: Vec<(i32, Vec<String>, Option<String>)>) -> Reading {
    let nearest = missed.into_iter().max_by_key(|(score, _, _)| *score);
    Reading::Unread(match nearest {
        Some((_, _, Some(why))) => why,
        Some((_, unknown, None)) if !unknown.is_empty() => {
            let told: Vec<String> =
                unknown.iter().take(TOLD_MAX).map(|word| format!("\"{}\"", cut(word))).collect();
            format!("I do not know what {} means in your tables.", told.join(", "))
        }
        _ => "I found neither a table nor a column in it.".to_owned(),
    })
}
