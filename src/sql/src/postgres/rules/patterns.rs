//! PostgreSQL's patterns for dates and times (`YYYY-MM-DD`) as those of `strftime` (`%Y-%m-%d`), which DataFusion takes.
//!
//! A pattern with a part that has no counterpart is not translated at all, and its statement is refused: half a pattern
//! would be a wrong text in silence. Where PostgreSQL would read on (`SSSS` is no `SS` twice), so is here.

/// Parts that mean numbers, in any case; longer ones before those that they begin with.
const NUMBERS: &[(&str, &str)] = &[
    ("SSSSS", ""),
    ("SSSS", ""),
    ("IDDD", ""),
    ("FMHH24", "%-H"),
    ("FMHH12", "%-I"),
    ("FMMM", "%-m"),
    ("FMDD", "%-d"),
    ("IYYY", "%G"),
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("MM", "%m"),
    ("DDD", "%j"),
    ("DD", "%d"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("HH", "%I"),
    ("MI", "%M"),
    ("SS", "%S"),
    ("MS", "%3f"),
    ("US", "%6f"),
    ("IW", "%V"),
    ("ID", "%u"),
    ("Q", "%q"),
];

/// Parts whose case is that of what they give.
const WORDS: &[(&str, &str)] = &[("AM", "%p"), ("PM", "%p"), ("am", "%P"), ("pm", "%P")];

/// Names of months and days, each as `Month`, `MONTH` or `month`; the longer ones before those that they begin with. The long ones
/// are padded with blanks to nine letters, unless `FM` stands in front.
const NAMES: &[(&str, &str, usize)] =
    &[("Month", "%B", 9), ("Mon", "%b", 0), ("Day", "%A", 9), ("Dy", "%a", 0)];

/// How the letters of a name are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Letters {
    Mixed,
    Upper,
    Lower,
}

/// A part of a text that is made of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// What `strftime` gives.
    Plain(String),
    /// A name, with blanks behind it up to so many letters.
    Name { strftime: &'static str, letters: Letters, width: usize },
    /// A number that is worked out: `(n + plus) / by` of the one that `strftime` gives, with zeros in front up to so many digits.
    Number { strftime: &'static str, plus: u8, by: u8, width: usize },
}

/// Numbers that `strftime` does not give: which seven days of the year, or the month, it is in, counted from the first day; the
/// day of the week, of which Sunday is the first.
const WORKED_OUT: &[(&str, Piece)] = &[
    ("WW", Piece::Number { strftime: "%j", plus: 6, by: 7, width: 2 }),
    ("W", Piece::Number { strftime: "%d", plus: 6, by: 7, width: 1 }),
    ("D", Piece::Number { strftime: "%w", plus: 1, by: 1, width: 1 }),
];

/// A number that is worked out, at the beginning of a pattern, and what stands behind it.
fn worked_out(pattern: &str) -> Option<(Piece, &str)> {
    let begins =
        |whole: &str, part: &str| whole.get(..part.len()).is_some_and(|it| it.eq_ignore_ascii_case(part));
    let (is_bare, rest) = match begins(pattern, "FM") {
        true => (true, &pattern[2..]),
        false => (false, pattern),
    };
    if NUMBERS.iter().any(|(part, _)| begins(rest, part)) {
        return None;
    }
    let (part, piece) = WORKED_OUT.iter().find(|(part, _)| begins(rest, part))?;
    let piece = match piece.clone() {
        Piece::Number { strftime, plus, by, .. } if is_bare => Piece::Number { strftime, plus, by, width: 1 },
        other => other,
    };
    Some((piece, &rest[part.len()..]))
}

/// A name at the beginning of a pattern, and what stands behind it.
fn name(pattern: &str) -> Option<(Piece, &str)> {
    let (is_bare, rest) = match pattern.strip_prefix("FM") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    NAMES.iter().find_map(|(name, strftime, width)| {
        let forms = [
            ((*name).to_owned(), Letters::Mixed),
            (name.to_ascii_uppercase(), Letters::Upper),
            (name.to_ascii_lowercase(), Letters::Lower),
        ];
        let (behind, letters) =
            forms.iter().find_map(|(form, letters)| Some((rest.strip_prefix(form.as_str())?, *letters)))?;
        let width = if is_bare { 0 } else { *width };
        let piece = match (letters, width) {
            (Letters::Mixed, 0) => Piece::Plain((*strftime).to_owned()),
            _ => Piece::Name { strftime, letters, width },
        };
        Some((piece, behind))
    })
}

/// The pattern's parts; none when one of them has no counterpart.
pub(super) fn pieces(pattern: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut own = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some((piece, behind)) = name(rest) {
            rest = behind;
            match piece {
                Piece::Plain(text) => own.push_str(&text),
                name => pieces.extend([Piece::Plain(std::mem::take(&mut own)), name]),
            }
            continue;
        }
        if let Some((piece, behind)) = worked_out(rest) {
            pieces.extend([Piece::Plain(std::mem::take(&mut own)), piece]);
            rest = behind;
            continue;
        }
        let word = WORDS.iter().find(|(part, _)| rest.starts_with(part));
        let number = NUMBERS.iter().find(|(part, _)| {
            rest.get(..part.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(part))
        });
        if let Some((part, ours)) = word.or(number) {
            if ours.is_empty() {
                return None;
            }
            own.push_str(ours);
            rest = &rest[part.len()..];
            continue;
        }
        if first == '"' {
            let (quoted, behind) = rest[1..].split_once('"')?;
            own.push_str(&quoted.replace('%', "%%"));
            rest = behind;
            continue;
        }
        if first.is_alphanumeric() || first == '\\' {
            return None;
        }
        own.push(first);
        if first == '%' {
            own.push('%');
        }
        rest = &rest[first.len_utf8()..];
    }
    pieces.push(Piece::Plain(own));
    pieces.retain(|piece| *piece != Piece::Plain(String::new()));
    Some(pieces)
}

