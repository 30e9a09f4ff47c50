//! From what was written to what is done: types and names are checked, steps are fused, and facts are found that let a
//! scan start from an index.
//!
//! - `//x` is `/descendant-or-self::node()/child::x`: two steps over the whole page. Where no predicate looks at the position
//!   it is the same set as `/descendant::x`; where one does, the set is grouped by parent instead.
//! - An expression inside a predicate that does not look at the context (`[@href = //base/@href]`) is evaluated once.
//! - A predicate inside a predicate may be asked of the same node again and again; it gets a memo.
//! - What a predicate implies about attributes, ids and class tokens is noted as a seed (see `seeds`).

use std::collections::HashMap;
use std::sync::Arc;

use memchr::memmem::Finder;

use super::CompileError;
use super::PATTERNS_MAX;
use super::ast::{Ast, AstKind, AstStep, AstTest};
use super::pattern::Pattern;
use super::plan::*;

mod seeds;
mod walk;

/// Names that Chrome's and XPath 2.0's users try; the message then says why they fail.
const XPATH_2_FUNCTIONS: [&str; 12] = [
    "ends-with",
    "matches",
    "replace",
    "lower-case",
    "upper-case",
    "string-join",
    "tokenize",
    "distinct-values",
    "exists",
    "empty",
    "abs",
    "avg",
];

/// Compiles a parsed expression. With `strict`, `tr` does not look through an implied `<tbody>`.
pub(super) fn compile(source: &str, ast: &Ast<'_>, strict: bool) -> Result<Plan, CompileError> {
    let mut compiler = Compiler { source, strict, ..Compiler::default() };
    let root = compiler.expr(ast)?;
    Ok(Plan {
        root,
        names: compiler.names,
        once_count: compiler.once_count,
        pattern_count: compiler.pattern_count,
        patterns: compiler.patterns,
        memo_count: compiler.memo_count,
    })
}

#[derive(Default)]
struct Compiler<'s> {
    source: &'s str,
    strict: bool,
    names: Vec<Box<str>>,
    numbers: HashMap<String, NameIndex>,
    once_count: usize,
    memo_count: usize,
    pattern_count: usize,
    patterns: Vec<KnownPattern>,
    /// Predicates around the current place.
    predicate_depth: usize,
}

