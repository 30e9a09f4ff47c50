//! Days and lengths of time as pages write them, in the languages of the pages that were looked at.

/// Tokens of a text that are read.
const TOKENS_MAX: usize = 24;

/// A run of digits or of letters.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(u32, usize),
    Word(String),
}

/// Runs of digits and runs of letters, in lower case; ordinals ("3rd") and words between day and month are left out.
fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(char::is_alphanumeric) {
        rest = &rest[start..];
        let digits = rest.starts_with(|c: char| c.is_ascii_digit());
        let goes_on =
            |c: char| if digits { c.is_ascii_digit() } else { c.is_alphanumeric() && !c.is_ascii_digit() };
        let end = rest.find(|c| !goes_on(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if digits {
            found.push(Token::Number(run.parse().unwrap_or(u32::MAX), run.len()));
        } else {
            let word = run.to_lowercase();
            let after_number = matches!(found.last(), Some(Token::Number(..)));
            let between = ["of", "de", "di", "del", "the"].contains(&word.as_str());
            let ordinal = after_number && ["st", "nd", "rd", "th", "er"].contains(&word.as_str());
            if !between && !ordinal {
                found.push(Token::Word(word));
            }
        }
        if found.len() == TOKENS_MAX {
            break;
        }
    }
    found
}

/// How the months begin, each in English, German, French, Spanish, Italian, Dutch, the Nordic languages and Hungarian.
const MONTHS: [&[&str]; 12] = [
    &["jan", "jän", "ene", "gen"],
    &["feb", "fév", "fev"],
    &["mar", "mär", "maa", "mrt", "már"],
    &["apr", "avr", "abr", "ápr"],
    &["may", "mai", "mag", "mei", "maj", "máj"],
    &["jun", "juin", "giu", "jún"],
    &["jul", "juil", "lug", "júl"],
    &["aug", "aoû", "ago"],
    &["sep", "set", "sze"],
    &["oct", "okt", "ott", "out"],
    &["nov"],
    &["dec", "dez", "déc", "dic", "des"],
];

fn month_of(word: &str) -> Option<u32> {
    // "June" begins as "juin" does not; a word of more than ten letters is no month.
    if word.chars().count() > 10 {
        return None;
    }
    let at = MONTHS.iter().position(|names| names.iter().any(|name| word.starts_with(name)))?;
    Some(at as u32 + 1)
}

/// Year, month, day.
pub type Day = (u32, u32, u32);

fn day(year: u32, month: u32, day: u32) -> Option<Day> {
    let fits = (1900..2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    fits.then_some((year, month, day))
}

fn year_of(number: u32, digits: usize) -> Option<u32> {
    match digits {
        4 => Some(number),
        2 => Some(2000 + number),
        _ => None,
    }
}

/// The first day that a text names; both where day and month can be told in no way apart ("3/4/2021").
pub fn dates(text: &str) -> Vec<Day> {
    let tokens = tokens(text);
    for three in tokens.windows(3) {
        let found: Vec<Day> = match three {
            [Token::Number(year, 4), Token::Number(month, ..), Token::Number(d, ..)] => {
                day(*year, *month, *d).into_iter().collect()
            }
            [Token::Number(a, ..), Token::Number(b, ..), Token::Number(year, digits)] => {
                let Some(year) = year_of(*year, *digits) else { continue };
                let both = [day(year, *a, *b), day(year, *b, *a)];
                let mut both: Vec<Day> = both.into_iter().flatten().collect();
                both.dedup();
                both
            }
            [Token::Number(d, ..), Token::Word(month), Token::Number(year, 4)]
            | [Token::Word(month), Token::Number(d, ..), Token::Number(year, 4)]
            | [Token::Number(year, 4), Token::Word(month), Token::Number(d, ..)] => {
                month_of(month).and_then(|month| day(*year, month, *d)).into_iter().collect()
            }
            _ => continue,
        };
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Words for units of time, with their minutes.
const UNITS: [(&[&str], f64); 3] = [
    (
        &["d", "day", "days", "tag", "tage", "dag", "dagen", "dager", "jour", "jours", "día", "días", "nap"],
        1440.0,
    ),
    (
        &[
            "h", "hr", "hrs", "hour", "hours", "std", "stunde", "stunden", "uur", "uren", "heure", "heures",
            "ora", "ore", "óra", "time", "timer", "timme", "timmar", "hora", "horas", "t",
        ],
        60.0,
    ),
    (
        &[
            "m", "min", "mins", "minute", "minutes", "minuten", "minuut", "minutt", "minutter", "minuter",
            "minuti", "minuto", "minutos", "perc", "p",
        ],
        1.0,
    ),
];

/// The minutes of an ISO 8601 duration or of a text ("1 hr 30 mins", "1 ½ Stunden", "1:30 h" is none).
pub fn minutes(text: &str) -> Option<u32> {
    let text = text.trim();
    if let Some(iso) = text
        .strip_prefix(['P', 'p'])
        .filter(|rest| rest.starts_with(['T', 't']) || rest.contains(['D', 'd', 'Y', 'y']))
    {
        return iso_minutes(iso);
    }
    let text = text.replace('½', " 1/2").replace('¼', " 1/4").replace('¾', " 3/4");
    let (mut total, mut number, mut seen) = (0.0, None::<f64>, false);
    let mut rest = text.as_str();
    while let Some(start) = rest.find(char::is_alphanumeric) {
        rest = &rest[start..];
        let digits = rest.starts_with(|c: char| c.is_ascii_digit());
        let goes_on = |c: char| match digits {
            true => c.is_ascii_digit() || matches!(c, '.' | ',' | '/'),
            false => c.is_alphabetic(),
        };
        let end = rest
            .find(|c| !goes_on(c))
            .unwrap_or(rest.len())
            .max(rest.chars().next().map_or(1, char::len_utf8));
        let (run, after) = rest.split_at(end);
        rest = after;
        if digits {
            number = Some(number.filter(|_| run.contains('/')).unwrap_or(0.0) + quantity(run)?);
        } else if let Some(count) = number.take() {
            let word = run.to_lowercase();
            let unit = UNITS.iter().find(|(words, _)| words.contains(&word.as_str()));
            if let Some((_, minutes)) = unit {
                total += count * minutes;
                seen = true;
            }
        }
    }
    (seen && total > 0.0 && total < 1e6).then(|| total.round() as u32)
}

/// "90", "1.5", "1,5" or "1/2".
fn quantity(run: &str) -> Option<f64> {
    let run = run.trim_end_matches(['.', ',', '/']).replace(',', ".");
    match run.split_once('/') {
        Some((over, under)) => {
            let (over, under): (f64, f64) = (over.parse().ok()?, under.parse().ok()?);
            (under > 0.0).then_some(over / under)
        }
        None => run.parse().ok(),
    }
}

/// What stands behind the `P` of an ISO 8601 duration, in whole minutes.
fn iso_minutes(iso: &str) -> Option<u32> {
    let (mut total, mut number, mut in_time) = (0.0, String::new(), false);
    for character in iso.chars() {
        match character.to_ascii_uppercase() {
            'T' => in_time = true,
            digit @ ('0'..='9' | '.') => number.push(digit),
            ',' => number.push('.'),
            unit => {
                let count: f64 = number.parse().ok()?;
                number.clear();
                total += count
                    * match (unit, in_time) {
                        ('W', false) => 10080.0,
                        ('D', false) => 1440.0,
                        ('H', true) => 60.0,
                        ('M', true) => 1.0,
                        ('S', true) => 1.0 / 60.0,
                        // Months and years of cooking are placeholders ("P0Y0M0DT0H35M").
                        ('Y' | 'M', false) if count == 0.0 => 0.0,
                        _ => return None,
                    };
            }
        }
    }
    (total > 0.0 && total < 1e6).then(|| total.round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read() {
        for text in [
            "2021-03-04T23:10:00+01:00",
            "4 March 2021",
            "Mar 4th, 2021",
            "Posted on March 4, 2021 by Ann",
            "4. März 2021",
            "4 de marzo de 2021",
            "2021. március 4.",
            "04.03.2021",
            "3/4/21",
        ] {
            assert!(dates(text).contains(&(2021, 3, 4)), "{text}: {:?}", dates(text));
        }
        for text in ["", "12", "1 2 3", "March 2021", "2021-13-40", "call 555 12 3456"] {
            assert_eq!(dates(text), [], "{text}");
        }
    }

    #[test]
    fn lengths_of_time_are_read() {
        for text in [
            "PT90M",
            "P0DT1H30M",
            "1 hr 30 mins",
            "1 hour, 30 minutes",
            "90 min",
            "1 ½ Stunden",
            "1h30m",
            "1.5 hours",
        ] {
            assert_eq!(minutes(text), Some(90), "{text}");
        }
        for text in ["", "90", "30 guests", "P", "PT", "PT0S", "minutes"] {
            assert_eq!(minutes(text), None, "{text}");
        }
    }
}
