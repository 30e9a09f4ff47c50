//! A number by its picture, place by place.

use super::{Digits, Part, Picture, SignPlace};

/// The text of a number whose digits fill the places of a picture; so many of those behind the point are shown.
pub(super) fn all(
    picture: &Picture,
    number: &Digits,
    before: String,
    behind: String,
    relevant: usize,
) -> String {
    let text = String::new();
    Showing { picture, number, before, behind, relevant, text, signed: false, in_number: false }.all()
}

/// A number on its way into text.
struct Showing<'a> {
    picture: &'a Picture,
    number: &'a Digits,
    before: String,
    behind: String,
    /// So many digits behind the point are shown.
    relevant: usize,
    text: String,
    /// The sign stands there, or its blank.
    signed: bool,
    /// The last place had a digit.
    in_number: bool,
}

impl Showing<'_> {
    fn all(mut self) -> String {
        let picture = self.picture;
        let places = picture.before + picture.behind + usize::from(picture.has_point);
        let (mut before, mut behind, mut done) = (0, 0, 0);
        for part in &picture.parts {
            match part {
                Part::Before => {
                    self.digit_before(before);
                    before += 1;
                }
                Part::Behind { always } => {
                    self.digit_behind(behind, *always);
                    behind += 1;
                }
                Part::Point => {
                    self.sign();
                    self.in_number = false;
                    if picture.behind > 0 || self.before.starts_with('#') {
                        self.text.push('.');
                    }
                }
                other => {
                    self.other(other);
                    continue;
                }
            }
            done += 1;
            if done == places {
                self.behind_digits();
            }
        }
        self.text
    }

    fn digit_before(&mut self, place: usize) {
        let picture = self.picture;
        let blanks = picture.before - self.before.len();
        let is_zero_place = picture.zeros_from.is_some_and(|from| place >= from);
        self.in_number = false;
        if place < blanks && !is_zero_place {
            self.blank();
        } else if place < blanks {
            self.sign();
            self.text.push('0');
            self.in_number = true;
        } else if self.hides_zero() && place == blanks {
            // `.5` and not `0.5`; but with FM `0.` where nothing is behind the point.
            if !picture.fill_mode {
                self.text.push(' ');
            } else if self.relevant == 0 {
                self.sign();
                self.text.push('0');
            }
        } else {
            self.sign();
            let digit = self.before[place - blanks..].chars().next().unwrap_or('0');
            self.text.push(digit);
            self.in_number = true;
        }
    }

    fn digit_behind(&mut self, place: usize, always: bool) {
        self.sign();
        self.in_number = false;
        if place >= self.relevant && !always {
            return;
        }
        if let Some(digit) = self.behind[place.min(self.behind.len())..].chars().next() {
            self.text.push(digit);
            self.in_number = true;
        }
    }

    /// Whether the one digit before the point is a 0 that nobody asked for.
    fn hides_zero(&self) -> bool {
        self.picture.zeros_from.is_none() && self.before == "0" && self.picture.behind > 0
    }

    fn blank(&mut self) {
        if !self.picture.fill_mode {
            self.text.push(' ');
        }
    }

    /// The sign in front of the first digit.
    fn sign(&mut self) {
        if std::mem::replace(&mut self.signed, true) {
            return;
        }
        let sign = match (self.picture.sign, self.number.is_negative) {
            (SignPlace::Anchored | SignPlace::Usual, true) => Some('-'),
            (SignPlace::Anchored, false) => Some('+'),
            (SignPlace::Brackets, true) => Some('<'),
            (SignPlace::Brackets | SignPlace::Usual, false) => (!self.picture.fill_mode).then_some(' '),
            (SignPlace::Behind | SignPlace::Elsewhere, _) => None,
        };
        self.text.extend(sign);
    }

    /// What goes behind the last digit.
    fn behind_digits(&mut self) {
        let sign = match (self.picture.sign, self.number.is_negative) {
            (SignPlace::Brackets, true) => Some('>'),
            (SignPlace::Brackets, false) => (!self.picture.fill_mode).then_some(' '),
            (SignPlace::Behind, true) => Some('-'),
            (SignPlace::Behind, false) => Some('+'),
            _ => None,
        };
        self.text.extend(sign);
    }

    fn other(&mut self, part: &Part) {
        let is_negative = self.number.is_negative;
        match part {
            Part::Group if self.in_number => self.text.push(','),
            Part::Group => self.blank(),
            Part::Currency => self.text.push(' '),
            Part::Minus if is_negative => self.text.push('-'),
            Part::Plus if !is_negative => self.text.push('+'),
            Part::Minus | Part::Plus => self.blank(),
            Part::Sign => self.text.push(if is_negative { '-' } else { '+' }),
            Part::Ordinal { upper } => {
                let plain = !is_negative && !self.picture.has_point && !self.before.starts_with('#');
                if plain {
                    let ending = ordinal(&self.before);
                    self.text.push_str(&if *upper { ending.to_ascii_uppercase() } else { ending.to_owned() });
                }
            }
            Part::Text(text) => self.text.push_str(text),
            Part::Before | Part::Behind { .. } | Part::Point => {}
        }
    }
}

fn ordinal(digits: &str) -> &'static str {
    let teens = digits.len() > 1 && digits.as_bytes()[digits.len() - 2] == b'1';
    match digits.as_bytes().last() {
        Some(b'1') if !teens => "st",
        Some(b'2') if !teens => "nd",
        Some(b'3') if !teens => "rd",
        _ => "th",
    }
}
