//! The grammar: tokens to [`Ast`], by precedence climbing.
//!
//! Chains of one operator become flat lists, so the depth of the tree is the depth of brackets in the text, and that is
//! limited. An error names the character where the reader should look: for a bracket that is never closed, the bracket.

use super::ast::{ArithmeticOp, Ast, AstKind, AstStep, AstTest, Axis};
use super::lexer::{Kind, Token, tokens};
use super::{CompileError, EXPRESSION_BYTES_MAX, NESTING_MAX};

/// Parses a whole expression.
pub(super) fn parse(source: &str) -> Result<Ast<'_>, CompileError> {
    if source.len() > EXPRESSION_BYTES_MAX {
        let mut end = EXPRESSION_BYTES_MAX;
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        return Err(CompileError::new(source, end, "expression longer than 16 KB"));
    }
    let mut parser = Parser { source, tokens: tokens(source)?, next: 0, depth: 0 };
    if parser.peek() == Kind::End {
        return parser.fail(0, "empty expression");
    }
    let ast = parser.expression(Precedence::Or)?;
    match parser.peek() {
        Kind::End => Ok(ast),
        Kind::CloseParen => parser.fail(parser.here(), "unbalanced parenthesis"),
        Kind::CloseBracket => parser.fail(parser.here(), "unbalanced bracket"),
        _ => parser.unexpected("an operator was expected"),
    }
}

/// Binding strength, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Or,
    And,
    Equality,
    Relation,
    Sum,
    Product,
    Unary,
}

impl Precedence {
    fn next(self) -> Precedence {
        match self {
            Precedence::Or => Precedence::And,
            Precedence::And => Precedence::Equality,
            Precedence::Equality => Precedence::Relation,
            Precedence::Relation => Precedence::Sum,
            Precedence::Sum => Precedence::Product,
            Precedence::Product | Precedence::Unary => Precedence::Unary,
        }
    }

    /// The strength of a binary operator; `None` for any other token.
    fn of(kind: Kind<'_>) -> Option<Precedence> {
        use super::ast::CompareOp::{Equal, NotEqual};
        Some(match kind {
            Kind::Or => Precedence::Or,
            Kind::And => Precedence::And,
            Kind::Compare(Equal | NotEqual) => Precedence::Equality,
            Kind::Compare(_) => Precedence::Relation,
            Kind::Arithmetic(ArithmeticOp::Add | ArithmeticOp::Subtract) => Precedence::Sum,
            Kind::Arithmetic(_) => Precedence::Product,
            _ => return None,
        })
    }
}

struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Token<'s>>,
    next: usize,
    depth: usize,
}

type Parsed<T> = Result<T, CompileError>;

impl<'s> Parser<'s> {
    fn peek(&self) -> Kind<'s> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Kind<'s> {
        self.tokens.get(self.next + ahead).map_or(Kind::End, |token| token.kind)
    }

    /// The byte where the next token starts.
    fn here(&self) -> usize {
        self.tokens.get(self.next).map_or(self.source.len(), |token| token.start)
    }

    fn eat(&mut self, kind: Kind<'_>) -> bool {
        let eaten = self.peek() == kind;
        self.next += usize::from(eaten);
        eaten
    }

    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Parsed<T> {
        Err(CompileError::new(self.source, at, message))
    }

    fn unexpected<T>(&self, expected: &str) -> Parsed<T> {
        match self.tokens.get(self.next) {
            Some(token) if token.kind != Kind::End => {
                let found = &self.source[token.start..token.end];
                self.fail(token.start, format!("unexpected `{found}`, {expected}"))
            }
            _ => self.fail(self.source.len(), format!("unexpected end, {expected}")),
        }
    }

