//! What an expression became: names numbered, functions resolved, steps fused, and every node typed.
//!
//! A plan is independent of any document. Names are indexes into [`Plan::names`], which the evaluator looks up once a run.

use std::sync::Arc;

use memchr::memmem::Finder;

pub(super) use super::ast::{ArithmeticOp, Axis, CompareOp};
use super::pattern::Pattern;

/// Index into [`Plan::names`].
pub(super) type NameIndex = usize;

#[derive(Debug)]
pub(super) struct Plan {
    pub root: Expr,
    pub names: Vec<Box<str>>,
    /// How many [`Expr::Once`] there are.
    pub once_count: usize,
    /// How many regular expressions it holds.
    pub pattern_count: usize,
    /// Those of `re:match` and `re:replace` that stand in the expression.
    pub patterns: Vec<KnownPattern>,
    /// How many predicates remember their answers by node.
    pub memo_count: usize,
}

/// A regular expression as it was written, and compiled.
#[derive(Debug)]
pub(super) struct KnownPattern {
    pub text: Box<str>,
    pub flags: Box<str>,
    pub pattern: Arc<Pattern>,
}

/// Pattern and flags of a `re:` function's arguments, where they are known beforehand.
pub(super) fn known_pattern(arguments: &[Expr]) -> Option<(&str, &str)> {
    match (arguments.get(1), arguments.get(2)) {
        (Some(Expr::Literal(text)), None) => Some((text, "")),
        (Some(Expr::Literal(text)), Some(Expr::Literal(flags))) => Some((text, flags)),
        _ => None,
    }
}

/// The four types of XPath 1.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Nodes,
    Number,
    Text,
    Boolean,
}

