//! What an expression became, for tests and for the curious.

use std::fmt::Write as _;

use super::plan::*;

/// One operation a line, operands indented below it.
pub(super) fn explain(plan: &Plan) -> String {
    let mut writer = Writer { plan, out: String::new() };
    writer.expr(&plan.root, 0);
    writer.out
}

struct Writer<'a> {
    plan: &'a Plan,
    out: String,
}

impl Writer<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        self.out.extend(std::iter::repeat_n("  ", depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn name(&self, name: NameIndex) -> &str {
        &self.plan.names[name]
    }

    fn list(&mut self, depth: usize, head: &str, members: &[Expr]) {
        self.line(depth, head);
        members.iter().for_each(|member| self.expr(member, depth + 1));
    }

    fn expr(&mut self, expr: &Expr, depth: usize) {
        match expr {
            Expr::Number(number) => self.line(depth, &format!("number {number}")),
            Expr::Literal(text) => self.line(depth, &format!("text {text:?}")),
            Expr::Or(members) => self.list(depth, "or", members),
            Expr::And(members) => self.list(depth, "and", members),
            Expr::Union(members) => self.list(depth, "union", members),
            Expr::Call(function, arguments) => {
                self.list(depth, &format!("{}()", function.signature().name), arguments);
            }
            Expr::Compare(op, left, right) => {
                let sets = left.kind() == Type::Nodes && right.kind() == Type::Nodes;
                let how = if sets { " by hash of texts" } else { "" };
                self.line(depth, &format!("compare {}{how}", op.symbol()));
                self.expr(left, depth + 1);
                self.expr(right, depth + 1);
            }
            Expr::Arithmetic(first, rest) => {
                self.line(depth, "arithmetic");
                self.expr(first, depth + 1);
                for (op, operand) in rest {
                    self.line(depth + 1, op.symbol());
                    self.expr(operand, depth + 1);
                }
            }
            Expr::Negate(operand) => {
                self.line(depth, "negate");
                self.expr(operand, depth + 1);
            }
            Expr::Context => self.line(depth, "context node"),
            Expr::Attribute(name) => {
                let line = format!("attribute @{}", self.name(*name));
                self.line(depth, &line);
            }
            Expr::Path(path) => self.path(path, depth),
            Expr::Filter(inner, predicates) => {
                self.line(depth, "filter");
                self.expr(inner, depth + 1);
                self.predicates(predicates, depth + 1);
            }
            Expr::HasTokens(tokens) => {
                let line = format!(
                    "tokens of @{} include {}",
                    self.name(tokens.attribute),
                    tokens.tokens.join(", ")
                );
                self.line(depth, &line);
            }
            Expr::Contains(whole, part) => {
                self.line(depth, &format!("contains {:?}", String::from_utf8_lossy(part.needle())));
                self.expr(whole, depth + 1);
            }
            Expr::Matches(subject, pattern) => {
                self.line(depth, &format!("matches /{}/", pattern.regex().as_str()));
                self.expr(subject, depth + 1);
            }
            Expr::Once(slot, inner) => {
                self.line(depth, &format!("once a run (slot {slot})"));
                self.expr(inner, depth + 1);
            }
        }
    }

    fn path(&mut self, path: &Path, depth: usize) {
        let walk = if path.walkable { " (walkable)" } else { "" };
        match &path.start {
            PathStart::Context => self.line(depth, &format!("from the context node{walk}")),
            PathStart::Root => self.line(depth, &format!("from the root{walk}")),
            PathStart::Expr(start) => {
                self.line(depth, "from each of");
                self.expr(start, depth + 1);
            }
        }
        for step in &path.steps {
            let mut line = format!("{}::{}", step.axis.name(), self.test(&step.test));
            if step.by_parent {
                line.push_str(" grouped by parent");
            } else if step.positional {
                line.push_str(" context by context");
            }
            if step.through_tbody {
                line.push_str(" through implied tbody");
            }
            let scans = matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf);
            if scans && !step.seeds.is_empty() {
                line.push_str(", seeds:");
                self.seeds(&step.seeds, &mut line);
            }
            self.line(depth + 1, &line);
            self.predicates(&step.predicates, depth + 2);
        }
    }

    fn seeds(&self, seeds: &[Seed], line: &mut String) {
        for seed in seeds {
            let _ = match seed {
                Seed::Attribute(name) => write!(line, " @{}", self.name(*name)),
                Seed::Id(id) => write!(line, " #{id}"),
                Seed::Class(token) => write!(line, " .{token}"),
                Seed::Element(name) => write!(line, " {}", self.name(*name)),
                Seed::OneOf(alternatives) => {
                    let mut before = " one of (";
                    for facts in alternatives {
                        line.push_str(before);
                        self.seeds(facts, line);
                        before = " |";
                    }
                    write!(line, " )")
                }
            };
        }
    }

    fn test(&self, test: &NodeTest) -> String {
        match test {
            NodeTest::Node => "node()".to_owned(),
            NodeTest::Any => "*".to_owned(),
            NodeTest::Name(name) => self.name(*name).to_owned(),
            NodeTest::Text => "text()".to_owned(),
            NodeTest::Comment => "comment()".to_owned(),
            NodeTest::Pi(None) => "processing-instruction()".to_owned(),
            NodeTest::Pi(Some(target)) => format!("processing-instruction({target:?})"),
        }
    }

    fn predicates(&mut self, predicates: &[Predicate], depth: usize) {
        for predicate in predicates {
            match predicate.kind {
                PredicateKind::Nth(position) => self.line(depth, &format!("number {position}")),
                PredicateKind::Last => self.line(depth, "the last"),
                PredicateKind::Node | PredicateKind::Position => {
                    let memo = predicate.memo.map_or(String::new(), |slot| format!(" (memo {slot})"));
                    self.line(depth, &format!("where{memo}"));
                    self.expr(&predicate.expr, depth + 1);
                }
            }
        }
    }
}
