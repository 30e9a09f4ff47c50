//! A question as words: split, in small letters, without plural endings, and with typos forgiven.

use std::cmp::Ordering;
use std::collections::HashSet;

/// Words of a question; a longer one is not read.
pub(crate) const WORDS_MAX: usize = 120;
/// Unknown words for which a known one is looked for.
const MENDED_MAX: usize = 12;

/// One word of a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Word {
    /// As it was written.
    pub(crate) given: String,
    /// In small letters.
    pub(crate) lower: String,
    /// Without the ending of a plural.
    pub(crate) stem: String,
    /// It stood in quotes, so it is a value and nothing else.
    pub(crate) quoted: bool,
}

impl Word {
    pub(crate) fn new(given: &str, quoted: bool) -> Word {
        let lower = given.to_lowercase();
        Word { given: given.to_owned(), stem: stem(&lower), lower, quoted }
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        !self.quoted && self.lower == word
    }

    pub(crate) fn is_in(&self, words: &[&str]) -> bool {
        !self.quoted && words.contains(&self.lower.as_str())
    }

    /// Whether it is an address or the name of a site.
    pub(crate) fn is_site(&self) -> bool {
        let text = &self.lower;
        let inner = |at: usize| at > 0 && at + 1 < text.len();
        text.contains("://")
            || (text.find('.').is_some_and(inner)
                && text.chars().any(char::is_alphabetic)
                && text.chars().all(|c| c.is_alphanumeric() || ".-_/".contains(c)))
    }
}

/// A word without the ending of a plural: enough to compare words by.
pub(crate) fn stem(lower: &str) -> String {
    let cut = |end: usize| lower[..lower.len() - end].to_owned();
    if lower.len() > 4 && lower.ends_with("ies") {
        return cut(3) + "y";
    }
    if lower.len() > 4 && ["sses", "uses", "xes", "ches", "shes"].iter().any(|end| lower.ends_with(end)) {
        return cut(2);
    }
    let is_plural =
        lower.len() > 3 && lower.ends_with('s') && !["ss", "us", "is"].iter().any(|end| lower.ends_with(end));
    if is_plural { cut(1) } else { lower.to_owned() }
}

/// The words of a text; what stands in quotes is one.
pub(crate) fn split(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if words.len() > WORDS_MAX {
            break;
        }
        // In a word it is an apostrophe: "what's" begins no quote that "today's" would end.
        let is_in_word =
            text[..text.len() - rest.len()].chars().next_back().is_some_and(char::is_alphanumeric);
        let close = match first {
            '"' | '`' => Some(first),
            '“' | '„' => Some('”'),
            '«' => Some('»'),
            '\'' if !is_in_word => Some('\''),
            _ => None,
        };
        let behind = &rest[first.len_utf8()..];
        if let Some(end) = close.and_then(|close| behind.find(close)) {
            if end > 0 {
                words.push(Word::new(&behind[..end], true));
            }
            let close = behind[end..].chars().next().map_or(0, char::len_utf8);
            rest = &behind[end + close..];
            continue;
        }
        let is_sign = |c: char| "<>=≥≤".contains(c);
        let part = match first {
            c if is_sign(c) => rest.find(|c: char| !is_sign(c)).map_or(rest, |end| &rest[..end]),
            c if is_of_word(c) => rest.find(|c: char| !is_of_word(c)).map_or(rest, |end| &rest[..end]),
            _ => "",
        };
        if part.is_empty() {
            rest = behind;
            continue;
        }
        rest = &rest[part.len()..];
        push(&mut words, part, first);
    }
    words
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || "._-/:%$€£@".contains(c)
}

fn push(words: &mut Vec<Word>, part: &str, first: char) {
    if "<>=≥≤".contains(first) {
        words.push(Word::new(part, false));
        return;
    }
    let part = part.trim_end_matches(['.', ':', '-', '/']).trim_start_matches(['.', ':', '-', '/']);
    // "$20" and "20€" are a number and a currency; "1,000" was split before and is not read.
    let money = |c: char| "$€£%".contains(c);
    let (front, middle) = part.split_at(part.find(|c| !money(c)).unwrap_or(part.len()));
    let end = middle.find(money).unwrap_or(middle.len());
    for piece in [front, &middle[..end], &middle[end..]] {
        if !piece.is_empty() {
            words.push(Word::new(piece, false));
        }
    }
}

/// How many slips a word may have.
fn slips(word: &str) -> usize {
    match word.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    }
}

/// Words of so many letters are mended only where one word alone is near.
const SHORT: usize = 4;

/// Puts known words in the place of those that nobody knows and that differ from one by a slip or two. Gives what was put.
pub(crate) fn mend(words: &mut [Word], known: &HashSet<String>) -> Vec<(String, String)> {
    let (mut mended, mut looked) = (Vec::new(), 0);
    for word in words.iter_mut() {
        let is_plain = word.lower.chars().all(char::is_alphabetic) && !word.quoted;
        if !is_plain || known.contains(&word.lower) || known.contains(&word.stem) || looked >= MENDED_MAX {
            continue;
        }
        looked += 1;
        let Some(nearest) = nearest(word, known) else { continue };
        mended.push((word.given.clone(), nearest.clone()));
        *word = Word { given: word.given.clone(), ..Word::new(&nearest, false) };
    }
    mended
}