    /// Steps over the closing partner of the bracket that stood at byte `open`.
    fn close(&mut self, kind: Kind<'_>, open: usize) -> Parsed<()> {
        if self.eat(kind) {
            return Ok(());
        }
        let (name, other) = match kind {
            Kind::CloseParen => ("unbalanced parenthesis", Kind::CloseBracket),
            _ => ("unbalanced bracket", Kind::CloseParen),
        };
        if self.peek() == Kind::End || self.peek() == other {
            return self.fail(open, name);
        }
        self.unexpected("an operator or the closing bracket was expected")
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return self.fail(self.here(), format!("nested more than {NESTING_MAX} deep"));
        }
        Ok(())
    }

    /// An expression whose operators bind at least as strongly as `weakest`.
    fn expression(&mut self, weakest: Precedence) -> Parsed<Ast<'s>> {
        self.deeper()?;
        let before = self.depth;
        let mut left = self.unary()?;
        while let Some(precedence) = Precedence::of(self.peek()).filter(|found| *found >= weakest) {
            let (at, operator) = (self.here(), self.peek());
            self.next += 1;
            let right = self.expression(precedence.next())?;
            if let Kind::Compare(_) = operator {
                // Comparisons are the one chain that stays a nested tree.
                self.deeper()?;
            }
            left = combine(left, operator, at, right);
        }
        self.depth = before - 1;
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Ast<'s>> {
        let at = self.here();
        let mut signs = 0;
        while self.eat(Kind::Arithmetic(ArithmeticOp::Subtract)) {
            signs += 1;
        }
        let operand = self.union()?;
        let negate = |operand| Ast { at, kind: AstKind::Negate(Box::new(operand)) };
        Ok(match signs {
            0 => operand,
            // Two signs cancel, but still make a number of the operand.
            signs if signs % 2 == 0 => negate(negate(operand)),
            _ => negate(operand),
        })
    }

    fn union(&mut self) -> Parsed<Ast<'s>> {
        let at = self.here();
        let first = self.path()?;
        if self.peek() != Kind::Pipe {
            return Ok(first);
        }
        let mut members = vec![first];
        while self.eat(Kind::Pipe) {
            members.push(self.path()?);
        }
        Ok(Ast { at, kind: AstKind::Union(members) })
    }

    fn path(&mut self) -> Parsed<Ast<'s>> {
        let at = self.here();
        let mut steps = Vec::new();
        match self.peek() {
            Kind::Slash => {
                self.next += 1;
                if self.starts_step() {
                    self.relative(&mut steps)?;
                }
                Ok(Ast { at, kind: AstKind::Path { absolute: true, steps } })
            }
            Kind::DoubleSlash => {
                self.next += 1;
                steps.push(anywhere());
                self.relative(&mut steps)?;
                Ok(Ast { at, kind: AstKind::Path { absolute: true, steps } })
            }
            Kind::Number(_) | Kind::Literal(_) | Kind::OpenParen | Kind::Dollar => self.filter(),
            Kind::Name { .. } if self.peek_at(1) == Kind::OpenParen && !self.is_node_type() => self.filter(),
            _ if self.starts_step() => {
                self.relative(&mut steps)?;
                Ok(Ast { at, kind: AstKind::Path { absolute: false, steps } })
            }
            _ => self.unexpected("an expression was expected"),
        }
    }

    fn is_node_type(&self) -> bool {
        let Kind::Name { prefix: None, local } = self.peek() else { return false };
        matches!(local, "node" | "text" | "comment" | "processing-instruction")
            && self.peek_at(1) == Kind::OpenParen
    }

    fn starts_step(&self) -> bool {
        matches!(
            self.peek(),
            Kind::Name { .. } | Kind::Wildcard { .. } | Kind::At | Kind::Dot | Kind::DoubleDot
        )
    }

    /// A primary expression with its predicates and the steps that follow.
    fn filter(&mut self) -> Parsed<Ast<'s>> {
        let at = self.here();
        let primary = self.primary()?;
        let predicates = self.predicates()?;
        let mut steps = Vec::new();
        match self.peek() {
            Kind::Slash => {
                self.next += 1;
                self.relative(&mut steps)?;
            }
            Kind::DoubleSlash => {
                self.next += 1;
                steps.push(anywhere());
                self.relative(&mut steps)?;
            }
            _ => {}
        }
        if predicates.is_empty() && steps.is_empty() {
            return Ok(primary);
        }
        Ok(Ast { at, kind: AstKind::Filter { primary: Box::new(primary), predicates, steps } })
    }

    fn primary(&mut self) -> Parsed<Ast<'s>> {
        let at = self.here();
        let kind = self.peek();
        self.next += 1;
        match kind {
            Kind::Number(number) => Ok(Ast { at, kind: AstKind::Number(number) }),
            Kind::Literal(text) => Ok(Ast { at, kind: AstKind::Literal(text) }),
            Kind::Dollar => self.fail(at, "variables are not supported"),
            Kind::OpenParen => {
                let inner = self.expression(Precedence::Or)?;
                self.close(Kind::CloseParen, at)?;
                Ok(inner)
            }
            Kind::Name { prefix, local } => {
                let arguments = self.arguments()?;
                Ok(Ast { at, kind: AstKind::Call { prefix, name: local, arguments } })
            }
            _ => {
                self.next -= 1;
                self.unexpected("an expression was expected")
            }
        }
    }

    fn arguments(&mut self) -> Parsed<Vec<Ast<'s>>> {
        let open = self.here();
        let mut arguments = Vec::new();
        self.next += 1;
        if self.eat(Kind::CloseParen) {
            return Ok(arguments);
        }
        loop {
            if self.peek() == Kind::End {
                return self.fail(open, "unbalanced parenthesis");
            }
            arguments.push(self.expression(Precedence::Or)?);
            if !self.eat(Kind::Comma) {
                self.close(Kind::CloseParen, open)?;
                return Ok(arguments);
            }
        }
    }

    fn predicates(&mut self) -> Parsed<Vec<Ast<'s>>> {
        let mut predicates = Vec::new();
        loop {
            let open = self.here();
            if !self.eat(Kind::OpenBracket) {
                return Ok(predicates);
            }
            if self.peek() == Kind::End {
                return self.fail(open, "unbalanced bracket");
            }
            predicates.push(self.expression(Precedence::Or)?);
            self.close(Kind::CloseBracket, open)?;
        }
    }

    /// Steps separated by `/` and `//`; at least one.
    fn relative(&mut self, steps: &mut Vec<AstStep<'s>>) -> Parsed<()> {
        loop {
            steps.push(self.step()?);
            if self.eat(Kind::DoubleSlash) {
                steps.push(anywhere());
            } else if !self.eat(Kind::Slash) {
                return Ok(());
            }
        }
    }

    fn step(&mut self) -> Parsed<AstStep<'s>> {
        let axis = match self.peek() {
            Kind::Dot | Kind::DoubleDot => {
                let axis = if self.peek() == Kind::Dot { Axis::SelfNode } else { Axis::Parent };
                self.next += 1;
                if self.peek() == Kind::OpenBracket {
                    return self
                        .fail(self.here(), "`.` and `..` take no predicate (say `self::node()[...]`)");
                }
                return Ok(AstStep { axis, test: AstTest::Node, predicates: Vec::new() });
            }
            Kind::At => {
                self.next += 1;
                Axis::Attribute
            }
            Kind::Name { prefix: None, local } if self.peek_at(1) == Kind::DoubleColon => {
                let Some(axis) = Axis::named(local) else {
                    return self.fail(self.here(), format!("unknown axis `{local}`"));
                };
                self.next += 2;
                axis
            }
            _ => Axis::Child,
        };
        let test = self.test()?;
        Ok(AstStep { axis, test, predicates: self.predicates()? })
    }

    fn test(&mut self) -> Parsed<AstTest<'s>> {
        let at = self.here();
        match self.peek() {
            Kind::Wildcard { prefix: None } => {
                self.next += 1;
                Ok(AstTest::Any)
            }
            Kind::Wildcard { prefix: Some(prefix) } => self.fail(at, format!("unknown prefix `{prefix}`")),
            Kind::Name { .. } if self.is_node_type() => self.node_type(),
            Kind::Name { local, .. } if self.peek_at(1) == Kind::OpenParen => {
                self.fail(at, format!("{local}() cannot be a step in XPath 1.0"))
            }
            Kind::Name { prefix, local } => {
                self.next += 1;
                Ok(AstTest::Name { prefix, local, at })
            }
            Kind::OpenParen => self.fail(at, "a step cannot be parenthesized in XPath 1.0"),
            _ => self.unexpected("a step was expected"),
        }
    }

    fn node_type(&mut self) -> Parsed<AstTest<'s>> {
        let Kind::Name { local, .. } = self.peek() else { return self.unexpected("a step was expected") };
        self.next += 1;
        let open = self.here();
        self.next += 1;
        let test = match local {
            "node" => AstTest::Node,
            "text" => AstTest::Text,
            "comment" => AstTest::Comment,
            _ => match self.peek() {
                Kind::Literal(target) => {
                    self.next += 1;
                    AstTest::Pi(Some(target))
                }
                _ => AstTest::Pi(None),
            },
        };
        if !matches!(self.peek(), Kind::CloseParen | Kind::End | Kind::CloseBracket) {
            return self.fail(self.here(), format!("{local}() takes no such argument"));
        }
        self.close(Kind::CloseParen, open)?;
        Ok(test)
    }
}

