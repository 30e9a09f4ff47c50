//! What values of an attribute are like, so that others can be told from them on pages where nobody knows the right ones.

use std::collections::BTreeSet;

use page::extract::{AttributeType, collapse_space};

use crate::forms::{Form, Reading, fold};

/// How much longer or shorter than all that are known a text may be, and how many letters more in any case.
const LENGTH_TIMES: usize = 4;
const LENGTH_MORE: usize = 16;
/// How much larger or smaller a number may be.
const NUMBER_TIMES: f64 = 50.0;
/// How much longer or shorter a list may be.
const LIST_TIMES: usize = 6;
/// Answers of which all say the same that are too many where the known ones did not.
const SAME_MAX: usize = 3;

/// The known values of an attribute, summed up.
#[derive(Clone, Debug)]
pub struct Profile {
    form: Form,
    is_list: bool,
    lengths: Option<(usize, usize)>,
    numbers: Option<(f64, f64)>,
    counts: Option<(usize, usize)>,
    /// Whether the known values differ.
    varies: bool,
    /// Of a boolean what says it: whatever stands there would be true.
    words: Option<BTreeSet<String>>,
}

fn range<T: Copy + PartialOrd>(values: impl Iterator<Item = T>) -> Option<(T, T)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((least, most)) => {
            Some((if value < least { value } else { least }, if value > most { value } else { most }))
        }
    })
}

fn length(text: &str) -> usize {
    collapse_space(text.trim()).chars().count()
}

impl Profile {
    pub fn of(kind: AttributeType, form: Form, values: &[Vec<String>]) -> Profile {
        let texts = || values.iter().flatten();
        let distinct: BTreeSet<Vec<Option<String>>> = values
            .iter()
            .filter(|texts| !texts.is_empty())
            .map(|texts| texts.iter().map(|text| fold(text)).collect())
            .collect();
        Profile {
            form,
            is_list: kind.is_list(),
            lengths: range(texts().map(|text| length(text))),
            numbers: range(texts().filter_map(|text| text.trim().parse::<f64>().ok())),
            counts: range(values.iter().map(Vec::len).filter(|count| *count > 0)),
            varies: distinct.len() > 1,
            words: (kind == AttributeType::Boolean).then(|| texts().filter_map(|text| fold(text)).collect()),
        }
    }

    pub fn is_image(&self) -> bool {
        self.form == Form::Image
    }

    /// Whether these texts of a page could be such a value.
    pub fn fits(&self, texts: &[String], reading: Reading<'_>) -> bool {
        let (Some(first), Some((shortest, longest))) = (texts.first(), self.lengths) else { return false };
        if let Some(words) = &self.words {
            return fold(first).is_some_and(|said| words.contains(&said));
        }
        if self.is_list {
            let (_, most) = self.counts.unwrap_or((1, 1));
            return texts.len() <= LIST_TIMES * most.max(2)
                && texts.iter().any(|text| !self.form.keys(text, reading).is_empty());
        }
        let keys = self.form.keys(first, reading);
        if keys.is_empty() {
            return false;
        }
        match self.form {
            Form::Text => {
                let own = length(first);
                own <= LENGTH_TIMES * longest + LENGTH_MORE && LENGTH_TIMES * (own + LENGTH_MORE) >= shortest
            }
            Form::Number => {
                let number = keys[0].trim_start_matches("n:").parse::<f64>().unwrap_or(0.0).abs();
                let (least, most) = self.numbers.unwrap_or((0.0, f64::MAX));
                number <= most.abs() * NUMBER_TIMES && number * NUMBER_TIMES >= least.abs()
            }
            _ => true,
        }
    }

    /// Whether all answers say the same although the known values did not: then it is no place of this attribute.
    pub fn is_too_constant(&self, answers: &[Option<String>]) -> bool {
        let said: Vec<&String> = answers.iter().flatten().collect();
        self.varies && said.len() > SAME_MAX && said.windows(2).all(|two| two[0] == two[1])
    }
}
