//! PostgreSQL's patterns for dates and times (`YYYY-MM-DD`) as those of `strftime` (`%Y-%m-%d`), which DataFusion takes.
//!
//! A pattern with a part that has no counterpart is not translated at all, and its statement is refused: half a pattern
//! would be a wrong text in silence. Names of months and days are padded to nine characters in PostgreSQL unless `FM`
//! stands in front, so only those are taken. Where PostgreSQL would read on (`SSSS` is no `SS` twice), so is here.

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
];

/// Parts whose case is that of what they give.
const WORDS: &[(&str, &str)] = &[
    ("FMMonth", "%B"),
    ("FMDay", "%A"),
    ("Month", ""),
    ("Mon", "%b"),
    ("Dy", "%a"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("am", "%P"),
    ("pm", "%P"),
];

/// The pattern as `strftime` has it; none when a part of it has no counterpart there.
pub(super) fn strftime(pattern: &str) -> Option<String> {
    let mut own = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
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
    Some(own)
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
}
