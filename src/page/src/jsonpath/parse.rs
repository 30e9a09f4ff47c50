//! From text to a query (RFC 9535, section 2 and its grammar in appendix A).

use serde_json::{Number, Value};

use super::{
    Comparison, Condition, JsonPathError, NESTING_MAX, Operand, PatternOperand, QUERY_BYTES_MAX, Query,
    Segment, Selector, pattern,
};

/// Integers that JSON can carry everywhere (RFC 7493, section 2.2).
const INTEGER_MAX: i64 = (1 << 53) - 1;

pub(super) fn parse(text: &str) -> Result<Vec<Segment>, JsonPathError> {
    let mut parser = Parser { text, at: 0, nesting: 0 };
    if text.len() > QUERY_BYTES_MAX {
        return Err(parser.wrong(format!("the query has more than {QUERY_BYTES_MAX} bytes")));
    }
    if !parser.takes("$") {
        return Err(parser.wrong("a query begins with `$`"));
    }
    let segments = parser.segments()?;
    match parser.rest().chars().next() {
        None => Ok(segments),
        Some(left) if left.is_whitespace() => Err(parser.wrong("there is white space behind the query")),
        Some(left) => Err(parser.wrong(format!("`{left}` is not expected here"))),
    }
}

struct Parser<'t> {
    text: &'t str,
    /// Bytes that are read.
    at: usize,
    nesting: usize,
}

/// What stands in a filter before it is known what it is for.
enum Term {
    Literal(Value),
    Query(Query),
    /// `length`, `count` or `value`.
    Value(Operand),
    /// `match` or `search`.
    Test(Condition),
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    fn needs(&mut self, token: &str) -> Result<(), JsonPathError> {
        if self.takes(token) { Ok(()) } else { Err(self.wrong(format!("`{token}` is expected"))) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn wrong(&self, message: impl Into<String>) -> JsonPathError {
        self.wrong_at(self.at, message)
    }

    fn wrong_at(&self, at: usize, message: impl Into<String>) -> JsonPathError {
        JsonPathError { position: self.text[..at].chars().count() + 1, message: message.into() }
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Parser<'t>) -> Result<T, JsonPathError>,
    ) -> Result<T, JsonPathError> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(self.wrong(format!("more than {NESTING_MAX} levels")));
        }
        let read = read(self);
        self.nesting -= 1;
        read
    }

    fn segments(&mut self) -> Result<Vec<Segment>, JsonPathError> {
        let mut segments = Vec::new();
        loop {
            let before = self.at;
            self.space();
            let is_descendant = self.takes("..");
            let selectors = match self.peek() {
                Some(b'[') => self.bracketed()?,
                _ if is_descendant => vec![self.shorthand()?],
                _ if self.takes(".") => vec![self.shorthand()?],
                _ => {
                    self.at = before;
                    return Ok(segments);
                }
            };
            segments.push(Segment { is_descendant, selectors });
        }
    }

