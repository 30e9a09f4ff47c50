//! A condition's text in words and signs.

use super::Fault;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Text(String),
    /// A name, or a word of the language.
    Word(String),
    /// A name in backticks: never a word of the language.
    Quoted(String),
    /// A name with a `$`: something of the event itself.
    Event(String),
    Sign(&'static str),
}

/// Tokens, each with its place, and the place behind the last character.
pub(super) struct Tokens {
    pub tokens: Vec<(usize, Token)>,
    pub end: usize,
}

/// The longer ones first.
const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "(", ")", "[", "]", ",", "+", "-", "*", "/", "%", "=", "!",
];

pub(super) fn tokens(text: &str) -> Result<Tokens, Fault> {
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut tokens) = (0, Vec::new());
    while let Some(&first) = chars.get(at) {
        if first.is_whitespace() {
            at += 1;
            continue;
        }
        let start = at;
        let token = match first {
            '"' | '\'' => text_of(&chars, &mut at)?,
            '`' => quoted(&chars, &mut at)?,
            '$' => {
                at += 1;
                let name = word(&chars, &mut at);
                if name.is_empty() {
                    return Err(Fault::new(start + 1, "a name of the event follows a $, such as $kind"));
                }
                Token::Event(name)
            }
            '0'..='9' | '.' => number(&chars, &mut at)?,
            first if is_word(first) => Token::Word(word(&chars, &mut at)),
            _ => sign(&chars, &mut at)?,
        };
        tokens.push((start + 1, token));
    }
    Ok(Tokens { tokens, end: chars.len() + 1 })
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn word(chars: &[char], at: &mut usize) -> String {
    let start = *at;
    while chars.get(*at).is_some_and(|c| is_word(*c) || c.is_numeric()) {
        *at += 1;
    }
    chars[start..*at].iter().collect()
}

fn number(chars: &[char], at: &mut usize) -> Result<Token, Fault> {
    let start = *at;
    let digits = |at: &mut usize| {
        while chars.get(*at).is_some_and(char::is_ascii_digit) {
            *at += 1;
        }
    };
    digits(at);
    if chars.get(*at) == Some(&'.') {
        *at += 1;
        digits(at);
    }
    let exponent = matches!(chars.get(*at), Some('e' | 'E'));
    let sign = usize::from(exponent && matches!(chars.get(*at + 1), Some('+' | '-')));
    if exponent && chars.get(*at + 1 + sign).is_some_and(char::is_ascii_digit) {
        *at += 1 + sign;
        digits(at);
    }
    let text: String = chars[start..*at].iter().collect();
    let read = text.parse().ok().filter(|number: &f64| number.is_finite());
    if chars.get(*at) == Some(&'.') {
        return Err(Fault::new(*at + 1, "a number has one decimal point"));
    }
    read.map(Token::Number).ok_or_else(|| Fault::new(start + 1, format!("{text} is no number")))
}

fn text_of(chars: &[char], at: &mut usize) -> Result<Token, Fault> {
    let (start, quote) = (*at, chars[*at]);
    let mut text = String::new();
    *at += 1;
    loop {
        let Some(&next) = chars.get(*at) else {
            return Err(Fault::new(start + 1, format!("the text is not closed with {quote}")));
        };
        *at += 1;
        match next {
            next if next == quote => return Ok(Token::Text(text)),
            // What is no escape stays as it is, so that patterns need no second backslash.
            '\\' => match chars.get(*at) {
                Some(&escaped) if escaped == quote || escaped == '\\' => {
                    text.push(escaped);
                    *at += 1;
                }
                _ => text.push('\\'),
            },
            next => text.push(next),
        }
    }
}

fn quoted(chars: &[char], at: &mut usize) -> Result<Token, Fault> {
    let start = *at;
    let Some(length) = chars[start + 1..].iter().position(|c| *c == '`') else {
        return Err(Fault::new(start + 1, "the name is not closed with `"));
    };
    *at = start + length + 2;
    match length {
        0 => Err(Fault::new(start + 1, "a name has at least one character")),
        _ => Ok(Token::Quoted(chars[start + 1..start + 1 + length].iter().collect())),
    }
}

fn sign(chars: &[char], at: &mut usize) -> Result<Token, Fault> {
    let is_next = |sign: &&&str| sign.chars().enumerate().all(|(n, c)| chars.get(*at + n) == Some(&c));
    let place = *at + 1;
    let fault = |message: &str| Err(Fault::new(place, message));
    match SIGNS.iter().find(is_next) {
        Some(&"=") => fault("values are compared with =="),
        Some(&"&&") => fault("write and"),
        Some(&"||") => fault("write or"),
        Some(&"!") => fault("write not"),
        Some(sign) => {
            *at += sign.len();
            Ok(Token::Sign(sign))
        }
        None => Err(Fault::new(place, format!("{:?} has no meaning here", chars[*at]))),
    }
}
