//! From text to terms: the one analysis that indexing, queries and highlights share.
//!
//! A term is a run of letters and digits, lower-cased, without accents ("Café" and "CAFE\u{301}" are `cafe`),
//! cut at [`TERM_CHARS_MAX`]: a long hash stays findable by the same cut, while garbage cannot grow the
//! dictionary by megabytes. No stemming and no stop words: the pages are in any language, and a shop's "It"
//! is a title.
//!
//! Scripts that write without spaces (Chinese, Japanese, Thai …) would be one term a sentence. They are
//! indexed as single characters and as overlapping pairs at the same position; a query uses the pairs (far
//! fewer false hits) and falls back to the single character when the run is one long. Both sides count one
//! position a character, so a phrase across scripts ("iPhone手机壳 16") keeps its distances. (Lucene's
//! CJKBigramFilter with `outputUnigrams` is the same idea.)

use tantivy::tokenizer::{AsciiFoldingFilter, TextAnalyzer, Token, TokenStream, Tokenizer};

/// Longest term in characters; the rest of a longer run is not looked at.
pub(super) const TERM_CHARS_MAX: usize = 40;

/// The name under which the indexing analyzer is registered; part of the schema, so a change of the rules in
/// this file must raise `schema::SCHEMA_VERSION`.
pub(super) const ANALYZER_NAME: &str = "gleaner";

/// Which side of the search a text stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextRole {
    /// A document, or a text to be highlighted: single characters and pairs of unspaced scripts.
    Document,
    /// What a person typed: pairs only, or the single character of a run of one.
    Query,
}

/// The analyzer of one side.
pub(super) fn analyzer(side: TextRole) -> TextAnalyzer {
    TextAnalyzer::builder(WordTokenizer { side, token: Token::default() }).filter(AsciiFoldingFilter).build()
}

/// Splits a text into words and character pairs. Normalizes letter by letter; what needs a table (Latin
/// accents, full-width forms) is left to tantivy's ASCII folding behind it.
#[derive(Clone)]
struct WordTokenizer {
    side: TextRole,
    token: Token,
}

/// The stream of [`WordTokenizer`] over one text.
struct WordTokenStream<'a> {
    side: TextRole,
    text: &'a str,
    /// Byte offset of the next character to look at.
    at: usize,
    /// The pair that follows the single character just given (documents only).
    pair_end: Option<usize>,
    /// Whether the character before was the first half of a pair (queries only).
    inside_run: bool,
    token: &'a mut Token,
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordTokenStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordTokenStream<'a> {
        self.token.reset();
        let (side, token) = (self.side, &mut self.token);
        WordTokenStream { side, text, at: 0, pair_end: None, inside_run: false, token }
    }
}

impl WordTokenStream<'_> {
    /// Gives `text[from..to]`, an unspaced run of one or two characters, at the current position.
    fn give_run(&mut self, from: usize, to: usize) {
        self.token.offset_from = from;
        self.token.offset_to = to;
        self.token.text.clear();
        self.token.text.push_str(&self.text[from..to]);
    }

    /// Takes the word that starts at `from` (its first character is known to belong to it). False when
    /// nothing of it is left after normalization, as with a lone accent.
    fn take_word(&mut self, from: usize) -> bool {
        self.token.text.clear();
        let (mut chars, mut end) = (0, self.text.len());
        for (offset, c) in self.text[from..].char_indices() {
            if !is_word(c) || is_unspaced(c) {
                end = from + offset;
                break;
            }
            for folded in c.to_lowercase().filter_map(normalize) {
                if chars < TERM_CHARS_MAX {
                    self.token.text.push(folded);
                    chars += 1;
                }
            }
        }
        self.at = end;
        self.token.offset_from = from;
        self.token.offset_to = end;
        chars > 0
    }
}

