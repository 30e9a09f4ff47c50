//! Tokens of XPath 1.0 (section 3.7 of the recommendation).
//!
//! The one subtle rule: after a token that ends an operand, `*` multiplies and a name can only be `and`, `or`, `div` or
//! `mod`; anywhere else `*` is a wildcard and those words are ordinary names. `///` and longer runs are read as `//`, as
//! parsel's users expect.

use super::CompileError;
use super::ast::{ArithmeticOp, CompareOp};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind<'s> {
    Number(f64),
    Literal(&'s str),
    Name { prefix: Option<&'s str>, local: &'s str },
    Wildcard { prefix: Option<&'s str> },
    Or,
    And,
    Compare(CompareOp),
    Arithmetic(ArithmeticOp),
    Pipe,
    Slash,
    DoubleSlash,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    At,
    Dot,
    DoubleDot,
    Comma,
    DoubleColon,
    Dollar,
    End,
}

/// A token and the bytes it covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'s> {
    pub kind: Kind<'s>,
    pub start: usize,
    pub end: usize,
}

/// All tokens, with [`Kind::End`] as the last.
pub(super) fn tokens(source: &str) -> Result<Vec<Token<'_>>, CompileError> {
    let mut lexer = Lexer { source, at: 0 };
    let mut tokens: Vec<Token<'_>> = Vec::with_capacity(source.len() / 3 + 2);
    loop {
        lexer.skip_space();
        let start = lexer.at;
        let operator_place = tokens.last().is_some_and(|token| ends_operand(token.kind));
        let kind = lexer.next(operator_place)?;
        tokens.push(Token { kind, start, end: lexer.at });
        if kind == Kind::End {
            return Ok(tokens);
        }
    }
}

/// True for a token after which only an operator can stand (or a bracket, which needs no telling apart).
fn ends_operand(kind: Kind<'_>) -> bool {
    matches!(
        kind,
        Kind::Number(_)
            | Kind::Literal(_)
            | Kind::Name { .. }
            | Kind::Wildcard { .. }
            | Kind::CloseParen
            | Kind::CloseBracket
            | Kind::Dot
            | Kind::DoubleDot
    )
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    fn peek(&self) -> u8 {
        self.peek_at(0)
    }

    /// The byte `ahead` of here; 0 at the end (a NUL in the source is refused as any other odd character).
    fn peek_at(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, CompileError> {
        Err(CompileError::new(self.source, at, message))
    }

    fn next(&mut self, operator_place: bool) -> Result<Kind<'s>, CompileError> {
        let (kind, length) = match self.peek() {
            0 if self.at >= self.source.len() => (Kind::End, 0),
            b'(' => (Kind::OpenParen, 1),
            b')' => (Kind::CloseParen, 1),
            b'[' => (Kind::OpenBracket, 1),
            b']' => (Kind::CloseBracket, 1),
            b'@' => (Kind::At, 1),
            b',' => (Kind::Comma, 1),
            b'|' if self.peek_at(1) == b'|' => return self.fail(self.at, "`||` is no operator (say `or`)"),
            b'|' => (Kind::Pipe, 1),
            b'+' => (Kind::Arithmetic(ArithmeticOp::Add), 1),
            b'-' => (Kind::Arithmetic(ArithmeticOp::Subtract), 1),
            b'$' => (Kind::Dollar, 1),
            b'=' if self.peek_at(1) == b'=' => return self.fail(self.at, "`==` is no operator (say `=`)"),
            b'=' => (Kind::Compare(CompareOp::Equal), 1),
            b'!' if self.peek_at(1) == b'=' => (Kind::Compare(CompareOp::NotEqual), 2),
            b'<' if self.peek_at(1) == b'=' => (Kind::Compare(CompareOp::LessOrEqual), 2),
            b'<' => (Kind::Compare(CompareOp::Less), 1),
            b'>' if self.peek_at(1) == b'=' => (Kind::Compare(CompareOp::GreaterOrEqual), 2),
            b'>' => (Kind::Compare(CompareOp::Greater), 1),
            b':' if self.peek_at(1) == b':' => (Kind::DoubleColon, 2),
            b'/' if self.peek_at(1) == b'/' => {
                let slashes = self.source.as_bytes()[self.at..].iter().take_while(|byte| **byte == b'/');
                (Kind::DoubleSlash, slashes.count())
            }
            b'/' => (Kind::Slash, 1),
            b'.' if self.peek_at(1) == b'.' => (Kind::DoubleDot, 2),
            b'.' if !self.peek_at(1).is_ascii_digit() => (Kind::Dot, 1),
            b'.' | b'0'..=b'9' => return self.number(),
            b'"' | b'\'' => return self.literal(),
            b'*' if operator_place => (Kind::Arithmetic(ArithmeticOp::Multiply), 1),
            b'*' => (Kind::Wildcard { prefix: None }, 1),
            _ => return self.name(operator_place),
        };
        self.at += length;
        Ok(kind)
    }

    fn number(&mut self) -> Result<Kind<'s>, CompileError> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.peek() == b'.' {
            self.at += 1;
            while self.peek().is_ascii_digit() {
                self.at += 1;
            }
        }
        match self.source[start..self.at].parse() {
            Ok(number) => Ok(Kind::Number(number)),
            Err(_) => self.fail(start, "not a number"),
        }
    }

    fn literal(&mut self) -> Result<Kind<'s>, CompileError> {
        let start = self.at;
        let quote = self.peek();
        let body = &self.source[start + 1..];
        match memchr::memchr(quote, body.as_bytes()) {
            Some(length) => {
                self.at = start + 1 + length + 1;
                Ok(Kind::Literal(&body[..length]))
            }
            None => self.fail(start, "unterminated string"),
        }
    }

    /// The longest name without a colon here, or an empty text.
    fn part(&mut self) -> &'s str {
        let rest = &self.source[self.at..];
        let is_start = |c: char| c.is_alphabetic() || c == '_';
        let is_more = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '\u{b7}');
        let length = match rest.chars().next() {
            Some(first) if is_start(first) => rest.find(|c| !is_more(c)).unwrap_or(rest.len()),
            _ => 0,
        };
        self.at += length;
        &rest[..length]
    }

    fn name(&mut self, operator_place: bool) -> Result<Kind<'s>, CompileError> {
        let start = self.at;
        let first = self.part();
        if first.is_empty() {
            let found = self.source[start..].chars().next().unwrap_or(' ');
            let hint = if found == '&' { " (say `and`)" } else { "" };
            return self.fail(start, format!("unexpected character `{}`{hint}", found.escape_debug()));
        }
        if operator_place {
            return match first {
                "and" => Ok(Kind::And),
                "or" => Ok(Kind::Or),
                "div" => Ok(Kind::Arithmetic(ArithmeticOp::Divide)),
                "mod" => Ok(Kind::Arithmetic(ArithmeticOp::Modulo)),
                _ => self.fail(start, format!("unexpected `{first}`, an operator was expected")),
            };
        }
        if self.peek() != b':' || self.peek_at(1) == b':' {
            return Ok(Kind::Name { prefix: None, local: first });
        }
        self.at += 1;
        if self.peek() == b'*' {
            self.at += 1;
            return Ok(Kind::Wildcard { prefix: Some(first) });
        }
        let local = self.part();
        if local.is_empty() {
            return self.fail(self.at, format!("a name must follow `{first}:`"));
        }
        Ok(Kind::Name { prefix: Some(first), local })
    }
}