impl Compiler<'_> {
    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, CompileError> {
        Err(CompileError::new(self.source, at, message))
    }

    fn name(&mut self, name: &str) -> NameIndex {
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        self.names.push(name.into());
        self.numbers.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    /// Compiles; inside a predicate, what does not look at the context is kept from run to run of the predicate.
    fn expr(&mut self, ast: &Ast<'_>) -> Result<Expr, CompileError> {
        let expr = self.bare(ast)?;
        let inside = self.predicate_depth > 0 && !matches!(expr, Expr::Once(..));
        if !inside || !expr.visits_nodes() || expr.uses_context() {
            return Ok(expr);
        }
        self.once_count += 1;
        Ok(Expr::Once(self.once_count - 1, Box::new(expr)))
    }

    fn bare(&mut self, ast: &Ast<'_>) -> Result<Expr, CompileError> {
        Ok(match &ast.kind {
            AstKind::Number(number) => Expr::Number(*number),
            AstKind::Literal(text) => Expr::Literal((*text).into()),
            AstKind::Or(members) => Expr::Or(self.all(members)?),
            AstKind::And(members) => Expr::And(self.all(members)?),
            AstKind::Compare(op, left, right) => {
                Expr::Compare(*op, Box::new(self.expr(left)?), Box::new(self.expr(right)?))
            }
            AstKind::Arithmetic(first, rest) => {
                let first = Box::new(self.expr(first)?);
                let rest: Result<_, _> =
                    rest.iter().map(|(op, operand)| Ok((*op, self.expr(operand)?))).collect();
                Expr::Arithmetic(first, rest?)
            }
            AstKind::Negate(operand) => Expr::Negate(Box::new(self.expr(operand)?)),
            AstKind::Union(members) => {
                let compiled = self.all(members)?;
                for (member, ast) in compiled.iter().zip(members) {
                    self.want_nodes(member, ast.at, "`|` joins")?;
                }
                Expr::Union(compiled)
            }
            AstKind::Call { prefix, name, arguments } => self.call(ast.at, *prefix, name, arguments)?,
            AstKind::Path { absolute, steps } => {
                let start = if *absolute { PathStart::Root } else { PathStart::Context };
                self.path(start, steps)?
            }
            AstKind::Filter { primary, predicates, steps } => {
                let mut expr = self.expr(primary)?;
                if !predicates.is_empty() {
                    self.want_nodes(&expr, primary.at, "a predicate filters")?;
                    expr = Expr::Filter(Box::new(expr), self.predicates(predicates)?);
                }
                if !steps.is_empty() {
                    self.want_nodes(&expr, primary.at, "`/` starts from")?;
                    expr = self.path(PathStart::Expr(Box::new(expr)), steps)?;
                }
                expr
            }
        })
    }

    fn all(&mut self, members: &[Ast<'_>]) -> Result<Vec<Expr>, CompileError> {
        members.iter().map(|member| self.expr(member)).collect()
    }

    fn want_nodes(&self, expr: &Expr, at: usize, what: &str) -> Result<(), CompileError> {
        if expr.kind() == Type::Nodes {
            return Ok(());
        }
        self.fail(at, format!("{what} node-sets, and this is none"))
    }

    fn call(
        &mut self,
        at: usize,
        prefix: Option<&str>,
        name: &str,
        arguments: &[Ast<'_>],
    ) -> Result<Expr, CompileError> {
        let written = prefix.map_or(name.to_owned(), |prefix| format!("{prefix}:{name}"));
        let Some(signature) = SIGNATURES.iter().find(|signature| signature.name == written) else {
            let hint = if XPATH_2_FUNCTIONS.contains(&name) { " (this is XPath 1.0)" } else { "" };
            return self.fail(at, format!("unknown function {written}(){hint}"));
        };
        let (least, most) = (signature.arguments_min, signature.arguments_max);
        if arguments.len() < least || arguments.len() > most {
            let wanted = match (least, most) {
                (least, most) if least == most => format!("{least}"),
                (least, usize::MAX) => format!("at least {least}"),
                (least, most) => format!("{least} to {most}"),
            };
            let plural = if wanted == "1" { "argument" } else { "arguments" };
            return self
                .fail(at, format!("{written}() takes {wanted} {plural}, and here are {}", arguments.len()));
        }
        let mut compiled = self.all(arguments)?;
        if compiled.is_empty() && signature.defaults_to_context {
            compiled.push(Expr::Context);
        }
        for (argument, ast) in compiled.iter().zip(arguments).take(signature.node_arguments) {
            self.want_nodes(argument, ast.at, &format!("{written}() takes"))?;
        }
        self.special(signature.function, compiled, arguments)
    }

    /// Calls that become something else than a call.
    fn special(
        &mut self,
        function: Function,
        mut compiled: Vec<Expr>,
        arguments: &[Ast<'_>],
    ) -> Result<Expr, CompileError> {
        match function {
            Function::HasClass => {
                let mut tokens = Vec::new();
                for (argument, ast) in compiled.iter().zip(arguments) {
                    match argument {
                        Expr::Literal(text) if text.contains([' ', '\t', '\n', '\r', '\u{c}']) => {
                            return self.fail(ast.at, "has-class() takes one class an argument");
                        }
                        Expr::Literal(text) if !text.is_empty() => tokens.push(text.clone()),
                        _ => {}
                    }
                }
                if tokens.len() < compiled.len() {
                    return Ok(Expr::Call(function, compiled));
                }
                let attribute = self.name("class");
                Ok(Expr::HasTokens(Tokens { attribute, tokens, html_space: true }))
            }
            Function::Contains => {
                if let Some(tokens) = seeds::class_idiom(&compiled) {
                    return Ok(Expr::HasTokens(tokens));
                }
                if let Expr::Literal(text) = &compiled[1] {
                    let part = Finder::new(text.as_bytes()).into_owned();
                    let is_word = !text.contains([' ', '\t', '\n', '\r']);
                    let whole = match compiled.swap_remove(0) {
                        // Normalizing white space moves words but changes none.
                        Expr::Call(Function::NormalizeSpace, mut inner) if is_word => inner.swap_remove(0),
                        whole => whole,
                    };
                    return Ok(Expr::Contains(Box::new(whole), Box::new(part)));
                }
                Ok(Expr::Call(function, compiled))
            }
            Function::ReTest | Function::ReMatch | Function::ReReplace => {
                self.regular(function, compiled, arguments)
            }
            _ => Ok(Expr::Call(function, compiled)),
        }
    }

    /// Regular expressions that stand in the text are compiled now, so that a wrong one is refused now.
    fn regular(
        &mut self,
        function: Function,
        mut compiled: Vec<Expr>,
        arguments: &[Ast<'_>],
    ) -> Result<Expr, CompileError> {
        let Some((text, flags)) = known_pattern(&compiled) else {
            return Ok(Expr::Call(function, compiled));
        };
        self.pattern_count += 1;
        if self.pattern_count > PATTERNS_MAX {
            return self.fail(arguments[1].at, format!("more than {PATTERNS_MAX} regular expressions"));
        }
        match Pattern::compile(text, flags) {
            Ok(regex) if function == Function::ReTest => {
                Ok(Expr::Matches(Box::new(compiled.swap_remove(0)), Box::new(regex)))
            }
            Ok(regex) => {
                let (text, flags, pattern) = (text.into(), flags.into(), Arc::new(regex));
                self.patterns.push(KnownPattern { text, flags, pattern });
                Ok(Expr::Call(function, compiled))
            }
            Err(why) => self.fail(arguments[1].at, why),
        }
    }

    fn path(&mut self, start: PathStart, steps: &[AstStep<'_>]) -> Result<Expr, CompileError> {
        let mut compiled = Vec::with_capacity(steps.len());
        for step in steps {
            compiled.push(self.step(step)?);
        }
        let steps = self.fuse(compiled);
        if matches!(start, PathStart::Context) {
            if steps.is_empty() {
                return Ok(Expr::Context);
            }
            if let [Step { axis: Axis::Attribute, test: NodeTest::Name(name), predicates, .. }] = &steps[..]
                && predicates.is_empty()
            {
                return Ok(Expr::Attribute(*name));
            }
        }
        if let PathStart::Expr(inner) = start {
            return Ok(if steps.is_empty() { *inner } else { Self::finish(PathStart::Expr(inner), steps) });
        }
        Ok(Self::finish(start, steps))
    }

    fn finish(start: PathStart, steps: Vec<Step>) -> Expr {
        let walk::PathTraits { walkable, ordered } = walk::of_path(&start, &steps);
        Expr::Path(Path { start, steps, walkable, ordered })
    }

    fn step(&mut self, step: &AstStep<'_>) -> Result<Step, CompileError> {
        let test = match step.test {
            AstTest::Node => NodeTest::Node,
            AstTest::Any => NodeTest::Any,
            AstTest::Text => NodeTest::Text,
            AstTest::Comment => NodeTest::Comment,
            AstTest::Pi(target) => NodeTest::Pi(target.map(Into::into)),
            AstTest::Name { prefix: None, local, .. } => NodeTest::Name(self.name(local)),
            // HTML has no namespaces to declare; these two are how its parser names foreign attributes.
            AstTest::Name { prefix: Some(prefix @ ("xml" | "xlink")), local, .. }
                if step.axis == Axis::Attribute =>
            {
                NodeTest::Name(self.name(&format!("{prefix}:{local}")))
            }
            AstTest::Name { prefix: Some(prefix), local, at } => {
                let message = format!("unknown prefix `{prefix}` (say `*[name()='{prefix}:{local}']`)");
                return self.fail(at, message);
            }
        };
        let predicates = self.predicates(&step.predicates)?;
        let positional = predicates.iter().any(|predicate| predicate.kind != PredicateKind::Node);
        let through_tbody = !self.strict
            && step.axis == Axis::Child
            && matches!(step.test, AstTest::Name { prefix: None, local: "tr", .. });
        let seeds = seeds::of_predicates(&predicates, &self.names, self.predicate_depth == 0);
        let axis = step.axis;
        Ok(Step { axis, test, predicates, positional, by_parent: false, through_tbody, seeds })
    }

    fn predicates(&mut self, predicates: &[Ast<'_>]) -> Result<Vec<Predicate>, CompileError> {
        self.predicate_depth += 1;
        let compiled = predicates.iter().map(|predicate| self.predicate(predicate)).collect();
        self.predicate_depth -= 1;
        compiled
    }

    fn predicate(&mut self, ast: &Ast<'_>) -> Result<Predicate, CompileError> {
        let expr = self.expr(ast)?;
        let kind = predicate_kind(&expr);
        // The outermost predicates are asked once a node anyway.
        let remembers = self.predicate_depth > 1
            && kind == PredicateKind::Node
            && expr.visits_nodes()
            && expr.uses_context();
        let memo = remembers.then(|| {
            self.memo_count += 1;
            self.memo_count - 1
        });
        Ok(Predicate { expr, kind, memo })
    }

    /// Joins `//` with the step behind it and drops `.` steps.
    fn fuse(&mut self, steps: Vec<Step>) -> Vec<Step> {
        let mut fused: Vec<Step> = Vec::with_capacity(steps.len());
        for mut step in steps {
            if is_plain(&step, Axis::SelfNode) {
                continue;
            }
            let after_anywhere = fused.last().is_some_and(|last| is_plain(last, Axis::DescendantOrSelf));
            if after_anywhere {
                match step.axis {
                    Axis::Child => {
                        step.axis = Axis::Descendant;
                        step.by_parent = step.positional;
                        // Every row is somebody's child, so the scan finds it without looking through.
                        step.through_tbody = false;
                        fused.pop();
                    }
                    Axis::SelfNode if !step.positional => {
                        step.axis = Axis::DescendantOrSelf;
                        fused.pop();
                    }
                    Axis::Descendant | Axis::DescendantOrSelf if !step.positional => {
                        fused.pop();
                    }
                    Axis::Attribute => {
                        // Only elements have attributes; the named one leads to its owners.
                        if let Some(last) = fused.last_mut() {
                            last.test = NodeTest::Any;
                            if let NodeTest::Name(name) = step.test {
                                last.seeds.push(Seed::Attribute(name));
                            }
                        }
                    }
                    _ => {}
                }
            }
            fused.push(step);
        }
        fused
    }
}

/// `axis::node()` without predicates.
fn is_plain(step: &Step, axis: Axis) -> bool {
    step.axis == axis && step.test == NodeTest::Node && step.predicates.is_empty() && step.seeds.is_empty()
}

/// How a predicate looks at the position.
fn predicate_kind(expr: &Expr) -> PredicateKind {
    let nth = |number: f64| {
        let whole = number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&number);
        PredicateKind::Nth(if whole { number as u32 } else { 0 })
    };
    match expr {
        Expr::Number(number) => nth(*number),
        Expr::Call(Function::Last, _) => PredicateKind::Last,
        Expr::Compare(CompareOp::Equal, left, right) => match (&**left, &**right) {
            (Expr::Call(Function::Position, _), Expr::Number(number))
            | (Expr::Number(number), Expr::Call(Function::Position, _)) => nth(*number),
            (Expr::Call(Function::Position, _), Expr::Call(Function::Last, _))
            | (Expr::Call(Function::Last, _), Expr::Call(Function::Position, _)) => PredicateKind::Last,
            _ if expr.uses_position() => PredicateKind::Position,
            _ => PredicateKind::Node,
        },
        _ if expr.kind() == Type::Number || expr.uses_position() => PredicateKind::Position,
        _ => PredicateKind::Node,
    }
}