/// What `//` stands for between two steps.
fn anywhere<'s>() -> AstStep<'s> {
    AstStep { axis: Axis::DescendantOrSelf, test: AstTest::Node, predicates: Vec::new() }
}

/// Joins two operands; a left side that is a chain of the same kind grows instead of nesting.
fn combine<'s>(left: Ast<'s>, operator: Kind<'s>, at: usize, right: Ast<'s>) -> Ast<'s> {
    let kind = match (operator, left.kind) {
        (Kind::Or, AstKind::Or(mut members)) => {
            members.push(right);
            AstKind::Or(members)
        }
        (Kind::And, AstKind::And(mut members)) => {
            members.push(right);
            AstKind::And(members)
        }
        (Kind::Arithmetic(op), AstKind::Arithmetic(first, mut rest)) => {
            rest.push((op, right));
            AstKind::Arithmetic(first, rest)
        }
        (operator, kind) => {
            let left = Ast { at: left.at, kind };
            match operator {
                Kind::Or => AstKind::Or(vec![left, right]),
                Kind::And => AstKind::And(vec![left, right]),
                Kind::Compare(op) => AstKind::Compare(op, Box::new(left), Box::new(right)),
                Kind::Arithmetic(op) => AstKind::Arithmetic(Box::new(left), vec![(op, right)]),
                // `Precedence::of` lets no other operator through.
                _ => left.kind,
            }
        }
    };
    Ast { at, kind }
}
