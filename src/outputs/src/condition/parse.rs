//! From words and signs to a tree.
//!
//! From the loosest to the tightest: `or`, `and`, `not`, comparisons (which do not chain), `+ -`, `* /`, the sign of a number.

use super::lex::{Token, Tokens};
use super::{
    Comparison, DEPTH_MAX, Fault, Function, Kind, LIST_MAX, Node, Operator, PATTERN_BYTES_MAX, PATTERNS_MAX,
    units,
};
use regex::RegexBuilder;

/// Words that are no names.
const WORDS: &[&str] = &["and", "or", "not", "in", "contains", "true", "false", "null"];

const FUNCTIONS: &[(&str, Function)] = &[
    ("changed", Function::Changed),
    ("drop", Function::Drop),
    ("rise", Function::Rise),
    ("change", Function::Change),
    ("was", Function::Was),
    ("before", Function::Before),
    ("contains", Function::Contains),
    ("starts_with", Function::StartsWith),
    ("ends_with", Function::EndsWith),
    ("missing", Function::Missing),
    ("has", Function::Has),
    ("count", Function::Count),
    ("lower", Function::Lower),
    ("abs", Function::Abs),
    ("round", Function::Round),
    ("min", Function::Min),
    ("max", Function::Max),
];

pub(super) fn parse(tokens: &Tokens) -> Result<Node, Fault> {
    let mut parser = Parser { tokens: &tokens.tokens, end: tokens.end, next: 0, depth: 0, patterns: 0 };
    if parser.tokens.is_empty() {
        return Err(Fault::new(1, "the condition is empty"));
    }
    let root = parser.any()?;
    match parser.peek() {
        None => Ok(root),
        Some(_) => Err(Fault::new(parser.at(), "and, or, or the end is expected here")),
    }
}

