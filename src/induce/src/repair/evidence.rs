//! How much speaks for a place being an attribute's and not anybody's, in bits.

use std::collections::BTreeSet;

use crate::forms::{Form, fold};
use crate::lesson::Goal;

/// What must come together.
const BITS_MIN: f64 = 16.0;
/// What is so much that other pages need not show it as well.
const BITS_MUCH: f64 = 28.0;
/// What a letter of a text says, and how much a text can say.
const BITS_OF_LETTER: f64 = 1.5;
const BITS_OF_TEXT_MAX: f64 = 30.0;
const BITS_OF_DIGIT: f64 = 3.0;
const BITS_OF_DATE: f64 = 16.0;
const BITS_OF_NUMBER_MAX: f64 = 12.0;
const BITS_OF_LINK: f64 = 20.0;
const BITS_OF_WORD: f64 = 1.0;
/// What each point of likeness says.
const BITS_OF_LIKENESS: f64 = 4.0;
/// What is taken off each time that the places of a value double: what stands in every menu says little.
const BITS_OF_PLACES: f64 = 1.5;

/// What it says that yet another page with another value shows that.
const BITS_OF_AGREEMENT: f64 = 3.0;

/// How a page shows a known value.
#[derive(Debug, Default)]
pub struct Seen {
    /// How much the surroundings of the best place are those of before.
    pub likeness: f64,
    /// How many places are as good.
    pub places: usize,
}

/// What was found on all pages together.
#[derive(Debug, Default)]
pub struct Evidence {
    seen: BTreeSet<Vec<String>>,
    value_bits: f64,
    likeness: f64,
    pages: usize,
}

impl Evidence {
    /// Adds a page on which the last known values stand. The same values twice say nothing new.
    pub fn add(&mut self, form: Form, texts: &[String], goal: &Goal, sight: &Seen) {
        let keys: Vec<String> = goal.members.iter().filter_map(|keys| keys.first().cloned()).collect();
        if self.seen.insert(keys) {
            let said = texts.iter().map(|text| bits(form, text)).sum::<f64>().min(2.0 * BITS_OF_TEXT_MAX);
            let places = sight.places.max(1) as f64;
            let agreement = if self.seen.len() > 1 { BITS_OF_AGREEMENT } else { 0.0 };
            self.value_bits += agreement + (said - BITS_OF_PLACES * places.log2()).max(0.0);
        }
        self.likeness += sight.likeness;
        self.pages += 1;
    }

    /// Values, and the likeness of the surroundings on the average page.
    pub fn bits(&self) -> f64 {
        self.value_bits + BITS_OF_LIKENESS * self.likeness / self.pages.max(1) as f64
    }

    /// Whether the values alone would be enough.
    pub fn says_enough(&self) -> bool {
        self.value_bits >= BITS_MIN
    }

    /// Whether there is so much that silence of other pages does not matter.
    pub fn says_much(&self) -> bool {
        self.bits() >= BITS_MUCH
    }

    pub fn is_enough(&self) -> bool {
        self.bits() >= BITS_MIN
    }
}

/// What it says that a value stands somewhere.
pub fn bits(form: Form, text: &str) -> f64 {
    let digits = || text.bytes().filter(u8::is_ascii_digit).count() as f64;
    match form {
        // Of what is true or false pages have much.
        Form::Text if matches!(text, "true" | "false") => BITS_OF_WORD,
        Form::Text => {
            let letters = fold(text).map_or(0, |folded| folded.chars().count());
            (BITS_OF_LETTER * letters as f64).min(BITS_OF_TEXT_MAX)
        }
        Form::Number | Form::Duration => (BITS_OF_DIGIT * digits()).min(BITS_OF_NUMBER_MAX),
        Form::Date => BITS_OF_DATE,
        Form::Link | Form::Image => BITS_OF_LINK,
        Form::Availability => BITS_OF_WORD,
    }
}
