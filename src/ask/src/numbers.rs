//! Numbers in figures and in words.

use crate::words::Word;

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// Every word that is part of a number.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    SMALL.into_iter().chain(TENS).chain(["hundred", "thousand", "million", "dozen", "couple", "half"])
}

fn position(words: &[&str], word: &str) -> Option<f64> {
    words.iter().position(|known| *known == word).map(|at| at as f64)
}

/// A number at the beginning of these words, and how many of them it takes.
pub(crate) fn read(words: &[Word]) -> Option<(f64, usize)> {
    let first = words.first().filter(|word| !word.quoted)?;
    if let Some(number) = figures(&first.lower) {
        let factor = words.get(1).and_then(|word| factor(&word.lower));
        return Some(match factor {
            Some(factor) => (number * factor, 2),
            None => (number, 1),
        });
    }
    if first.is("half") {
        return Some((0.5, 1));
    }
    let (mut total, mut part, mut used) = (0.0, None::<f64>, 0);
    while let Some(word) = words.get(used).filter(|word| !word.quoted) {
        if let Some(number) = small(&word.lower) {
            // "twenty five" goes on, "five six" does not.
            match part {
                Some(before) if before % 10.0 == 0.0 && before >= 20.0 && number < 10.0 => {
                    part = Some(before + number);
                }
                Some(before) if before % 100.0 == 0.0 && (before > 0.0 || total > 0.0) => {
                    part = Some(before + number)
                }
                None => part = Some(number),
                Some(_) => break,
            }
        } else if let Some(factor) = factor(&word.lower) {
            let Some(before) = part else { break };
            if factor >= 1_000.0 {
                total += before * factor;
                part = Some(0.0);
            } else {
                part = Some(before * factor);
            }
        } else {
            break;
        }
        used += 1;
    }
    (used > 0).then(|| (total + part.unwrap_or(0.0), used))
}

fn small(word: &str) -> Option<f64> {
    if word == "dozen" {
        return Some(12.0);
    }
    if let Some((tens, ones)) = word.split_once('-') {
        let tens = position(&TENS, tens)?;
        return position(&SMALL, ones)
            .filter(|ones| (1.0..10.0).contains(ones))
            .map(|ones| tens * 10.0 + 20.0 + ones);
    }
    position(&SMALL, word).or_else(|| position(&TENS, word).map(|at| at * 10.0 + 20.0))
}

fn factor(word: &str) -> Option<f64> {
    match word {
        "hundred" => Some(100.0),
        "thousand" => Some(1_000.0),
        "million" | "millions" => Some(1_000_000.0),
        _ => None,
    }
}

fn figures(word: &str) -> Option<f64> {
    let (digits, factor) = match word.strip_suffix('k') {
        Some(digits) => (digits, 1_000.0),
        None => (word, 1.0),
    };
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && digits.len() <= 18;
    if !is_number {
        return None;
    }
    digits.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::split;

    #[test]
    fn numbers_are_read_in_figures_and_words() {
        for (text, number, used) in [
            ("5 jobs", 5.0, 1),
            ("0.5", 0.5, 1),
            ("2k", 2_000.0, 1),
            ("3 thousand", 3_000.0, 2),
            ("ten", 10.0, 1),
            ("twenty five", 25.0, 2),
            ("twenty-five", 25.0, 1),
            ("two hundred fifty", 250.0, 3),
            ("three thousand two hundred", 3_200.0, 4),
            ("dozen", 12.0, 1),
        ] {
            assert_eq!(read(&split(text)), Some((number, used)), "{text}");
        }
        for text in ["jobs", "hundred", "1.2.3", "k", "\"5\""] {
            assert_eq!(read(&split(text)), None, "{text}");
        }
        assert_eq!(read(&split("five six")), Some((5.0, 1)));
    }
}