/// The pattern as `strftime` has it; none when a part of it has no counterpart there.
pub(super) fn strftime(pattern: &str) -> Option<String> {
    match pieces(pattern)?.as_slice() {
        [] => Some(String::new()),
        [Piece::Plain(own)] => Some(own.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_patterns_are_translated_or_none_of_it() {
        for (pattern, expected) in [
            ("YYYY-MM-DD", Some("%Y-%m-%d")),
            ("yyyy-mm-dd hh24:mi:ss", Some("%Y-%m-%d %H:%M:%S")),
            ("DD.MM.YY", Some("%d.%m.%y")),
            ("HH12:MI AM", Some("%I:%M %p")),
            ("FMDD FMMonth YYYY", Some("%-d %B %Y")),
            ("YYYY\"T\"HH24", Some("%YT%H")),
            ("IYYY-IW", Some("%G-%V")),
            ("DDD Mon Dy", Some("%j %b %a")),
            ("SS.MS 100", None),
            ("SS.MS %", Some("%S.%3f %%")),
            ("FMDay Q", Some("%A %q")),
            ("Month", None),
            ("MON", None),
            ("Day", None),
            ("YYYYth", None),
            ("J", None),
            ("SSSS", None),
            ("HH24:MI:sssss", None),
            ("IDDD", None),
        ] {
            assert_eq!(strftime(pattern).as_deref(), expected, "{pattern}");
        }
    }
    #[test]
    fn names_are_written_and_padded_as_they_stand_in_the_pattern() {
        let name = |strftime, letters, width| Piece::Name { strftime, letters, width };
        let plain = |text: &str| Piece::Plain(text.to_owned());
        for (pattern, expected) in [
            ("Month", vec![name("%B", Letters::Mixed, 9)]),
            ("DD-MON-YY", vec![plain("%d-"), name("%b", Letters::Upper, 0), plain("-%y")]),
            ("FMday, Dy", vec![name("%A", Letters::Lower, 0), plain(", %a")]),
        ] {
            assert_eq!(pieces(pattern), Some(expected), "{pattern}");
        }
        assert_eq!(pieces("Month J"), None);
    }
}