struct Parser<'t> {
    tokens: &'t [(usize, Token)],
    end: usize,
    next: usize,
    depth: usize,
    patterns: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    /// The place of the next token.
    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(next)) if next == word);
        self.next += usize::from(is_next);
        is_next
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Sign(next)) if *next == sign);
        self.next += usize::from(is_next);
        is_next
    }

    fn wants_sign(&mut self, sign: &str) -> Result<(), Fault> {
        let at = self.at();
        self.takes_sign(sign).then_some(()).ok_or_else(|| Fault::new(at, format!("{sign} is expected here")))
    }

    /// Parses something that nests, at a bounded depth.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::new(self.at(), format!("a condition nests at most {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let parsed = inner(self);
        self.depth -= 1;
        parsed
    }

    fn any(&mut self) -> Result<Node, Fault> {
        self.nested(|parser| parser.chain("or", Parser::all, Kind::Any))
    }

    fn all(&mut self) -> Result<Node, Fault> {
        self.chain("and", Parser::not, Kind::All)
    }

    fn chain(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Node, Fault>,
        kind: fn(Vec<Node>) -> Kind,
    ) -> Result<Node, Fault> {
        let first = part(self)?;
        let (at, mut parts) = (first.at, vec![first]);
        while self.takes_word(word) {
            parts.push(part(self)?);
        }
        match parts.pop() {
            Some(only) if parts.is_empty() => Ok(only),
            last => Ok(Node { at, kind: kind(parts.into_iter().chain(last).collect()) }),
        }
    }

    fn not(&mut self) -> Result<Node, Fault> {
        let at = self.at();
        if self.takes_word("not") {
            let inner = self.nested(Parser::not)?;
            return Ok(Node { at, kind: Kind::Not(Box::new(inner)) });
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Node, Fault> {
        let left = self.sum()?;
        let at = self.at();
        let (start, is_negated) = (left.at, self.is_not_before_operator());
        self.next += usize::from(is_negated);
        let kind = if self.takes_word("in") {
            Kind::In(Box::new(left), Box::new(self.sum()?))
        } else if self.takes_word("contains") {
            Kind::Call(Function::Contains, vec![left, self.sum()?])
        } else if let Some(comparison) = self.comparison_sign() {
            let right = self.sum()?;
            if self.comparison_sign().is_some() {
                self.next -= 1;
                return Err(Fault::new(self.at(), "comparisons do not chain; join two with and"));
            }
            Kind::Compare(comparison, Box::new(left), Box::new(right))
        } else {
            return Ok(left);
        };
        let node = Node { at: if matches!(kind, Kind::Compare(..)) { at } else { start }, kind };
        Ok(match is_negated {
            true => Node { at, kind: Kind::Not(Box::new(node)) },
            false => node,
        })
    }

    /// Whether `not in` or `not contains` follows.
    fn is_not_before_operator(&self) -> bool {
        let word = |ahead: usize| match self.tokens.get(self.next + ahead) {
            Some((_, Token::Word(word))) => word.as_str(),
            _ => "",
        };
        word(0) == "not" && matches!(word(1), "in" | "contains")
    }

    fn comparison_sign(&mut self) -> Option<Comparison> {
        let Some(Token::Sign(sign)) = self.peek() else { return None };
        let comparison = match *sign {
            "==" => Comparison::Equal,
            "!=" => Comparison::Unequal,
            "<" => Comparison::Less,
            "<=" => Comparison::AtMost,
            ">" => Comparison::Greater,
            ">=" => Comparison::AtLeast,
            _ => return None,
        };
        self.next += 1;
        Some(comparison)
    }

    fn sum(&mut self) -> Result<Node, Fault> {
        self.arithmetic(&[("+", Operator::Plus), ("-", Operator::Minus)], Parser::product)
    }

    fn product(&mut self) -> Result<Node, Fault> {
        self.arithmetic(&[("*", Operator::Times), ("/", Operator::Over)], Parser::signed)
    }

    fn arithmetic(
        &mut self,
        operators: &[(&str, Operator)],
        part: fn(&mut Self) -> Result<Node, Fault>,
    ) -> Result<Node, Fault> {
        let (mut left, mut count) = (part(self)?, 0);
        loop {
            let at = self.at();
            let Some((_, operator)) = operators.iter().find(|(sign, _)| self.takes_sign(sign)) else {
                return Ok(left);
            };
            count += 1;
            if count > DEPTH_MAX {
                return Err(Fault::new(at, format!("at most {DEPTH_MAX} such operators stand in a row")));
            }
            let right = part(self)?;
            left = Node { at, kind: Kind::Arithmetic(*operator, Box::new(left), Box::new(right)) };
        }
    }

    fn signed(&mut self) -> Result<Node, Fault> {
        let at = self.at();
        if self.takes_sign("-") {
            let inner = self.nested(Parser::signed)?;
            return Ok(Node { at, kind: Kind::Negate(Box::new(inner)) });
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Node, Fault> {
        let at = self.at();
        let node = |kind| Ok(Node { at, kind });
        let Some(token) = self.peek() else { return Err(Fault::new(at, "a value is missing here")) };
        self.next += 1;
        match token {
            Token::Number(number) => self.number(at, *number),
            Token::Text(text) => node(Kind::Text(text.clone())),
            Token::Quoted(name) => node(Kind::Attribute(name.clone())),
            Token::Event(name) => node(Kind::Event(name.clone())),
            Token::Sign("(") => {
                let inner = self.any()?;
                self.wants_sign(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                let items = self.list("]", LIST_MAX)?;
                node(Kind::List(items))
            }
            Token::Word(word) => match word.as_str() {
                "true" => node(Kind::Bool(true)),
                "false" => node(Kind::Bool(false)),
                "null" => Err(Fault::new(at, "there is no null; ask missing(x) or has(x)")),
                // As a function, contains(x, y) is the operator.
                word if matches!(self.peek(), Some(Token::Sign("("))) => self.call(at, word),
                word if WORDS.contains(&word) => {
                    Err(Fault::new(at, format!("a value is expected here, and {word} is none")))
                }
                word => node(Kind::Attribute(word.to_owned())),
            },
            Token::Sign(sign) => Err(Fault::new(at, format!("a value is expected here, and {sign} is none"))),
        }
    }

    /// A number, with the unit that may follow it.
    fn number(&mut self, at: usize, number: f64) -> Result<Node, Fault> {
        if self.takes_sign("%") {
            return Ok(Node { at, kind: Kind::Percent(number / 100.0) });
        }
        let unit_at = self.at();
        let Some(Token::Word(word)) = self.peek().filter(|token| match token {
            Token::Word(word) => !WORDS.contains(&word.as_str()),
            _ => false,
        }) else {
            return Ok(Node { at, kind: Kind::Number(number) });
        };
        let Some((dimension, factor)) = units::unit(word) else {
            let message = format!("{word} is no unit; known are %, {}", units::names());
            return Err(Fault::new(unit_at, message));
        };
        self.next += 1;
        Ok(Node { at, kind: Kind::Quantity(number * factor, dimension) })
    }

    /// What stands in a list or between a call's parentheses, up to its closing sign.
    fn list(&mut self, close: &str, most: usize) -> Result<Vec<Node>, Fault> {
        let mut items = Vec::new();
        if self.takes_sign(close) {
            return Ok(items);
        }
        loop {
            if items.len() == most {
                return Err(Fault::new(self.at(), format!("at most {most} of them stand here")));
            }
            items.push(self.any()?);
            if self.takes_sign(close) {
                return Ok(items);
            }
            let at = self.at();
            if !self.takes_sign(",") {
                return Err(Fault::new(at, format!(", or {close} is expected here")));
            }
        }
    }

    fn call(&mut self, at: usize, name: &str) -> Result<Node, Fault> {
        if name == "matches" {
            return self.matches(at);
        }
        let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = FUNCTIONS.iter().map(|(name, _)| *name).chain(["matches"]).collect();
            let message = format!("there is no function {name}; known are {}", known.join(", "));
            return Err(Fault::new(at, message));
        };
        self.wants_sign("(")?;
        let arguments = self.list(")", 2)?;
        let (least, most) = match function {
            Function::Changed => (0, 1),
            Function::Was => (1, 2),
            Function::Contains
            | Function::StartsWith
            | Function::EndsWith
            | Function::Min
            | Function::Max => (2, 2),
            _ => (1, 1),
        };
        if !(least..=most).contains(&arguments.len()) {
            let wanted = if least == most { format!("{least}") } else { format!("{least} or {most}") };
            let given = arguments.len();
            return Err(Fault::new(at, format!("{name} takes {wanted} of them, and {given} are given")));
        }
        Ok(Node { at, kind: Kind::Call(*function, arguments) })
    }

    fn matches(&mut self, at: usize) -> Result<Node, Fault> {
        self.wants_sign("(")?;
        let subject = self.any()?;
        self.wants_sign(",")?;
        let pattern_at = self.at();
        let Some(Token::Text(pattern)) = self.peek() else {
            return Err(Fault::new(pattern_at, "the pattern is a text, written out"));
        };
        self.next += 1;
        self.wants_sign(")")?;
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            return Err(Fault::new(pattern_at, format!("a condition has at most {PATTERNS_MAX} patterns")));
        }
        let compiled = RegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .nest_limit(DEPTH_MAX as u32)
            .build();
        match compiled {
            Ok(regex) => Ok(Node { at, kind: Kind::Matches(Box::new(subject), Box::new(regex)) }),
            Err(regex::Error::CompiledTooBig(_)) => Err(Fault::new(pattern_at, "the pattern is too large")),
            Err(error) => {
                let told = error.to_string();
                let reason = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
                Err(Fault::new(pattern_at, format!("the pattern is wrong: {reason}")))
            }
        }
    }
}