impl TokenStream for WordTokenStream<'_> {
    fn advance(&mut self) -> bool {
        if let Some(end) = self.pair_end.take() {
            self.give_run(self.token.offset_from, end);
            return true;
        }
        while let Some(c) = self.text[self.at..].chars().next() {
            let from = self.at;
            if is_unspaced(c) {
                self.at += c.len_utf8();
                let next = self.text[self.at..].chars().next().filter(|next| is_unspaced(*next));
                let pair_end = next.map(|next| self.at + next.len_utf8());
                self.token.position = self.token.position.wrapping_add(1);
                match (self.side, pair_end) {
                    (TextRole::Document, _) => {
                        self.pair_end = pair_end;
                        self.give_run(from, self.at);
                    }
                    (TextRole::Query, Some(end)) => {
                        self.inside_run = true;
                        self.give_run(from, end);
                    }
                    // The last character of a run already stands in the pair before it; it only takes its
                    // position.
                    (TextRole::Query, None) if std::mem::take(&mut self.inside_run) => continue,
                    (TextRole::Query, None) => self.give_run(from, self.at),
                }
                return true;
            }
            if !is_word(c) {
                self.at += c.len_utf8();
            } else if self.take_word(from) {
                self.token.position = self.token.position.wrapping_add(1);
                return true;
            }
        }
        false
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// Whether the character belongs inside a word.
fn is_word(c: char) -> bool {
    c.is_alphanumeric()
        // Combining accents, and the joiners inside Persian and Indic words.
        || matches!(c, '\u{0300}'..='\u{036f}' | '\u{200c}' | '\u{200d}')
        // Indic signs that Unicode does not call letters (virama, nukta), without the blocks' own
        // punctuation.
        || matches!(c, '\u{0900}'..='\u{0dff}') && !matches!(c, '\u{0964}' | '\u{0965}' | '\u{0970}' | '\u{0df4}')
}

/// Whether the script writes words without a space between them.
fn is_unspaced(c: char) -> bool {
    match c {
        // Thai and Lao without their digits and signs; Myanmar; Khmer.
        '\u{0e01}'..='\u{0e3a}' | '\u{0e40}'..='\u{0e4e}' | '\u{0e81}'..='\u{0ece}' => true,
        '\u{1000}'..='\u{103f}' | '\u{1780}'..='\u{17d3}' => true,
        // The iteration mark, kana, Han with its extensions, Hangul syllables, half-width kana.
        '\u{3005}' | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30fe}' => true,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' => true,
        '\u{ac00}'..='\u{d7a3}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}' => true,
        _ => false,
    }
}

/// One lower-case character in the form in which it is compared; `None` for marks that searchers leave out.
fn normalize(c: char) -> Option<char> {
    match c {
        '\u{0300}'..='\u{036f}' | '\u{200c}' | '\u{200d}' => None,
        // Arabic vowel signs and the stretching tatweel.
        '\u{064b}'..='\u{065f}' | '\u{0640}' => None,
        'ς' => Some('σ'),
        'ё' => Some('е'),
        'ά' => Some('α'),
        'έ' => Some('ε'),
        'ή' => Some('η'),
        'ί' | 'ϊ' | 'ΐ' => Some('ι'),
        'ό' => Some('ο'),
        'ύ' | 'ϋ' | 'ΰ' => Some('υ'),
        'ώ' => Some('ω'),
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(side: TextRole, text: &str) -> Vec<(usize, String)> {
        let mut analyzer = analyzer(side);
        let mut stream = analyzer.token_stream(text);
        let mut found = Vec::new();
        while stream.advance() {
            let token = stream.token();
            assert!(text.get(token.offset_from..token.offset_to).is_some(), "offsets lie on characters");
            found.push((token.position, token.text.clone()));
        }
        found
    }

    fn texts(side: TextRole, text: &str) -> Vec<String> {
        terms(side, text).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn composed_and_decomposed_accents_are_one_term() {
        assert_eq!(
            texts(TextRole::Document, "Café CAFE\u{301} Straße İzmir"),
            ["cafe", "cafe", "strasse", "izmir"]
        );
        assert_eq!(texts(TextRole::Document, "ΟΔΟΣ οδός Ёлка"), ["οδοσ", "οδοσ", "елка"]);
        assert_eq!(texts(TextRole::Document, "ＦＵＬＬ１２"), ["full12"]);
    }

    #[test]
    fn indic_words_stay_whole() {
        assert_eq!(texts(TextRole::Query, "हिन्दी।"), ["हिन्दी"]);
    }

    #[test]
    fn unspaced_scripts_share_positions_on_both_sides() {
        let document: Vec<(usize, String)> = [(0, "iphone"), (1, "手"), (1, "手机"), (2, "机"), (3, "16")]
            .map(|(p, t)| (p, t.to_owned()))
            .into();
        assert_eq!(terms(TextRole::Document, "iPhone手机 16"), document);
        let query: Vec<(usize, String)> =
            [(0, "iphone"), (1, "手机"), (3, "16")].map(|(p, t)| (p, t.to_owned())).into();
        assert_eq!(terms(TextRole::Query, "iPhone手机 16"), query);
        assert_eq!(texts(TextRole::Query, "猫"), ["猫"]);
        assert_eq!(texts(TextRole::Query, "猫 犬"), ["猫", "犬"]);
    }

    #[test]
    fn long_runs_are_cut_and_marks_alone_are_nothing() {
        let hash = "0123456789abcdef".repeat(4);
        assert_eq!(texts(TextRole::Document, &hash), [hash[..TERM_CHARS_MAX].to_owned()]);
        assert!(texts(TextRole::Document, "\u{301} -- !!! ** \"\" \u{200d}").is_empty());
    }
}