#[derive(Debug)]
pub(super) enum Expr {
    Number(f64),
    Literal(Box<str>),
    Or(Vec<Expr>),
    And(Vec<Expr>),
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    Arithmetic(Box<Expr>, Vec<(ArithmeticOp, Expr)>),
    Negate(Box<Expr>),
    Union(Vec<Expr>),
    /// The context node: `.`
    Context,
    /// An attribute of the context node: `@name`. Most predicates are about one.
    Attribute(NameIndex),
    Path(Path),
    Filter(Box<Expr>, Vec<Predicate>),
    Call(Function, Vec<Expr>),
    /// `has-class('a', 'b')`, or the idiom of XPath 1.0 for a class token: the attribute has each of these tokens.
    HasTokens(Tokens),
    /// `contains` with a text that is known; preparing the search takes longer than most searches.
    Contains(Box<Expr>, Box<Finder<'static>>),
    /// `re:test` with a pattern that is known.
    Matches(Box<Expr>, Box<Pattern>),
    /// Depends on nothing but the document: evaluated once a run and kept in this slot.
    Once(usize, Box<Expr>),
}

#[derive(Debug)]
pub(super) struct Tokens {
    pub attribute: NameIndex,
    pub tokens: Vec<Box<str>>,
    /// HTML separates tokens by form feeds too; `normalize-space` does not know them.
    pub html_space: bool,
}

#[derive(Debug)]
pub(super) struct Path {
    pub start: PathStart,
    pub steps: Vec<Step>,
    /// Walking the steps depth-first from one node meets no node twice, so an existence test needs no node-set.
    pub walkable: bool,
    /// Such a walk also meets the nodes in document order.
    pub ordered: bool,
}

#[derive(Debug)]
pub(super) enum PathStart {
    Context,
    Root,
    Expr(Box<Expr>),
}

#[derive(Debug)]
pub(super) struct Step {
    pub axis: Axis,
    pub test: NodeTest,
    pub predicates: Vec<Predicate>,
    /// Some predicate looks at position or size, so nodes are filtered group by group.
    pub positional: bool,
    /// `//x[n]`: a descendant scan whose groups are not the context nodes but the parents of what was found.
    pub by_parent: bool,
    /// A child step `tr`: rows of an implied `<tbody>` count as children of its table.
    pub through_tbody: bool,
    /// Facts that the predicates imply: a scan may start from the shortest list that one of them names.
    pub seeds: Vec<Seed>,
}

/// The principal node type is already worked in: on the attribute axis [`NodeTest::Any`] and [`NodeTest::Name`] mean attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeTest {
    Node,
    Any,
    Name(NameIndex),
    Text,
    Comment,
    Pi(Option<Box<str>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seed {
    /// Has an attribute of this name.
    Attribute(NameIndex),
    /// Its `id` is exactly this.
    Id(Box<str>),
    /// Its `class` contains this token.
    Class(Box<str>),
    /// It is an element of this name.
    Element(NameIndex),
    /// For one of these lists, all its facts hold.
    OneOf(Vec<Vec<Seed>>),
}

#[derive(Debug)]
pub(super) struct Predicate {
    pub expr: Expr,
    pub kind: PredicateKind,
    /// Slot in which answers are remembered by node.
    pub memo: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PredicateKind {
    /// Looks at the node only.
    Node,
    /// `[n]`, `[position() = n]`; 0 stands for a number that is no position.
    Nth(u32),
    /// `[last()]`
    Last,
    /// Looks at position or size in another way.
    Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Last,
    Position,
    Count,
    Id,
    LocalName,
    NamespaceUri,
    Name,
    String,
    Concat,
    StartsWith,
    Contains,
    SubstringBefore,
    SubstringAfter,
    Substring,
    StringLength,
    NormalizeSpace,
    Translate,
    Boolean,
    Not,
    True,
    False,
    Lang,
    Number,
    Sum,
    Floor,
    Ceiling,
    Round,
    ReTest,
    ReMatch,
    ReReplace,
    HasClass,
    SetDifference,
    SetIntersection,
    SetDistinct,
    SetHasSameNode,
    SetLeading,
    SetTrailing,
}

/// What a function takes and gives.
pub(super) struct Signature {
    /// With its prefix, as users write it.
    pub name: &'static str,
    pub function: Function,
    pub arguments_min: usize,
    pub arguments_max: usize,
    pub result: Type,
    /// How many of the first arguments must be node-sets.
    pub node_arguments: usize,
    /// Without arguments it speaks of the context node.
    pub defaults_to_context: bool,
}

const ANY: usize = usize::MAX;

const fn plain(name: &'static str, function: Function, range: (usize, usize), result: Type) -> Signature {
    let (arguments_min, arguments_max) = range;
    let defaults_to_context = false;
    Signature { name, function, arguments_min, arguments_max, result, node_arguments: 0, defaults_to_context }
}

const fn nodes(name: &'static str, function: Function, count: usize, result: Type) -> Signature {
    Signature { node_arguments: count, ..plain(name, function, (count, count), result) }
}

const fn context(name: &'static str, function: Function, result: Type) -> Signature {
    Signature { defaults_to_context: true, ..plain(name, function, (0, 1), result) }
}

const fn context_node(name: &'static str, function: Function) -> Signature {
    Signature { node_arguments: 1, ..context(name, function, Type::Text) }
}

/// Section 4 of the recommendation, then parsel's.
pub(super) const SIGNATURES: [Signature; 37] = [
    plain("last", Function::Last, (0, 0), Type::Number),
    plain("position", Function::Position, (0, 0), Type::Number),
    nodes("count", Function::Count, 1, Type::Number),
    plain("id", Function::Id, (1, 1), Type::Nodes),
    context_node("local-name", Function::LocalName),
    context_node("namespace-uri", Function::NamespaceUri),
    context_node("name", Function::Name),
    context("string", Function::String, Type::Text),
    plain("concat", Function::Concat, (2, ANY), Type::Text),
    plain("starts-with", Function::StartsWith, (2, 2), Type::Boolean),
    plain("contains", Function::Contains, (2, 2), Type::Boolean),
    plain("substring-before", Function::SubstringBefore, (2, 2), Type::Text),
    plain("substring-after", Function::SubstringAfter, (2, 2), Type::Text),
    plain("substring", Function::Substring, (2, 3), Type::Text),
    context("string-length", Function::StringLength, Type::Number),
    context("normalize-space", Function::NormalizeSpace, Type::Text),
    plain("translate", Function::Translate, (3, 3), Type::Text),
    plain("boolean", Function::Boolean, (1, 1), Type::Boolean),
    plain("not", Function::Not, (1, 1), Type::Boolean),
    plain("true", Function::True, (0, 0), Type::Boolean),
    plain("false", Function::False, (0, 0), Type::Boolean),
    plain("lang", Function::Lang, (1, 1), Type::Boolean),
    context("number", Function::Number, Type::Number),
    nodes("sum", Function::Sum, 1, Type::Number),
    plain("floor", Function::Floor, (1, 1), Type::Number),
    plain("ceiling", Function::Ceiling, (1, 1), Type::Number),
    plain("round", Function::Round, (1, 1), Type::Number),
    plain("re:test", Function::ReTest, (2, 3), Type::Boolean),
    plain("re:match", Function::ReMatch, (2, 3), Type::Nodes),
    plain("re:replace", Function::ReReplace, (4, 4), Type::Text),
    plain("has-class", Function::HasClass, (1, ANY), Type::Boolean),
    nodes("set:difference", Function::SetDifference, 2, Type::Nodes),
    nodes("set:intersection", Function::SetIntersection, 2, Type::Nodes),
    nodes("set:distinct", Function::SetDistinct, 1, Type::Nodes),
    nodes("set:has-same-node", Function::SetHasSameNode, 2, Type::Boolean),
    nodes("set:leading", Function::SetLeading, 2, Type::Nodes),
    nodes("set:trailing", Function::SetTrailing, 2, Type::Nodes),
];

impl Function {
    pub fn signature(self) -> &'static Signature {
        &SIGNATURES[self as usize]
    }
}

impl Expr {
    /// The type, which XPath 1.0 without variables always tells beforehand.
    pub fn kind(&self) -> Type {
        match self {
            Expr::Number(_) | Expr::Arithmetic(..) | Expr::Negate(_) => Type::Number,
            Expr::Literal(_) => Type::Text,
            Expr::Or(_) | Expr::And(_) | Expr::Compare(..) => Type::Boolean,
            Expr::HasTokens(_) | Expr::Contains(..) | Expr::Matches(..) => Type::Boolean,
            Expr::Union(_) | Expr::Context | Expr::Attribute(_) | Expr::Path(_) | Expr::Filter(..) => {
                Type::Nodes
            }
            Expr::Call(function, _) => function.signature().result,
            Expr::Once(_, inner) => inner.kind(),
        }
    }

    /// True where position or size of the context matter.
    pub fn uses_position(&self) -> bool {
        match self {
            Expr::Call(Function::Last | Function::Position, _) => true,
            Expr::Or(all) | Expr::And(all) | Expr::Union(all) | Expr::Call(_, all) => {
                all.iter().any(Expr::uses_position)
            }
            Expr::Compare(_, left, right) => left.uses_position() || right.uses_position(),
            Expr::Arithmetic(first, rest) => {
                first.uses_position() || rest.iter().any(|(_, operand)| operand.uses_position())
            }
            Expr::Negate(inner)
            | Expr::Contains(inner, _)
            | Expr::Matches(inner, _)
            | Expr::Filter(inner, _) => inner.uses_position(),
            Expr::Path(Path { start: PathStart::Expr(start), .. }) => start.uses_position(),
            _ => false,
        }
    }

    /// True where the context node, its position or the size matter.
    pub fn uses_context(&self) -> bool {
        match self {
            Expr::Context | Expr::Attribute(_) | Expr::HasTokens(_) => true,
            Expr::Call(Function::Last | Function::Position | Function::Lang | Function::HasClass, _) => true,
            Expr::Or(all) | Expr::And(all) | Expr::Union(all) | Expr::Call(_, all) => {
                all.iter().any(Expr::uses_context)
            }
            Expr::Compare(_, left, right) => left.uses_context() || right.uses_context(),
            Expr::Arithmetic(first, rest) => {
                first.uses_context() || rest.iter().any(|(_, operand)| operand.uses_context())
            }
            Expr::Negate(inner)
            | Expr::Contains(inner, _)
            | Expr::Matches(inner, _)
            | Expr::Filter(inner, _) => inner.uses_context(),
            Expr::Path(path) => match &path.start {
                PathStart::Context => true,
                PathStart::Root => false,
                PathStart::Expr(start) => start.uses_context(),
            },
            Expr::Number(_) | Expr::Literal(_) | Expr::Once(..) => false,
        }
    }

    /// True where evaluating it looks at nodes other than the context node and its attributes.
    pub fn visits_nodes(&self) -> bool {
        match self {
            Expr::Path(_) | Expr::Filter(..) | Expr::Once(..) | Expr::Call(Function::Id, _) => true,
            Expr::Or(all) | Expr::And(all) | Expr::Union(all) | Expr::Call(_, all) => {
                all.iter().any(Expr::visits_nodes)
            }
            Expr::Compare(_, left, right) => left.visits_nodes() || right.visits_nodes(),
            Expr::Arithmetic(first, rest) => {
                first.visits_nodes() || rest.iter().any(|(_, operand)| operand.visits_nodes())
            }
            Expr::Negate(inner) | Expr::Contains(inner, _) | Expr::Matches(inner, _) => inner.visits_nodes(),
            _ => false,
        }
    }
}
