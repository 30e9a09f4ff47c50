//! What the parser saw: the grammar of XPath 1.0 with its abbreviations spelt out, and nothing decided yet.

/// An expression and the byte where it (or, for an operation, its operator) stands.
#[derive(Debug, Clone)]
pub(super) struct Ast<'s> {
    pub at: usize,
    pub kind: AstKind<'s>,
}

#[derive(Debug, Clone)]
pub(super) enum AstKind<'s> {
    Number(f64),
    Literal(&'s str),
    Or(Vec<Ast<'s>>),
    And(Vec<Ast<'s>>),
    Compare(CompareOp, Box<Ast<'s>>, Box<Ast<'s>>),
    /// A chain of operators of one precedence, grouped from the left. Flat, because a chain may be thousands long.
    Arithmetic(Box<Ast<'s>>, Vec<(ArithmeticOp, Ast<'s>)>),
    Negate(Box<Ast<'s>>),
    Union(Vec<Ast<'s>>),
    Call {
        prefix: Option<&'s str>,
        name: &'s str,
        arguments: Vec<Ast<'s>>,
    },
    /// A location path from the root or from the context node.
    Path {
        absolute: bool,
        steps: Vec<AstStep<'s>>,
    },
    /// A primary expression with predicates, steps, or both.
    Filter {
        primary: Box<Ast<'s>>,
        predicates: Vec<Ast<'s>>,
        steps: Vec<AstStep<'s>>,
    },
}

#[derive(Debug, Clone)]
pub(super) struct AstStep<'s> {
    pub axis: Axis,
    pub test: AstTest<'s>,
    pub predicates: Vec<Ast<'s>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AstTest<'s> {
    /// `node()`
    Node,
    /// `*`
    Any,
    Name {
        prefix: Option<&'s str>,
        local: &'s str,
        at: usize,
    },
    Text,
    Comment,
    /// `processing-instruction()`, with its target if one is named.
    Pi(Option<&'s str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Ancestor,
    AncestorOrSelf,
    Attribute,
    Child,
    Descendant,
    DescendantOrSelf,
    Following,
    FollowingSibling,
    Namespace,
    Parent,
    Preceding,
    PrecedingSibling,
    SelfNode,
}

impl Axis {
    pub const ALL: [(&'static str, Axis); 13] = [
        ("ancestor", Axis::Ancestor),
        ("ancestor-or-self", Axis::AncestorOrSelf),
        ("attribute", Axis::Attribute),
        ("child", Axis::Child),
        ("descendant", Axis::Descendant),
        ("descendant-or-self", Axis::DescendantOrSelf),
        ("following", Axis::Following),
        ("following-sibling", Axis::FollowingSibling),
        ("namespace", Axis::Namespace),
        ("parent", Axis::Parent),
        ("preceding", Axis::Preceding),
        ("preceding-sibling", Axis::PrecedingSibling),
        ("self", Axis::SelfNode),
    ];

    pub fn named(name: &str) -> Option<Axis> {
        Axis::ALL.iter().find(|(text, _)| *text == name).map(|(_, axis)| *axis)
    }

    pub fn name(self) -> &'static str {
        Axis::ALL.iter().find(|(_, axis)| *axis == self).map_or("", |(text, _)| text)
    }

    /// True where `position()` counts against document order.
    pub fn is_reverse(self) -> bool {
        matches!(self, Axis::Ancestor | Axis::AncestorOrSelf | Axis::Preceding | Axis::PrecedingSibling)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl CompareOp {
    /// The operator that gives the same answer with its sides exchanged.
    pub fn flipped(self) -> CompareOp {
        match self {
            CompareOp::Less => CompareOp::Greater,
            CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
            CompareOp::Greater => CompareOp::Less,
            CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
            same => same,
        }
    }

    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            CompareOp::Equal => left == right,
            CompareOp::NotEqual => left != right,
            CompareOp::Less => left < right,
            CompareOp::LessOrEqual => left <= right,
            CompareOp::Greater => left > right,
            CompareOp::GreaterOrEqual => left >= right,
        }
    }

    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Equal => "=",
            CompareOp::NotEqual => "!=",
            CompareOp::Less => "<",
            CompareOp::LessOrEqual => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterOrEqual => ">=",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl ArithmeticOp {
    /// IEEE 754 arithmetic; `mod` truncates, as in ECMAScript (section 3.5).
    pub fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            ArithmeticOp::Add => left + right,
            ArithmeticOp::Subtract => left - right,
            ArithmeticOp::Multiply => left * right,
            ArithmeticOp::Divide => left / right,
            ArithmeticOp::Modulo => left % right,
        }
    }

    pub fn symbol(self) -> &'static str {
        match self {
            ArithmeticOp::Add => "+",
            ArithmeticOp::Subtract => "-",
            ArithmeticOp::Multiply => "*",
            ArithmeticOp::Divide => "div",
            ArithmeticOp::Modulo => "mod",
        }
    }
}
