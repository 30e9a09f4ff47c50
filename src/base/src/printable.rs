//! Which characters may stand in what people name things.
//!
//! A name is shown beside others: in lists, in mails that the box vouches for, on terminals. Control characters move the
//! cursor and end lines; the overrides and isolates of the bidirectional algorithm (UAX 9) turn what stands around them, so
//! that `exe.gpj` reads as a picture and one organization as another (CVE-2021-42574). The marks that people do write, left
//! and right of a word (U+200E, U+200F) and the joiners of scripts and emoji (U+200C, U+200D), stay.

/// Whether a character has no place in a name.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Embeddings and overrides; isolates.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph separators.
            | '\u{2028}' | '\u{2029}')
}

/// Whether a text has such a character.
pub fn has_hidden(text: &str) -> bool {
    text.chars().any(is_hidden)
}

/// Whether a text has a character that can be seen, or heard by who has it read out: not only spaces, joiners and marks.
pub fn is_visible(text: &str) -> bool {
    let is_blank = |c: char| {
        c.is_whitespace()
            || is_hidden(c)
            || matches!(c,
                // Soft hyphen, fillers, joiners and marks of direction, invisible operators, variation selectors, tags.
                '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
    };
    !text.chars().all(is_blank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_or_hides_text_is_told_from_what_people_write() {
        for bad in ["a\nb", "\u{7f}", "\u{202e}gpj.exe", "x\u{2066}y\u{2069}", "a\u{2028}b", "\u{85}"] {
            assert!(has_hidden(bad), "{bad:?}");
        }
        for good in
            ["Ada Łovelace", "عربي\u{200f} (x)", "नी\u{200d}", "👩\u{200d}💻", "a\u{a0}b", "שלום\u{200e}!"]
        {
            assert!(!has_hidden(good) && is_visible(good), "{good:?}");
        }
        for blank in ["", " ", "\u{200b}", "\u{feff}\u{a0}", "\u{200d}\u{fe0f}", "\u{3164}"] {
            assert!(!is_visible(blank), "{blank:?}");
        }
    }
}