fn nearest(word: &Word, known: &HashSet<String>) -> Option<String> {
    let allowed = slips(&word.lower);
    let length = word.lower.chars().count();
    // What is short and has a capital is a name.
    if allowed == 0 || (length < SHORT && word.given != word.lower) {
        return None;
    }
    let mut measured: Vec<(usize, u8, bool, String)> = Vec::new();
    for candidate in known {
        // An ending of three letters is the most that a plural adds.
        if candidate.chars().count().abs_diff(length) > allowed + 3 {
            continue;
        }
        let plural = word.lower.ends_with('s').then(|| plural(candidate));
        for form in [Some(candidate.clone()), plural].into_iter().flatten() {
            let other = form.chars().count();
            if other < 3 || other.abs_diff(length) > allowed {
                continue;
            }
            let distance = strsim::osa_distance(&word.lower, &form);
            let same_start = form.chars().next() == word.lower.chars().next();
            let most = if same_start { allowed } else { 1 };
            let kind = slip(&word.lower, &form, distance);
            // What is short and far is another word; of three letters one is missing, or two have changed places.
            let fits = distance <= most
                && distance * 3 <= other
                && (length >= SHORT || (same_start && kind <= LETTER_MISSING));
            if fits {
                measured.push((distance, kind, !same_start, form));
            }
        }
    }
    measured.sort_unstable();
    measured.dedup();
    let (first, second) = (measured.first()?, measured.get(1));
    let is_alone = second.is_none_or(|second| (second.0, second.1, second.2) != (first.0, first.1, first.2));
    (is_alone || length > SHORT).then(|| first.3.clone())
}

const LETTER_MISSING: u8 = 1;

/// Which slip makes one word of the other, the likeliest first: two letters in each other's place, one missing, one too many,
/// another one; or several.
fn slip(given: &str, meant: &str, distance: usize) -> u8 {
    let (given_chars, meant_chars) = (given.chars().count(), meant.chars().count());
    match (distance, given_chars.cmp(&meant_chars)) {
        (1, Ordering::Equal) if strsim::levenshtein(given, meant) == 2 => 0,
        (1, Ordering::Less) => LETTER_MISSING,
        (1, Ordering::Greater) => 2,
        (1, Ordering::Equal) => 3,
        _ => 4,
    }
}

/// The plural of a word that [`stem`] makes it of.
fn plural(stem: &str) -> String {
    let before = |end: usize| stem.chars().rev().nth(end);
    match before(0) {
        Some('y') if before(1).is_some_and(|c| !"aeiou".contains(c)) => {
            format!("{}ies", &stem[..stem.len() - 1])
        }
        Some('s' | 'x') => format!("{stem}es"),
        Some('h') if matches!(before(1), Some('c' | 's')) => format!("{stem}es"),
        _ => format!("{stem}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower(text: &str) -> Vec<String> {
        split(text).into_iter().map(|word| word.lower).collect()
    }

    #[test]
    fn a_question_is_split_into_words() {
        assert_eq!(lower("Jobs, by day?"), ["jobs", "by", "day"]);
        assert_eq!(lower("price >= $20 at Shop.Example."), ["price", ">=", "$", "20", "at", "shop.example"]);
        assert_eq!(lower("brand \"Old & Sons\" 'x y'"), ["brand", "old & sons", "x y"]);
        assert_eq!(lower("it's 5%"), ["it", "s", "5", "%"]);
        assert_eq!(lower("what's in today's 'a b'"), ["what", "s", "in", "today", "s", "a b"]);
        assert!(lower("... ??? \u{200b}").is_empty());
        assert!(split(&"a ".repeat(100_000)).len() <= WORDS_MAX + 1);
    }

    #[test]
    fn plurals_are_one_with_their_singulars() {
        for (plural, singular) in [
            ("jobs", "job"),
            ("deliveries", "delivery"),
            ("boxes", "box"),
            ("statuses", "status"),
            ("urls", "url"),
        ] {
            assert_eq!(stem(plural), stem(singular), "{plural}");
        }
        assert_eq!((stem("status"), stem("gas")), ("status".to_owned(), "gas".to_owned()));
    }

    #[test]
    fn slips_are_mended_and_other_words_are_not() {
        let known: HashSet<String> = ["average", "price", "domain", "jobs"].map(String::from).into();
        let mut words = split("avrage pirce by domian of wether job");
        mend(&mut words, &known);
        let lower: Vec<_> = words.iter().map(|word| word.lower.as_str()).collect();
        assert_eq!(lower, ["average", "price", "by", "domain", "of", "wether", "jobs"]);
    }

    #[test]
    fn letters_in_each_others_place_and_short_words_are_mended_where_one_word_is_near() {
        let known: HashSet<String> =
            ["job", "day", "total", "tool", "week", "page", "count", "delivery", "out"]
                .map(String::from)
                .into();
        let mut words = split("jbos dya totl wek pge cout delivries lot Dya xqz");
        let mended = mend(&mut words, &known);
        let lower: Vec<_> = words.iter().map(|word| word.lower.as_str()).collect();
        let expected = ["jobs", "day", "total", "week", "page", "count", "deliveries", "lot", "dya", "xqz"];
        assert_eq!(lower, expected);
        assert_eq!(mended.len(), 7);
        // Two are as near: neither is taken.
        let known: HashSet<String> = ["cart", "cast"].map(String::from).into();
        assert!(mend(&mut split("cat"), &known).is_empty());
        for stem in ["delivery", "box", "status", "match", "day", "job"] {
            assert_eq!(super::stem(&plural(stem)), stem);
        }
    }
}