    /// Behind a dot: a name or a star.
    fn shorthand(&mut self) -> Result<Selector, JsonPathError> {
        if self.takes("*") {
            return Ok(Selector::Wildcard);
        }
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        let rest = self.rest();
        let end = rest.find(|c: char| !is_first(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
        match rest.chars().next().filter(|first| is_first(*first)) {
            None => Err(self.wrong("a name or `*` is expected")),
            Some(_) => {
                self.at += end;
                Ok(Selector::Name(rest[..end].to_owned()))
            }
        }
    }

    fn bracketed(&mut self) -> Result<Vec<Selector>, JsonPathError> {
        self.needs("[")?;
        let mut selectors = Vec::new();
        loop {
            self.space();
            selectors.push(self.selector()?);
            self.space();
            if self.takes("]") {
                return Ok(selectors);
            }
            if !self.takes(",") {
                return Err(self.wrong("`,` or `]` is expected"));
            }
        }
    }

    fn selector(&mut self) -> Result<Selector, JsonPathError> {
        match self.peek() {
            Some(b'"' | b'\'') => self.string().map(Selector::Name),
            Some(b'*') => {
                self.at += 1;
                Ok(Selector::Wildcard)
            }
            Some(b'?') => {
                self.at += 1;
                self.space();
                self.deeper(Parser::or).map(Selector::Filter)
            }
            Some(b':' | b'-' | b'0'..=b'9') => self.index_or_slice(),
            _ => Err(self.wrong("a name in quotes, `*`, an index, a slice or a filter is expected")),
        }
    }

    fn index_or_slice(&mut self) -> Result<Selector, JsonPathError> {
        let start = self.optional_integer()?;
        let behind = self.at;
        self.space();
        if !self.takes(":") {
            self.at = behind;
            return start.map(Selector::Index).ok_or_else(|| self.wrong("an index is expected"));
        }
        self.space();
        let end = self.optional_integer()?;
        let behind = self.at;
        self.space();
        let mut step = 1;
        if self.takes(":") {
            self.space();
            let behind = self.at;
            match self.optional_integer()? {
                Some(given) => step = given,
                None => self.at = behind,
            }
        } else {
            self.at = behind;
        }
        Ok(Selector::Slice { start, end, step })
    }

    fn optional_integer(&mut self) -> Result<Option<i64>, JsonPathError> {
        let begin = self.at;
        let is_negative = self.takes("-");
        let digits = self.digits();
        if digits.is_empty() {
            return if is_negative { Err(self.wrong("a digit is expected")) } else { Ok(None) };
        }
        if digits.len() > 1 && digits.starts_with('0') || is_negative && digits == "0" {
            return Err(self.wrong_at(begin, "an integer has no zero in front, and no `-0`"));
        }
        let number = digits.parse::<i64>().ok().filter(|number| *number <= INTEGER_MAX);
        let number = number.ok_or_else(|| self.wrong_at(begin, "an integer is at most 2^53 - 1"))?;
        Ok(Some(if is_negative { -number } else { number }))
    }

    fn digits(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn string(&mut self) -> Result<String, JsonPathError> {
        let begin = self.at;
        let quote = if self.takes("'") { '\'' } else { '"' };
        if quote == '"' {
            self.needs("\"")?;
        }
        let mut text = String::new();
        loop {
            let Some(next) = self.rest().chars().next() else {
                return Err(self.wrong_at(begin, "the text is not closed"));
            };
            if next < ' ' {
                return Err(self.wrong("a control character is written as `\\u` and four digits"));
            }
            self.at += next.len_utf8();
            match next {
                _ if next == quote => return Ok(text),
                '\\' => text.push(self.escaped(quote)?),
                _ => text.push(next),
            }
        }
    }

    fn escaped(&mut self, quote: char) -> Result<char, JsonPathError> {
        let begin = self.at;
        let escaped = self.rest().chars().next();
        self.at += escaped.map_or(0, char::len_utf8);
        Ok(match escaped {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(itself @ ('/' | '\\')) => itself,
            Some(itself) if itself == quote => itself,
            Some('u') => {
                let unit = self.unit()?;
                let low = match unit {
                    0xD800..0xDC00 if self.takes("\\u") => Some(self.unit()?),
                    _ => None,
                };
                let units = [Some(unit), low].into_iter().flatten();
                let mut decoded = char::decode_utf16(units);
                match (decoded.next(), decoded.next()) {
                    (Some(Ok(character)), None) => character,
                    _ => return Err(self.wrong_at(begin, "half of a surrogate pair is no character")),
                }
            }
            _ => return Err(self.wrong_at(begin, "there is no such escape")),
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u16, JsonPathError> {
        let digits =
            self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.wrong("four hexadecimal digits are expected"))?;
        self.at += 4;
        Ok(unit)
    }

    fn or(&mut self) -> Result<Condition, JsonPathError> {
        let mut all = vec![self.and()?];
        while self.goes_on("||") {
            all.push(self.and()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::Or(all) })
    }

    fn and(&mut self) -> Result<Condition, JsonPathError> {
        let mut all = vec![self.basic()?];
        while self.goes_on("&&") {
            all.push(self.basic()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::And(all) })
    }

    /// Whether an operator comes next, behind white space.
    fn goes_on(&mut self, operator: &str) -> bool {
        let before = self.at;
        self.space();
        if self.takes(operator) {
            self.space();
            return true;
        }
        self.at = before;
        false
    }

    fn basic(&mut self) -> Result<Condition, JsonPathError> {
        let is_negated = self.takes("!");
        if is_negated {
            self.space();
        }
        let condition = if self.takes("(") {
            self.space();
            let inner = self.deeper(Parser::or)?;
            self.space();
            self.needs(")")?;
            inner
        } else {
            self.comparison_or_test(is_negated)?
        };
        Ok(if is_negated { Condition::Not(Box::new(condition)) } else { condition })
    }

    fn comparison_or_test(&mut self, is_negated: bool) -> Result<Condition, JsonPathError> {
        let begin = self.at;
        let left = self.term()?;
        let before = self.at;
        self.space();
        let Some(comparison) = self.comparison() else {
            self.at = before;
            return match left {
                Term::Query(query) => Ok(Condition::Exists(query)),
                Term::Test(test) => Ok(test),
                Term::Literal(_) => Err(self.wrong_at(begin, "a literal must be compared with something")),
                Term::Value(_) => Err(self.wrong_at(begin, "what this function gives must be compared")),
            };
        };
        if is_negated {
            return Err(self.wrong_at(begin, "a comparison is negated in parentheses: `!(…)`"));
        }
        let left = self.operand(left, begin)?;
        self.space();
        let begin = self.at;
        let right = self.term()?;
        Ok(Condition::Compare(left, comparison, self.operand(right, begin)?))
    }

    fn comparison(&mut self) -> Option<Comparison> {
        const ALL: [(&str, Comparison); 6] = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        ALL.into_iter().find(|(token, _)| self.takes(token)).map(|(_, comparison)| comparison)
    }

    /// What stands where a value is needed.
    fn operand(&self, term: Term, begin: usize) -> Result<Operand, JsonPathError> {
        match term {
            Term::Literal(value) => Ok(Operand::Literal(value)),
            Term::Value(operand) => Ok(operand),
            Term::Query(query) if query.is_singular() => Ok(Operand::Node(query)),
            Term::Query(_) => {
                Err(self.wrong_at(begin, "a query that can name several nodes has no one value"))
            }
            Term::Test(_) => Err(self.wrong_at(begin, "what this function gives cannot be compared")),
        }
    }

    fn term(&mut self) -> Result<Term, JsonPathError> {
        match self.peek() {
            Some(b'@' | b'$') => self.query().map(Term::Query),
            Some(b'"' | b'\'') => self.string().map(|text| Term::Literal(Value::from(text))),
            Some(b'-' | b'0'..=b'9') => self.number().map(Term::Literal),
            Some(b'a'..=b'z') => self.word(),
            _ => Err(self.wrong("a query, a literal or a function is expected")),
        }
    }

    fn query(&mut self) -> Result<Query, JsonPathError> {
        let is_absolute = self.peek() == Some(b'$');
        self.at += 1;
        let segments = self.segments()?;
        Ok(Query { is_absolute, segments })
    }

    fn number(&mut self) -> Result<Value, JsonPathError> {
        let begin = self.at;
        self.takes("-");
        let whole = self.digits();
        if whole.is_empty() || whole.len() > 1 && whole.starts_with('0') {
            return Err(self.wrong_at(begin, "a number begins with one digit, or with one that is no zero"));
        }
        let mut is_integer = true;
        if self.takes(".") {
            is_integer = false;
            if self.digits().is_empty() {
                return Err(self.wrong("a digit is expected"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_integer = false;
            self.at += 1;
            if !self.takes("-") {
                self.takes("+");
            }
            if self.digits().is_empty() {
                return Err(self.wrong("a digit is expected"));
            }
        }
        let text = &self.text[begin..self.at];
        if let Some(integer) = text.parse::<i64>().ok().filter(|_| is_integer) {
            return Ok(Value::from(integer));
        }
        let number = text.parse().ok().and_then(Number::from_f64);
        number.map(Value::Number).ok_or_else(|| self.wrong_at(begin, "the number is too large"))
    }

    /// `true`, `false`, `null`, or a function.
    fn word(&mut self) -> Result<Term, JsonPathError> {
        let begin = self.at;
        let rest = self.rest();
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let end = rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        self.at += end;
        let word = &rest[..end];
        if self.takes("(") {
            return self.deeper(|parser| parser.function(word, begin));
        }
        match word {
            "true" => Ok(Term::Literal(Value::Bool(true))),
            "false" => Ok(Term::Literal(Value::Bool(false))),
            "null" => Ok(Term::Literal(Value::Null)),
            _ => Err(self.wrong_at(begin, format!("`{word}` is no literal and no function"))),
        }
    }

    fn function(&mut self, name: &str, begin: usize) -> Result<Term, JsonPathError> {
        self.space();
        let term = match name {
            "length" => Term::Value(Operand::Length(Box::new(self.value_argument()?))),
            "count" => Term::Value(Operand::Count(self.nodes_argument()?)),
            "value" => Term::Value(Operand::Value(self.nodes_argument()?)),
            "match" | "search" => {
                let is_whole = name == "match";
                let text = self.value_argument()?;
                self.space();
                self.needs(",")?;
                self.space();
                let pattern = match self.value_argument()? {
                    Operand::Literal(Value::String(source)) => {
                        PatternOperand::Fixed(pattern(&source, is_whole))
                    }
                    Operand::Literal(_) => PatternOperand::Fixed(None),
                    computed => PatternOperand::Computed(Box::new(computed)),
                };
                Term::Test(Condition::Matches { text, pattern, is_whole })
            }
            _ => {
                let known = "there are length, count, value, match and search";
                return Err(self.wrong_at(begin, format!("there is no function `{name}`; {known}")));
            }
        };
        self.space();
        self.needs(")")?;
        Ok(term)
    }

    fn value_argument(&mut self) -> Result<Operand, JsonPathError> {
        let begin = self.at;
        let term = self.term()?;
        self.operand(term, begin)
    }

    fn nodes_argument(&mut self) -> Result<Query, JsonPathError> {
        match self.peek() {
            Some(b'@' | b'$') => self.query(),
            _ => Err(self.wrong("a query is expected")),
        }
    }
}
